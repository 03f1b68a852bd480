"""What changed between two versions of a SOUL."""

from dataclasses import replace

from hypothesis import given, settings

from agents.agent.soul import FieldDiff, Soul, diff_souls
from agents.agent.soul.parser import parse_soul
from tests.agents.agent.soul.sample_souls import FERN, souls
from tests.examples import examples


def test_no_change_is_no_difference() -> None:
    fern = parse_soul(FERN)
    assert diff_souls(fern, fern) == []


def test_changes_are_named_by_field() -> None:
    fern = parse_soul(FERN)
    after = parse_soul(
        FERN.replace("Gardener of the roof", "Gardener")
        .replace("    - Water in the morning\n", "    - Water in the evening\n")
        .replace("  max_output_tokens: 800\n", "")
        .replace("progressive_disclosure: true", "progressive_disclosure: false")
        .replace("[plants, soil]", "[soil, plants]")
    )
    assert diff_souls(fern, after) == [
        FieldDiff("identity.role", "changed", "Gardener of the roof", "Gardener"),
        FieldDiff("philosophy.principles", "removed", "Water in the morning", ""),
        FieldDiff("philosophy.principles", "added", "", "Water in the evening"),
        FieldDiff("capabilities.domains", "changed", "plants\nsoil", "soil\nplants"),
        FieldDiff("behavior.progressive_disclosure", "changed", "yes", "no"),
        FieldDiff("behavior.max_output_tokens", "removed", "800", ""),
    ]


def test_a_rule_is_shown_as_condition_and_action() -> None:
    fern = parse_soul(FERN)
    without = replace(fern, constraints=replace(fern.constraints, escalation_rules=()))
    assert diff_souls(without, fern) == [
        FieldDiff("constraints.escalation_rules", "added", "", "somebody ate a plant → escalate_to_human")
    ]


@given(souls, souls)
@settings(max_examples=examples(50), deadline=None)
def test_two_souls_differ_exactly_when_a_change_is_named(one: Soul, other: Soul) -> None:
    assert bool(diff_souls(one, other)) == (one != other)
