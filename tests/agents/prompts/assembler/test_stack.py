"""The stack reads as the specification's table, and admins change it only to something that works."""

import pytest

from agents.agent.soul import TaskType
from agents.prompts.assembler.stack import (
    BUDGETS,
    LAYER_NAMES,
    MIN_CEILING,
    SECTION_ORDER,
    STACK,
    bounded_by_window,
    raise_ceiling,
    with_overrides,
    with_stored_overrides,
)

TABLE = {
    "mention": (8_000, 2_000, 3_500, 500, 1_000, 200, 500, None),
    "thread": (15_000, 2_000, 8_000, 500, 2_000, 200, 1_000, None),
    "dive": (30_000, 2_000, 22_000, 500, 2_000, 200, 1_000, None),
    "publish": (20_000, 2_000, 16_000, 500, 500, 200, 0, None),
}


@pytest.mark.parametrize("task", ["mention", "thread", "dive", "publish"])
def test_budgets_are_the_published_ones(task: TaskType) -> None:
    budget = BUDGETS[task]
    assert (budget.ceiling, *(budget.caps[name] for name in LAYER_NAMES)) == TABLE[task]
    assert budget.ceiling >= MIN_CEILING


def test_every_section_has_one_layer_and_one_place() -> None:
    stacked = [section for layer in STACK for section in layer.sections]
    rendered = [section for sections in SECTION_ORDER.values() for section in sections]
    assert sorted(stacked) == sorted(rendered)
    assert len(set(stacked)) == len(stacked)
    assert LAYER_NAMES == ("P0", "P1", "P2", "P3", "P4", "P5", "P6")


def test_an_admins_numbers_replace_the_defaults() -> None:
    budget = with_overrides(BUDGETS["mention"], {"ceiling": 9_000, "P3": 0, "P6": 700})
    assert (budget.ceiling, budget.caps["P3"], budget.caps["P6"]) == (9_000, 0, 700)
    assert with_overrides(budget, {"P6": None}).caps["P6"] is None
    assert BUDGETS["mention"].ceiling == 8_000


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"ceiling": 7_599}, "at least 7,600 tokens, not 7,599"),
        ({"ceiling": 0}, "at least 1"),
        ({"ceiling": "many"}, "whole number"),
        ({"ceiling": True}, "whole number"),
        ({"ceiling": 9e3}, "whole number"),
        ({"P1": 499}, "P1 must be at least 500"),
        ({"P1": None}, "whole number"),
        ({"P3": -1}, "P3 must be at least 0"),
        ({"P7": 10}, "no part called 'P7'"),
    ],
)
def test_numbers_that_cannot_work_are_refused_in_words(overrides: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        with_overrides(BUDGETS["mention"], overrides)


def test_numbers_saved_before_a_rule_are_read_as_far_as_they_make_sense() -> None:
    stored = {"ceiling": 900, "P1": 499, "P3": "many", "P7": 10, "P4": 100, "P6": None}
    budget = with_stored_overrides(BUDGETS["mention"], stored)
    assert (budget.ceiling, budget.caps["P1"], budget.caps["P3"], budget.caps["P4"]) == (900, 3_500, 1_000, 100)
    for nonsense in (None, "words", [1], {"ceiling": -1}):
        assert with_stored_overrides(BUDGETS["mention"], nonsense) == BUDGETS["mention"]


def test_a_ceiling_rises_to_what_is_needed_but_never_over_the_models_window() -> None:
    small = with_stored_overrides(BUDGETS["mention"], {"ceiling": 900})
    assert raise_ceiling(small, 1_200).ceiling == 1_200
    assert raise_ceiling(small, 800).ceiling == 900
    assert raise_ceiling(bounded_by_window(small, 1_500, 500), 1_200).ceiling == 1_000


def test_the_models_window_bounds_the_ceiling() -> None:
    assert bounded_by_window(BUDGETS["dive"], 16_384, 2_048).ceiling == 14_336
    assert bounded_by_window(BUDGETS["dive"], 200_000, 8_000) == BUDGETS["dive"]


def test_a_reserve_as_large_as_the_window_is_refused() -> None:
    with pytest.raises(ValueError, match="Lower the reserve"):
        bounded_by_window(BUDGETS["mention"], 4_096, 4_096)
