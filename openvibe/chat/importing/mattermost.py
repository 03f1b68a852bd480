"""Reader of Mattermost's bulk export: JSONL, one object a line, which names its kind: `channel`, `user`, `post`, ….

Only public channels are read, never private ones, direct messages or what the server itself wrote."""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from openvibe.chat.importing.readers import (
    NOTHING_TO_SEE,
    TITLE_CHARACTERS,
    ImportedLine,
    ImportedThread,
    ImportFailed,
    LeftOut,
    RecordRefused,
    fingerprint,
    iter_raw_lines,
    open_file,
    parse_json_object,
    parse_timestamp,
    replace_unstorable,
    required_text,
    shorten,
    visible_text,
)
from openvibe.engines.text.cleaning import clean_handle

PUBLIC = "O"
_LONG_AGO = datetime.fromtimestamp(0, UTC)
_PERSONS_POSTS = frozenset(("", "me", "slack_attachment"))
"""Types of posts that somebody wrote; all others tell of the room: joined, renamed, deleted."""

_MENTION = re.compile(r"(?<![\w@])@([a-z0-9][a-z0-9._-]*)")


@dataclass(slots=True)
class _Posts:
    """The positions at which posts of a channel stand in the file, and when they were written (milliseconds)."""

    offsets: "array[int]" = field(default_factory=lambda: array("Q"))
    times: "array[int]" = field(default_factory=lambda: array("Q"))

    def add(self, offset: int, milliseconds: int) -> None:
        self.offsets.append(offset)
        self.times.append(milliseconds)

    def in_order(self) -> Iterator[int]:
        """Offsets, the oldest post first: an export goes by ids, which are random."""
        return (self.offsets[place] for place in sorted(range(len(self.offsets)), key=self.times.__getitem__))


@dataclass(slots=True)
class _Index:
    """Names of people and public channels, and where each channel's posts stand, with replies and without."""

    people: dict[str, str] = field(default_factory=dict)
    bots: set[str] = field(default_factory=set)
    channels: dict[tuple[str, str], str] = field(default_factory=dict)
    answered: defaultdict[tuple[str, str], _Posts] = field(default_factory=lambda: defaultdict(_Posts))
    single: defaultdict[tuple[str, str], _Posts] = field(default_factory=lambda: defaultdict(_Posts))


def read_mattermost(path: Path | str, left_out: LeftOut | None = None) -> Iterator[ImportedThread]:
    """Yields the public channels of an export: each post with its replies, then what stands alone in the channel.

    The whole file is read before the first thread is given. Memory: sixteen bytes for each post. Attached files are
    named, not read. Posts, replies and lines that cannot be imported are `left_out`.
    """
    path, left_out = Path(path), left_out or LeftOut()
    with open_file(path) as source:
        index = _Index()
        for number, offset, raw in iter_raw_lines(source, left_out):
            try:
                _index_line(index, parse_json_object(raw), number, offset, left_out)
            except RecordRefused as problem:
                left_out.add(f"line {number}", problem.reason)
    for channel, name in index.channels.items():
        for offset in index.answered[channel].in_order():
            first, *replies = _read_post(path, offset, index)
            subject = shorten(first.text, TITLE_CHARACTERS - len(name) - 3)
            at = first.at.isoformat() if first.at else ""
            key = fingerprint(*channel, first.author, at, first.text)
            yield ImportedThread(f"mattermost:{key}", f"#{name}: {subject}", (first, *replies))
        if index.single[channel].offsets:
            lines = (line for offset in index.single[channel].in_order() for line in _read_post(path, offset, index))
            yield ImportedThread(f"mattermost:{fingerprint(*channel)}", f"#{name}", lines)


_KINDS_WITHOUT_WORDS = frozenset(("version", "team", "role", "scheme", "emoji", "direct_channel"))


def _index_line(index: _Index, value: dict[str, object], number: int, offset: int, left_out: LeftOut) -> None:
    """Raises RecordRefused for what cannot be imported; of a post with replies, the others still are."""
    kind = str(value.get("type", ""))
    if kind in _KINDS_WITHOUT_WORDS:
        return
    if kind == "direct_post":
        raise RecordRefused("it is a direct message, and those stay private")
    if kind not in ("channel", "user", "bot", "post"):
        raise RecordRefused(f'its "type" is {shorten(repr(value.get("type")), 40)}, and none that is known')
    content = value.get(kind)
    if not isinstance(content, dict):
        raise RecordRefused(f'it says it is a {kind} and has no "{kind}"')
    if kind == "channel":
        if content.get("type", PUBLIC) == PUBLIC:
            name = required_text(content, "name")
            index.channels[_text(content, "team"), name] = _text(content, "display_name") or name
    elif kind in ("user", "bot"):
        username = required_text(content, "username")
        index.people[username] = _person_name(content) or username
        if kind == "bot":
            index.bots.add(username)
    else:
        _index_post(index, content, number, offset, left_out)


