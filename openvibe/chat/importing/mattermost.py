"""Reader of Mattermost's bulk export: JSONL, one object a line, which names its kind: `channel`, `user`, `post`, …; as
a file or as the zip it comes in.

Only public channels are read, never private ones, direct messages or what the server itself wrote."""

import io
import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, cast

from openvibe.chat.importing.account import NOTHING_TO_SEE, Account
from openvibe.chat.importing.archives import open_zip
from openvibe.chat.importing.spool import Spool
from openvibe.chat.importing.values import (
    NOT_HERE,
    TITLE_CHARACTERS,
    ImportedChannel,
    ImportedLine,
    ImportedThread,
    ImportFailed,
    RecordRefused,
    fingerprint,
    iter_raw_lines,
    mention,
    open_file,
    parse_json_object,
    parse_timestamp,
    plain_mentions,
    replace_unstorable,
    required_text,
    shorten,
    title_text,
    visible_text,
)
from openvibe.engines.text.emoji_names import emoji_of_name, replace_emoji_names

PUBLIC = "O"
_PERSONS_POSTS = frozenset(("", "me", "slack_attachment", "reminder"))
"""Types of posts that somebody wrote; most others tell of the room: joined, renamed, deleted."""

_MENTION = re.compile(r"(?<![\w@])@([a-z0-9][a-z0-9._-]*)")
_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.DOTALL)
_NO_CONTENT = frozenset(("version", "team", "role", "scheme", "emoji", "direct_channel"))
PRIVATE = "it is a direct message, and those stay private"
_NO_EMOJI = "its emoji is one that the workspace drew itself, or none that is known"

_Channel = tuple[str, str]


@dataclass(slots=True)
class _Export:
    """Names of people and channels by what the export knows them by, and the lines of the public ones."""

    account: Account
    spool: Spool
    people: dict[str, str] = field(default_factory=dict)
    bots: set[str] = field(default_factory=set)
    channels: dict[_Channel, ImportedChannel] = field(default_factory=dict)
    members: dict[_Channel, list[str]] = field(default_factory=dict)
    private: set[_Channel] = field(default_factory=set)


def read_mattermost(path: Path | str, account: Account | None = None) -> Iterator[ImportedThread]:
    """Yields the public channels of an export: each post with its replies, and each day (UTC) of what stands alone.

    The whole file is read before the first thread is given; its lines wait in a file of their own. Attached files are
    named, not read. Posts, replies and lines that cannot be imported are left out. Raises ImportFailed for a zip that
    is none or unsafe.
    """
    account = account or Account()
    with Spool() as spool:
        export = _Export(account, spool)
        with _open_export(Path(path), account) as source:
            for number, _offset, raw in iter_raw_lines(source, account):
                _read_line(export, raw, f"line {number}")
        yield from _threads(export)


@contextmanager
def _open_export(path: Path, account: Account) -> Iterator[BinaryIO]:
    if not zipfile.is_zipfile(path):
        with open_file(path) as source:
            yield source
        return
    with open_zip(path, account, what="Mattermost") as archive:
        names = [name for name in archive.names() if name.endswith((".jsonl", ".ndjson"))]
        if not names:
            raise ImportFailed(f"There is no JSONL file in {path.name}. Is it a bulk export of Mattermost?")
        name = min(names, key=lambda each: (each.count("/"), each))
        for other in archive.names():
            if other != name:
                account.refuse(shorten(other, 80), NOT_HERE, "file")
        try:
            with archive.open(name) as source:
                yield cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, source)))
        except RecordRefused as problem:
            raise ImportFailed(f"{name} in this zip cannot be read: {problem.reason}.") from None


def _threads(export: _Export) -> Iterator[ImportedThread]:
    export.spool.join_threads()
    spoken = set()
    for thread, first in export.spool.threads():
        team, name, rest = thread.split("\n", 2)
        channel = export.channels[team, name]
        if channel.key not in spoken:
            spoken.add(channel.key)
            export.account.take_in("channel")
        title = title_text(first.text)
        if rest.startswith("day "):
            day = datetime.fromisoformat(rest.removeprefix("day "))
            title = f"{day.day} {day:%B %Y}: {title}"
        external_id = f"mattermost:{fingerprint(thread) if rest.startswith('day ') else rest}"
        former_id = f"mattermost:{fingerprint(team, name)}"
        lines = export.spool.lines(thread)
        title = shorten(title, TITLE_CHARACTERS)
        yield ImportedThread(external_id, title, lines, former_id, is_timed=True, channel=channel)
    for channel in export.channels.values():
        if channel.key not in spoken:
            export.account.leave_out(f"#{channel.name}", "nothing in it is taken in", "channel")


