"""The values and errors that all readers share, and how they read texts, times and lines. Pure."""

import codecs
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, cast

from openvibe.chat.importing.account import Account
from openvibe.engines.database.time_zones import has_local_time
from openvibe.engines.text.cleaning import clean_handle, has_visible_character
from openvibe.engines.text.markdown import plain_text

MAX_LINE_BYTES = 64 * 1024 * 1024
TITLE_CHARACTERS = 120
_TITLE_SOURCE = 2_000
"""Characters of a text that a title is made of."""

_MIN_MILLISECONDS = 100_000_000_000
_SURROGATES = re.compile(r"[\ud800-\udfff]")


class ImportFailed(Exception):
    """A file that cannot be imported. `message` is a sentence."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RecordRefused(Exception):
    """A record that cannot be imported; all others can. `reason` goes on from "it"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ImportedLine:
    """One thing said. `author` is a display name, `text` Markdown (empty only where there are `files`), `at` aware UTC
    or None; `is_assistant` when an AI assistant or a bot said it. `files` names what was attached, whose content is not
    here. `author_key` is the author's id at its source, the same in every export, empty where only a name is known;
    `place` says where the line stands in the file; `reactions` are emoji, key and name of who put it there.

    Lone surrogates are already replaced; NUL stands only around whom the text mentions (`mention`). A text may still be
    longer than a message may be.
    """

    author: str
    text: str
    at: datetime | None = None
    is_assistant: bool = False
    files: tuple[str, ...] = ()
    author_key: str = ""
    place: str = ""
    reactions: tuple[tuple[str, str, str], ...] = ()


_NAME_SEPARATOR: Final = " as "
"""Stands between an id and the name that belongs to it."""


def named_key(key: str, name: str) -> str:
    """The key of an id that says nothing of where it is from: it means one person only together with the name."""
    return f"{key}{_NAME_SEPARATOR}{name.casefold()}"


def former_key(key: str) -> str:
    """What such a key was before names belonged to it; empty for another key."""
    return key.partition(_NAME_SEPARATOR)[0] if key.startswith("id:") and _NAME_SEPARATOR in key else ""


@dataclass(frozen=True, slots=True)
class ImportedChannel:
    """A public channel of an export: `key` is the same in every export, `members` are keys with display names."""

    key: str
    name: str
    description: str = ""
    members: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedThread:
    """One conversation. `external_id` is the same each time the same conversation is read.

    `lines` is in the order things were said and may be an iterator: go through it once, before asking the
    reader for the next thread. `former_id` is under what versions before knew it: of files, whose `lines` can be gone
    through again then, those that left out lines of files alone; of channels, those that made one thread of all that
    stood outside of threads. `is_timed`: lines have times and stand in their order, so that what is there already is
    known by its time. `channel` is where it was said, where a source has channels.
    """

    external_id: str
    title: str
    lines: Iterable[ImportedLine]
    former_id: str = ""
    is_timed: bool = False
    channel: ImportedChannel | None = None


MENTION = re.compile("\x00([^\x00\x1f]*)\x1f([^\x00]*)\x00")


def mention(key: str, name: str) -> str:
    """Stands in a text for somebody until the handle is known."""
    return f"\x00{key}\x1f{name}\x00"


def plain_mentions(text: str) -> str:
    """The text with the handles that the names of the mentioned would have."""
    return MENTION.sub(lambda match: f"@{clean_handle(match[2])}", text)


def title_text(text: str) -> str:
    """What a text says, on one line without Markdown's signs."""
    readable = plain_mentions(text)
    return plain_text(readable[:_TITLE_SOURCE]) or readable


