"""Calls of tools as endpoints take them back: models write some that no endpoint accepts as history. Pure."""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
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


def join_arguments(pieces: Sequence[str]) -> str:
    """The arguments that came in pieces. Where together they are no JSON, and those of a stream that says things twice
    would be, they are that: the last piece where each holds all before it, or one of each pair of the same pieces."""
    pieces = [piece for piece in pieces if piece]
    arguments = "".join(pieces)
    if len(pieces) < 2 or _is_object(arguments):
        return arguments
    is_cumulative = all(after.startswith(before) or before.startswith(after) for before, after in pairwise(pieces))
    longest = max(pieces, key=len)
    if is_cumulative and _is_object(longest):
        return longest
    if _is_object(pieces[-1]) and "".join(pieces[:-1]) == pieces[-1]:
        return pieces[-1]
    if len(pieces) % 2 == 0 and pieces[::2] == pieces[1::2] and _is_object(once := "".join(pieces[::2])):
        return once
    return arguments


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def check_arguments(arguments: str) -> str:
    """The arguments as they are. Raises BadAnswer where they are endless."""
    if len(arguments) > MAX_ARGUMENT_CHARACTERS:
        raise BadAnswer(f"The model called a tool with more than {MAX_ARGUMENT_CHARACTERS:,} characters of arguments.")
    return arguments
