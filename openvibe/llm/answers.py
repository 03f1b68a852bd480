"""Reading a model's answer that was asked to be one JSON object. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

_FENCED = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)


class Unreadable(ValueError):
    """The answer as a whole is not what was asked for."""


def list_named(name: str, answer: str) -> list[Any]:
    """The list of that name in the object; the answer may be fenced as code. Raises Unreadable."""
    text = answer.strip()
    fenced = _FENCED.match(text)
    try:
        said = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        raise Unreadable("The answer is not JSON.") from None
    rows = said.get(name) if isinstance(said, dict) else None
    if not isinstance(rows, list):
        raise Unreadable(f"The answer has no list of {name}.")
    return rows
