"""What may be folded: plain places, no database."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from memory.plugins.base import ENVELOPE_TOKENS, MAX_PAIR_DISTANCE
from memory.plugins.lcm.chunking import (
    GAP_KIND,
    MAX_CHUNK_TOKENS,
    MIN_LEAF_MESSAGES,
    PREVIEW_TOKENS,
    SUMMARY_KIND,
    ContextItem,
    condensed_chunks,
    leaf_chunks,
    tool_pairs,
)
from memory.plugins.lcm.fresh_tail import tail_index
from tests.examples import examples


def texts(many: int, cost: int = 100, first: int = 1, **more: object) -> list[ContextItem]:
    return [ContextItem(at, "text", cost, **more) for at in range(first, first + many)]  # type: ignore[arg-type]  # any field


def call(ordinal: int, name: str = "c1") -> ContextItem:
    return ContextItem(ordinal, "tool_call", 60, name)


def result(ordinal: int, name: str = "c1", cost: int = 60) -> ContextItem:
    return ContextItem(ordinal, "tool_result", cost, name)


# --- leaves -------------------------------------------------------------------------------------------------------


def test_a_run_of_ten_is_folded_and_a_run_of_nine_is_not() -> None:
    assert leaf_chunks(texts(10), 10) == [(0, 10)]
    assert leaf_chunks(texts(10), 9) == []


def test_dive_results_cut_runs_and_stay() -> None:
    places = [*texts(12), ContextItem(13, "dive_result", 100), *texts(9, first=14)]
    assert leaf_chunks(places, len(places)) == [(0, 12)]


def test_nothing_from_a_message_being_written_on_is_folded() -> None:
    places = [*texts(12), ContextItem(13, "text", 0, is_writing=True), *texts(30, first=14)]
    assert leaf_chunks(places, len(places)) == [(0, 12)]


def test_a_chunk_holds_at_most_so_many_tokens_and_groups_are_about_equal() -> None:
    assert leaf_chunks(texts(45), 45, chunk_tokens=2_000) == [(0, 15), (15, 30), (30, 45)]


def test_tool_payloads_count_as_previews() -> None:
    places = [place for at in range(1, 41, 2) for place in (call(at, f"c{at}"), result(at + 1, f"c{at}", 1_244))]
    assert leaf_chunks(places, 40, chunk_tokens=20 * (60 + PREVIEW_TOKENS + ENVELOPE_TOKENS)) == [(0, 40)]


def test_a_tool_call_is_not_separated_from_its_result_at_a_groups_edge() -> None:
    places = [*texts(14), call(15), *texts(3, first=16), result(19), *texts(21, first=20)]
    groups = leaf_chunks(places, 40, chunk_tokens=1_700)
    assert groups
    assert not any(first <= 14 < behind <= 18 or 14 < first <= 18 for first, behind in groups)


def test_a_call_that_may_still_be_answered_is_not_folded() -> None:
    places = [*texts(12), call(13), *texts(12, first=14)]
    assert leaf_chunks(places, 25) == [(0, 12), (13, 25)]
    assert leaf_chunks(places, 25, newest=13 + MAX_PAIR_DISTANCE) == [(0, 25)]


def test_a_pair_split_by_a_dive_result_stays_as_it_is() -> None:
    places = [*texts(12), call(13), ContextItem(14, "dive_result", 50), result(15), *texts(12, first=16)]
    assert leaf_chunks(places, len(places)) == [(0, 12), (15, 27)]


def test_what_is_to_be_kept_is_not_folded() -> None:
    assert leaf_chunks(texts(25), 25, excluded={13}) == [(0, 12), (13, 25)]


def test_tombstones_are_folded_along_but_not_by_themselves() -> None:
    gone = [ContextItem(at, "text", 0) for at in range(1, 31)]
    assert leaf_chunks(gone, 30) == []
    assert leaf_chunks([*gone, *texts(5, first=31)], 35) == [(0, 35)]


# --- condensed ----------------------------------------------------------------------------------------------------


def summary(ordinal: int, depth: int = 0, cost: int = 300, **more: object) -> ContextItem:
    return ContextItem(ordinal, SUMMARY_KIND, cost, depth=depth, **more)  # type: ignore[arg-type]  # any field


def test_neighbours_of_equal_depth_are_condensed() -> None:
    places = [summary(1, 1), summary(11), summary(21), summary(31), summary(41, 2), summary(51, 2)]
    assert condensed_chunks(places) == [(1, 4), (4, 6)]


def test_one_summary_alone_or_a_stale_one_is_not_condensed() -> None:
    assert condensed_chunks([summary(1), summary(11, is_stale=True), summary(21)]) == []
    assert condensed_chunks([summary(1), ContextItem(11, GAP_KIND, 0), summary(12)]) == []


# --- for any conversation -----------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[ContextItem]:
    """Texts of all lengths, tombstones, dive results, and tool calls answered soon, late, twice or never."""
    kinds = st.sampled_from(["text"] * 6 + ["tool_call", "tool_result", "dive_result", "system"])
    places = []
    for ordinal in range(1, draw(st.integers(0, 120)) + 1):
        kind = draw(kinds)
        cost = 0 if kind == "system" else draw(st.sampled_from([0, ENVELOPE_TOKENS + 1, 80, 500, 1_244]))
        tool = draw(st.sampled_from("abcd")) if kind.startswith("tool") else ""
        places.append(
            ContextItem(
                ordinal,
                kind,
                cost,
                tool,
                by_person=kind == "text" and draw(st.booleans()),
                is_writing=kind == "text" and cost == 0 and draw(st.integers(0, 40)) == 0,
            )
        )
    return places


@settings(deadline=None, max_examples=examples(300))
@given(
    histories(),
    st.sampled_from([500, 3_000, MAX_CHUNK_TOKENS]),
    st.integers(0, 30),
    st.sampled_from([None, 200, 4_000]),
)
def test_groups_of_any_history_keep_to_the_rules(
    places: list[ContextItem], chunk: int, wanted: int, tokens: int | None
) -> None:
    start = tail_index(places, wanted, tokens)
    groups = leaf_chunks(places, start, chunk_tokens=chunk)
    assert groups == sorted(groups)
    assert all(left[1] <= right[0] for left, right in pairwise(groups))
    writing = next((at for at, place in enumerate(places) if place.is_writing), len(places))
    for first, behind in groups:
        assert behind - first >= MIN_LEAF_MESSAGES
        assert behind <= min(start, writing)
        assert not any(place.kind in ("dive_result", SUMMARY_KIND, GAP_KIND) for place in places[first:behind])
    inside = {at: group for group in groups for at in range(*group)}
    for call_at, result_at in tool_pairs(places):
        assert inside.get(call_at) == inside.get(result_at)
        assert (call_at >= start) == (result_at >= start)


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(50, 1_244), st.booleans()), max_size=60))
def test_condensed_groups_of_any_summaries_are_equal_neighbours(drawn: list[tuple[int, int, bool]]) -> None:
    places = [summary(at, depth, cost, is_stale=stale) for at, (depth, cost, stale) in enumerate(drawn, 1)]
    for first, behind in condensed_chunks(places):
        assert behind - first >= 2
        assert len({place.depth for place in places[first:behind]}) == 1
        assert not any(place.is_stale for place in places[first:behind])
