"""History (P1): what the memory plugin recalls of the conversation, as items and as groups that come together.

Which messages and summaries there are is the plugin's business; how they stand in a prompt is decided here.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import OuterRef, QuerySet

from agents.assembler.items import (
    AtomicGroup,
    DroppedItem,
    Item,
    SectionCandidates,
    data_block,
    format_minute,
    group_in_steps,
    make_dropped,
    make_item,
    shorten_message,
    trust_drop_reason,
)
from agents.assembler.sections.request import PromptRequest, QueryScope, author_trust
from memory.models import DEFAULT_PLUGIN, MemoryPlugin
from memory.queries import (
    FRESH_TAIL,
    MAX_ENTRY_TOKENS,
    WINDOW_STEP,
    ContextEntry,
    Session,
    pair_tool_calls,
    provider_named,
)
from openvibe.base.masking import mask_secrets
from openvibe.base.query_cache import JsonRows
from openvibe.chat.models import Message
from openvibe.llm.fences import fence
from openvibe.llm.tokens import OVERCOUNT_FACTOR, TokenCounter
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

MENTION_TAIL = 5
"""Messages before the request that a mention always asks for."""

SUMMARY_TOKENS = 1_200
"""Tokens of summaries that stand beside a mention's neighbours, the newest first."""

SHORT_THREAD_MESSAGES = 240
"""A thread of at most so many messages may stand whole."""

MAX_HIDDEN_RESULTS = 20
"""Dive results the level hides that are named, the newest first."""


class MemoryPluginRow(NamedTuple):
    """The memory plugin that is switched on in the workspace, and its settings."""

    name: str
    config: dict[str, Any]


def _enabled_plugins(_scope: QueryScope) -> QuerySet[Any, Any]:
    return MemoryPlugin.objects.filter(workspace_id=OuterRef("workspace_id"), enabled=True).order_by()


MEMORY_PLUGIN = JsonRows("memory_plugin", MemoryPluginRow, _enabled_plugins)


def enabled_plugin(rows: Mapping[str, Any]) -> MemoryPluginRow:
    """The plugin that is switched on; the default one where none is."""
    return MEMORY_PLUGIN.first(rows) or MemoryPluginRow(DEFAULT_PLUGIN, {})


def memory_session(thread_id: int, access: Access, *, before: Message | None, asker: Participant | None) -> Session:
    """The thread as `access` sees it, up to but without a message; profile notes are those about the asker."""
    return Session(thread_id, access, before=before.seq if before else None, person_id=asker.pk if asker else None)


def recall_history(request: PromptRequest, room: int) -> tuple[list[ContextEntry], bool]:
    """What the plugin recalls within `room` tokens, oldest first, and whether it reaches back to the first message."""
    budget = room if request.counter.exact else int(room / OVERCOUNT_FACTOR)
    message, plugin = request.message, enabled_plugin(request.rows)
    session = memory_session(request.thread.thread_id, request.access, before=message.row, asker=message.author)
    tail = MENTION_TAIL if request.task == "mention" else FRESH_TAIL
    entries = provider_named(plugin.name, plugin.config).assemble(session, max(budget, 0), tail)
    return entries, min((entry.ordinal for entry in entries), default=request.end_seq) <= 1


def initial_history_room(request: PromptRequest, room: int) -> int:
    """How much to ask for at first: a mention in a long thread needs little more than its neighbours."""
    if request.task != "mention" or request.end_seq <= SHORT_THREAD_MESSAGES:
        return room
    return min(room, request.budget.caps["P1"] or room)


def history_candidates(request: PromptRequest, entries: Sequence[ContextEntry]) -> list[SectionCandidates]:
    """What was said before the request.

    A mention asks for its neighbours and the gist; more of it comes last of all. Other tasks stand on all that the
    plugin recalls: what P1's cap keeps out comes before anything is recalled by its words.
    """
    groups = _history_groups(request, entries)
    if request.task != "mention":
        return [
            SectionCandidates("P1", "history", groups, contiguous=True),
            SectionCandidates("P6", "history", groups, contiguous=True, beyond_layer_cap=True),
        ]
    tail = _first_messages(groups, MENTION_TAIL)
    others = groups[len(tail) :]
    summaries = tuple(group for group in others if group.items[0].key.startswith("summary:"))
    return [
        SectionCandidates("P1", "history", tail, contiguous=True, extendable=True),
        SectionCandidates("P1", "history", summaries, cap=SUMMARY_TOKENS, contiguous=True),
        SectionCandidates("P1", "history", others, cap=0, contiguous=True, extendable=True),
    ]


