"""Server-sent events of JSON as endpoints really write them: events without data, without the blank line that ends
them, and one whole JSON object in place of a stream.

Pure: bytes in, objects out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WORD = re.compile(r"[^\W\d_]{2,}")
_SIGNS_OF_LIFE = ("ping", "pong", "heartbeat", "keepalive", "keep-alive", "ok")
_FIELDS = ("data", "event", "id", "retry")


@dataclass(frozen=True)
class Event:
    """One event: the JSON object that its data are, and its name, which may be empty."""

    data: dict[str, Any]
    name: str = ""


@dataclass(frozen=True)
class _Text:
    """One event as it was written: its data may have several lines."""

    data: str
    name: str = ""


class EventStream:
    """Reads the body of one answer. One whole JSON object is one event without a name."""

    def __init__(self) -> None:
        self._has_fields = self._has_events = False
        self.is_done = False  # the endpoint said `[DONE]`

    @property
    def is_silent(self) -> bool:
        """Whether it is a stream that was over before its first event was whole."""
        return self._has_fields and not self._has_events

    def read(self, chunks: Iterable[bytes]) -> Iterator[Event]:
        """The events whose data are an object, up to `[DONE]`. Raises ValueError for data that are no JSON."""
        start, rest = _read_start(iter(chunks))
        if start.startswith(b"{"):
            events: Iterable[_Text] = _whole_or_lines(_decode(start + b"".join(rest)))
        else:
            events = map(_with_plain_words, self._split_events(_split_lines(chain((start,), rest))))
        for event in events:
            self._has_events = True
            if event.data.lower() in _SIGNS_OF_LIFE:
                continue
            if event.data.startswith("[DONE]"):
                self.is_done = True
                return
            data = json.loads(event.data)
            if isinstance(data, dict):
                yield Event(data, event.name)

    def _split_events(self, lines: Iterator[str]) -> Iterator[_Text]:
        name, data = "", list[str]()
        for line in lines:
            field, colon, value = line.partition(":")
            is_error = field == "error" and value.lstrip().startswith("{")  # llama.cpp has a field for it
            self._has_fields = self._has_fields or bool(colon and (not field or field in _FIELDS or is_error))
            is_data = field == "data" and value.lstrip().startswith(("{", "[DONE]"))
            is_next = field == "event" or is_data or is_error
            if data and (not line or (is_next and _is_whole(data))):
                yield _Text("\n".join(data), name)
                name, data = "", []
            if not line:
                name = ""
            elif is_error:
                name, data = "error", [value.removeprefix(" ")]
            elif field == "data" and value.strip():
                data.append(value.removeprefix(" "))
            elif field == "event":
                name = value.strip()
        if data and _is_whole(data):
            yield _Text("\n".join(data), name)


def _whole_or_lines(text: str) -> list[_Text]:
    """One object, or one on each line: so some stream that have no events."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or not _is_whole([lines[0]]) or not _is_whole([lines[1]]):
        return [_Text(text)]
    return [_Text(line) for line in lines]


def _with_plain_words(event: _Text) -> _Text:
    """An event whose data are words, as what they are: a sign that it is alive, the end, or an error. Garbage stays."""
    if event.data[:1] in ("{", '"') or event.data.startswith("[DONE]"):
        return event
    if event.data.strip().upper() == "[DONE]":
        return _Text("[DONE]", event.name)
    try:
        json.loads(event.data)
    except (ValueError, RecursionError):
        if event.data.lower() in _SIGNS_OF_LIFE or "\ufffd" in event.data or not _WORD.search(event.data):
            return event
        return _Text(json.dumps({"error": {"message": event.data}}), "error")
    return event


def _read_start(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The beginning, without a byte order mark and white space, and what follows."""
    start = b""
    for chunk in chunks:
        start = (start + chunk).lstrip()
        if not _BYTE_ORDER_MARK.startswith(start):
            start = start.removeprefix(_BYTE_ORDER_MARK).lstrip()
            if start:
                break
    return start, chunks


def _split_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines that end in CR, LF or both, and the last one however it ends."""
    pieces: list[bytes] = []
    is_after_cr = False
    for chunk in filter(None, chunks):
        first, *others = _LINE_END.split(chunk.removeprefix(b"\n") if is_after_cr else chunk)
        is_after_cr = chunk.endswith(b"\r")
        pieces.append(first)
        if others:
            yield _decode(b"".join(pieces))
            yield from map(_decode, others[:-1])
            pieces = [others[-1]]
    if line := b"".join(pieces):
        yield _decode(line)


def _decode(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def _is_whole(data: list[str]) -> bool:
    """Whether these lines are a whole event though no blank line ends them."""
    if data[-1].startswith("[DONE]"):
        return True
    if not data[-1].rstrip().endswith("}"):
        return False
    try:
        json.loads("\n".join(data))
    except (ValueError, RecursionError):
        return False
    return True
