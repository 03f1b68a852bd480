"""Calls of tools as endpoints take them back: models write some that no endpoint accepts as history. Pure."""

import json
import re
from typing import Any

from openvibe.llm.fences import clean_text

_NAME_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")


def clean_identifier(text: str) -> str:
    """An id or a name in the letters that endpoints take; models write others, such as `multi_tool_use.parallel`."""
    return _NAME_CHARACTERS.sub("_", text)[:64] or "_"


def arguments_object(arguments: str) -> dict[str, Any]:
    """Arguments as an object: endpoints refuse what is none, even where their own model wrote it."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"malformed": clean_text(arguments)}
