"""A SOUL as the fields of a plain form, and as YAML. Pure.

The form holds what most people write; what else a SOUL says (values, tools, escalation rules …) stays as it was."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

import yaml

from agents.agent.soul.parser import soul_from_dict
from agents.agent.soul.values import (
    RESPONSE_STYLES,
    Behavior,
    Constraints,
    Identity,
    Philosophy,
    ResponseStyle,
    Soul,
    soul_to_dict,
)

STYLE_LABELS = {
    "conversational": "In conversation: full sentences",
    "structured": "Structured: headings, lists and tables",
    "minimal": "As briefly as possible",
}

FORM_FIELDS = {
    "identity.name": "name",
    "identity.role": "purpose",
    "identity.description": "description",
    "behavior.response_style": "style",
    "philosophy.principles": "principles",
    "constraints.never_do": "never",
}
"""The fields of the form by the fields of a SOUL that they hold."""


@dataclass(frozen=True)
class PlainSoul:
    """What the form asks. `principles` and `never` hold one entry a line."""

    name: str
    purpose: str
    description: str = ""
    style: str = "conversational"
    principles: str = ""
    never: str = ""

    @classmethod
    def of(cls, soul: Soul) -> "PlainSoul":
        return cls(
            name=soul.identity.name,
            purpose=soul.identity.role,
            description=soul.identity.description,
            style=soul.behavior.response_style,
            principles=_as_lines(soul.philosophy.principles),
            never=_as_lines(soul.constraints.never_do),
        )

    def to_soul(self, before: Soul | None = None) -> Soul:
        """The SOUL with these fields, the rest from `before`. Raises SoulError, its fields as in a SOUL."""
        identity = before.identity if before else Identity(self.name, self.purpose)
        soul = replace(
            before or Soul(identity),
            identity=replace(identity, name=self.name, role=self.purpose, description=self.description),
            philosophy=replace(before.philosophy if before else Philosophy(), principles=_entries(self.principles)),
            behavior=replace(before.behavior if before else Behavior(), response_style=_style(self.style)),
            constraints=replace(before.constraints if before else Constraints(), never_do=_entries(self.never)),
        )
        return soul_from_dict(soul_to_dict(soul))


def _style(style: str) -> ResponseStyle:
    return cast(ResponseStyle, style if style in RESPONSE_STYLES else "conversational")


def _as_lines(entries: Iterable[str]) -> str:
    return "\n".join(" ".join(entry.split()) for entry in entries)


def _entries(lines: str) -> tuple[str, ...]:
    """One entry a line, without the bullets that people write before them."""
    return tuple(entry for line in lines.splitlines() if (entry := line.strip().lstrip("-•*").strip()))


def soul_to_yaml(soul: Soul) -> str:
    """YAML that `parse_soul` reads as the same SOUL. What says nothing is left out."""
    parts = {
        part: filled_values
        for part, values in soul_to_dict(soul).items()
        if (filled_values := {k: v for k, v in values.items() if v})
    }
    text: str = yaml.safe_dump(parts, sort_keys=False, allow_unicode=True, width=100)
    return text
