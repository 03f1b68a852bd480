"""Rules from feedback: in the reason's own words, in their place in the YAML."""

import json

import pytest
from hypothesis import given, settings

from agents.agent.soul import Soul, diff_souls, soul_to_dict
from agents.agent.soul.parser import parse_soul
from agents.agent.soul.plain import soul_to_yaml
from agents.agent.soul.rules import RULE_PLACES, SoulRule, add_rule, rule_from_reason
from tests.agents.agent.soul.sample_souls import FERN, lines, souls

COMMENTED = """\
# Who Fern is
identity: {name: Fern, role: Gardener}
constraints:
  never_do:
    - Recommend poison   # a child was ill once
    - >-
      Promise
      rain
# the end
"""


@pytest.mark.parametrize(
    ("reason", "place", "text"),
    [
        ("Name the month.", "principle", "Name the month."),
        ("Never invent\n a date!", "never", "invent a date"),
        ("Don’t guess", "never", "guess"),
        ("Never guess. Say that you do not know.", "principle", "Never guess. Say that you do not know."),
        ("  ", "principle", ""),
    ],
)
def test_a_reason_becomes_a_rule_in_its_own_words(reason: str, place: str, text: str) -> None:
    rule = rule_from_reason(reason)
    assert (rule.place, rule.text) == (place, text)


def test_only_its_line_is_added_to_the_text() -> None:
    text = add_rule(COMMENTED, SoulRule("never", "name: a price #1"))
    assert [line for line in text.split("\n") if line not in COMMENTED.split("\n")] == ["    - 'name: a price #1'"]
    assert parse_soul(text).constraints.never_do == ("Recommend poison", "Promise rain", "name: a price #1")
    assert "a child was ill once" in text
    grown = add_rule(text, SoulRule("principle", "Be brief"))
    assert (parse_soul(grown).philosophy.principles, "a child was ill once" in grown) == (("Be brief",), True)
    assert "  principles:\n    - Water in the morning\n    - Ask before you prune\n    - Be brief\n" in add_rule(
        FERN, SoulRule("principle", "Be brief")
    )
    as_json = json.dumps(soul_to_dict(parse_soul(FERN)))
    assert "Be brief" in parse_soul(add_rule(as_json, SoulRule("principle", "Be brief"))).philosophy.principles


@settings(max_examples=40)
@given(soul=souls, text=lines)
def test_whatever_the_soul_says_the_rule_is_all_that_changes(soul: Soul, text: str) -> None:
    source = soul_to_yaml(soul)
    for place in RULE_PLACES:
        changes = diff_souls(soul, parse_soul(add_rule(source, SoulRule(place, text))))
        assert [(change.kind, change.after) for change in changes] == [("added", text)]
