"""The trust table, row by row as the specification has it."""

from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

from agents.agent.trust import GATES, TRUST_LEVELS, Effect, Gate, Occasion, gate, gate_refusal, may_respond, trust_level

LEVELS = (1, 2, 3, 4)
ROOT = Path(__file__).parents[3]


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
    assert "use tools that act" in trust_level(2).denied_actions
    assert any("uses tools that act, once" in phrase for phrase in trust_level(3).allowed_actions)
    assert any(phrase.startswith("acts outside the workspace") for phrase in trust_level(4).allowed_actions)


def test_what_a_level_may_not_stands_apart_from_what_it_may() -> None:
    for row in TRUST_LEVELS:
        allowed = (*row.visible_scope, *row.allowed_actions)
        assert not [phrase for phrase in allowed if phrase.startswith(("no ", "never ", "uses no "))]
    assert trust_level(4).denied_actions == ("see threads that are for people only",)


PLAIN, APPROVED, LISTED, BOTH = (False, False), (True, False), (False, True), (True, True)


@pytest.mark.parametrize(
    ("effect", "flags", "outcomes"),
    [
        *(
            (effect, flags, "allowed allowed allowed allowed")
            for effect in ("reads", "own_memory")
            for flags in (PLAIN, BOTH)
        ),
        ("acts", PLAIN, "refused refused refused allowed"),
        ("acts", APPROVED, "refused refused allowed allowed"),
        ("acts", LISTED, "refused refused refused ask"),
        ("acts", BOTH, "refused refused ask ask"),
        *(("external", flags, "refused refused refused ask") for flags in (PLAIN, APPROVED, LISTED, BOTH)),
    ],
)
def test_what_becomes_of_a_call(effect: Effect, flags: tuple[bool, bool], outcomes: str) -> None:
    is_approved, asks_first = flags
    gates = [gate(level, effect, is_approved=is_approved, asks_first=asks_first) for level in LEVELS]
    assert " ".join(gates) == outcomes
    assert set(gates) <= set(get_args(Gate))


def test_a_refusal_names_the_rule() -> None:
    assert gate_refusal(3, "external") == "which acts outside the workspace: agents may from L4 on"
    assert gate_refusal(3, "acts") == "which acts: at L3 only once an admin has approved it for the agent"
    assert set(GATES) == set(get_args(Effect))


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


def test_the_documentation_shows_the_gate_table() -> None:
    effects_table = (ROOT / "docs/tools.md").read_text().partition("\n\n- **allowed**")[0]
    rows = [line.split("|") for line in effects_table.splitlines() if line.startswith("| `")]
    table = {row[1].strip(" `"): tuple(cell.strip() for cell in row[3:7]) for row in rows}
    assert table == GATES
