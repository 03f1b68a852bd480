"""The start of the fresh tail: plain items, no database."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.plugins.lcm.chunking import SUMMARY_KIND, ContextItem
from memory.plugins.lcm.fresh_tail import fresh_tail_tokens, tail_index
from tests.examples import examples
from tests.memory.plugins.lcm.test_chunking import call, histories, result, texts


def test_a_fresh_tail_of_fewer_messages_than_wanted_is_all_of_them() -> None:
    assert tail_index(texts(7), 20, None) == 0


def test_a_fresh_tail_of_none_is_empty() -> None:
    assert tail_index(texts(7, by_person=True), 0, None) == 7
    assert tail_index([], 20, 500) == 0


def test_the_tail_holds_the_last_messages_that_prompts_show() -> None:
    unseen = [ContextItem(at, "text", 0) for at in range(31, 41)]
    assert tail_index([*texts(30), *unseen], 20, None) == 10


def test_the_tail_takes_no_more_than_its_tokens_but_always_one_message() -> None:
    assert tail_index(texts(40), 20, 1_000) == 30
    assert tail_index(texts(40, cost=1_244), 20, 1_000) == 39


def test_a_tool_call_is_not_separated_from_its_result_at_the_tail() -> None:
    places = [*texts(20), call(21), *texts(15, first=22), result(37), *texts(3, first=38)]
    assert tail_index(places, 10, None) == 20


def test_pairs_that_overlap_stretch_the_tail_to_the_first_of_them() -> None:
    places = [*texts(5), call(6, "a"), call(7, "b"), result(8, "a"), *texts(3, first=9), result(12, "b")]
    assert tail_index(places, 1, None) == 5


def test_the_newest_request_of_a_person_is_in_the_tail() -> None:
    places = [*texts(10), ContextItem(11, "text", 1_000, by_person=True), *texts(60, first=12)]
    assert tail_index(places, 20, 500) == 10


def test_summaries_are_never_in_the_tail() -> None:
    assert tail_index([ContextItem(1, SUMMARY_KIND, 100), *texts(3, first=2)], 20, None) == 1


@pytest.mark.parametrize(
    ("config", "tokens"), [({}, 3_750), ({"fresh_tail_tokens": 500}, 500), ({"fresh_tail_tokens": "none"}, None)]
)
def test_the_tail_is_a_quarter_of_the_budget_unless_set(config: dict[str, object], tokens: int | None) -> None:
    assert fresh_tail_tokens(15_000, config) == tokens


@settings(deadline=None, max_examples=examples(200))
@given(histories(), st.integers(0, 30), st.sampled_from([None, 200, 4_000]))
def test_the_tail_of_any_history_holds_what_it_promises(
    places: list[ContextItem], wanted: int, tokens: int | None
) -> None:
    start = tail_index(places, wanted, tokens)
    tail_items = [place for place in places[start:] if place.cost]
    if wanted == 0:
        assert start == len(places)
        return
    some = [place for place in places if place.cost]
    assert bool(tail_items) == bool(some)
    if tokens is None:
        assert len(tail_items) >= min(wanted, len(some))
    requests = [at for at, place in enumerate(places) if place.by_person and place.cost]
    assert not requests or start <= requests[-1]
