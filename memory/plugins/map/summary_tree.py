"""The summary tree of a thread's memory map: fresh tail, messages not summarised yet, leaves, condensed summaries."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from memory.plugins.base import FRESH_TAIL, ContextEntry, MemoryProvider, Session
from memory.plugins.lcm.fresh_tail import fresh_tail_index
from openvibe.engines.database.timestamps import parse_stored_time

MAX_TREE_TOKENS = 100_000
"""How much of a conversation the map looks at, the newest part."""

MAX_LISTED_MESSAGES, MAX_LISTED_SUMMARIES = 40, 200


@dataclass(frozen=True)
class TreeLine:
    """A message or a summary on the map, and its times."""

    entry: ContextEntry
    at: datetime
    until: datetime


@dataclass(frozen=True)
class TreeLevel:
    """One kind of thing the memory holds. `hidden_count`: lines not listed."""

    key: str
    title: str
    about: str
    lines: tuple[TreeLine, ...]
    count: int
    messages: int
    tokens: int
    earliest: datetime
    latest: datetime

    @property
    def is_summaries(self) -> bool:
        return self.key not in ("tail", "open")

    @property
    def hidden_count(self) -> int:
        return self.count - len(self.lines)


@dataclass(frozen=True)
class SummaryTree:
    """The levels, newest first. `first_ordinal`: the first message on the map, where older ones are not on it."""

    levels: tuple[TreeLevel, ...]
    tokens: int
    first_ordinal: int | None


def build_summary_tree(provider: MemoryProvider, session: Session, budget: int) -> SummaryTree:
    """What the memory holds of a session, as far as MAX_TREE_TOKENS reach. `budget`: that of a prompt, in tokens."""
    entries = provider.assemble(session, MAX_TREE_TOKENS, FRESH_TAIL)
    tail_start = fresh_tail_index(entries, FRESH_TAIL, budget, getattr(provider, "config", {}))
    tokens = sum(entry.cost for entry in entries)
    groups = _groups(entries, tail_start)
    levels = [_tree_level(key, title, about, members) for key, title, about, members in groups if members]
    is_cut = tokens > MAX_TREE_TOKENS * 3 // 4 and bool(entries) and entries[0].ordinal > 1
    return SummaryTree(tuple(levels), tokens, entries[0].ordinal if is_cut else None)


def _groups(entries: Sequence[ContextEntry], tail_start: int) -> list[tuple[str, str, str, Sequence[ContextEntry]]]:
    """Key, title, explanation and entries of each level, newest first."""
    summaries = [entry for entry in entries[:tail_start] if entry.summary_id is not None]
    messages = [entry for entry in entries[:tail_start] if entry.summary_id is None]
    tail_about = "The newest messages, word for word. They are never summarised."
    groups: list[tuple[str, str, str, Sequence[ContextEntry]]] = [
        ("tail", "Recent messages", tail_about, entries[tail_start:]),
        ("open", "Not summarised yet", "Older messages that still stand word for word.", messages),
    ]
    for depth in sorted({entry.depth for entry in summaries}):
        key = f"condensed-{min(depth, 3)}" if depth else "leaf"
        title = f"Summaries of summaries, level {depth}" if depth else "Summaries of messages"
        about = "Each sums up several summaries." if depth else "Each sums up messages in a row."
        groups.append((key, title, about, [entry for entry in summaries if entry.depth == depth]))
    return groups


def _tree_level(key: str, title: str, about: str, entries: Sequence[ContextEntry]) -> TreeLevel:
    lines = tuple(tree_lines(entries))
    max_listed = MAX_LISTED_SUMMARIES if entries[0].summary_id is not None else MAX_LISTED_MESSAGES
    return TreeLevel(
        key,
        title,
        about,
        lines[-max_listed:],
        len(lines),
        sum(entry.message_count for entry in entries),
        sum(entry.cost for entry in entries),
        min(line.at for line in lines),
        max(line.until for line in lines),
    )


def tree_lines(entries: Iterable[ContextEntry]) -> list[TreeLine]:
    """Entries with their times as times."""
    return [
        TreeLine(entry, parse_stored_time(entry.at), parse_stored_time(entry.until or entry.at)) for entry in entries
    ]
