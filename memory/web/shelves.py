"""What a thread's memory holds, sorted for its map: fresh tail, messages not summarised yet, leaves, condensed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memory.providers.base import FRESH_TAIL, Entry, MemoryProvider, Session
from memory.providers.lcm.groups import fresh_tail_start

MAP_TOKENS = 100_000
"""How much of a conversation the map looks at, the newest part."""

MESSAGES_SHOWN, SUMMARIES_SHOWN = 40, 200
BAR = 1000
"""Units of the bar's drawing."""


@dataclass(frozen=True)
class Line:
    """A message or a summary on the map. `cost` is what it needs in a prompt, in tokens."""

    entry: Entry
    at: datetime
    until: datetime
    cost: int


@dataclass(frozen=True)
class Shelf:
    """One kind of thing the memory holds. `hidden`: lines that are not listed; `x` and `width` in BAR units."""

    key: str
    title: str
    about: str
    lines: tuple[Line, ...]
    count: int
    messages: int
    tokens: int
    earliest: datetime
    latest: datetime
    x: float = 0.0
    width: float = 0.0

    @property
    def hidden(self) -> int:
        return self.count - len(self.lines)


@dataclass(frozen=True)
class Contents:
    """The shelves, newest first. `begins` is the number of the first message on the map when older parts are not."""

    shelves: tuple[Shelf, ...]
    tokens: int
    begins: int | None


def contents_of(provider: MemoryProvider, session: Session, budget: int) -> Contents:
    """What the memory holds of a session, as far as MAP_TOKENS reach. `budget`: that of a prompt, in tokens."""
    entries = provider.assemble(session, MAP_TOKENS, FRESH_TAIL)
    tail = fresh_tail_start(entries, FRESH_TAIL, budget, getattr(provider, "config", {}))
    shelves = tuple(_in_bar(_shelves(entries, tail)))
    tokens = sum(shelf.tokens for shelf in shelves)
    is_cut = tokens > MAP_TOKENS * 3 // 4 and bool(entries) and entries[0].ordinal > 1
    return Contents(shelves, tokens, entries[0].ordinal if is_cut else None)


def _shelves(entries: Sequence[Entry], tail: int) -> list[Shelf]:
    before = entries[:tail]
    found = [
        _shelf("tail", "Fresh tail", "The newest messages, word for word. They are never summarised.", entries[tail:]),
        _shelf(
            "open", "Not summarised yet", "Older messages that still stand word for word.",
            [entry for entry in before if entry.summary_id is None],
        ),
    ]  # fmt: skip
    for depth in sorted({entry.depth for entry in before if entry.summary_id is not None}):
        own = [entry for entry in before if entry.summary_id is not None and entry.depth == depth]
        title = f"Condensed, depth {depth}" if depth else "Leaf summaries"
        about = "Each stands for several summaries." if depth else "Each stands for a stretch of messages."
        found.append(_shelf(f"condensed-{min(depth, 3)}" if depth else "leaf", title, about, own))
    return [shelf for shelf in found if shelf is not None]


def _shelf(key: str, title: str, about: str, entries: Sequence[Entry]) -> Shelf | None:
    if not entries:
        return None
    lines = tuple(lines_of(entries))
    shown = SUMMARIES_SHOWN if entries[0].summary_id is not None else MESSAGES_SHOWN
    return Shelf(
        key, title, about, lines[-shown:], len(lines), sum(entry.message_count for entry in entries),
        sum(line.cost for line in lines), min(line.at for line in lines), max(line.until for line in lines),
    )  # fmt: skip


def lines_of(entries: Iterable[Entry]) -> list[Line]:
    """Entries with their times as times."""
    read = []
    for entry in entries:
        at = datetime.fromisoformat(entry.at)
        read.append(Line(entry, at, datetime.fromisoformat(entry.until) if entry.until else at, entry.cost))
    return read


def _in_bar(shelves: Sequence[Shelf]) -> Iterable[Shelf]:
    """The shelves with their places in the bar: oldest at the left, as a prompt reads."""
    whole, x = max(sum(shelf.tokens for shelf in shelves), 1), 0.0
    placed = []
    for shelf in reversed(shelves):
        width = round(BAR * shelf.tokens / whole, 2)
        placed.append(replace(shelf, x=round(x, 2), width=width))
        x += width
    return reversed(placed)
