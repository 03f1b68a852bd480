"""Slack's export zip: channels.json, users.json, and a folder per channel with one JSON file per day."""

import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from openvibe.chat.importing.base import (
    ImportedLine,
    ImportedThread,
    ImportFailed,
    mended,
    moment,
    open_for_reading,
    shortened,
)
from openvibe.chat.importing.slack_archive import SlackArchive
from openvibe.chat.importing.slack_text import as_markdown

_TITLE_CHARACTERS = 120
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\.json")

# What somebody said. Every other subtype tells of the room (joined, renamed, pinned) or of a deleted message.
_SAID = {"", "bot_message", "me_message", "thread_broadcast", "file_share", "file_comment"}


@dataclass(frozen=True, slots=True)
class _Message:
    ts: str
    thread_ts: str
    at: datetime
    author: str
    text: str


def read_slack(path: Path | str) -> Iterator[ImportedThread]:
    """Yield the public channels of an export: each reply thread, then what stands outside of threads.

    Only channels in channels.json are read, never private ones or direct messages. `<@U1>`, `<#C1>` and
    links become text; deleted and system messages are left out; bots speak under their own name. The days
    of one channel are in memory at a time. Nothing is unpacked to disk.

    Raises ImportFailed when the file is no export, is unsafe to open, or holds broken JSON.
    """
    with open_for_reading(Path(path)) as source:
        try:
            with zipfile.ZipFile(source) as opened:
                yield from _threads(SlackArchive(opened))
        except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, RuntimeError):
            raise ImportFailed(
                None,
                f"{Path(path).name} is not a readable zip. Export it from Slack again and do not unpack it.",
            ) from None


def _threads(archive: SlackArchive) -> Iterator[ImportedThread]:
    people = {
        str(user["id"]): _display_name(user) for user in archive.objects("users.json", required=False) if "id" in user
    }
    channels = archive.objects("channels.json", required=True)
    rooms = {str(channel.get("id", "")): str(channel.get("name", "")) for channel in channels}
    for channel in channels:
        name = mended(str(channel.get("name", "")))
        if name:
            yield from _channel(archive, str(channel.get("id") or name), name, people, rooms)


def _channel(
    archive: SlackArchive, channel_id: str, name: str, people: dict[str, str], rooms: dict[str, str]
) -> Iterator[ImportedThread]:
    messages: dict[str, _Message] = {}
    for day in archive.files_in(name):
        if not _DAY.fullmatch(day.rpartition("/")[2]):
            continue
        for value in archive.objects(day, required=True):
            message = _message(value, people, rooms, day)
            if message is not None:
                messages[message.ts + message.author] = message
    replies: defaultdict[str, list[_Message]] = defaultdict(list)
    for message in sorted(messages.values(), key=lambda each: (each.at, each.ts)):
        replies[message.thread_ts].append(message)
    alone = replies.pop("", [])
    for thread_ts, said in replies.items():
        about = shortened(said[0].text, _TITLE_CHARACTERS - len(name) - 3)
        yield ImportedThread(f"slack:{channel_id}:{thread_ts}", f"#{name}: {about}", _lines(said))
    if alone:
        yield ImportedThread(f"slack:{channel_id}", f"#{name}", _lines(alone))


def _lines(messages: list[_Message]) -> tuple[ImportedLine, ...]:
    return tuple(ImportedLine(message.author, message.text, message.at) for message in messages)


def _message(value: dict[str, object], people: dict[str, str], rooms: dict[str, str], day: str) -> _Message | None:
    if str(value.get("type", "message")) != "message" or value.get("hidden") or value.get("deleted_ts"):
        return None
    if str(value.get("subtype") or "") not in _SAID:
        return None
    ts = str(value.get("ts", ""))
    try:
        at = moment(ts)
    except ValueError:
        raise ImportFailed(None, f'In {day} a message has no readable "ts". Export it from Slack again.') from None
    text = as_markdown(mended(_as_text(value.get("text"))), people, rooms)
    text = "\n".join([text, *_file_names(value)]).strip()
    if value.get("subtype") == "me_message" and text:
        text = f"({text})"
    if not text:
        return None
    thread_ts = _as_text(value.get("thread_ts"))
    return _Message(ts, thread_ts, at, mended(_author(value, people)), text)


def _author(value: dict[str, object], people: dict[str, str]) -> str:
    user = _as_text(value.get("user"))
    if user in people:
        return people[user]
    named = [value.get("username")]
    for source in ("user_profile", "bot_profile"):
        profile = value.get(source)
        if isinstance(profile, dict):
            named += [profile.get("display_name"), profile.get("real_name"), profile.get("name")]
    named += [user, value.get("bot_id")]
    return next((_as_text(name).strip() for name in named if _as_text(name).strip()), "unknown")


def _display_name(user: dict[str, object]) -> str:
    profile = user.get("profile")
    details = profile if isinstance(profile, dict) else {}
    names = [details.get("display_name"), details.get("real_name"), user.get("real_name"), user.get("name")]
    return mended(next((_as_text(name).strip() for name in names if _as_text(name).strip()), str(user["id"])))


def _file_names(value: dict[str, object]) -> list[str]:
    files = value.get("files")
    return [
        f"[file: {mended(_as_text(each.get('title')) or _as_text(each.get('name')) or 'without a name')}]"
        for each in (files if isinstance(files, list) else [])
        if isinstance(each, dict)
    ]


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ""
