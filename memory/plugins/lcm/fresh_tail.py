"""The fresh tail: the newest messages of a conversation, which no summary replaces. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from memory.plugins.base import MAX_PAIR_DISTANCE, ContextEntry
from memory.plugins.lcm.chunking import GAP_KIND, SUMMARY_KIND, ContextItem, item_from_entry, tool_pairs

FRESH_TAIL_SHARE = 0.25
"""The fresh tail's largest share of the budget, because a tail that fills it leaves no room for summaries."""


def fresh_tail_index(entries: Sequence[ContextEntry], fresh_tail: int, budget: int, config: Mapping[str, Any]) -> int:
    """The index at which the fresh tail of these entries begins, by the plugin's config."""
    return tail_index([item_from_entry(entry) for entry in entries], fresh_tail, fresh_tail_tokens(budget, config))


def fresh_tail_tokens(budget: int, config: Mapping[str, Any]) -> int | None:
    """The most the fresh tail may take: `fresh_tail_tokens`, else FRESH_TAIL_SHARE of the budget; None for no bound."""
    setting = config.get("fresh_tail_tokens")
    if setting == "none":
        return None
    return int(setting) if setting else int(budget * FRESH_TAIL_SHARE)


def newest_request_index(items: Sequence[ContextItem]) -> int | None:
    """The index of the newest message of a person that prompts show."""
    return next((index for index in reversed(range(len(items))) if items[index].by_person and items[index].cost), None)


def tail_index(items: Sequence[ContextItem], fresh_tail: int, max_tokens: int | None) -> int:
    """The index at which the fresh tail begins: the last `fresh_tail` messages that prompts show, and no more than fit
    `max_tokens` (one always does; None: no such bound). It is stretched back so that it splits no pair and holds the
    newest request of a person when that is in reach. Without messages, or when none are wanted, the tail is empty."""
    start, shown_count, tail_tokens = len(items), 0, 0
    for index in reversed(range(len(items)) if fresh_tail > 0 else ()):
        item = items[index]
        if item.kind in (SUMMARY_KIND, GAP_KIND) or shown_count == fresh_tail:
            break
        if item.cost and shown_count and max_tokens is not None and tail_tokens + item.cost > max_tokens:
            break
        start, shown_count, tail_tokens = index, shown_count + bool(item.cost), tail_tokens + item.cost
    if fresh_tail <= 0:
        return start
    request = newest_request_index(items)
    if request is not None and items[-1].ordinal - items[request].ordinal <= MAX_PAIR_DISTANCE:
        start = min(start, request)
    for call, result in sorted(tool_pairs(items), key=lambda pair: -pair[1]):
        if call < start <= result:
            start = call
    return start
