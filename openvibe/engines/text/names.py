"""Names in what was found: words that a sentence writes with a capital letter within it. Pure.

No list of names and no model: scripts without capital letters have none to find, and German nouns pass for names,
which does no harm where only words are followed that hardly any text holds."""

from __future__ import annotations

import re
from typing import Final

MAX_NAMES: Final = 8

_NAME: Final = re.compile(r"(?<=[a-zà-öø-ÿа-яё0-9,;:)] )[A-ZÀ-ÖØ-ÞА-ЯЁ][a-zà-öø-ÿа-яё]{2,30}(?![^\W_])")


def find_names(text: str, question: str) -> tuple[str, ...]:
    """The names in a text that the question does not say, at most MAX_NAMES, in their order."""
    asked = question.casefold()
    names = dict.fromkeys(name for name in _NAME.findall(text) if name.casefold() not in asked)
    return tuple(names)[:MAX_NAMES]
