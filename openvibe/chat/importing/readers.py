"""Readers of JSONL and QMSum files.

JSONL: `{"author": …, "text": …, "time": …, "thread": …, "role": …, "files": […]}`, the last four optional; a
chat log's `content` and `timestamp` are read as text and time, its parts, calls and results as text, and a line with a
role needs no author. A line with `"replaced": true` is an answer that a later one took the place of, and is left out.
`author_id` tells people of one name apart, and knows one person under several names; it is the file's own: "1" of
another file is the same person only where the name is the same, too. QMSum (Zhong et al., 2021): one JSON object per
line, one meeting per object."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from openvibe.chat.importing.account import NOTHING_TO_SEE, Account
from openvibe.chat.importing.chat_parts import ONLY_THOUGHTS, is_machine, read_said, role_name
from openvibe.chat.importing.values import (
    TITLE_CHARACTERS,
    ImportedLine,
    ImportedThread,
    ImportFailed,
    RecordRefused,
    count_files,
    fingerprint,
    iter_raw_lines,
    named_key,
    open_file,
    parse_json_object,
    parse_timestamp,
    replace_unstorable,
    required_text,
    shorten,
    visible_text,
)

TEXT_KEYS = ("text", "content")
TIME_KEYS = ("time", "timestamp", "created_at", "date")
ID_KEYS = ("author_id", "user_id")


@dataclass(slots=True)
class _ThreadIndex:
    """The places of one thread's lines in the file, in bytes."""

    external_id: str
    former_id: str = ""
    offsets: "array[int]" = field(default_factory=lambda: array("Q"))


def read_jsonl(path: Path | str, account: Account | None = None, name: str = "") -> Iterator[ImportedThread]:
    """Yields one thread per distinct `thread`, in order of first appearance; else one named after the file, or `name`.

    The whole file is read before the first thread is given. Memory: eight bytes per line. `time` is ISO 8601 or
    seconds (or milliseconds) since 1970. A thread is known by its name and its first line, so a file that grew is read
    as the same conversation. Lines that cannot be imported are left out.
    """
    path = Path(path)
    names: dict[str, str] = {}
    with open_file(path) as source:
        threads = _index_threads(source, name or path.stem, account or Account(), names)
    for name, index in threads.items():
        title = shorten(name, TITLE_CHARACTERS) or "Imported conversation"
        yield ImportedThread(index.external_id, title, _JsonlLines(path, index, names), index.former_id)


def _index_threads(source: BinaryIO, default: str, account: Account, names: dict[str, str]) -> dict[str, _ThreadIndex]:
    """The threads by name; `names` gets the first name of each author's key."""
    threads: dict[str, _ThreadIndex] = {}
    for number, offset, raw in iter_raw_lines(source, account):
        account.read()
        try:
            value = parse_json_object(raw)
            line = _parse_line(value)
            name = _parse_thread_name(value) or default
        except RecordRefused as problem:
            account.leave_out(f"line {number}", problem.reason)
            continue
        count_files(account, line.files, f"line {number}")
        if line.author_key:
            names.setdefault(line.author_key, line.author)
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
    names: dict[str, str]

    def __iter__(self) -> Iterator[ImportedLine]:
        with open_file(self.path) as source:
            for offset in self.index.offsets:
                source.seek(offset)
                try:
                    line = _parse_line(parse_json_object(source.readline()))
                except RecordRefused:
                    raise ImportFailed(f"{self.path.name} changed while it was read.") from None
                if line.author_key:
                    name = self.names.get(line.author_key, line.author)
                    line = replace(line, author_key=named_key(line.author_key, name))
                yield line


def _parse_line(value: dict[str, object]) -> ImportedLine:
    if value.get("replaced") is True:
        raise RecordRefused("a later answer took its place")
    role = "" if value.get("role") is None else required_text(value, "role").strip().lower()
    author = role_name(role) if role and value.get("author") is None else required_text(value, "author").strip()
    if not author:
        raise RecordRefused('its "author" is empty')
    key, has_calls = _first_key(value, TEXT_KEYS), bool(value.get("tool_calls") or value.get("function_call"))
    if not has_calls and not isinstance(value.get(key), list | dict):
        required_text(value, key)
    said = read_said(value, key)
    text = visible_text(said.text)
    at = _parse_time(value.get(_first_key(value, TIME_KEYS)))
    files = (*said.files, *_parse_files(value.get("files")))
    if not (text or files):
        raise RecordRefused(ONLY_THOUGHTS if said.has_thoughts else NOTHING_TO_SEE)
    own_id = next((str(value[key]) for key in ID_KEYS if isinstance(value.get(key), str | int)), "")
    return ImportedLine(author, text, at, is_machine(role), files, f"id:{own_id}" if own_id else "")


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


def read_qmsum(path: Path | str, account: Account | None = None) -> Iterator[ImportedThread]:
    """Yields one thread per meeting, in the order of the file; one meeting is in memory at a time.

    The id comes from what was said, so a meeting is the same one in whatever file and place it stands. Meetings and
    utterances that cannot be imported are left out.
    """
    account = account or Account()
    with open_file(Path(path)) as source:
        for number, _, raw in iter_raw_lines(source, account):
            account.read("record")
            try:
                meeting = parse_json_object(raw)
                transcript = meeting.get("meeting_transcripts")
                if not isinstance(transcript, list):
                    raise RecordRefused('it has no "meeting_transcripts", as the meetings of a QMSum file have')
            except RecordRefused as problem:
                account.leave_out(f"line {number}", problem.reason, "record")
                continue
            lines = tuple(_parse_utterances(transcript, number, account))
            if not lines:
                account.leave_out(f"line {number}", "nobody says anything in it", "record")
                continue
            account.take_in("record")
            parts = [part for line in lines for part in (line.author, line.text)]
            yield ImportedThread(f"qmsum:{fingerprint(*parts)}", _meeting_title(meeting, number), lines)


def _parse_utterances(transcript: list[object], line: int, account: Account) -> Iterator[ImportedLine]:
    for number, each in enumerate(transcript, start=1):
        account.read()
        try:
            yield _parse_utterance(each)
        except RecordRefused as problem:
            account.leave_out(f"line {line}, utterance {number}", problem.reason)


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
