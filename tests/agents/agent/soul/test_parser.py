"""A SOUL is read, or refused with every problem, its line and its field."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.agent.soul import EscalationRule, Soul, SoulError, SoulProblem, soul_to_dict
from agents.agent.soul.parser import parse_soul, soul_from_dict
from tests.agents.agent.soul.sample_souls import FERN, soul_to_yaml, souls
from tests.examples import examples

MINIMAL = "identity:\n  name: Fern\n  role: Gardener\n"


def problems_of(text: str) -> tuple[SoulProblem, ...]:
    with pytest.raises(SoulError) as error:
        parse_soul(text)
    return error.value.problems


def test_fern_is_read_in_full() -> None:
    fern = parse_soul(FERN)
    assert fern.identity.description == "Knows every plant by name.\nAnswers for the roof garden."
    assert fern.philosophy.principles == ("Water in the morning", "Ask before you prune")
    assert fern.behavior.max_output_tokens == 800
    assert fern.constraints.escalation_rules == (EscalationRule("somebody ate a plant", "escalate_to_human"),)


def test_a_name_and_a_role_are_enough() -> None:
    fern = parse_soul(MINIMAL)
    assert fern.behavior.response_style == "conversational"
    assert fern.constraints.never_do == ()


def test_every_problem_is_reported_at_once_with_line_and_field() -> None:
    text = """\
identity:
  name: Fern
  nmae: Fern
philosophy:
  principles: Water in the morning
  values: [patience, 7, ""]
behaviour: {}
behavior:
  response_style: structurd
  progressive_disclosure: maybe
  max_output_tokens: many
  max_output_tokens: 0
constraints:
  escalation_rules:
    - condition: fire
      action: panic
    - just text
never_do: []
"""
    messages_by_place = {(problem.line, problem.field): problem.message for problem in problems_of(text)}
    assert set(messages_by_place) == {
        (2, "identity.role"),
        (3, "identity.nmae"),
        (5, "philosophy.principles"),
        (6, "philosophy.values[1]"),
        (6, "philosophy.values[2]"),
        (7, "behaviour"),
        (9, "behavior.response_style"),
        (10, "behavior.progressive_disclosure"),
        (11, "behavior.max_output_tokens"),
        (12, "behavior.max_output_tokens"),
        (16, "constraints.escalation_rules[0].action"),
        (17, "constraints.escalation_rules[1]"),
        (18, "never_do"),
    }
    assert "Did you mean name?" in messages_by_place[3, "identity.nmae"]
    assert "Did you mean behavior?" in messages_by_place[7, "behaviour"]
    assert "Did you mean structured?" in messages_by_place[9, "behavior.response_style"]
    assert "twice (first on line 11)" in messages_by_place[12, "behavior.max_output_tokens"]
    assert "Did you mean constraints.never_do?" in messages_by_place[18, "never_do"]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "empty"),
        (" \n\t\n", 1, "empty"),
        ("# only a comment\n", 1, "empty"),
        ("- a\n- b\n", 1, "must be a mapping"),
        ("just words\n", 1, "must be a mapping"),
        ("identity:\n  name: Fern\n role: x\n", 3, "cannot be read"),
        ("identity: {name: Fern, role: x\n", 2, "cannot be read"),
        ("identity:\n\tname: Fern\n", 2, "tab"),
        (MINIMAL + "--- \nidentity: {}\n", 4, "more than one document"),
        (MINIMAL + "philosophy: &all {values: [a]}\n", 4, "Anchors"),
        (MINIMAL + "philosophy: *all\n", 4, "Anchors"),
        ("identity: !!python/object/apply:os.system [ls]\n", 1, "Tags"),
        ("identity:\n  name: Fe\0rn\n", 2, "U+0000"),
        ("identity:\n  name: Fe\ud800rn\n", 2, "U+D800"),
        ('identity:\n  name: "Fe\\0rn"\n  role: x\n', 2, "U+0000"),
        ('{"identity": {"name": "F\\ud83d", "role": "x"}}', 1, "U+D83D"),
        ("identity:\n  name: Fern\n  role:\n", 3, "missing or empty"),
        ("identity:\n  name: ' '\n  role: x\n", 2, "empty"),
        ("identity:\n  name: |\n    Fern\n    Moss\n  role: x\n", 2, "single line"),
        ("identity:\n  name: yes\n  role: x\n", 2, "Put it in quotes"),
        (MINIMAL + "behavior: {max_output_tokens: 0}\n", 4, "at least 1"),
        (MINIMAL + "behavior: {max_output_tokens: 1.5}\n", 4, "whole number"),
        (MINIMAL + "behavior: {max_output_tokens: 0x10}\n", 4, "whole number"),
        (MINIMAL + "behavior: {max_output_tokens: true}\n", 4, "whole number"),
        (MINIMAL + "? [a, b]\n: c\n", 4, "not known"),
        ('identity: {name: "\\UFFFFFFFF", role: x}', 1, "not readable"),
        ("[" * 2000, 1, "levels deep"),
        ("identity: " + "a" * 70_000, 1, "64 kB"),
    ],
)
def test_what_is_no_soul_says_where_and_why(text: str, line: int, said: str) -> None:
    assert any(problem.line == line and said in problem.message for problem in problems_of(text))


def test_a_billion_laughs_are_refused_before_they_grow() -> None:
    bomb = "a: &a [x,x]\n" + "".join(f"{b}: &{b} [*{a},*{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    problems = problems_of(bomb)
    assert problems
    assert all("Anchors" in problem.message for problem in problems)


def test_json_is_read_too_with_tabs_and_escaped_emoji() -> None:
    content = {"identity": {"name": "Fern 😀", "role": "Gardener"}, "behavior": {"max_output_tokens": 5}}
    fern = parse_soul(json.dumps(content, indent="\t"))
    assert fern.identity.name == "Fern 😀"
    assert fern.behavior.max_output_tokens == 5


def test_json_problems_have_lines() -> None:
    text = '{\n "identity": {\n  "name": "Fern",\n  "role": 7\n }\n}'
    assert [(problem.line, problem.field) for problem in problems_of(text)] == [(4, "identity.role")]


def test_plain_values_are_checked_the_same_way() -> None:
    with pytest.raises(SoulError) as error:
        soul_from_dict({"identity": {"name": "Fern", "role": None, "colour": "green"}})
    assert [(problem.line, problem.field) for problem in error.value.problems] == [
        (0, "identity.colour"),
        (0, "identity.role"),
    ]
    assert str(error.value).startswith("identity.colour: This key is not known.")


@given(souls)
@settings(max_examples=examples(60), deadline=None)
def test_yaml_json_and_plain_values_come_back_equal(soul: Soul) -> None:
    assert parse_soul(soul_to_yaml(soul)) == soul
    assert parse_soul(json.dumps(soul_to_dict(soul))) == soul
    assert soul_from_dict(soul_to_dict(soul)) == soul
    assert soul_to_yaml(parse_soul(soul_to_yaml(soul))) == soul_to_yaml(soul)


@given(st.text(max_size=300) | st.text(alphabet="{}[]:-,#&*!|>'\"%@`? \n\ta0", max_size=80))
@settings(max_examples=examples(150), deadline=None)
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        parse_soul(text)
        problems: tuple[SoulProblem, ...] = ()
    except SoulError as refused:
        problems = refused.problems or (SoulProblem(0, "", ""),)
    assert all(problem.message and problem.line >= 1 for problem in problems)