def open_file(path: Path) -> BinaryIO:
    """Opens a file; a missing or closed one becomes an ImportFailed."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise ImportFailed(f"There is no file {path}. Check the path.") from None
    except IsADirectoryError:
        raise ImportFailed(f"{path} is a folder. Name a file in it.") from None
    except OSError as refusal:
        raise ImportFailed(f"{path} cannot be read: {refusal.strerror}.") from None


_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins with the mark of UTF-16 LE
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def _wide_encoding(source: BinaryIO) -> str:
    """UTF-16 or UTF-32 where a mark at the beginning says so, else empty. The source stands at its beginning again."""
    beginning = source.read(4)
    source.seek(0)
    return next((encoding for mark, encoding in _WIDE_MARKS if beginning.startswith(mark)), "")


def open_as_utf8(path: Path) -> BinaryIO:
    """Opens a file as `open_file` does; one in UTF-16 or UTF-32, as Windows writes them, gives UTF-8."""
    source = open_file(path)
    encoding = _wide_encoding(source)
    return cast(BinaryIO, codecs.EncodedFile(source, "utf-8", encoding)) if encoding else source


def is_no_text(beginning: bytes) -> bool:
    """Whether a file that begins so holds pictures, programs or the like. JSON with an odd byte in it is text."""
    is_wide = any(beginning.startswith(mark) for mark, _ in _WIDE_MARKS)
    is_json = beginning.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))
    return beginning.startswith(b"%PDF-") or (b"\x00" in beginning and not is_wide and not is_json)


@contextmanager
def utf8_copy(path: Path, folder: Path) -> Iterator[Path]:
    """The file, or one in UTF-8 in `folder` for as long as it is read. Raises ImportFailed where it is not in the
    encoding that its beginning names."""
    with open_file(path) as source:
        is_wide = bool(_wide_encoding(source))
    if not is_wide:
        yield path
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".utf8-") as target:
        try:
            with open_as_utf8(path) as source:
                shutil.copyfileobj(source, target)
        except UnicodeDecodeError:
            raise ImportFailed("The file is damaged: it is neither UTF-8 nor UTF-16 text. Save it as UTF-8.") from None
        target.flush()
        yield Path(target.name)


def iter_raw_lines(source: BinaryIO, account: Account) -> Iterator[tuple[int, int, bytes]]:
    """Yields (line number from 1, byte offset, bytes) of every line that is not blank."""
    number = offset = 0
    while raw := source.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            account.refuse(f"line {number}", "it is longer than 64 MB", "record")
            offset += len(raw)
            while raw and not raw.endswith(b"\n"):
                raw = source.readline(MAX_LINE_BYTES)
                offset += len(raw)
            continue
        if raw.strip(b" \t\r\n\xef\xbb\xbf"):
            yield number, offset, raw
        offset += len(raw)


def parse_json_object(raw: bytes) -> dict[str, object]:
    """Reads one line as a JSON object. Raises RecordRefused."""
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise RecordRefused("it is not UTF-8 text") from None
    except (ValueError, RecursionError):
        raise RecordRefused("it is not JSON: each line has to be one object, as in JSONL") from None
    if not isinstance(value, dict):
        raise RecordRefused("it is JSON but not an object: it has to start with {")
    return value


def required_text(value: Mapping[str, object], key: str) -> str:
    """Returns a text field, mended. Raises RecordRefused when it is missing or no text."""
    if value.get(key) is None:
        raise RecordRefused(f'it has no "{key}"')
    text = value[key]
    if not isinstance(text, str):
        raise RecordRefused(f'its "{key}" is not a text')
    return replace_unstorable(text)


def visible_text(text: str) -> str:
    """The text without blanks around it; empty where nothing in it can be seen."""
    return text.strip() if has_visible_character(text) else ""


def replace_unstorable(text: str) -> str:
    """Takes out NUL and puts the replacement character for lone surrogates: the database can keep neither."""
    return _SURROGATES.sub("\ufffd", text.replace("\x00", ""))


def parse_timestamp(value: object) -> datetime:
    """Reads a time: ISO 8601 (without zone: UTC), or seconds or milliseconds since 1970.

    Raises ValueError when it is none of these, or in a year that some time zone cannot show.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("not a time")
    try:
        try:
            number = float(value)
        except ValueError:
            at = datetime.fromisoformat(str(value).strip())
        else:
            at = datetime.fromtimestamp(number / 1000 if abs(number) >= _MIN_MILLISECONDS else number, UTC)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (OverflowError, OSError):
        raise ValueError("out of range") from None
    if not has_local_time(at):
        raise ValueError("out of range")
    return at


def fingerprint(*parts: str | bytes) -> str:
    """Returns 32 hex digits that stand for the parts, in order."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()[:32]


def shorten(text: str, limit: int) -> str:
    """Returns text on one line, cut between words with "…" when it is longer than `limit` characters."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    beginning = line[: limit - 1]
    return (beginning.rpartition(" ")[0] or beginning).rstrip(" ,;:") + "…"


NOT_HERE = "what is in it was not in what was read; its name stands in the message"


def count_files(account: Account, names: Iterable[str], place: str, kind: str = "file") -> None:
    """Names of files that stood with a line: the files themselves stay out."""
    for _ in names:
        account.refuse(place, NOT_HERE, kind)
