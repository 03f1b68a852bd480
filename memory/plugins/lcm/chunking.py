"""Chunking: which items a leaf or a condensed summary may stand for. Pure.

Plain items in, indices out. Sizes are in tokens (o200k_base), as a prompt needs them: `ContextItem.cost` is what
`ContextEntry.cost` says of the same item."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from memory.plugins.base import ENVELOPE_TOKENS, MAX_PAIR_DISTANCE, ContextEntry, pair_tool_calls

MIN_LEAF_MESSAGES = 10
MIN_CONDENSED_SUMMARIES = 2
MAX_CHUNK_TOKENS = 20_000
"""Tokens that one summary is made from, at most."""

PREVIEW_TOKENS = 120
"""Tokens that the preview of a tool's payload usually takes."""

MIN_SOURCE_TOKENS = 16
"""A group that says less than this is not worth a summary."""

SUMMARY_KIND = "summary"
GAP_KIND = "gap"
_TOOL_KINDS = ("tool_call", "tool_result")

Chunk = tuple[int, int]
"""The index of its first item, and the one after its last."""


class ContextItem(NamedTuple):
    """One item as far as chunking needs to know it. `cost` is 0 where no prompt shows it; `kind` is a message's kind,
    SUMMARY_KIND, or GAP_KIND for a cut between items that are not neighbours."""

    ordinal: int
    kind: str
    cost: int
    call_key: str = ""
    by_person: bool = False
    is_writing: bool = False
    depth: int = 0
    is_stale: bool = False


def item_from_entry(entry: ContextEntry) -> ContextItem:
    """The item of something a prompt shows."""
    return ContextItem(
        entry.ordinal,
        entry.kind,
        entry.cost,
        entry.call_key,
        by_person=entry.kind == "text" and entry.author_kind not in ("agent", "assistant"),
        depth=entry.depth,
    )


def tool_pair_spans(entries: Sequence[ContextEntry]) -> list[tuple[int, int]]:
    """Tool calls with their results, as indices into the entries."""
    return pair_tool_calls((entry.ordinal, entry.kind, entry.call_key) for entry in entries)


def tool_pairs(items: Sequence[ContextItem]) -> list[tuple[int, int]]:
    """Tool calls with their results, as indices, of what prompts show."""
    return pair_tool_calls((item.ordinal, item.kind if item.cost else "", item.call_key) for item in items)


def leaf_chunks(
    items: Sequence[ContextItem],
    end: int,
    *,
    chunk_tokens: int = MAX_CHUNK_TOKENS,
    newest: int | None = None,
    excluded: Collection[int] = (),
) -> list[Chunk]:
    """Runs of messages before index `end` that a leaf may stand for, oldest first.

    They hold at least MIN_LEAF_MESSAGES, need at most `chunk_tokens` tokens (more only where a pair would be split),
    and are cut by dive results, by whatever is still being written, and by the ordinals in `excluded`. `newest` is the
    ordinal of the thread's newest message: a call without a result may still get one when it is in reach of that.
    """
    newest = newest if newest is not None else (items[-1].ordinal if items else 0)
    result_by_call = dict(tool_pairs(items))
    is_free = [
        index < end and item.ordinal not in excluded and _is_summarizable(item, index in result_by_call, newest)
        for index, item in enumerate(items)
    ]
    writing = next((index for index, item in enumerate(items) if item.is_writing), len(items))
    is_free[writing:] = [False] * (len(items) - writing)
    while split := [
        (call, result)
        for call, result in result_by_call.items()
        if (is_free[call] or is_free[result]) and not all(is_free[call : result + 1])
    ]:
        for call, result in split:
            is_free[call] = is_free[result] = False
    chunks = []
    for free, run in groupby(range(len(items)), key=is_free.__getitem__):
        if free:
            chunks += _pack_chunks(items, _unsplittable_chunks(run, result_by_call), chunk_tokens, MIN_LEAF_MESSAGES)
    return chunks


def condensed_chunks(items: Sequence[ContextItem], *, chunk_tokens: int = MAX_CHUNK_TOKENS) -> list[Chunk]:
    """Runs of neighbouring summaries of equal depth that one of the next depth may stand for, oldest first.

    They hold at least MIN_CONDENSED_SUMMARIES and at most `chunk_tokens` tokens. A stale summary is not condensed.
    """
    depths = [item.depth if item.kind == SUMMARY_KIND and not item.is_stale else None for item in items]
    chunks = []
    for depth, run in groupby(range(len(items)), key=depths.__getitem__):
        if depth is not None:
            chunks += _pack_chunks(items, [(index, index + 1) for index in run], chunk_tokens, MIN_CONDENSED_SUMMARIES)
    return chunks


def _is_summarizable(item: ContextItem, is_answered: bool, newest: int) -> bool:
    """Whether a leaf may stand for it: a finished message, no dive result, no call that may still be answered."""
    if item.kind == "tool_call" and item.cost and not is_answered and newest - item.ordinal < MAX_PAIR_DISTANCE:
        return False
    return item.kind not in (SUMMARY_KIND, GAP_KIND, "dive_result") and not item.is_writing


def _unsplittable_chunks(run: Iterable[int], result_by_call: Mapping[int, int]) -> list[Chunk]:
    """The run of indices in the smallest pieces that split no pair."""
    chunks: list[Chunk] = []
    end = 0
    for index in run:
        start = index if not chunks or index >= end else chunks.pop()[0]
        end = max(end, result_by_call.get(index, index) + 1)
        chunks.append((start, index + 1))
    return chunks


def _source_cost(item: ContextItem) -> int:
    return min(item.cost, PREVIEW_TOKENS + ENVELOPE_TOKENS) if item.kind in _TOOL_KINDS else item.cost


def _pack_chunks(items: Sequence[ContextItem], atoms: Sequence[Chunk], chunk_tokens: int, minimum: int) -> list[Chunk]:
    """The atoms in about equal chunks within `chunk_tokens`, each of at least `minimum` items and worth a summary. What
    remains stays as it is."""
    weights = [sum(map(_source_cost, items[slice(*atom)])) for atom in atoms]
    pieces = -(-sum(weights) // chunk_tokens) or 1
    even_share = sum(weights) / pieces
    chunks: list[Chunk] = []
    chunk_start, chunk_weight = 0, 0
    for index, weight_of_atom in enumerate(weights):
        is_long_enough = atoms[index][0] - atoms[chunk_start][0] >= minimum
        if is_long_enough and (chunk_weight >= even_share or chunk_weight + weight_of_atom > chunk_tokens):
            chunks.append((atoms[chunk_start][0], atoms[index][0]))
            chunk_start, chunk_weight = index, 0
        chunk_weight += weight_of_atom
    if atoms and atoms[-1][1] - atoms[chunk_start][0] >= minimum:
        chunks.append((atoms[chunk_start][0], atoms[-1][1]))
    elif chunks and sum(map(_source_cost, items[chunks[-1][0] : atoms[-1][1]])) <= chunk_tokens:
        chunks[-1] = (chunks[-1][0], atoms[-1][1])
    return [chunk for chunk in chunks if _has_enough_source(items[slice(*chunk)])]


def _has_enough_source(items: Sequence[ContextItem]) -> bool:
    """Whether a summary can be shorter: two that prompts show, and something said."""
    shown_items = [item for item in items if item.cost]
    return len(shown_items) >= 2 and sum(item.cost - ENVELOPE_TOKENS for item in shown_items) >= MIN_SOURCE_TOKENS
