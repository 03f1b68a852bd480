"""Readers of JSONL and QMSum files, and the values and errors all readers share.

JSONL: `{"author": …, "text": …, "time": …, "thread": …, "role": …, "files": […]}`, the last four optional; a
chat log's `content` and `timestamp` are read as text and time, and a line with a role needs no author. A line with
`"replaced": true` is an answer that a later one took the place of, and is left out. QMSum (Zhong
et al., 2021): one JSON object per line, one meeting per object."""

import hashlib
import json
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from openvibe.engines.database.time_zones import has_local_time
from openvibe.engines.text.cleaning import has_visible_character

MAX_LINE_BYTES = 64 * 1024 * 1024
TITLE_CHARACTERS = 120
_MIN_MILLISECONDS = 100_000_000_000
TEXT_KEYS = ("text", "content")
TIME_KEYS = ("time", "timestamp", "created_at", "date")
ASSISTANT_ROLES = frozenset(("assistant", "agent", "ai", "bot", "chatbot", "model"))
"""Roles of a line that no person wrote, as the usual chat logs name them; any other role is a person's."""

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


MAX_NAMED, MAX_REASONS = 20, 50
"""Places named for each reason, the others are counted; reasons told apart."""


class LeftOut:
    """The records of a file that were not imported: how many records for each reason, and where they stand."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._places: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, place: str, reason: str) -> None:
        if reason not in self._counts and len(self._counts) >= MAX_REASONS:
            reason = "for other reasons"
        self._counts[reason] += 1
        if self._counts[reason] <= MAX_NAMED:
            self._places[reason].append(place)

    @property
    def count(self) -> int:
        return self._counts.total()

    def sentences(self) -> list[str]:
        """Returns one sentence for each reason, the most frequent first: how many, why, and where."""
        sentences = []
        for reason, count in self._counts.most_common():
            surplus = count - len(self._places[reason])
            more = f", and {surplus:,} more" if surplus else ""
            sentences.append(f"{count:,} left out: {reason} ({', '.join(self._places[reason])}{more})")
        return sentences


@dataclass(frozen=True, slots=True)
class ImportedLine:
    """One thing said. `author` is a display name, `text` Markdown (empty only where there are `files`), `at` aware UTC
    or None; `is_assistant` when an AI assistant or a bot said it. `files` names what was attached, whose content is not
    here.

    NUL and lone surrogates are already replaced; a text may still be longer than a message may be.
    """

    author: str
    text: str
    at: datetime | None = None
    is_assistant: bool = False
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedThread:
    """One conversation. `external_id` is the same each time the same conversation is read.

    `lines` is in the order things were said and may be an iterator: go through it once, before asking the
    reader for the next thread. `former_id` is under what versions knew it that left out files, and lines of files
    alone; where there is one, `lines` can be gone through again.
    """

    external_id: str
    title: str
    lines: Iterable[ImportedLine]
    former_id: str = ""


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


def iter_raw_lines(source: BinaryIO, left_out: LeftOut) -> Iterator[tuple[int, int, bytes]]:
    """Yields (line number from 1, byte offset, bytes) of every line that is not blank."""
    number = offset = 0
    while raw := source.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            left_out.add(f"line {number}", "it is longer than 64 MB")
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


@dataclass(slots=True)
class _ThreadIndex:
    """The places of one thread's lines in the file, in bytes."""

    external_id: str
    former_id: str = ""
    offsets: "array[int]" = field(default_factory=lambda: array("Q"))


def read_jsonl(path: Path | str, left_out: LeftOut | None = None) -> Iterator[ImportedThread]:
    """Yields one thread per distinct `thread`, in order of first appearance; else one named after the file.

    The whole file is read before the first thread is given. Memory: eight bytes per line. `time` is ISO 8601 or
    seconds (or milliseconds) since 1970. A thread is known by its name and its first line, so a file that grew is read
    as the same conversation. Lines that cannot be imported are `left_out`.
    """
    path = Path(path)
    with open_file(path) as source:
        threads = _index_threads(source, path.stem, left_out or LeftOut())
    for name, index in threads.items():
        title = shorten(name, TITLE_CHARACTERS) or "Imported conversation"
        yield ImportedThread(index.external_id, title, _JsonlLines(path, index), index.former_id)


def _index_threads(source: BinaryIO, default: str, left_out: LeftOut) -> dict[str, _ThreadIndex]:
    threads: dict[str, _ThreadIndex] = {}
    for number, offset, raw in iter_raw_lines(source, left_out):
        try:
            value = parse_json_object(raw)
            line = _parse_line(value)
            name = _parse_thread_name(value) or default
        except RecordRefused as problem:
            left_out.add(f"line {number}", problem.reason)
            continue
        key = fingerprint(name, line.author, line.text, line.at.isoformat() if line.at else "")
        if name not in threads:
            threads[name] = _ThreadIndex(f"jsonl-2:{key}")
        if line.text and not threads[name].former_id:
            threads[name].former_id = f"jsonl:{key}"
        threads[name].offsets.append(offset)
    return threads


