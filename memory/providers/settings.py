"""What may be set of a memory plugin, and how a value is read, from the command line as text or from JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Read = Callable[[Any], Any]
"""The value as it is stored. Raises ValueError with a sentence for people."""


@dataclass(frozen=True)
class Setting:
    """One setting of a plugin. `default` says in words what holds when it is not set."""

    name: str
    description: str
    default: str
    read: Read


def number(least: int, most: int, *, or_word: str = "") -> Read:
    """A whole number from `least` to `most`; or the one word that may stand in its place."""

    def read(value: Any) -> Any:
        if or_word and value == or_word:
            return or_word
        text = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
        if text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most:
            return int(text)
        raise ValueError(f"a whole number from {least:,} to {most:,}" + (f", or {or_word}" if or_word else ""))

    return read


def choice(*words: str) -> Read:
    """One of these words."""

    def read(value: Any) -> Any:
        if value in words:
            return value
        raise ValueError(" or ".join(words))

    return read
