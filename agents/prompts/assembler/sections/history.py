"""History (P1): what the memory plugin recalls of the conversation, as items and as groups that come together.

Which messages and summaries there are is the plugin's business; how they stand in a prompt is decided here.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache, partial
from itertools import takewhile
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, QuerySet

from agents.agent.models import Run
from agents.prompts.assembler.items import (
    AtomicGroup,
    DroppedItem,
    Item,
    SectionCandidates,
    TrustLabel,
    begin_transcript,
    format_minute,
    group_in_steps,
    make_dropped_item,
    make_item,
    opening_tokens,
    section_candidates,
    shorten_message,
    summarised_messages,
    trust_drop_reason,
)
from agents.prompts.assembler.sections.request import PromptRequest, author_trust, read_once
from agents.prompts.assembler.stack import SectionName
from memory.queries import (
    FRESH_TAIL,
    MAX_ENTRY_TOKENS,
    WINDOW_STEP,
    ActivePlugin,
    ContextEntry,
    Session,
    active_plugin,
    is_ignored,
    messages_for_prompts,
    pair_tool_calls,
    provider_of,
)
from openvibe.chat.models import Message
from openvibe.chat.queries import AccessQuery
from openvibe.engines.database.compiled_queries import row_columns
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.engines.llm.fences import fence
from openvibe.engines.llm.tokens import TokenCounter, truncate_middle, typical_ratio
from openvibe.engines.llm.transcripts import clean_name, message_line, opening
from openvibe.engines.text.cleaning import join_words
from openvibe.engines.text.masking import mask_secrets
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

MENTION_TAIL = 5
"""Messages before the request that a mention always asks for."""

MENTION_SUMMARY_TOKENS, SUMMARY_FENCE_TOKENS = 450, 100
"""Tokens of the summary of most messages beside a mention's neighbours, head and tail of a longer one, and of its
fence: a mention has room for some 4,400 tokens of what bears on it, and a whole summary took a quarter of them."""

SHORT_THREAD_MESSAGES, WHOLE_MESSAGE_TOKENS = 240, 30
"""A thread of at most so many messages, or of one for so many tokens of room, may stand whole in a mention's prompt."""

MAX_LATER_MESSAGES, LATER_MESSAGE_TOKENS, LATER_TOKENS = 30, 400, 1_500
"""The limits of what was posted after the request: how many messages, tokens of one, and tokens in all."""

COMPACTED_SHARE, WINDOW_SHARE = 0.8, 0.6
"""Share of a prompt that history may take before anything is recalled. With summaries, what compaction lets a
conversation grow to (`COMPACTION_THRESHOLD`) and what stands around its messages, so that no summary goes before
compaction is due; without, recall has more to bring back."""

MESSAGE_LABELS: tuple[TrustLabel, ...] = ("semi_trusted", "untrusted")
"""Trust labels that messages have."""

TIME_JUMP = timedelta(minutes=30)
"""The silence after which a line says when it was said."""

UNFINISHED_SIGN = "\n\n[This answer is unfinished.]"
"""The note after an answer of the agent's own that was stopped, or that waits for people; those of others say it in
their line."""

MAX_HIDDEN_RESULTS = 20
"""Dive results the level hides that are named, the newest first."""


@AccessQuery
def _first_message(access: Access, thread_id: int) -> QuerySet[Any, Any]:
    """The oldest that a prompt may hold: what stands before it is deleted, or a line of ours."""
    return messages_for_prompts(access, thread=thread_id).order_by("seq").values_list("seq")[:1]


def count_unsaid(request: PromptRequest, spans: Sequence[range]) -> tuple[int, int]:
    """Counts how many numbers before the request hold nothing that a prompt could (what was deleted, lines of ours,
    answers that failed), and how many of these lie outside of `spans`. One query, of an index that holds only these."""
    ranges = ",".join(f'"[{span.start},{span.stop})"' for span in spans)
    (row,) = fetch_prepared(_COUNT_UNSAID, [f"{{{ranges}}}", request.thread.thread_id, request.end_seq])
    return row[0], row[1]


_COUNT_UNSAID = """SELECT count(*), count(*) FILTER (WHERE (seq <@ ANY(%s::int8range[])) IS NOT TRUE)
FROM chat_message WHERE (body = '' OR kind = 'system' OR state IN ('failed', 'replaced'))
AND thread_id = %s AND seq < %s"""
"""The condition of the index `message_not_said`, as it stands there."""