@dataclass(frozen=True, slots=True)
class _JsonlLines:
    path: Path
    index: _ThreadIndex

    def __iter__(self) -> Iterator[ImportedLine]:
        with open_file(self.path) as source:
            for offset in self.index.offsets:
                source.seek(offset)
                try:
                    yield _parse_line(parse_json_object(source.readline()))
                except RecordRefused:
                    raise ImportFailed(f"{self.path.name} changed while it was read.") from None


def _parse_line(value: dict[str, object]) -> ImportedLine:
    if value.get("replaced") is True:
        raise RecordRefused("a later answer took its place")
    role = "" if value.get("role") is None else required_text(value, "role").strip().lower()
    is_assistant = role in ASSISTANT_ROLES
    if role and value.get("author") is None:
        author = "Assistant" if is_assistant else role.capitalize()
    else:
        author = required_text(value, "author").strip()
    if not author:
        raise RecordRefused('its "author" is empty')
    text = visible_text(required_text(value, _first_key(value, TEXT_KEYS)))
    at = _parse_time(value.get(_first_key(value, TIME_KEYS)))
    files = _parse_files(value.get("files"))
    if not (text or files):
        raise RecordRefused(NOTHING_TO_SEE)
    return ImportedLine(author, text, at, is_assistant, files)


NOTHING_TO_SEE = "nothing in it can be seen"


def _parse_files(value: object) -> tuple[str, ...]:
    """Names of attached files, each as it is or as the `name` of an object."""
    if value is None:
        return ()
    names = [each.get("name") if isinstance(each, dict) else each for each in value] if isinstance(value, list) else [0]
    if not all(isinstance(name, str) for name in names):
        raise RecordRefused('its "files" are not a list of names, such as ["notes.md"]')
    return tuple(replace_unstorable(str(name)) for name in names)


def _first_key(value: dict[str, object], keys: Sequence[str]) -> str:
    """The first of the keys that the line has, else the usual one."""
    return next((key for key in keys if value.get(key) is not None), keys[0])


def _parse_time(value: object) -> datetime | None:
    if value is None or value == "":
        return None
    try:
        return parse_timestamp(value)
    except ValueError:
        raise RecordRefused(
            'its "time" cannot be read: 2026-03-01T09:30:00Z, or seconds since 1970, is what can'
        ) from None


def _parse_thread_name(value: dict[str, object]) -> str:
    name = value.get("thread")
    if name is None:
        return ""
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise RecordRefused('its "thread" is neither a text nor a number')
    return " ".join(replace_unstorable(str(name)).split())


def read_qmsum(path: Path | str, left_out: LeftOut | None = None) -> Iterator[ImportedThread]:
    """Yields one thread per meeting, in the order of the file; one meeting is in memory at a time.

    The id comes from what was said, so a meeting is the same one in whatever file and place it stands. Meetings and
    utterances that cannot be imported are `left_out`.
    """
    left_out = left_out or LeftOut()
    with open_file(Path(path)) as source:
        for number, _, raw in iter_raw_lines(source, left_out):
            try:
                meeting = parse_json_object(raw)
                transcript = meeting.get("meeting_transcripts")
                if not isinstance(transcript, list):
                    raise RecordRefused('it has no "meeting_transcripts", as the meetings of a QMSum file have')
            except RecordRefused as problem:
                left_out.add(f"line {number}", problem.reason)
                continue
            lines = tuple(_parse_utterances(transcript, number, left_out))
            if not lines:
                left_out.add(f"line {number}", "nobody says anything in it")
                continue
            parts = [part for line in lines for part in (line.author, line.text)]
            yield ImportedThread(f"qmsum:{fingerprint(*parts)}", _meeting_title(meeting, number), lines)


def _parse_utterances(transcript: list[object], line: int, left_out: LeftOut) -> Iterator[ImportedLine]:
    for number, each in enumerate(transcript, start=1):
        try:
            yield _parse_utterance(each)
        except RecordRefused as problem:
            left_out.add(f"line {line}, utterance {number}", problem.reason)


def _parse_utterance(value: object) -> ImportedLine:
    if not isinstance(value, dict):
        raise RecordRefused('it is not an object with "speaker" and "content"')
    author, text = required_text(value, "speaker").strip(), visible_text(required_text(value, "content"))
    if not author:
        raise RecordRefused('its "speaker" is empty')
    if not text:
        raise RecordRefused(NOTHING_TO_SEE)
    return ImportedLine(author, text)


def _meeting_title(meeting: dict[str, object], number: int) -> str:
    topics = meeting.get("topic_list")
    topic_names = [
        replace_unstorable(topic["topic"])
        for topic in (topics if isinstance(topics, list) else [])
        if isinstance(topic, dict) and isinstance(topic.get("topic"), str)
    ]
    subject = "; ".join(" ".join(name.split()) for name in topic_names[:2] if name.strip())
    return shorten(f"Meeting {number}: {subject}" if subject else f"Meeting {number}", TITLE_CHARACTERS)
