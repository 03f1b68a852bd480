"""What every reader answers with, and how it says that it cannot."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

MAX_LINE_BYTES = 64 * 1024 * 1024
_MILLISECONDS_FROM = 100_000_000_000
_UNKEEPABLE = re.compile(r"[\ud800-\udfff]")


class ImportFailed(Exception):
    """A file that cannot be imported. `message` is a sentence; `line` counts from 1, None: the file."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


@dataclass(frozen=True, slots=True)
class ImportedLine:
    """One thing said. `author` is a display name, `text` Markdown (never empty), `at` aware UTC or None.

    NUL and lone surrogates are already replaced; a text may still be longer than a message may be.
    """

    author: str
    text: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ImportedThread:
    """One conversation. `external_id` is the same each time the same conversation is read.

    `lines` is in the order things were said and may be an iterator: go through it once, before asking the
    reader for the next thread.
    """

    external_id: str
    title: str
    lines: Iterable[ImportedLine]


def open_for_reading(path: Path) -> BinaryIO:
    """Open a file; a missing or closed one becomes an ImportFailed."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise ImportFailed(None, f"There is no file {path}. Check the path.") from None
    except IsADirectoryError:
        raise ImportFailed(None, f"{path} is a folder. Name a file in it.") from None
    except OSError as refusal:
        raise ImportFailed(None, f"{path} cannot be read: {refusal.strerror}.") from None


def raw_lines(source: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Yield (line number from 1, byte offset, bytes) of every line that is not blank."""
    number = offset = 0
    while raw := source.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            raise ImportFailed(number, f"Line {number} is longer than 64 MB. Is this a JSONL file?")
        if raw.strip(b" \t\r\n\xef\xbb\xbf"):
            yield number, offset, raw
        offset += len(raw)


def json_object(raw: bytes, line: int) -> dict[str, object]:
    """Read one line as a JSON object, or say what is wrong with it."""
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ImportFailed(line, f"Line {line} is not UTF-8 text. Save the file as UTF-8.") from None
    except (ValueError, RecursionError):
        raise ImportFailed(
            line, f"Line {line} is not JSON. Each line has to be one JSON object, as in JSONL."
        ) from None
    if not isinstance(value, dict):
        raise ImportFailed(line, f"Line {line} is JSON but not an object: it has to start with {{.")
    return value


def required_text(value: dict[str, object], key: str, line: int, where: str = "") -> str:
    """Return a text field, mended; say so when it is missing or no text."""
    place = f"Line {line}{where}"
    if value.get(key) is None:
        raise ImportFailed(line, f'{place} has no "{key}". Add it, or take the line out.')
    found = value[key]
    if not isinstance(found, str):
        raise ImportFailed(line, f'{place} has a "{key}" that is not a text. Put it in quotes.')
    return mended(found)


def mended(text: str) -> str:
    """Take out NUL and put the replacement character for lone surrogates: the database can keep neither."""
    return _UNKEEPABLE.sub("\ufffd", text.replace("\x00", ""))


def moment(value: object) -> datetime:
    """Read a time: ISO 8601 (without zone: UTC), or seconds or milliseconds since 1970.

    Raises ValueError when it is none of these or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("not a time")
    try:
        number = float(value)
    except ValueError:
        at = datetime.fromisoformat(str(value).strip())
    except OverflowError:
        raise ValueError("out of range") from None
    else:
        number = number / 1000 if abs(number) >= _MILLISECONDS_FROM else number
        at = _since_1970(number)
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        raise ValueError("out of range") from None


def fingerprint(*parts: str | bytes) -> str:
    """Return 32 hex digits that stand for the parts, in order."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()[:32]


def shortened(text: str, limit: int) -> str:
    """Return text on one line, cut between words with "…" when it is longer than `limit` characters."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    cut = line[: limit - 1]
    return (cut.rpartition(" ")[0] or cut).rstrip(" ,;:") + "…"


def _since_1970(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        raise ValueError("out of range") from None
