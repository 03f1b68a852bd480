"""Simple memory: the newest messages that fit. No summaries; switching to another plugin loses nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db.models import Count, Sum
from django.db.models.functions import Least

from memory.providers.base import ENVELOPE, LONGEST, STEP, Entry, NewMessage, Session, Stats
from memory.providers.pairs import PAIR_REACH, pairs_of
from memory.providers.shared import Profiles, Sessions, as_entries, in_prompts, store

MOST = 4_000
"""Messages looked at, whatever the budget."""


class Line(NamedTuple):
    """A message as the window sees it. `call_id` is empty unless it is a tool's call or result."""

    seq: int
    cost: int
    kind: str
    call_id: str


class SimpleProvider(Profiles, Sessions):
    """A sliding window. Config: `messages`, how many a prompt shows at most."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self._most = int((config or {}).get("messages") or MOST)

    def bootstrap(self, session: Session) -> None:
        """Nothing to take in: the window is read from the messages themselves."""

    def append(self, session: Session, messages: Sequence[NewMessage]) -> list[int]:
        return store(session, messages)

    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[Entry]:
        """Two statements, whose cost depends on the budget and not on the thread's length."""
        fitting = max(budget, 0) // (ENVELOPE + 1)
        looked_at = min(fitting + fresh_tail + PAIR_REACH + STEP, MOST)
        lines = _newest(session, looked_at)
        shown = window(lines, budget=budget, tail=fresh_tail, most=self._most, is_all=len(lines) < looked_at)
        if not shown:
            return []
        read = in_prompts(session).filter(seq__gte=min(shown), seq__lte=max(shown)).order_by("seq")
        return [entry for entry in as_entries(read) if entry.ordinal in shown]

    def stats(self, session: Session) -> Stats:
        found = in_prompts(session).aggregate(said=Count("pk"), tokens=Sum(Least("token_count", LONGEST)))
        said = found["said"]
        return Stats(messages=said, entries=said, tokens=(found["tokens"] or 0) + said * ENVELOPE)

    def close(self) -> None:
        """Nothing is held open."""


def _newest(session: Session, most: int) -> list[Line]:
    """The newest lines, oldest first."""
    rows = in_prompts(session).order_by("-seq").values_list("seq", "token_count", "kind", "call_id")[:most]
    return [Line(seq, min(tokens, LONGEST) + ENVELOPE, kind, call_id) for seq, tokens, kind, call_id in reversed(rows)]


def window(lines: Sequence[Line], *, budget: int, tail: int, most: int = MOST, is_all: bool = True) -> set[int]:
    """The numbers of the messages shown, of `lines` (oldest first; `is_all`: there are no older ones).

    The last `tail` always, stretched back to the calls of their results; then older ones, at most `most` in all,
    while they fit the budget. Where older ones are left out, the window begins at a multiple of STEP, plus 1, or
    where the pairs of tools after that are whole. Calls without a result and results without a call are left out.
    """
    calls = _calls(lines)
    paired = {*calls, *calls.values()}
    lines = [line for line in lines if not _is_tool(line) or line.seq in paired]
    at = {line.seq: place for place, line in enumerate(lines)}
    pairs = sorted((at[result], at[call]) for result, call in calls.items())
    must = _stretched(max(len(lines) - max(tail, 0), 0), pairs)
    first = _fitting(lines, must, budget, most)
    if first > 0 or not is_all:
        first = min(_at_step(lines, first), must)
    return {line.seq for line in lines[_with_whole_pairs(first, pairs) :]}


def _is_tool(line: Line) -> bool:
    return line.kind in ("tool_call", "tool_result")


def _calls(lines: Sequence[Line]) -> dict[int, int]:
    """The call of each result, by their numbers."""
    pairs = pairs_of((line.seq, line.kind, line.call_id) for line in lines)
    return {lines[result].seq: lines[call].seq for call, result in pairs}


def _stretched(first: int, pairs: Sequence[tuple[int, int]]) -> int:
    """`first`, or the earlier place from which no result is without its call. Pairs: places, by result."""
    for result, call in reversed(pairs):
        if result < first:
            break
        first = min(first, call)
    return first


def _with_whole_pairs(first: int, pairs: Sequence[tuple[int, int]]) -> int:
    """`first`, or the later place from which no result is without its call."""
    for result, call in pairs:
        if call < first <= result:
            first = result + 1
    return first


def _fitting(lines: Sequence[Line], must: int, budget: int, most: int) -> int:
    """The place from which lines fit the budget and the count; `must` where what must be there exceeds either."""
    left = budget - sum(line.cost for line in lines[must:])
    first = must
    while first > 0 and len(lines) - first < most and lines[first - 1].cost <= left:
        first -= 1
        left -= lines[first].cost
    return first


def _at_step(lines: Sequence[Line], first: int) -> int:
    """The first place at or after `first` where a step begins."""
    if first >= len(lines):
        return first
    begins = -(-(lines[first].seq - 1) // STEP) * STEP + 1
    return next((place for place in range(first, len(lines)) if lines[place].seq >= begins), len(lines))
