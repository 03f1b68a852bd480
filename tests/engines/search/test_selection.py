import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.search.selection import select
from openvibe.engines.search.values import Candidates
from tests.engines.search.candidate_factory import candidates


def sized(*tokens: int, fingerprints: list[int] | None = None) -> Candidates:
    return candidates([[0]] * len(tokens), tokens=tokens, fingerprints=fingerprints)


def chosen(
    scores: list[float], found: Candidates, budget: int, overhead: int = 0, most: int | None = None
) -> list[int]:
    return select(np.array(scores, np.float32), found, budget=budget, overhead=overhead, max_hits=most)


def test_the_best_come_first() -> None:
    assert chosen([1, 3, 2], sized(10, 10, 10), budget=100) == [1, 2, 0]


def test_one_that_does_not_fit_is_passed_over_for_a_shorter_one() -> None:
    assert chosen([3, 2, 1], sized(60, 60, 30), budget=100) == [0, 2]


def test_each_costs_its_overhead() -> None:
    assert chosen([3, 2, 1], sized(30, 30, 30), budget=90, overhead=15) == [0, 1]


def test_most_bounds_how_many() -> None:
    assert chosen([1, 3, 2], sized(10, 10, 10), budget=100, most=2) == [1, 2]
    assert chosen([1, 3, 2], sized(10, 10, 10), budget=100, most=0) == []


def test_short_ones_together_beat_a_long_one_when_room_is_short() -> None:
    assert chosen([5, 4, 4, 0, 0, 0], sized(900, 20, 20, 20, 20, 20), budget=900)[:2] == [1, 2]


def test_a_smaller_budget_takes_the_first_of_a_larger_one() -> None:
    among = sized(900, 20, 20, 20, 20, 20)
    assert chosen([5, 4, 4, 0, 0, 0], among, budget=940) == [1, 2, 0]
    assert chosen([5, 4, 4, 0, 0, 0], among, budget=40) == [1, 2]


def test_the_long_one_comes_first_when_all_fit() -> None:
    assert chosen([5, 4, 4, 0], sized(900, 20, 20, 20), budget=1_000) == [0, 1, 2, 3]


def test_length_decides_nothing_where_lengths_are_alike() -> None:
    assert chosen([5.0, 4.9, 4.8, 0], sized(520, 480, 500, 490), budget=1_000) == [0, 1]


def test_what_was_said_again_is_chosen_once() -> None:
    assert chosen([1, 3, 2], sized(20, 20, 20, fingerprints=[5, 7, 7]), budget=100) == [1, 0]


def test_a_short_answer_given_twice_is_no_repetition() -> None:
    assert chosen([1, 3, 2], sized(4, 4, 4, fingerprints=[5, 7, 7]), budget=100) == [1, 2, 0]


def test_no_room_and_no_candidates() -> None:
    assert chosen([1, 2], sized(10, 10), budget=5) == []
    assert chosen([], sized(), budget=100) == []


@given(
    st.lists(st.tuples(st.floats(-5, 50, width=32), st.integers(0, 2_000), st.integers(0, 5)), max_size=50),
    st.integers(-5, 6_000),
    st.integers(0, 30),
    st.none() | st.integers(0, 20),
)
@settings(deadline=None)
def test_a_choice_keeps_within_its_bounds(
    rows: list[tuple[float, int, int]], budget: int, overhead: int, most: int | None
) -> None:
    scores = [score for score, _, _ in rows]
    found = sized(*(tokens for _, tokens, _ in rows), fingerprints=[print_ for *_, print_ in rows])
    taken = chosen(scores, found, budget, overhead, most)
    assert sum(rows[index][1] + overhead for index in taken) <= max(budget, 0)
    assert len(taken) == len(set(taken)) <= (len(rows) if most is None else most)
    if len(taken) == len(rows):
        assert [scores[index] for index in taken] == sorted(scores, reverse=True)
