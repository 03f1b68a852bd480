"""Rules that a SOUL gains from feedback: one made of a reason's own words, and its place in the YAML. Pure."""

import re
from dataclasses import dataclass, replace
from typing import Literal, get_args

import yaml

from agents.agent.soul.parser import compose_plain, parse_soul
from agents.agent.soul.plain import soul_to_yaml
from agents.agent.soul.values import Soul, SoulError
from openvibe.engines.llm.fences import clean_text

RulePlace = Literal["principle", "never"]
RULE_PLACES: tuple[RulePlace, ...] = get_args(RulePlace)
_PARTS = {"principle": ("philosophy", "principles"), "never": ("constraints", "never_do")}

MAX_RULE_CHARACTERS = 2_000
_PROHIBITION = re.compile(r"(?:never|please don['’]t|don['’]t|please do not|do not)\s+(?=\S)", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?…。](?:\s|\Z)")


@dataclass(frozen=True)
class SoulRule:
    """A line of a SOUL: a principle that the agent keeps to, or what it must never do (then without the "never")."""

    place: RulePlace
    text: str


def rule_from_reason(reason: str) -> SoulRule:
    """The reason's own words. A single sentence that forbids something is what the agent must never do."""
    text = " ".join(clean_text(reason).split())
    prohibition = _PROHIBITION.match(text)
    if prohibition and len(_SENTENCE_END.findall(text)) <= 1:
        return SoulRule("never", text[prohibition.end() :].rstrip(".!"))
    return SoulRule("principle", text)


def rules_of(soul: Soul, place: RulePlace) -> tuple[str, ...]:
    return soul.philosophy.principles if place == "principle" else soul.constraints.never_do


def add_rule(source: str, rule: SoulRule) -> str:
    """The SOUL's text with the rule as the last of its list; the other lines stay as they are where they can.

    A text in another form (JSON, lists in brackets) is written anew as YAML. Raises SoulError.
    """
    expected = _with_rule(parse_soul(source), rule)
    text = _insert_line(source, rule)
    try:
        if text is not None and parse_soul(text) == expected:
            return text
    except SoulError:
        pass
    return soul_to_yaml(expected)


def _with_rule(soul: Soul, rule: SoulRule) -> Soul:
    entries = (*rules_of(soul, rule.place), rule.text)
    if rule.place == "principle":
        return replace(soul, philosophy=replace(soul.philosophy, principles=entries))
    return replace(soul, constraints=replace(soul.constraints, never_do=entries))


def _insert_line(source: str, rule: SoulRule) -> str | None:
    """None where the text has no list in lines to put it in."""
    root = compose_plain(source)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        return None
    part_key, list_key = _PARTS[rule.place]
    item: str = yaml.safe_dump([rule.text], allow_unicode=True, width=100_000)
    part = _value_of(root, part_key)
    lines = source.split("\n")
    if part is None:
        return f"{source.rstrip()}\n{part_key}:\n  {list_key}:\n    {item}"
    if not isinstance(part, yaml.MappingNode) or part.flow_style:
        return None
    entries = _value_of(part, list_key)
    if entries is None:
        indent, at = " " * part.start_mark.column, part.start_mark.line
        new_lines = [f"{indent}{list_key}:", f"{indent}  {item.rstrip()}"]
    elif isinstance(entries, yaml.SequenceNode) and not entries.flow_style:
        end = entries.value[-1].end_mark
        at = end.line + (end.column > 0)
        new_lines = [f"{' ' * entries.start_mark.column}{item.rstrip()}"]
    else:
        return None
    return "\n".join([*lines[:at], *new_lines, *lines[at:]])


def _value_of(mapping: yaml.MappingNode, key: str) -> yaml.Node | None:
    return next((value for name, value in mapping.value if name.value == key), None)
