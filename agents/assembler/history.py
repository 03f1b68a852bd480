"""P1, history: what the memory plugin recalls of the conversation, as items and as bundles that come together.

Which messages and summaries there are is the plugin's business; how they stand in a prompt is decided here.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from agents.assembler.gather import Scene, shortened, trust_of
from agents.assembler.items import in_steps, item
from agents.assembler.values import Bundle, Dropped, Item, Offer, drop, trust_reason
from agents.assembler.wording import data_block, minute
from agents.soul import TaskType
from memory.providers.base import ENVELOPE, FRESH_TAIL, LONGEST, STEP, Entry, MemoryProvider, Session
from memory.providers.pairs import pairs_of
from openvibe.base.secrets import mask_secrets
from openvibe.chat.models import Message
from openvibe.llm.fences import fence
from openvibe.llm.tokens import OVERCOUNT, TokenCounter

NEIGHBOURS = 5
"""Messages before the request that a mention always asks for."""

TAIL: dict[TaskType, int] = {"mention": NEIGHBOURS, "thread": FRESH_TAIL, "dive": FRESH_TAIL, "publish": FRESH_TAIL}
"""Messages at the end that a task asks the plugin for, whatever the budget."""

GIST = 1_200
"""Tokens of summaries that stand beside a mention's neighbours, the newest first."""

SHORT = 240
"""A thread of at most so many messages may stand whole."""

HIDDEN = 20
"""Dive results the level hides that are named, the newest first."""


def session_of(scene: Scene) -> Session:
    """The thread as this agent sees it, before the request."""
    person = scene.asked.author.pk if scene.asked.author else None
    return Session(scene.place.thread_id, scene.access, before=scene.asked.before, person_id=person)


def recollect(scene: Scene, provider: MemoryProvider, room: int) -> tuple[list[Entry], bool]:
    """What the plugin recalls within `room` tokens, oldest first, and whether there is no more than that."""
    budget = room if scene.counter.exact else int(room / OVERCOUNT)
    entries = provider.assemble(session_of(scene), max(budget, 0), TAIL[scene.task])
    spent = sum(entry.cost for entry in entries)
    return entries, spent + LONGEST + ENVELOPE <= budget


def first_room(scene: Scene, room: int) -> int:
    """How much to ask for at first: a mention in a long thread needs little more than its neighbours."""
    before = scene.asked.before or scene.place.last_seq + 1
    if scene.task != "mention" or before <= SHORT:
        return room
    return min(room, scene.budget.caps["P1"] or room)


def history(scene: Scene, entries: Sequence[Entry]) -> tuple[list[Offer], list[Offer], list[Offer]]:
    """What was said before the request: offers within P1, offers before recall, and what is left after P6 brings.

    A mention asks for its neighbours and the gist. Other tasks stand on all that the plugin recalls: what P1's cap
    keeps out comes before anything is recalled by its words.
    """
    bundles = _bundles(scene, entries)
    if scene.task != "mention":
        return (
            [Offer("P1", "history", bundles, contiguous=True)],
            [Offer("P6", "history", bundles, contiguous=True, beyond_layer_cap=True)],
            [],
        )
    near = _first(bundles, NEIGHBOURS)
    gist = tuple(bundle for bundle in bundles[len(near) :] if bundle.items[0].key.startswith("summary:"))
    return (
        [
            Offer("P1", "history", near, contiguous=True, extendable=True),
            Offer("P1", "history", gist, cap=GIST, contiguous=True),
        ],
        [],
        [Offer("P1", "history", bundles[len(near) :], cap=0, contiguous=True, extendable=True)],
    )


def _bundles(scene: Scene, entries: Sequence[Entry]) -> tuple[Bundle, ...]:
    """The newest first. Calls and their results together; plain messages in steps; each summary by itself."""
    own_id = scene.agent.participant_id
    made = [(entry, history_item(scene.counter, entry, is_own=entry.author_id == own_id)) for entry in entries]
    summaries = [Bundle((shown,)) for entry, shown in made if entry.summary_id is not None]
    steps = in_steps([shown for entry, shown in made if entry.summary_id is None], step=STEP)
    return _newest_first([*_with_pairs(steps, entries), *summaries])


