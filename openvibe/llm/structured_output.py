"""Structured output: a model's answer that was asked to be one JSON object. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

_FENCED_TEXT = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)


class UnparsableAnswer(ValueError):
    """The answer as a whole is not what was asked for."""


def parse_json_list(name: str, answer: str) -> list[Any]:
    """The list of that name in the object; the answer may be fenced as code. Raises UnparsableAnswer."""
    text = answer.strip()
    fence = _FENCED_TEXT.match(text)
    try:
        value = json.loads(fence[1] if fence else text)
    except (ValueError, RecursionError):
        raise UnparsableAnswer("The answer is not JSON.") from None
    rows = value.get(name) if isinstance(value, dict) else None
    if not isinstance(rows, list):
        raise UnparsableAnswer(f"The answer has no list of {name}.")
    return rows
