import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.search.ranking import rank
from openvibe.engines.search.values import Candidates
from tests.engines.search.candidate_factory import candidates

WITHOUT = math.nan


def best(found: Candidates, *, ordered: bool = True) -> int:
    return int(rank(found, use_neighbours=ordered).argmax())


def test_what_holds_the_rarer_word_comes_first() -> None:
    candidate_rows = candidates([[1, 0], [1, 0], [0, 1], [1, 0], [0, 0]])
    assert best(candidate_rows, ordered=False) == 2


def test_frequencies_of_the_whole_thread_say_which_word_is_rare() -> None:
    candidate_rows = candidates([[1, 0], [0, 1], [0, 1], [0, 0]])
    scores = rank(candidate_rows, document_frequencies=[9_000, 2], corpus_size=10_000, use_neighbours=False)
    assert scores[1] > scores[0]


def test_frequencies_beyond_the_population_do_no_harm() -> None:
    assert np.isfinite(rank(candidates([[1], [0]]), document_frequencies=[50], corpus_size=10)).all()


def test_meaning_decides_where_no_word_is_shared() -> None:
    assert best(candidates([[0]] * 4, similarity=[0.1, 0.2, 0.6, 0.1])) == 2


def test_words_and_meaning_together_beat_either() -> None:
    candidate_rows = candidates([[1], [1], [0], [0]], similarity=[0.1, 0.6, 0.6, 0.0])
    assert best(candidate_rows) == 1


def test_a_text_without_a_vector_counts_as_average() -> None:
    scores = rank(candidates([[0]] * 3, similarity=[0.1, WITHOUT, 0.5]), use_neighbours=False)
    assert scores[0] < scores[1] < scores[2]


def test_the_likeness_of_a_long_text_weighs_less() -> None:
    def lead(tokens: int) -> float:
        scores = rank(candidates([[1]] + [[0]] * 9, tokens=[tokens] * 10, similarity=[0.0] * 9 + [0.9]))
        return float(scores[0] - scores[9])

    assert lead(500) > lead(20)


def stretch(at: int, many: int = 120) -> list[float]:
    """A conversation that turns to the subject for 16 texts, of which every other one says nothing about it."""
    return [0.5 if at <= place < at + 16 and place % 2 else 0.1 for place in range(many)]


def test_what_stands_in_the_right_stretch_is_lifted() -> None:
    scores = rank(candidates([[0]] * 120, similarity=stretch(40)))
    assert scores[48] > scores[20]
    assert scores[48] > scores[60] > scores[90]


def test_texts_that_stand_alone_are_not_lifted_by_those_beside_them() -> None:
    scores = rank(candidates([[0]] * 120, similarity=stretch(40)), use_neighbours=False)
    assert scores[48] == scores[20]


def test_a_gap_parts_what_was_not_said_together() -> None:
    together, apart = list(range(1, 121)), [*range(1, 49), *range(10_048, 10_120)]
    near = rank(candidates([[0]] * 120, orders=together, similarity=stretch(40)))
    far = rank(candidates([[0]] * 120, orders=apart, similarity=stretch(40)))
    assert near[46] > far[46]


def test_surroundings_fade_with_the_tokens_in_between() -> None:
    short, long = (rank(candidates([[0]] * 120, tokens=[each] * 120, similarity=stretch(40))) for each in (20, 500))
    assert short[48] - short[20] > long[48] - long[20]


def test_surroundings_end_where_the_talk_paused() -> None:
    paused = [60.0 * place + (86_400 if place >= 56 else 0) for place in range(120)]
    steady = rank(candidates([[0]] * 120, similarity=stretch(40), seconds=[60.0 * place for place in range(120)]))
    parted = rank(candidates([[0]] * 120, similarity=stretch(40), seconds=paused))
    assert parted[56] - parted[54] < steady[56] - steady[54]


def test_surroundings_count_less_where_several_pieces_are_asked_for() -> None:
    candidate_rows = candidates([[0]] * 120, similarity=stretch(40))
    assert rank(candidate_rows, is_scattered=True)[48] < rank(candidate_rows)[48]


def test_who_is_named_and_people_come_before_others_who_say_the_same() -> None:
    cosines = [0.2, 0.6, 0.1, 0.6]
    assert best(candidates([[0]] * 4, similarity=cosines, by_named=[False, False, False, True])) == 3
    assert best(candidates([[0]] * 4, similarity=cosines, by_person=[True, False, True, True])) == 3


def test_of_two_alike_the_longer_comes_first_in_a_conversation_and_not_among_texts_that_stand_alone() -> None:
    candidate_rows = candidates([[0]] * 40, tokens=[6] * 20 + [24] + [6] * 19)
    assert best(candidate_rows) == 20
    assert not rank(candidate_rows, use_neighbours=False).any()


def test_a_text_that_stands_out_keeps_its_rank_beside_a_stretch() -> None:
    similarity = stretch(40)
    similarity[100] = 0.95
    assert best(candidates([[0]] * 100 + [[1]] + [[0]] * 19, similarity=similarity)) == 100


@pytest.mark.parametrize("seed", range(5))
def test_where_scores_are_noise_surroundings_hardly_count(seed: int) -> None:
    noise = np.random.default_rng(seed).random(400).tolist()
    noise[200] = 1.2
    scores = rank(candidates([[0]] * 400, similarity=noise))
    best_of_all = np.argsort(noise)[-20:]
    assert scores.argmax() == 200
    assert len({*best_of_all.tolist()} & {*np.argsort(scores)[-60:].tolist()}) >= 15


def test_nothing_to_rank_and_nothing_to_go_by() -> None:
    assert rank(candidates([])).shape == (0,)
    assert rank(candidates([[]])).tolist() == [0]
    assert rank(candidates([[0]] * 5, similarity=[WITHOUT] * 5)).tolist() == [0] * 5
    assert rank(candidates([[1]] * 5, similarity=[0.3] * 5)).tolist() == [0] * 5


def test_columns_must_be_of_one_length() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        candidates([[1], [0]], similarity=[0.1])


rows = st.lists(
    st.tuples(
        st.integers(1, 50), st.integers(0, 3_000), st.integers(0, 255), st.floats(-1, 1, width=32), st.booleans()
    ),
    min_size=1,
    max_size=60,
)


@given(rows)
@settings(deadline=None)
def test_scores_are_numbers_whatever_comes(made: list[tuple[int, int, int, float, bool]]) -> None:
    candidate_rows = candidates(
        [[hits, hits % 2] for _, _, hits, _, _ in made],
        orders=np.cumsum([step for step, *_ in made]).tolist(),
        tokens=[tokens for _, tokens, *_ in made],
        similarity=[WITHOUT if missing else cosine for *_, cosine, missing in made],
        pair_similarity=[cosine for *_, cosine, _ in made],
    )
    scores = rank(candidate_rows)
    assert scores.shape == (len(made),)
    assert np.isfinite(scores).all()
    assert np.array_equal(scores, rank(candidate_rows))
