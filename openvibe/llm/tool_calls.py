"""Calls of tools as endpoints take them back: models write some that no endpoint accepts as history. Pure."""

import json
import re
from typing import Any

from openvibe.llm.errors import BadAnswer
from openvibe.llm.fences import clean_text

MAX_ARGUMENT_CHARACTERS = 1_000_000
"""Of one call, whoever is to read them: about twice what the longest answer of a model holds."""
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


def check_arguments(arguments: str) -> str:
    """The arguments as they are. Raises BadAnswer where they are endless."""
    if len(arguments) > MAX_ARGUMENT_CHARACTERS:
        raise BadAnswer(f"The model called a tool with more than {MAX_ARGUMENT_CHARACTERS:,} characters of arguments.")
    return arguments