def _read_line(export: _Export, raw: bytes, place: str) -> None:
    account = export.account
    try:
        value = parse_json_object(raw)
    except RecordRefused as problem:
        account.refuse(place, problem.reason, "record")
        return
    kind = value.get("type") if isinstance(value.get("type"), str) else ""
    counted = {"channel": "channel", "user": "person", "bot": "person", "post": "message", "direct_post": "message"}
    if kind in _NO_CONTENT:
        account.read("record")
        account.take_in("record") if kind in ("version", "team") else account.leave_out(
            place, f"it tells of the server ({kind})", "record"
        )
        return
    counts_as = counted.get(str(kind), "record")
    content = value.get(str(kind))
    try:
        if counts_as == "record":
            raise RecordRefused(f'its "type" is {shorten(repr(value.get("type")), 40)}, and none that is known')
        if not isinstance(content, dict):
            raise RecordRefused(f'it says it is a {kind} and has no "{kind}"')
        _READERS[str(kind)](export, content, place)
    except RecordRefused as problem:
        account.refuse(place, problem.reason, counts_as)


def _read_channel(export: _Export, channel: Mapping[str, object], place: str) -> None:
    name, key = required_text(channel, "name"), (_text(channel, "team"), _text(channel, "name"))
    if channel.get("type", PUBLIC) != PUBLIC:
        export.private.add(key)
        raise RecordRefused("it is private, and stays so")
    texts = dict.fromkeys(filter(None, (_text(channel, "header"), _text(channel, "purpose"))))
    display_name = _text(channel, "display_name") or name
    export.account.read("channel")
    if key in export.channels:
        export.account.leave_out(place, "there is a channel of this name already", "channel")
        return
    export.channels[key] = ImportedChannel(f"mattermost:{'/'.join(key)}", display_name, "\n\n".join(texts))


def _read_person(export: _Export, user: Mapping[str, object], place: str) -> None:
    username = required_text(user, "username")
    export.people[username] = _person_name(user) or username
    export.account.read_person(_key(username), place)


def _read_bot(export: _Export, bot: Mapping[str, object], place: str) -> None:
    _read_person(export, bot, place)
    export.bots.add(required_text(bot, "username"))


def _read_post(export: _Export, post: Mapping[str, object], place: str) -> None:
    """A post and its replies; of a post that cannot be imported, the replies still are."""
    channel = _text(post, "team"), _text(post, "channel")
    account = export.account
    values = [post, *_replies(post)]
    if post.get("replies") and not isinstance(post["replies"], list):
        account.refuse(place, 'its "replies" are no list', "record")
    places = [place, *(f"{place}, reply {number}" for number in range(1, len(values)))]
    if channel not in export.channels:
        is_private = channel in export.private
        reason = "its channel is private" if is_private else "its channel is none that stands ahead of it"
        account.refuse(place, reason, count=len(values))
        return
    head, root = "\n".join(channel), ""
    for value, where in zip(values, places, strict=True):
        account.read()
        try:
            line = _parse_post(value, export, where)
            if len(values) == 1:
                thread = f"{head}\nday {line.at:%Y-%m-%d}"
            else:
                root = root or _root_key(channel, cast(Mapping[str, object], value), line, export.people)
                thread = f"{head}\n{root}"
            export.spool.add(thread, f"{head}\n{line.author_key}\n{line.at}\n{fingerprint(line.text)}", line)
        except RecordRefused as problem:
            account.leave_out(where, problem.reason)


def _root_key(channel: _Channel, post: Mapping[str, object], line: ImportedLine, people: Mapping[str, str]) -> str:
    """What a post with replies is known by: who said what, when and where, in the words that stand in the export."""
    message = _mark_mentions(_text(post, "message"), people)
    text = visible_text("\n".join([plain_mentions(message), *_file_labels(post)])) or plain_mentions(line.text)
    return fingerprint(*channel, line.author, line.at.isoformat() if line.at else "", text)


def _read_direct(export: _Export, post: Mapping[str, object], place: str) -> None:
    export.account.refuse(place, PRIVATE, count=1 + len(_replies(post)))


def _replies(post: Mapping[str, object]) -> list[object]:
    """The replies of a post with the replies to these, each behind what it answers."""
    found: list[object] = []
    waiting: list[object] = [post]
    while waiting:
        value = waiting.pop()
        replies = value.get("replies") if isinstance(value, dict) else None
        waiting.extend(reversed(replies if isinstance(replies, list) else []))
        found.append(value)
    return found[1:]


_READERS = {
    "channel": _read_channel,
    "user": _read_person,
    "bot": _read_bot,
    "post": _read_post,
    "direct_post": _read_direct,
}


