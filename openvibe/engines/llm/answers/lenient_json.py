"""JSON as models write it: encoded twice, fenced as code, with trailing commas, with doubled braces, or as a literal of
Python. Pure."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

MAX_LITERAL_CHARACTERS = 100_000
"""The longest text that is tried as a literal of Python: what parses it takes many times its length in memory."""
MAX_LAYERS = 3
"""How often a value may have been encoded as text."""

_FENCE = re.compile(r"\A```[\w-]*[ \t]*\n?(.*?)\n?[ \t]*```\Z", re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\Z))|,(?=\s*[}\]])', re.DOTALL)


class UnreadableJson(ValueError):
    """The text is no value in any of these forms; says why it is no JSON."""


def unfence(text: str) -> str:
    """The text without blanks around it and without a fence of code."""
    text = text.strip()
    fence = _FENCE.match(text)
    return fence[1].strip() if fence else text


def load_lenient(text: str) -> Any:
    """The value. One that is strict JSON is read as it is, and text within it stays text. Raises UnreadableJson."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error)
    text = unfence(text)
    for form in (text, _TRAILING_COMMA.sub(lambda match: match[1] or "", text), *_undoubled(text)):
        try:
            return json.loads(form, strict=False)
        except (ValueError, RecursionError):
            continue
    return _load_literal(text, reason)


def _undoubled(text: str) -> tuple[str, ...]:
    """An object whose braces came doubled, as in a template for text: the outer ones, the opening one, or all."""
    if not text.startswith("{{"):
        return ()
    return text[1:-1], text[1:], text.replace("{{", "{").replace("}}", "}")


def load_object(text: str) -> Any:
    """The value, with text that itself is a value's JSON read on, up to MAX_LAYERS deep. Raises UnreadableJson."""
    value = load_lenient(text)
    for _ in range(MAX_LAYERS):
        if not isinstance(value, str) or not value.strip():
            break
        value = load_lenient(value)
    return value


def _load_literal(text: str, reason: str) -> Any:
    """A dict, list or tuple of Python with nothing but plain values in it."""
    if text[:1] in "{[(" and len(text) <= MAX_LITERAL_CHARACTERS:
        try:
            value = ast.literal_eval(text)
            json.dumps(value, allow_nan=False)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise UnreadableJson(reason) from None
        return value
    raise UnreadableJson(reason)