def _history_groups(request: PromptRequest, entries: Sequence[ContextEntry]) -> tuple[AtomicGroup, ...]:
    """The newest first. Calls and their results together; plain messages in steps; each summary by itself."""
    own_id = request.agent.participant_id
    items: list[Item] = []
    summaries: list[AtomicGroup] = []
    for entry in entries:
        item = _history_item(request.counter, entry, is_own=entry.author_id == own_id)
        if entry.summary_id is None:
            items.append(item)
        else:
            summaries.append(AtomicGroup((item,)))
    groups = [*_merge_tool_pairs(group_in_steps(items, step=WINDOW_STEP), entries), *summaries]
    return tuple(sorted(groups, key=lambda group: -group.items[0].order))


def _merge_tool_pairs(groups: Sequence[AtomicGroup], entries: Sequence[ContextEntry]) -> list[AtomicGroup]:
    """Groups that share a tool call and its result become one."""
    pairs = pair_tool_calls((entry.ordinal, entry.kind, entry.call_id) for entry in entries)
    if not pairs:
        return list(groups)
    group_index = {item.order: at for at, group in enumerate(groups) for item in group.items}
    merged: list[list[Item]] = [list(group.items) for group in groups]
    for call, result in pairs:  # everything between them, too: groups are contiguous
        newer, older = sorted((group_index[entries[result].ordinal], group_index[entries[call].ordinal]))
        for at in range(newer + 1, older + 1):
            merged[newer] += merged[at]
            merged[at] = []
            group_index.update({item.order: newer for item in merged[newer]})
    return [AtomicGroup(tuple(sorted(items, key=lambda item: item.order))) for items in merged if items]


def _first_messages(groups: Sequence[AtomicGroup], limit: int) -> tuple[AtomicGroup, ...]:
    chosen, message_count = [], 0
    for group in groups:
        if message_count >= limit:
            break
        chosen.append(group)
        message_count += len(group.items)
    return tuple(chosen)


@lru_cache(maxsize=8_192)
def _history_item(counter: TokenCounter, entry: ContextEntry, *, is_own: bool) -> Item:
    """One message or summary: the agent's own words as they are, all else fenced."""
    if entry.summary_id is not None:
        return _summary_item(counter, entry)
    ref = str(entry.ordinal)
    is_own_text = is_own and entry.kind == Message.Kind.TEXT
    body = entry.text
    if entry.tokens >= MAX_ENTRY_TOKENS:
        body = shorten_message(body, MAX_ENTRY_TOKENS, counter, ref=ref)
    return make_item(
        counter,
        section="history",
        key=f"message:{entry.message_id}",
        text=mask_secrets(body) if is_own_text else message_block(entry, body, is_own=is_own),
        trust=author_trust(entry.author_kind, is_own=is_own),
        source=f"message {ref}",
        author=entry.author_name,
        ref=ref,
        role="assistant" if is_own_text else "user",
        order=entry.ordinal,
    )


def _summary_item(counter: TokenCounter, entry: ContextEntry) -> Item:
    kind = "condensed" if entry.depth else "leaf"
    block = fence(
        "summary",
        mask_secrets(entry.text),
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


def message_block(entry: ContextEntry, body: str, *, is_own: bool) -> str:
    return data_block(
        body,
        source="message" if entry.kind == Message.Kind.TEXT else entry.kind,
        ref=str(entry.ordinal),
        author=entry.author_name,
        trust=author_trust(entry.author_kind, is_own=is_own),
        time=format_minute(datetime.fromisoformat(entry.at)),
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
        make_dropped(
            make_item(
                request.counter,
                section="history",
                key=f"message:{message.pk}",
                text=f"<{message.token_count}>",
                trust="untrusted",
                source=f"message {message.seq}",
                author=message.author.name,
                ref=str(message.seq),
            ),
            reason,
        )
        for message in rows[:MAX_HIDDEN_RESULTS]
    ]
