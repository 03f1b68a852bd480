"""The bytes of another program's server, as the SDK can read them.

Its JSON parser refuses a whole message for half a character (a lone surrogate, or bytes that are no UTF-8) and for
values within values within values: one tool of a hundred would take all away. Here each becomes `UNREADABLE`, by which
its tool is known afterwards."""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2

UNREADABLE = "\ufdd0"
"""Stands for what is no character; itself one that Unicode keeps for such uses and that nobody may send."""

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # two halves: a character
    r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # one half
    r"|\\."  # any other escape: a backslash that was escaped begins none
)
MAX_DEPTH = 100
"""Values within values of a message that are read; the parser gives up at 200."""

_SIGN = re.compile(r'\\.|["\[\]{}]')
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")


class ReadableStream(httpx2.AsyncByteStream):
    """The stream by whole lines: an escape never goes on in the next one. A message of one line waits for its end, as
    the SDK does; a limit of size is that of the stream inside."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        decoder, pieces = codecs.getincrementaldecoder("utf-8")("surrogateescape"), list[str]()
        async for chunk in self._stream:
            text = decoder.decode(chunk)
            end = max(text.rfind("\n"), text.rfind("\r")) + 1
            if end:
                yield _readable("".join([*pieces, text[:end]]))
                pieces = []
            pieces.append(text[end:])
        yield _readable("".join([*pieces, decoder.decode(b"", final=True)]))

    async def aclose(self) -> None:
        await self._stream.aclose()


def _readable(text: str) -> bytes:
    escaped = f"\\u{ord(UNREADABLE):04x}"
    text = _ESCAPE.sub(lambda match: escaped if match[1] else match[0], text)
    return _without_depths(_ESCAPED_BYTE.sub(UNREADABLE, text)).encode()


def _without_depths(line: str) -> str:
    """The JSON of a line with `UNREADABLE` for each value that stands too deep. Linear, whatever it is given."""
    if line.count("[") + line.count("{") <= MAX_DEPTH:
        return line
    kept, end, start, depth, is_text = list[str](), 0, 0, 0, False
    for match in _SIGN.finditer(line):
        sign = match[0]
        if sign == '"':
            is_text = not is_text
        elif is_text or sign[0] == "\\":
            continue
        elif sign in "[{":
            depth += 1
            start = match.start() if depth == MAX_DEPTH + 1 else start
        else:
            depth -= 1
            if depth == MAX_DEPTH:
                kept += [line[end:start], f'"{UNREADABLE}"']
                end = match.end()
    return "".join([*kept, line[end:]])


def is_keepable(value: Any) -> bool:
    """Whether every text in it, however deep, can be read and kept: no half characters, no NUL."""
    if isinstance(value, str):
        return UNREADABLE not in value and "\x00" not in value
    if isinstance(value, dict):
        return all(is_keepable(key) and is_keepable(inner) for key, inner in value.items())
    return not isinstance(value, list) or all(map(is_keepable, value))


def without_unreadable(value: Any) -> Any:
    """Returns the value with a � where something could not be read, and without NUL."""
    if isinstance(value, str):
        return value.replace(UNREADABLE, "\ufffd").replace("\x00", "")
    if isinstance(value, dict):
        return {without_unreadable(key): without_unreadable(inner) for key, inner in value.items()}
    return [without_unreadable(inner) for inner in value] if isinstance(value, list) else value
