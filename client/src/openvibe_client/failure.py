"""Reasons why there is no whole answer, for people: a sentence, and the rest as details."""

import json
import re
import signal
from contextlib import suppress
from typing import Any

MAX_DETAIL_LINES = 12
_NOISE = re.compile(r"\s*(at |\^|[\]})]+[,;]?$|Node\.js v|File \"|npm (error|notice)|$)")
"""Lines of stack traces that say nothing of the reason."""
_WORDS = ("message", "error", "detail", "details", "description", "data")


class CommandFailed(Exception):
    """The reason why there is no whole answer, in a sentence, and what a vendor said of it besides."""

    def __init__(self, reason: str, details: str = "") -> None:
        super().__init__(reason)
        self.reason, self.details = reason, details


def end_of(name: str, code: int) -> str:
    """How a command ended, as a sentence; `code` is negative for a signal."""
    with suppress(ValueError):
        return f"{name} was ended by {signal.Signals(-code).name}."
    return f"{name} ended with exit code {code}." if code >= 0 else f"{name} was ended by signal {-code}."


def failure_of(sentence: str, errors: str) -> CommandFailed:
    """The failure with the last line of the error that says something behind the sentence, and its end as details."""
    lines = [line.rstrip() for line in errors.strip().splitlines()]
    last = next((line.strip() for line in reversed(lines) if not _NOISE.match(line)), "")
    said = (_message_in(_decode(errors.strip()) or _decode(last)) or last)[:500]
    reason = f"{sentence.rstrip('.')}: {said}" if said else sentence
    return CommandFailed(reason, "\n".join(lines[-MAX_DETAIL_LINES:]) if len(lines) > 1 or said != last else "")


def _decode(text: str) -> Any:
    start = min((place for place in (text.find("{"), text.find("[")) if place >= 0), default=-1)
    try:
        return json.loads(text[start:]) if start >= 0 else None
    except (ValueError, RecursionError):
        return None


def _message_in(value: Any) -> str:
    """What an error in JSON says to people, wherever vendors put it."""
    if isinstance(value, str):
        inner = _decode(value)
        return (
            (_message_in(inner) if inner is not None else "") or value.strip().splitlines()[0] if value.strip() else ""
        )
    if isinstance(value, list):
        return next((said for each in value if (said := _message_in(each))), "")
    if isinstance(value, dict):
        return next((said for word in _WORDS if (said := _message_in(value.get(word)))), "")
    return ""
