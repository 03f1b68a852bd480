"""Which items may be folded into a summary, and which are too fresh for it. Pure: plain places in, indices out.

Sizes are in tokens (o200k_base), as a prompt needs them: `Place.cost` is what `Entry.cost` says of the same item.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from memory.providers.base import ENVELOPE, Entry
from memory.providers.pairs import PAIR_REACH, pairs_of

TAIL_SHARE = 0.25
"""Of the budget: the fresh tail takes no more, because a tail that fills it leaves no room for summaries."""

FEWEST_MESSAGES = 10
FEWEST_SUMMARIES = 2
CHUNK = 20_000
"""Tokens that one summary is made from, at most."""

PREVIEW = 120
"""Tokens that the preview of a tool's payload usually takes."""

LEAST_TOKENS = 16
"""A group that says less than this is not worth a summary."""

SUMMARY = "summary"
GAP = "gap"
_TOOLS = ("tool_call", "tool_result")

Group = tuple[int, int]
"""The first place of a group, and the one after its last."""


class Place(NamedTuple):
    """One item as far as grouping needs to know it. `cost` is 0 where no prompt shows it; `kind` is a message's kind,
    SUMMARY, or GAP for a cut between places that are not neighbours."""

    ordinal: int
    kind: str
    cost: int
    call_id: str = ""
    by_person: bool = False
    is_writing: bool = False
    depth: int = 0
    is_stale: bool = False


def place_of(entry: Entry) -> Place:
    """The place of something a prompt shows."""
    return Place(
        entry.ordinal, entry.kind, entry.cost, entry.call_id,
        by_person=entry.kind == "text" and entry.author_kind != "agent", depth=entry.depth,
    )  # fmt: skip


def pair_spans(entries: Sequence[Entry]) -> list[tuple[int, int]]:
    """Tool calls with their results, as indices into the entries."""
    if all(entry.kind not in _TOOLS for entry in entries):
        return []
    return pairs([place_of(entry) for entry in entries])


def fresh_tail_start(entries: Sequence[Entry], wanted: int, budget: int, config: Mapping[str, Any]) -> int:
    """The index at which the fresh tail of these entries begins, by the plugin's config."""
    return tail_start([place_of(entry) for entry in entries], wanted, tail_tokens(budget, config))


def tail_tokens(budget: int, config: Mapping[str, Any]) -> int | None:
    """The most that the fresh tail may take: `fresh_tail_tokens`, else TAIL_SHARE of the budget; None for no bound."""
    wanted = config.get("fresh_tail_tokens")
    if wanted == "none":
        return None
    return int(wanted) if wanted else int(budget * TAIL_SHARE)


def pairs(places: Sequence[Place]) -> list[tuple[int, int]]:
    """Tool calls with their results, as indices, of what prompts show."""
    return pairs_of((place.ordinal, place.kind if place.cost else "", place.call_id) for place in places)


def newest_request(places: Sequence[Place]) -> int | None:
    """The index of the newest message of a person that prompts show."""
    return next((at for at in reversed(range(len(places))) if places[at].by_person and places[at].cost), None)


def tail_start(places: Sequence[Place], wanted: int, tokens: int | None) -> int:
    """Where the fresh tail begins: the last `wanted` messages that prompts show, and no more than fit `tokens` (one
    always does; None: no such bound). It is stretched back so that it splits no pair and holds the newest request of
    a person when that is in reach. Without messages, or when none are wanted, the tail is empty."""
    start, shown, spent = len(places), 0, 0
    for at in reversed(range(len(places)) if wanted > 0 else ()):
        place = places[at]
        if place.kind in (SUMMARY, GAP) or shown == wanted:
            break
        if place.cost and shown and tokens is not None and spent + place.cost > tokens:
            break
        start, shown, spent = at, shown + bool(place.cost), spent + place.cost
    if wanted <= 0:
        return start
    request = newest_request(places)
    if request is not None and places[-1].ordinal - places[request].ordinal <= PAIR_REACH:
        start = min(start, request)
    for call, result in sorted(pairs(places), key=lambda pair: -pair[1]):
        if call < start <= result:
            start = call
    return start