def memory_session(thread_id: int, access: Access, *, before: Message | None, asker: Participant | None) -> Session:
    """The thread as `access` sees it, up to but without a message; profile notes are those about the asker."""
    return Session(thread_id, access, before=before.seq if before else None, person_id=asker.pk if asker else None)


@read_once
def active_memory(request: PromptRequest) -> ActivePlugin:
    return active_plugin(request.access.workspace_id)


def is_ignored_by_memory(request: PromptRequest) -> bool:
    """Whether the prompt's thread is one of which nothing is recalled: it holds the newest messages alone."""
    thread = request.thread
    return is_ignored(active_memory(request).config, thread.thread_id, thread.parent_id, thread.channel_name)


def recall_history(request: PromptRequest, room: int) -> tuple[list[ContextEntry], bool]:
    """What the plugin recalls within `room` tokens, oldest first, and whether it reaches back to the first message.

    A mention in a long thread needs little more than its neighbours.
    """
    if request.task == "mention" and request.end_seq > max(SHORT_THREAD_MESSAGES, room // WHOLE_MESSAGE_TOKENS):
        room = min(room, request.budget.caps["P1"] or room)
    budget = int(room / typical_ratio(request.counter))
    message, thread_id = request.message, request.thread.thread_id
    session = memory_session(thread_id, request.access, before=message.row, asker=message.author)
    tail = MENTION_TAIL if request.task == "mention" else FRESH_TAIL
    entries = provider_of(active_memory(request)).assemble(session, max(budget, 0), tail)
    if is_ignored_by_memory(request):
        last_summary = max((place for place, entry in enumerate(entries) if entry.summary_id is not None), default=-1)
        entries = entries[last_summary + 1 :]
    oldest = _first_message.rows(request.access, thread_id)
    first_seq = min(oldest[0][0], request.end_seq) if oldest else request.end_seq
    return entries, min((entry.ordinal for entry in entries), default=request.end_seq) <= first_seq


def history_candidates(
    request: PromptRequest, groups: tuple[AtomicGroup, ...], *, whole: bool = False
) -> list[SectionCandidates]:
    """What was said before the request; where it may be the `whole` thread, past the caps too.

    A mention asks for its neighbours and the gist, the summaries of most messages first; other tasks for all that the
    plugin recalls, up to P1's cap. A window that depends on nothing else begins at the same message in the next prompt.
    """
    candidates = partial(SectionCandidates, "P1", "history", contiguous=True, frame=_opening_room(request.counter))
    if request.task != "mention":
        return [candidates(groups, extendable=whole)]
    tail = tuple(takewhile(lambda group: not summarised_messages(group.items[0]), groups))
    by_size = tuple(sorted(groups[len(tail) :], key=lambda group: -summarised_messages(group.items[0])))
    cap = MENTION_SUMMARY_TOKENS + SUMMARY_FENCE_TOKENS
    return [candidates(tail, extendable=whole), candidates(by_size, cap=cap, contiguous=False)]


def more_history(request: PromptRequest, groups: tuple[AtomicGroup, ...], *, room: int) -> SectionCandidates:
    """`room` tokens of history past P1's cap, before anything is recalled."""
    candidates = partial(SectionCandidates, "P6", "history", contiguous=True, frame=_opening_room(request.counter))
    return candidates(groups, cap=max(room, 0), beyond_layer_cap=True)


def _opening_room(counter: TokenCounter) -> int:
    """Tokens of the transcript that the oldest line opens when what began its run does not fit."""
    return max(opening_tokens(counter, "history", opening(trust)) for trust in MESSAGE_LABELS)


def history_groups(request: PromptRequest, entries: Sequence[ContextEntry]) -> tuple[AtomicGroup, ...]:
    """The newest first. Calls and their results together; plain messages in steps; each summary by itself."""
    own_id = request.agent.participant_id
    items: list[Item] = []
    summaries: list[AtomicGroup] = []
    previous: ContextEntry | None = None
    last_opening = ""
    for entry in entries:
        if entry.summary_id is not None:
            limit = MENTION_SUMMARY_TOKENS if request.task == "mention" else None
            item = _summary_item(request.counter, entry, limit)
            summaries.append(AtomicGroup((item,)))
        else:
            is_own = entry.author_id == own_id
            item = _message_item(request.counter, entry, is_own, _time_note(entry, previous), last_opening)
            items.append(item)
        previous, last_opening = entry, item.opening
    groups = [*_merge_tool_pairs(group_in_steps(items, step=WINDOW_STEP), entries), *summaries]
    return tuple(sorted(groups, key=lambda group: -group.items[0].order))


def _time_note(entry: ContextEntry, previous: ContextEntry | None) -> str:
    """The note that says when it was said, where time has jumped since the message before, or where a window may begin
    with it."""
    at = datetime.fromisoformat(entry.at)
    if previous is None or previous.summary_id is not None or entry.ordinal % WINDOW_STEP == 0:
        return format_minute(at)
    return time_note(at, datetime.fromisoformat(previous.at))


def time_note(at: datetime, before: datetime) -> str:
    """The day and the minute, the minute alone, or nothing, by how much later than `before` it was said. UTC."""
    if at.date() != before.date():
        return format_minute(at)
    return f"{at:%H:%M}" if abs(at - before) >= TIME_JUMP else ""


def _merge_tool_pairs(groups: Sequence[AtomicGroup], entries: Sequence[ContextEntry]) -> list[AtomicGroup]:
    """Groups that share a tool call and its result become one."""
    pairs = pair_tool_calls((entry.ordinal, entry.kind, entry.call_key) for entry in entries)
    if not pairs:
        return list(groups)
    group_index = {item.order: at for at, group in enumerate(groups) for item in group.items}
    group_items: list[list[Item]] = [list(group.items) for group in groups]
    for call, result in pairs:  # everything between them, too: groups are contiguous
        newer, older = sorted((group_index[entries[result].ordinal], group_index[entries[call].ordinal]))
        for at in range(newer + 1, older + 1):
            group_items[newer] += group_items[at]
            group_items[at] = []
            group_index.update({item.order: newer for item in group_items[newer]})
    return [AtomicGroup(tuple(sorted(items, key=lambda item: item.order))) for items in group_items if items]


@lru_cache(maxsize=8_192)
def _message_item(counter: TokenCounter, entry: ContextEntry, is_own: bool, note: str, last_opening: str) -> Item:
    """One message: the agent's own words as they are, all else as a line; `last_opening` opened the line before."""
    ref = str(entry.ordinal)
    body = entry.text
    if entry.tokens >= MAX_ENTRY_TOKENS:
        body = shorten_message(body, MAX_ENTRY_TOKENS, counter, ref=ref)
    if not (is_own and entry.kind == Message.Kind.TEXT):
        item = message_line_item(counter, entry, body, section="history", is_own=is_own, note=note)
        return item if item.opening == last_opening else begin_transcript(counter, item)
    sign = UNFINISHED_SIGN if entry.is_unfinished else ""
    return make_item(
        counter,
        section="history",
        key=f"message:{entry.message_id}",
        text=mask_secrets(body) + sign,
        trust=author_trust(entry.author_kind, is_own=True),
        source=f"message {ref}",
        author=entry.author_name,
        ref=ref,
        role="assistant",
        order=entry.ordinal,
    )


def message_line_item(
    counter: TokenCounter,
    entry: ContextEntry,
    body: str,
    *,
    section: SectionName,
    is_own: bool,
    note: str,
    **attributes: str,
) -> Item:
    """A message as a line of a transcript. `note` says when it was said; `attributes` are the transcript's own."""
    ref = str(entry.ordinal)
    trust = message_trust(entry, is_own=is_own)
    kind = "" if entry.kind == Message.Kind.TEXT else entry.kind.replace("_", " ")
    role = Participant.Kind.ASSISTANT.value if entry.author_kind == Participant.Kind.ASSISTANT else ""
    line_note = ", ".join(filter(None, (role, kind, "unfinished" if entry.is_unfinished else "", note)))
    return make_item(
        counter,
        section=section,
        key=f"message:{entry.message_id}",
        text=message_line(ref, entry.author_name, mask_secrets(body), note=line_note),
        trust=trust,
        source=f"message {ref}",
        author=entry.author_name,
        ref=ref,
        order=entry.ordinal,
        opening=opening(trust, **attributes),
    )


def message_trust(entry: ContextEntry, *, is_own: bool) -> TrustLabel:
    """The label of a message: what a tool answered is not trusted, whoever called it."""
    if entry.kind == Message.Kind.TOOL_RESULT:
        return "untrusted"
    return author_trust(entry.author_kind, is_own=is_own)


def _summary_item(counter: TokenCounter, entry: ContextEntry, limit: int | None) -> Item:
    kind = "condensed" if entry.depth else "leaf"
    text = mask_secrets(entry.text)
    block = fence(
        "summary",
        text
        if limit is None
        else truncate_middle(text, limit, counter, f"\n[… summary {entry.summary_id} is longer …]\n"),
        id=entry.summary_id,
        kind=kind,
        depth=entry.depth,
        earliest=format_minute(datetime.fromisoformat(entry.at)),
        latest=format_minute(datetime.fromisoformat(entry.until or entry.at)),
        messages=f"{entry.ordinal}-{entry.last}",
        trust="untrusted",
    )
    return make_item(
        counter,
        section="history",
        key=f"summary:{entry.summary_id}",
        text=block,
        trust="untrusted",
        source=f"summary of messages {entry.ordinal}–{entry.last}",
        ref=f"{entry.ordinal}-{entry.last}",
        order=entry.ordinal,
    )


class LaterMessageRow(NamedTuple):
    """A message that stands after the request."""

    pk: int
    seq: int
    kind: str
    body: str
    token_count: int
    created_at: datetime
    state: str
    author_id: int
    author: str
    author_kind: str


@AccessQuery
def _later_messages(access: Access, thread_id: int, request_seq: int) -> QuerySet[Any, Any]:
    """The newest that stand above the answer, the agent's own included, except its answers to this very request."""
    later_messages = messages_for_prompts(access, thread=thread_id, seq__gt=request_seq)
    answers = Run.objects.filter(
        reply=OuterRef("pk"), agent__participant=access.participant_id, trigger__seq=request_seq
    )
    columns = row_columns(LaterMessageRow, author="author__label", author_kind="author__kind")
    newest = later_messages.exclude(Exists(answers)).order_by("-seq")
    return newest.values_list(*columns)[:MAX_LATER_MESSAGES]


def later_candidates(request: PromptRequest) -> SectionCandidates:
    """What was posted between the request and the answer, the newest first: nobody answers blind to it."""
    counter, own_id, row = request.counter, request.agent.participant_id, request.message.row
    rows = _later_messages.rows(request.access, request.thread.thread_id, row.seq) if row else []
    items = [
        later_item(counter, later, LATER_MESSAGE_TOKENS, is_own=later.author_id == own_id)
        for later in map(LaterMessageRow._make, rows)
    ]
    openings = {(item.slot, item.opening) for item in items}
    frame = sum(opening_tokens(counter, slot, each) for slot, each in openings)
    return replace(section_candidates("later", items, cap=LATER_TOKENS), contiguous=True, frame=frame)


def later_item(
    counter: TokenCounter, row: LaterMessageRow, max_tokens: int, *, is_own: bool, file_names: Sequence[str] = ()
) -> Item:
    """A message that was posted after the request, its head and tail where it takes more than `max_tokens`.
    `file_names`: of what came with it."""
    entry = ContextEntry(
        ordinal=row.seq,
        last=row.seq,
        kind=row.kind,
        text=row.body,
        tokens=row.token_count,
        at=row.created_at.isoformat(),
        message_id=row.pk,
        author_id=row.author_id,
        author_name=row.author,
        author_kind=row.author_kind,
        is_unfinished=row.state == Message.State.STOPPED,
    )
    body = shorten_message(row.body, max_tokens, counter, ref=str(row.seq))
    files = f"with {join_words([clean_name(name) for name in file_names])}" if file_names else ""
    note = ", ".join(filter(None, (format_minute(row.created_at), files)))
    return message_line_item(
        counter, entry, body, section="later", is_own=is_own, note=note, posted="after the request"
    )


def hidden_dive_results(request: PromptRequest, entries: Sequence[ContextEntry]) -> list[DroppedItem]:
    """Dive results of the stretch in view that the level keeps out, each said so. No query where none is hidden."""
    if request.access.reads_dive_results:
        return []
    first_seq = min((entry.ordinal for entry in entries if entry.summary_id is None), default=0)
    thread_id, last_seq = request.thread.thread_id, request.end_seq - 1
    results = Message.objects.filter(thread=thread_id, kind=Message.Kind.DIVE_RESULT, deleted_at=None)
    rows = results.filter(seq__range=(first_seq, last_seq)).select_related("author").order_by("-seq")
    reason = trust_drop_reason(request.agent.level)
    return [
        make_dropped_item(
            make_item(
                request.counter,
                section="history",
                key=f"message:{message.pk}",
                text=f"<{message.token_count}>",
                trust="untrusted",
                source=f"message {message.seq}",
                author=message.author.label,
                ref=str(message.seq),
            ),
            reason,
        )
        for message in rows[:MAX_HIDDEN_RESULTS]
    ]
