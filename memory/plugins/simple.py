"""Simple memory: the newest messages that fit. No summaries; switching to another plugin loses nothing."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db.models import Count, Sum

from memory.plugins.base import (
    ENVELOPE_TOKENS,
    MAX_ENTRY_TOKENS,
    MAX_PAIR_DISTANCE,
    WINDOW_STEP,
    ContextEntry,
    NewMessage,
    Session,
    SessionStats,
    call_key,
    pair_tool_calls,
)
from memory.plugins.message_search import SearchMixin
from memory.plugins.sessions import (
    MESSAGE_COST,
    ProfileMixin,
    SessionMixin,
    message_entries,
    prompt_messages,
    store_messages,
)

MAX_WINDOW_MESSAGES = 4_000
"""Messages looked at, whatever the budget."""


class WindowMessage(NamedTuple):
    """A message as the window sees it. `call_key` is empty unless it is a tool's call or result."""

    seq: int
    cost: int
    kind: str
    call_key: str


class SimpleProvider(SearchMixin, ProfileMixin, SessionMixin):
    """A sliding window. Config: `messages`, how many a prompt shows at most."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self._max_messages = int((config or {}).get("messages") or MAX_WINDOW_MESSAGES)

    def bootstrap(self, session: Session) -> None:
        """Nothing to take in: the window is read from the messages themselves."""

    def append(self, session: Session, messages: Sequence[NewMessage]) -> list[int]:
        return store_messages(session, messages)

    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        """Two statements, whose cost depends on the budget and not on the thread's length."""
        max_fitting = max(budget, 0) // (ENVELOPE_TOKENS + 1)
        scan_limit = min(max_fitting + fresh_tail + MAX_PAIR_DISTANCE + WINDOW_STEP, MAX_WINDOW_MESSAGES)
        columns = ("seq", "token_count", "kind", "author_id", "call_id")
        rows = prompt_messages(session).order_by("-seq").values_list(*columns)
        messages = [
            WindowMessage(seq, min(tokens, MAX_ENTRY_TOKENS) + ENVELOPE_TOKENS, kind, call_key(author_id, call_id))
            for seq, tokens, kind, author_id, call_id in reversed(rows[:scan_limit])
        ]
        shown_seqs = select_window(
            messages,
            budget=budget,
            fresh_tail=fresh_tail,
            max_messages=self._max_messages,
            is_all=len(messages) < scan_limit,
        )
        if not shown_seqs:
            return []
        window = prompt_messages(session).filter(seq__gte=min(shown_seqs), seq__lte=max(shown_seqs))
        return [entry for entry in message_entries(window.order_by("seq")) if entry.ordinal in shown_seqs]

    def stats(self, session: Session) -> SessionStats:
        totals = prompt_messages(session).aggregate(count=Count("pk"), tokens=Sum(MESSAGE_COST, default=0))
        return SessionStats(messages=totals["count"], entries=totals["count"], tokens=totals["tokens"])

    def close(self) -> None:
        """Nothing is held open."""


def select_window(
    messages: Sequence[WindowMessage],
    *,
    budget: int,
    fresh_tail: int,
    max_messages: int = MAX_WINDOW_MESSAGES,
    is_all: bool = True,
) -> set[int]:
    """The numbers of the messages shown, of `messages` (oldest first; `is_all`: there are no older ones).

    The last `fresh_tail` always, stretched back to the calls of their results; then older ones, at most `max_messages`
    in all, while they fit the budget. Where older ones are left out, the window begins at a multiple of WINDOW_STEP,
    plus 1, or where the pairs of tools after that are whole. Calls without a result and results without a call are
    left out.
    """
    paired_indices = {index for pair in _tool_pairs(messages) for index in pair}
    messages = [
        message
        for index, message in enumerate(messages)
        if message.kind not in ("tool_call", "tool_result") or index in paired_indices
    ]
    pairs = sorted((result, call) for call, result in _tool_pairs(messages))
    tail_start = max(len(messages) - max(fresh_tail, 0), 0)
    for result, call in reversed(pairs):
        if call < tail_start <= result:
            tail_start = call
    first = _first_fitting(messages, tail_start, budget, max_messages)
    if first > 0 or not is_all:
        first = min(_align_to_step(messages, first), tail_start)
    for result, call in pairs:
        if call < first <= result:
            first = result + 1
    return {message.seq for message in messages[first:]}


def _tool_pairs(messages: Sequence[WindowMessage]) -> list[tuple[int, int]]:
    """Calls with their results, as indices."""
    return pair_tool_calls((message.seq, message.kind, message.call_key) for message in messages)


def _first_fitting(messages: Sequence[WindowMessage], tail_start: int, budget: int, max_messages: int) -> int:
    """The index from which messages fit the budget and the count; `tail_start` where the tail exceeds either."""
    remaining = budget - sum(message.cost for message in messages[tail_start:])
    first = tail_start
    while first > 0 and len(messages) - first < max_messages and messages[first - 1].cost <= remaining:
        first -= 1
        remaining -= messages[first].cost
    return first


def _align_to_step(messages: Sequence[WindowMessage], first: int) -> int:
    """The first index at or after `first` where a step begins."""
    if first >= len(messages):
        return first
    step_seq = -(-(messages[first].seq - 1) // WINDOW_STEP) * WINDOW_STEP + 1
    return next((index for index in range(first, len(messages)) if messages[index].seq >= step_seq), len(messages))