def _parse_post(value: object, export: _Export, place: str) -> ImportedLine:
    if not isinstance(value, dict):
        raise RecordRefused("it is not an object")
    if value.get("delete_at"):
        raise RecordRefused("it was deleted")
    if (kind := _text(value, "type")) not in _PERSONS_POSTS and not kind.startswith("custom_"):
        raise RecordRefused(f"nobody said it: it tells of the channel ({shorten(kind, 40)})")
    user = required_text(value, "user")
    files = _file_labels(value)
    text = _with_marks(_text(value, "message"), export.people)
    text = "\n\n".join(filter(None, [text, *_attachment_texts(value, export)]))
    text = visible_text("\n".join([text, *files]))
    if not text:
        raise RecordRefused(NOTHING_TO_SEE)
    at = _parse_time(value)
    for _ in files:
        export.account.refuse(place, NOT_HERE, "file")
    if value.get("is_pinned"):
        export.account.refuse(place, "messages are not pinned here; the message itself is there", "pin")
    reactions = tuple(_reactions(value, export, place))
    is_bot = user in export.bots or _props(value).get("from_bot") in (True, "true") or _is_webhook(value)
    name, key = export.people.get(user, user), _key(user)
    override = _props(value).get("override_username")
    if _is_webhook(value) and isinstance(override, str) and override.strip():
        name, key = replace_unstorable(override.strip()), _key(f"{user}/{override.strip()}")
    return ImportedLine(name, text, at, is_bot, (), key, place, reactions)


def _key(username: str) -> str:
    return f"mattermost:{username}"


def _props(value: Mapping[str, object]) -> Mapping[str, object]:
    """Properties of a post, which stand there as an object or as its JSON."""
    props = value.get("props")
    if isinstance(props, str):
        try:
            props = parse_json_object(props.encode("utf-8", "replace"))
        except RecordRefused:
            return {}
    return props if isinstance(props, dict) else {}


def _is_webhook(value: Mapping[str, object]) -> bool:
    return _props(value).get("from_webhook") in (True, "true")


def _parse_time(value: Mapping[str, object]) -> datetime:
    """Reads `create_at`: milliseconds since 1970, a number or its digits."""
    created = value.get("create_at")
    try:
        if isinstance(created, bool) or not isinstance(created, str | int | float):
            raise ValueError("not a time")
        number = float(created)
        if not math.isfinite(number) or not 0 < number < 10**14:
            raise ValueError("out of range")
        return parse_timestamp(number)
    except (ValueError, OverflowError):
        raise RecordRefused('its "create_at" is no time that can be read') from None


def _with_marks(text: str, people: Mapping[str, str]) -> str:
    """The text with emoji, and marks for whom it mentions, outside of code."""
    pieces = _CODE.split(text)
    pieces[::2] = [_mark_mentions(replace_emoji_names(piece), people) for piece in pieces[::2]]
    return "".join(pieces)


def _mark_mentions(text: str, people: Mapping[str, str]) -> str:
    def convert(match: re.Match[str]) -> str:
        username = match[1] if match[1] in people else match[1].rstrip(".-_")
        if username not in people:
            return match[0]
        return f"{mention(_key(username), people[username])}{match[1][len(username) :]}"

    return _MENTION.sub(convert, text)


def _attachment_texts(value: Mapping[str, object], export: _Export) -> Iterator[str]:
    """What a program posted as attachments of the message, in Markdown."""
    attachments = _props(value).get("attachments")
    for each in attachments if isinstance(attachments, list) else []:
        if not isinstance(each, dict):
            continue
        title, address = _text(each, "title"), _text(each, "title_link")
        lines = [_text(each, "pretext"), _text(each, "author_name")]
        lines.append(f"[{title}]({address})" if title and address.startswith("http") else title and f"**{title}**")
        lines.append(_text(each, "text"))
        fields = each.get("fields")
        for one in fields if isinstance(fields, list) else []:
            if isinstance(one, dict):
                shown = str(one.get("value") if one.get("value") is not None else "")
                lines.append(replace_unstorable(f"**{_text(one, 'title')}**: {shown}"))
        lines.append(_text(each, "footer"))
        said = "\n".join(filter(None, lines)) or _text(each, "fallback")
        yield _with_marks(said, export.people)


def _reactions(value: Mapping[str, object], export: _Export, place: str) -> Iterator[tuple[str, str, str]]:
    reactions = value.get("reactions")
    for reaction in reactions if isinstance(reactions, list) else []:
        export.account.read("reaction")
        user = _text(reaction, "user") if isinstance(reaction, dict) else ""
        emoji = emoji_of_name(_text(reaction, "emoji_name")) if user else ""
        if emoji:
            yield emoji, _key(user), export.people.get(user, user)
        else:
            export.account.leave_out(place, _NO_EMOJI, "reaction")


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