def leaf_groups(
    places: Sequence[Place], end: int, *, chunk: int = CHUNK, newest: int | None = None, kept: Collection[int] = ()
) -> list[Group]:
    """Runs of messages before index `end` that a leaf may stand for, oldest first.

    They hold at least FEWEST_MESSAGES, need at most `chunk` tokens (more only where a pair would be split), and are
    cut by dive results, by whatever is still being written, and by the ordinals in `kept`. `newest` is the ordinal
    of the thread's newest message: a call without a result may still get one when it is in reach of that.
    """
    newest = newest if newest is not None else (places[-1].ordinal if places else 0)
    couples = pairs(places)
    held = _unanswered(places, couples, newest)
    foldable = [_is_foldable(place) and place.ordinal not in kept and at not in held and at < end
                for at, place in enumerate(places)]  # fmt: skip
    writing = next((at for at, place in enumerate(places) if place.is_writing), len(places))
    foldable[writing:] = [False] * (len(places) - writing)
    while split := [pair for pair in couples if _is_split(pair, foldable)]:
        for call, result in split:
            foldable[call] = foldable[result] = False
    found = []
    for first, after in _runs(foldable):
        atoms = _atoms(first, after, couples)
        packed = _packed(atoms, lambda at: _weight(places[at]), chunk, FEWEST_MESSAGES)
        found += [group for group in packed if _says_enough(places[slice(*group)])]
    return found


def condensed_groups(places: Sequence[Place], *, chunk: int = CHUNK) -> list[Group]:
    """Runs of neighbouring summaries of equal depth that one of the next depth may stand for, oldest first.

    They hold at least FEWEST_SUMMARIES and at most `chunk` tokens. A stale summary is not condensed.
    """
    may = [place.kind == SUMMARY and not place.is_stale for place in places]
    found = []
    for first, after in _runs(may):
        edges = [first, *(at for at in range(first + 1, after) if places[at].depth != places[at - 1].depth), after]
        for low, high in pairwise(edges):
            atoms = [(at, at + 1) for at in range(low, high)]
            packed = _packed(atoms, lambda at: places[at].cost, chunk, FEWEST_SUMMARIES)
            found += [group for group in packed if _says_enough(places[slice(*group)])]
    return found


def _is_foldable(place: Place) -> bool:
    return place.kind not in (SUMMARY, GAP, "dive_result") and not place.is_writing


def _unanswered(places: Sequence[Place], couples: Iterable[tuple[int, int]], newest: int) -> set[int]:
    """Calls that may still get their result."""
    answered = {call for call, _ in couples}
    return {
        at for at, place in enumerate(places)
        if place.kind == "tool_call" and place.cost and at not in answered and newest - place.ordinal < PAIR_REACH
    }  # fmt: skip


def _is_split(pair: tuple[int, int], foldable: Sequence[bool]) -> bool:
    """Whether one of the two could be folded without the other."""
    call, result = pair
    return (foldable[call] or foldable[result]) and not all(foldable[call : result + 1])


def _runs(flags: Sequence[bool]) -> list[Group]:
    """The stretches of True."""
    padded = [False, *flags, False]
    edges = [at for at in range(len(padded) - 1) if padded[at] != padded[at + 1]]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _atoms(first: int, after: int, couples: Iterable[tuple[int, int]]) -> list[Group]:
    """The run in the smallest pieces that split no pair."""
    reach = {call: result for call, result in couples if first <= call < after}
    atoms, begun, until = [], first, first
    for at in range(first, after):
        until = max(until, reach.get(at, at))
        if at == until:
            atoms.append((begun, at + 1))
            begun = until = at + 1
    return atoms


def _weight(place: Place) -> int:
    return min(place.cost, PREVIEW + ENVELOPE) if place.kind in _TOOLS else place.cost


def _packed(atoms: Sequence[Group], weight: Callable[[int], int], chunk: int, fewest: int) -> list[Group]:
    """The atoms in about equal groups within `chunk`, each of at least `fewest`. What remains stays as it is."""
    weights = [sum(map(weight, range(*atom))) for atom in atoms]
    pieces = -(-sum(weights) // chunk) or 1
    fair = sum(weights) / pieces
    groups: list[Group] = []
    begun, held = 0, 0
    for at, heavy in enumerate(weights):
        many = atoms[at][0] - atoms[begun][0] >= fewest
        if many and (held >= fair or held + heavy > chunk):
            groups.append((atoms[begun][0], atoms[at][0]))
            begun, held = at, 0
        held += heavy
    if atoms and atoms[-1][1] - atoms[begun][0] >= fewest:
        groups.append((atoms[begun][0], atoms[-1][1]))
    elif groups and sum(map(weight, range(groups[-1][0], atoms[-1][1]))) <= chunk:
        groups[-1] = (groups[-1][0], atoms[-1][1])
    return groups


def _says_enough(places: Sequence[Place]) -> bool:
    """Whether a summary can be shorter: two that prompts show, and something said."""
    shown = [place for place in places if place.cost]
    return len(shown) >= 2 and sum(place.cost - ENVELOPE for place in shown) >= LEAST_TOKENS