def _with_pairs(bundles: Sequence[Bundle], entries: Sequence[Entry]) -> list[Bundle]:
    """Bundles that share a tool call and its result become one."""
    pairs = pairs_of((entry.ordinal, entry.kind, entry.call_id) for entry in entries)
    if not pairs:
        return list(bundles)
    home = {shown.order: at for at, bundle in enumerate(bundles) for shown in bundle.items}
    merged: list[list[Item]] = [list(bundle.items) for bundle in bundles]
    for call, result in pairs:  # everything between them, too: bundles are contiguous
        newer, older = sorted((home[entries[result].ordinal], home[entries[call].ordinal]))
        for at in range(newer + 1, older + 1):
            merged[newer] += merged[at]
            merged[at] = []
            home.update({shown.order: newer for shown in merged[newer]})
    return [Bundle(tuple(sorted(items, key=lambda shown: shown.order))) for items in merged if items]


def _newest_first(bundles: Sequence[Bundle]) -> tuple[Bundle, ...]:
    return tuple(sorted(bundles, key=lambda bundle: -bundle.items[0].order))


def _first(bundles: Sequence[Bundle], messages: int) -> tuple[Bundle, ...]:
    taken, counted = [], 0
    for bundle in bundles:
        if counted >= messages:
            break
        taken.append(bundle)
        counted += len(bundle.items)
    return tuple(taken)


@lru_cache(maxsize=8_192)
def history_item(counter: TokenCounter, entry: Entry, *, is_own: bool) -> Item:
    """One message or summary: the agent's own words as they are, all else fenced."""
    if entry.summary_id is not None:
        return _summary_item(counter, entry)
    ref = str(entry.ordinal)
    own_words = is_own and entry.kind == Message.Kind.TEXT
    body = entry.text
    if entry.tokens >= LONGEST:
        body = shortened(body, LONGEST, counter, ref=ref)
    return item(
        counter,
        section="history",
        key=f"message:{entry.message_id}",
        text=mask_secrets(body) if own_words else message_block(entry, body, is_own=is_own),
        trust=trust_of(entry.author_kind, is_own=is_own),
        source=f"message {ref}",
        author=entry.author_name,
        ref=ref,
        role="assistant" if own_words else "user",
        order=entry.ordinal,
    )


def _summary_item(counter: TokenCounter, entry: Entry) -> Item:
    kind = "condensed" if entry.depth else "leaf"
    block = fence(
        "summary",
        mask_secrets(entry.text),
        id=entry.summary_id,
        kind=kind,
        depth=entry.depth,
        earliest=minute(datetime.fromisoformat(entry.at)),
        latest=minute(datetime.fromisoformat(entry.until or entry.at)),
        messages=f"{entry.ordinal}-{entry.last}",
        trust="untrusted",
    )
    return item(
        counter,
        section="history",
        key=f"summary:{entry.summary_id}",
        text=block,
        trust="untrusted",
        source=f"summary of messages {entry.ordinal}–{entry.last}",
        ref=f"{entry.ordinal}-{entry.last}",
        order=entry.ordinal,
    )


def message_block(entry: Entry, body: str, *, is_own: bool) -> str:
    return data_block(
        body,
        source="message" if entry.kind == Message.Kind.TEXT else entry.kind,
        ref=str(entry.ordinal),
        author=entry.author_name,
        trust=trust_of(entry.author_kind, is_own=is_own),
        time=minute(datetime.fromisoformat(entry.at)),
    )


def hidden_results(scene: Scene, entries: Sequence[Entry]) -> list[Dropped]:
    """Dive results of the stretch in view that the level keeps out, each said so. No query where none is hidden."""
    if scene.access.reads_dive_results:
        return []
    since = min((entry.ordinal for entry in entries if entry.summary_id is None), default=0)
    rows = Message.objects.filter(
        thread=scene.place.thread_id, kind=Message.Kind.DIVE_RESULT, deleted_at=None, seq__gte=since
    )
    if scene.asked.before is not None:
        rows = rows.filter(seq__lt=scene.asked.before)
    reason = trust_reason(scene.agent.level)
    return [
        drop(
            item(scene.counter, section="history", key=f"message:{found.pk}", text=f"<{found.token_count}>",
                 trust="untrusted", source=f"message {found.seq}", author=found.author.name, ref=str(found.seq)),
            reason,
        )
        for found in rows.select_related("author").order_by("-seq")[:HIDDEN]
    ]  # fmt: skip
