"""From a text or plain values to a Soul, collecting every problem on the way."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, cast

from agents.soul.problems import Problem, SoulError
from agents.soul.source import UNPRINTABLE, Entry, Piece, read_plain, read_source
from agents.soul.values import (
    ESCALATION_ACTIONS,
    RESPONSE_STYLES,
    Behavior,
    Capabilities,
    Constraints,
    EscalationAction,
    EscalationRule,
    Identity,
    Philosophy,
    ResponseStyle,
    Soul,
)

_NOTHING = Piece(0, "nothing")

KEYS: dict[str, tuple[str, ...]] = {
    "": ("identity", "philosophy", "capabilities", "behavior", "constraints"),
    "identity": ("name", "role", "description", "avatar"),
    "philosophy": ("principles", "values"),
    "capabilities": ("domains", "tools", "limitations"),
    "behavior": ("response_style", "progressive_disclosure", "proactive_triggers", "max_output_tokens"),
    "constraints": ("restricted_topics", "never_do", "escalation_rules"),
}
"""Every key a SOUL may hold, by part."""

_RULE_KEYS = ("condition", "action")


def parse_soul(text: str) -> Soul:
    """The Soul written in `text`, as YAML or JSON of at most 64 kB.

    Raises SoulError with every problem at once: unknown and repeated keys, wrong types, missing name or role.
    A text that is no YAML at all is reported with the line where reading stopped.
    """
    return _read(read_source(text))


def soul_from_dict(data: object) -> Soul:
    """The Soul in plain values, as `soul_to_dict` gives them. Raises SoulError; its problems have line 0."""
    return _read(read_plain(data))


def _read(piece: Piece) -> Soul:
    reader = _Reader()
    soul = reader.soul(piece)
    if reader.problems:
        raise SoulError(tuple(sorted(reader.problems)))
    return soul


class _Reader:
    """Reads pieces into values. A bad piece adds a problem and yields a harmless stand-in."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def soul(self, piece: Piece) -> Soul:
        parts = self.mapping(piece, "", KEYS[""])
        return Soul(
            identity=self.identity(parts.get("identity", Piece(piece.line, "nothing"))),
            philosophy=Philosophy(**self.text_lists(parts, "philosophy")),
            capabilities=Capabilities(**self.text_lists(parts, "capabilities")),
            behavior=self.behavior(parts.get("behavior", _NOTHING)),
            constraints=self.constraints(parts.get("constraints", _NOTHING)),
        )

    def identity(self, piece: Piece) -> Identity:
        found = self.mapping(piece, "identity", KEYS["identity"])
        missing = Piece(piece.line, "nothing")
        return Identity(
            name=self.required_line(found.get("name", missing), "identity.name"),
            role=self.required_line(found.get("role", missing), "identity.role"),
            description=self.text(found.get("description", _NOTHING), "identity.description"),
            avatar=self.text(found.get("avatar", _NOTHING), "identity.avatar"),
        )

    def behavior(self, piece: Piece) -> Behavior:
        found = self.mapping(piece, "behavior", KEYS["behavior"])
        style = self.choice(
            found.get("response_style", _NOTHING),
            "behavior.response_style",
            RESPONSE_STYLES,
            "conversational",
        )
        return Behavior(
            response_style=cast(ResponseStyle, style),
            progressive_disclosure=self.claim(
                found.get("progressive_disclosure", _NOTHING), "behavior.progressive_disclosure"
            ),
            proactive_triggers=self.texts(found.get("proactive_triggers", _NOTHING), "behavior.proactive_triggers"),
            max_output_tokens=self.count(found.get("max_output_tokens", _NOTHING), "behavior.max_output_tokens"),
        )

    def constraints(self, piece: Piece) -> Constraints:
        found = self.mapping(piece, "constraints", KEYS["constraints"])
        return Constraints(
            restricted_topics=self.texts(found.get("restricted_topics", _NOTHING), "constraints.restricted_topics"),
            never_do=self.texts(found.get("never_do", _NOTHING), "constraints.never_do"),
            escalation_rules=self.rules(found.get("escalation_rules", _NOTHING), "constraints.escalation_rules"),
        )

    def text_lists(self, parts: dict[str, Piece], part: str) -> dict[str, Any]:
        found = self.mapping(parts.get(part, _NOTHING), part, KEYS[part])
        return {key: self.texts(found.get(key, _NOTHING), f"{part}.{key}") for key in KEYS[part]}

    def rules(self, piece: Piece, path: str) -> tuple[EscalationRule, ...]:
        return tuple(self.rule(item, f"{path}[{index}]") for index, item in enumerate(self.items(piece, path)))

    def rule(self, piece: Piece, path: str) -> EscalationRule:
        if piece.kind != "mapping":
            self.add(piece, path, f"This must be a mapping with condition and action, not {_named(piece)}.")
            return EscalationRule("", "block")
        found = self.mapping(piece, path, _RULE_KEYS)
        missing = Piece(piece.line, "nothing")
        condition = self.text(found.get("condition", missing), f"{path}.condition", required=True)
        action_piece = found.get("action", missing)
        if action_piece.kind == "nothing":
            self.add(
                action_piece,
                f"{path}.action",
                f"This is missing. Choose one of {_listed(ESCALATION_ACTIONS)}.",
            )
        action = self.choice(action_piece, f"{path}.action", ESCALATION_ACTIONS, "block")
        return EscalationRule(condition, cast(EscalationAction, action))

    def mapping(self, piece: Piece, path: str, allowed: Sequence[str]) -> dict[str, Piece]:
        if piece.kind == "nothing":
            return {}
        if piece.kind != "mapping":
            whole = path or "A SOUL"
            self.add(piece, path, f"{whole} must be a mapping of {_listed(allowed)}, not {_named(piece)}.")
            return {}
        found: dict[str, Piece] = {}
        lines: dict[str, int] = {}
        for entry in piece.entries:
            self.check_key(entry, path, allowed, lines)
            found.setdefault(entry.key, entry.piece)
        return found

    def check_key(self, entry: Entry, path: str, allowed: Sequence[str], lines: dict[str, int]) -> None:
        field = f"{path}.{entry.key}" if path else entry.key
        if entry.key in lines:
            where = f" (first on line {lines[entry.key]})" if entry.line else ""
            self.problems.append(Problem(entry.line, field, f"This key stands here twice{where}. Keep one."))
        elif entry.key not in allowed:
            near = get_close_matches(entry.key, allowed, n=1) or _elsewhere(entry.key)
            advice = f"Did you mean {near[0]}?" if near else f"Known here: {_listed(allowed)}."
            self.problems.append(Problem(entry.line, field, f"This key is not known. {advice}"))
        lines.setdefault(entry.key, entry.line)

    def items(self, piece: Piece, path: str) -> tuple[Piece, ...]:
        if piece.kind not in ("list", "nothing"):
            self.add(piece, path, f"This must be a list (lines that start with -), not {_named(piece)}.")
        return piece.items

    def texts(self, piece: Piece, path: str) -> tuple[str, ...]:
        return tuple(
            self.text(item, f"{path}[{index}]", required=True) for index, item in enumerate(self.items(piece, path))
        )

    def required_line(self, piece: Piece, path: str) -> str:
        value = self.text(piece, path, required=True)
        if len(value.splitlines()) > 1:
            self.add(piece, path, "This must be a single line.")
        return value

    def text(self, piece: Piece, path: str, *, required: bool = False) -> str:
        if piece.kind == "nothing":
            if required:
                self.add(piece, path, "This is missing or empty. Write at least one word.")
            return ""
        if piece.kind != "text":
            hint = "" if piece.kind in ("list", "mapping") else " Put it in quotes if you mean the words."
            self.add(piece, path, f"This must be text, not {_named(piece)}.{hint}")
            return ""
        value = str(piece.value).strip()
        if bad := UNPRINTABLE.search(value):
            self.add(piece, path, f"Remove the unprintable character U+{ord(bad[0]):04X}.")
        elif required and not value:
            self.add(piece, path, "This is empty. Write at least one word.")
        return value

    def choice(self, piece: Piece, path: str, allowed: Sequence[str], default: str) -> str:
        if piece.kind == "nothing":
            return default
        if piece.kind == "text" and piece.value in allowed:
            return str(piece.value)
        said = f'"{piece.value}"' if piece.kind == "text" else _named(piece)
        near = get_close_matches(str(piece.value), allowed, n=1)
        advice = f" Did you mean {near[0]}?" if near else ""
        self.add(piece, path, f"This must be one of {_listed(allowed)}, not {said}.{advice}")
        return default

    def claim(self, piece: Piece, path: str) -> bool:
        if piece.kind not in ("yes or no", "nothing"):
            self.add(piece, path, f"This must be true or false, not {_named(piece)}.")
        return piece.value is True

    def count(self, piece: Piece, path: str) -> int | None:
        if piece.kind == "nothing":
            return None
        if piece.kind != "whole number" or not isinstance(piece.value, int):
            self.add(piece, path, f"This must be a whole number of tokens, not {_named(piece)}.")
            return None
        if piece.value < 1:
            self.add(piece, path, "This must be at least 1 token.")
        return piece.value

    def add(self, piece: Piece, path: str, message: str) -> None:
        self.problems.append(Problem(piece.line, path, message))


def _named(piece: Piece) -> str:
    return {
        "text": "text",
        "whole number": "a number",
        "number": "a number",
        "yes or no": "true or false",
        "nothing": "nothing",
        "list": "a list",
        "mapping": "a mapping",
    }[piece.kind]


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _elsewhere(key: str) -> list[str]:
    """The full path of a key that exists, but in another part: `never_do` at the top, say."""
    return [f"{part}.{key}" for part, keys in KEYS.items() if part and key in keys]
