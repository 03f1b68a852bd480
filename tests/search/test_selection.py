from hypothesis import given
from hypothesis import strategies as st

from openvibe.search.neighbours import smooth
from openvibe.search.selection import Passage, Ranked, Scored, choose, rank_passages

_MEETING = [
    Passage(1, "Good morning everyone.", 5),
    Passage(2, "Shall we talk about the battery?", 8),
    Passage(3, "It lasts two days.", 6),
    Passage(4, "Lunch is at noon.", 5),
    Passage(5, "I will bring sandwiches.", 5),
    Passage(6, "And something to drink.", 5),
]


def test_a_score_spreads_to_its_neighbours() -> None:
    assert smooth({1: 0.0, 2: 0.0, 3: 4.0, 4: 0.0, 9: 0.0}) == {1: 1.0, 2: 2.0, 3: 4.0, 4: 2.0, 9: 0.0}


def test_the_answer_beside_the_hit_is_found_too() -> None:
    ranked = rank_passages("What was said about batteries?", _MEETING, limit=3)

    assert [each.seq for each in ranked] == [2, 1, 3]


def test_a_question_about_something_else_finds_nothing() -> None:
    assert rank_passages("Who won the election?", _MEETING, limit=3) == []
    assert rank_passages("", _MEETING, limit=3) == []
    assert rank_passages("battery", [], limit=3) == []


def test_choosing_passes_over_what_does_not_fit() -> None:
    scored = [Scored(7, 9.0, 50), Scored(3, 5.0, 70), Scored(1, 1.0, 40)]

    assert [each.seq for each in choose(scored, 100)] == [1, 7]


@given(st.lists(st.builds(Scored, st.integers(1, 99), st.floats(0, 10), st.integers(1, 50))), st.integers(0, 300))
def test_the_budget_holds_whatever_the_order(scored: list[Scored], budget: int) -> None:
    chosen = choose(scored, budget)

    assert sum(each.tokens for each in chosen) <= budget
    assert [(each.seq, each.score) for each in chosen] == [
        (each.seq, each.score) for each in sorted(chosen, key=lambda each: each.seq)
    ]


@given(st.lists(st.text(max_size=40), max_size=12), st.text(max_size=60))
def test_ranking_is_repeatable_and_in_order(texts: list[str], question: str) -> None:
    passages = [Passage(seq, text, 1) for seq, text in enumerate(texts, start=1)]

    ranked = rank_passages(question, passages, limit=5)

    assert ranked == rank_passages(question, passages, limit=5)
    assert ranked == sorted(ranked, key=lambda each: (-each.score, each.seq))
    assert all(isinstance(each, Ranked) and each.score > 0 for each in ranked)
