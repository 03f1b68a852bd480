"""The trust table, row by row as the specification has it."""

from itertools import pairwise
from typing import get_args

import pytest

from agents.trust import TRUST_LEVELS, Occasion, may_respond, trust_level

LEVELS = (1, 2, 3, 4)


def test_levels_have_their_names_in_order() -> None:
    assert [row.label for row in TRUST_LEVELS] == ["L1 Observer", "L2 Advisor", "L3 Operator", "L4 Autonomous"]


@pytest.mark.parametrize(
    ("occasion", "allowed"),
    [
        ("mention", (1, 2, 3, 4)),
        ("thread", (2, 3, 4)),
        ("dive", (2, 3, 4)),
        ("publish", (2, 3, 4)),
        ("scheduled", (3, 4)),
        ("proactive", (3, 4)),
    ],
)
def test_who_may_respond_to_what(occasion: Occasion, allowed: tuple[int, ...]) -> None:
    assert tuple(level for level in LEVELS if may_respond(level, occasion)) == allowed


def test_what_each_level_sees() -> None:
    assert [row.reads_public_channels for row in TRUST_LEVELS] == [False, False, True, True]
    assert [row.dive_results for row in TRUST_LEVELS] == [False, True, True, True]
    assert [row.knowledge for row in TRUST_LEVELS] == ["none", "none", "shared", "restricted"]
    assert all(row.thread_history and row.own_episodes_and_blocks for row in TRUST_LEVELS)


def test_what_each_level_does_beside_answering() -> None:
    assert all(row.writes_own_memory for row in TRUST_LEVELS)
    assert [row.suggests_knowledge for row in TRUST_LEVELS] == [False, True, True, True]
    assert [row.acting_tools for row in TRUST_LEVELS] == ["none", "none", "approved", "most"]
    assert [row.high_stakes_with_approval for row in TRUST_LEVELS] == [False, False, False, True]


def test_a_higher_level_never_answers_less() -> None:
    for lower, higher in pairwise(TRUST_LEVELS):
        assert set(lower.responds_to) <= set(higher.responds_to) <= set(get_args(Occasion))


@pytest.mark.parametrize("level", [0, 5, -1])
def test_an_unknown_level_is_refused_in_words(level: int) -> None:
    with pytest.raises(ValueError, match="Choose 1 to 4"):
        trust_level(level)


def test_an_unknown_occasion_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="mention, thread"):
        may_respond(1, "party")  # type: ignore[arg-type]
