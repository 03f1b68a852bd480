"""Reader of Mattermost's bulk export: JSONL, one object a line, which names its kind: `channel`, `user`, `post`, ….

Only public channels are read, never private ones, direct messages or what the server itself wrote."""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from openvibe.base.text import clean_handle
from openvibe.chat.importing.readers import (
    TITLE_CHARACTERS,
    ImportedLine,
    ImportedThread,
    ImportFailed,
    fingerprint,
    iter_raw_lines,
    open_file,
    parse_json_object,
    parse_timestamp,
    replace_unstorable,
    required_text,
    shorten,
)

PUBLIC = "O"
_PERSONS_POSTS = frozenset(("", "me", "slack_attachment"))
"""Types of posts that somebody wrote; all others tell of the room: joined, renamed, deleted."""

_MENTION = re.compile(r"(?<![\w@])@([a-z0-9][a-z0-9._-]*)")


@dataclass(slots=True)
class _Posts:
    """Where posts of a channel stand in the file, and when they were written (milliseconds)."""

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


def read_mattermost(path: Path | str) -> Iterator[ImportedThread]:
    """Yield the public channels of an export: each post with its replies, then what stands alone in the channel.

    The whole file is checked before the first thread is given. Memory: sixteen bytes for each post. Attached files are
    named, not read. Raises ImportFailed with the number of the line that is wrong.
    """
    path = Path(path)
    with open_file(path) as source:
        index = _Index()
        for number, offset, raw in iter_raw_lines(source):
            _index_line(index, parse_json_object(raw, number), number, offset)
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


def _index_line(index: _Index, value: dict[str, object], number: int, offset: int) -> None:
    kind = str(value.get("type", ""))
    if kind not in ("channel", "user", "bot", "post"):
        return
    content = value.get(kind)
    if not isinstance(content, dict):
        raise ImportFailed(number, f'Line {number} says it is a {kind} and has no "{kind}". Export it again.')
    if kind == "channel":
        if content.get("type", PUBLIC) == PUBLIC:
            name = required_text(content, "name", number)
            index.channels[_text(content, "team"), name] = _text(content, "display_name") or name
    elif kind in ("user", "bot"):
        username = required_text(content, "username", number)
        index.people[username] = _person_name(content) or username
        if kind == "bot":
            index.bots.add(username)
    else:
        _index_post(index, content, number, offset)


def _index_post(index: _Index, post: dict[str, object], number: int, offset: int) -> None:
    lines = list(_post_lines(post, number, index))
    replies = post.get("replies")
    channel = _text(post, "team"), _text(post, "channel")
    if channel in index.channels and lines:
        posts = index.answered if isinstance(replies, list) and replies and len(lines) > 1 else index.single
        posts[channel].add(offset, _milliseconds(post, number))


def _read_post(path: Path, offset: int, index: _Index) -> list[ImportedLine]:
    with open_file(path) as source:
        source.seek(offset)
        value = parse_json_object(source.readline(), 0)
    post = value["post"]
    assert isinstance(post, dict)
    return list(_post_lines(post, 0, index))


def _post_lines(post: dict[str, object], number: int, index: _Index) -> Iterator[ImportedLine]:
    """What somebody said: the post, then its replies by their time."""
    replies = post.get("replies")
    objects = [each for each in (replies if isinstance(replies, list) else []) if isinstance(each, dict)]
    for value in (post, *sorted(objects, key=lambda each: _milliseconds(each, number))):
        if _text(value, "type") not in _PERSONS_POSTS or value.get("delete_at"):
            continue
        user = required_text(value, "user", number)
        text = "\n".join([_with_handles(_text(value, "message"), index.people), *_file_labels(value)]).strip()
        if text:
            at = parse_timestamp(_milliseconds(value, number))
            yield ImportedLine(index.people.get(user, user), text, at, user in index.bots)


def _milliseconds(value: Mapping[str, object], number: int) -> int:
    created = value.get("create_at")
    if isinstance(created, bool) or not isinstance(created, int) or not 0 < created < 10**14:
        raise ImportFailed(number, f'Line {number} has no readable "create_at". Export it from Mattermost again.')
    return created


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