def _index_post(index: _Index, post: dict[str, object], number: int, offset: int, left_out: LeftOut) -> None:
    channel = _text(post, "team"), _text(post, "channel")
    if channel not in index.channels:
        raise RecordRefused("its channel is private, or none that stands ahead of it")
    lines = list(_post_lines(post, index, left_out, f"line {number}"))
    replies = post.get("replies")
    if lines:
        posts = index.answered if isinstance(replies, list) and replies and len(lines) > 1 else index.single
        at = lines[0].at
        assert at is not None
        posts[channel].add(offset, round(at.timestamp() * 1000))


def _read_post(path: Path, offset: int, index: _Index) -> list[ImportedLine]:
    with open_file(path) as source:
        source.seek(offset)
        try:
            post = parse_json_object(source.readline()).get("post")
        except RecordRefused:
            post = None
    lines = list(_post_lines(post, index, LeftOut(), "")) if isinstance(post, dict) else []
    if not lines:
        raise ImportFailed(f"{path.name} changed while it was read.")
    return lines


def _post_lines(post: dict[str, object], index: _Index, left_out: LeftOut, place: str) -> Iterator[ImportedLine]:
    """What somebody said: the post, then its replies by their time."""
    replies = post.get("replies")
    if replies and not isinstance(replies, list):
        left_out.add(place, 'its "replies" are no list')
    first, *others = [
        line
        for number, value in enumerate([post, *(replies if isinstance(replies, list) else [])])
        for line in [_line_or_none(value, index, left_out, f"{place}, reply {number}" if number else place)]
    ]
    if first is not None:
        yield first
    yield from sorted((line for line in others if line is not None), key=lambda line: line.at or _LONG_AGO)


def _line_or_none(value: object, index: _Index, left_out: LeftOut, place: str) -> ImportedLine | None:
    try:
        return _parse_post(value, index)
    except RecordRefused as problem:
        left_out.add(place, problem.reason)
        return None


def _parse_post(value: object, index: _Index) -> ImportedLine:
    if not isinstance(value, dict):
        raise RecordRefused("it is not an object")
    if value.get("delete_at"):
        raise RecordRefused("it was deleted")
    if (kind := _text(value, "type")) not in _PERSONS_POSTS:
        raise RecordRefused(f"nobody said it: it tells of the channel ({shorten(kind, 40)})")
    user = required_text(value, "user")
    text = visible_text("\n".join([_with_handles(_text(value, "message"), index.people), *_file_labels(value)]))
    if not text:
        raise RecordRefused(NOTHING_TO_SEE)
    return ImportedLine(index.people.get(user, user), text, _parse_time(value), user in index.bots)


def _parse_time(value: Mapping[str, object]) -> datetime:
    """Reads `create_at`: milliseconds since 1970, a number or its digits."""
    created = value.get("create_at")
    if isinstance(created, str) and created.isascii() and created.isdigit():
        created = int(created[:20])
    if isinstance(created, bool) or not isinstance(created, int) or not 0 < created < 10**14:
        raise RecordRefused('its "create_at" is no time that can be read')
    return parse_timestamp(created)


def _with_handles(text: str, people: Mapping[str, str]) -> str:
    """A mention of a user becomes one of the handle made of the person's name."""

    def convert(match: re.Match[str]) -> str:
        username = match[1] if match[1] in people else match[1].rstrip(".-_")
        if username not in people:
            return match[0]
        return f"@{clean_handle(people[username])}{match[1][len(username) :]}"

    return _MENTION.sub(convert, text)


def _person_name(user: Mapping[str, object]) -> str:
    full = f"{_text(user, 'first_name')} {_text(user, 'last_name')}".strip()
    return _text(user, "nickname") or full or _text(user, "display_name")


def _file_labels(value: Mapping[str, object]) -> list[str]:
    attachments = value.get("attachments")
    paths = [
        _text(each, "path") for each in (attachments if isinstance(attachments, list) else []) if isinstance(each, dict)
    ]
    return [f"[file: {path.rpartition('/')[2] or 'without a name'}]" for path in paths]


def _text(value: Mapping[str, object], key: str) -> str:
    text = value.get(key)
    return replace_unstorable(text).strip() if isinstance(text, str) else ""
