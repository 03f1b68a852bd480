"""Conversations as JSONL: `{"author": …, "text": …, "time": …, "thread": …}`, the last two optional."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from openvibe.chat.importing.base import (
    ImportedLine,
    ImportedThread,
    ImportFailed,
    fingerprint,
    json_object,
    moment,
    open_for_reading,
    raw_lines,
    required_text,
    shortened,
)

_TITLE_CHARACTERS = 120


@dataclass(slots=True)
class _Found:
    """Where the lines of one thread stand in the file: line numbers and byte offsets."""

    external_id: str
    numbers: "array[int]" = field(default_factory=lambda: array("Q"))
    offsets: "array[int]" = field(default_factory=lambda: array("Q"))


def read_jsonl(path: Path | str) -> Iterator[ImportedThread]:
    """Yield one thread per distinct `thread`, in order of first appearance; else one named after the file.

    The whole file is checked before the first thread is given, so a bad line stops an import that has not
    begun. Memory: sixteen bytes per line. `time` is ISO 8601 or seconds (or milliseconds) since 1970.
    A thread is known by its name and its first line, so a file that grew is read as the same conversation.

    Raises ImportFailed with the number of the line that is wrong.
    """
    path = Path(path)
    with open_for_reading(path) as source:
        threads = _index(source, path.stem)
    for name, found in threads.items():
        title = shortened(name, _TITLE_CHARACTERS) or "Imported conversation"
        yield ImportedThread(found.external_id, title, _lines(path, found))


def _index(source: BinaryIO, default: str) -> dict[str, _Found]:
    threads: dict[str, _Found] = {}
    for number, offset, raw in raw_lines(source):
        value = json_object(raw, number)
        line = _read(value, number)
        if line is None:
            continue
        name = _thread_name(value, number) or default
        if name not in threads:
            at = line.at.isoformat() if line.at else ""
            threads[name] = _Found(f"jsonl:{fingerprint(name, line.author, line.text, at)}")
        threads[name].numbers.append(number)
        threads[name].offsets.append(offset)
    return threads


def _lines(path: Path, found: _Found) -> Iterator[ImportedLine]:
    with open_for_reading(path) as source:
        for number, offset in zip(found.numbers, found.offsets, strict=True):
            source.seek(offset)
            line = _read(json_object(source.readline(), number), number)
            if line is not None:
                yield line


def _read(value: dict[str, object], number: int) -> ImportedLine | None:
    author = required_text(value, "author", number).strip()
    if not author:
        raise ImportFailed(number, f'Line {number} has an empty "author". Name who wrote it.')
    text = required_text(value, "text", number).strip()
    at = _time(value.get("time"), number)
    return ImportedLine(author, text, at) if text else None


def _time(value: object, number: int) -> datetime | None:
    if value is None or value == "":
        return None
    try:
        return moment(value)
    except ValueError:
        raise ImportFailed(
            number,
            f'Line {number} has a "time" that cannot be read. '
            "Write it like 2026-03-01T09:30:00Z, or as seconds since 1970.",
        ) from None


def _thread_name(value: dict[str, object], number: int) -> str:
    name = value.get("thread")
    if name is None:
        return ""
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise ImportFailed(number, f'Line {number} has a "thread" that is neither a text nor a number.')
    return " ".join(required_text({"thread": str(name)}, "thread", number).split())
