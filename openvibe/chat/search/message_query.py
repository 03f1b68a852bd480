"""The query of a search in messages: words, and who said it and when, taken apart. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from openvibe.base.problems import Problem

_PIECE: Final = re.compile(r'["“„][^"“”„]*["“”]|(?<!\S)(?P<name>after|before|from):(?P<value>\S+)', re.IGNORECASE)
_DAY: Final = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_HANDLE: Final = re.compile(r"@?[\w.-]+")
_YEARS: Final = range(1970, 9999)
NOBODY: Final = "-"
"""No handle that anybody has."""


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """What is asked for. `words`: a search expression (phrases in quotes, `-word`, `word*`, `OR`), which may be empty
    where one of the others is not. `since` and `until`: the first and the last day. `author`: a handle."""

    words: str
    since: date | None = None
    until: date | None = None
    author: str = ""

    def narrowed(self, *, since: date | None, until: date | None, author: str) -> MessageQuery:
        """The query with what filters beside it ask for as well: the shorter stretch of days, and of two authors
        neither, since nobody wrote as both."""
        handle = author.lstrip("@").lower()
        return MessageQuery(
            self.words,
            max(filter(None, (self.since, since)), default=None),
            min(filter(None, (self.until, until)), default=None),
            NOBODY if handle and self.author not in ("", handle) else self.author or handle,
        )

    @property
    def is_empty(self) -> bool:
        return not (self.words.strip() or self.since or self.until or self.author)


def parse_message_query(text: str, field: str = "query") -> MessageQuery:
    """Takes `after:2026-03-01` (from that day on), `before:2026-03-01` (until the day before) and `from:handle` out of
    the words. A year or a month stands for its first day; what is in quotes is words. Raises Problem for what is no
    date or handle, or stands twice; it names the `field`."""
    found: dict[str, Any] = {}

    def take(match: re.Match[str]) -> str:
        if match["name"] is None:
            return match[0]
        name = match["name"].lower()
        if name in found:
            raise _problem(f"{name}: stands twice", field)
        found[name] = _READERS[name](match["value"], field)
        return " "

    words = _PIECE.sub(take, text.replace("\x00", " ")).strip()
    before = found.get("before")
    until = before - timedelta(days=1) if before else None
    return MessageQuery(words, found.get("after"), until, found.get("from", ""))


def _read_day(value: str, field: str) -> date:
    match = _DAY.fullmatch(value)
    try:
        day = date(*(int(number or 1) for number in match.groups())) if match else None
    except ValueError:
        day = None
    if day is None or day.year not in _YEARS:
        raise _problem(f"“{value[:40]}” is no date: write after:2026-03-01 or before:2026-03", field)
    return day


def _read_handle(value: str, field: str) -> str:
    if _HANDLE.fullmatch(value) is None:
        raise _problem(f"“{value[:40]}” is no handle: write from:ana", field)
    return value.removeprefix("@").lower()


_READERS: Final[dict[str, Callable[[str, str], Any]]] = {"after": _read_day, "before": _read_day, "from": _read_handle}


def _problem(sentence: str, field: str) -> Problem:
    return Problem(f"{sentence}. Words that look like this go in quotes.", code="bad_argument", field=field)
