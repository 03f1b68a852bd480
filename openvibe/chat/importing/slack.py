"""Reader of Slack's export zip: channels.json, users.json, and a folder per channel with one JSON file per day.

A stranger's zip, read carefully: no paths that lead out, no bombs, nothing written to disk."""

import json
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from openvibe.chat.importing.readers import (
    NOTHING_TO_SEE,
    TITLE_CHARACTERS,
    ImportedLine,
    ImportedThread,
    ImportFailed,
    LeftOut,
    RecordRefused,
    open_file,
    parse_timestamp,
    replace_unstorable,
    shorten,
    visible_text,
)
from openvibe.engines.text.cleaning import clean_handle

MAX_FILES = 200_000
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_TOTAL_BYTES = 2 * 1024 * 1024 * 1024
MAX_COMPRESSION_RATIO = 200
_MIN_BYTES_FOR_RATIO = 4 * 1024 * 1024
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    EOFError,
    NotImplementedError,
    RuntimeError,
    IndexError,
    OSError,
    UnicodeDecodeError,
)
"""What zipfile raises over a damaged file: besides its own errors those of names and places that cannot be."""


class SlackArchive:
    """The JSON files of an opened export. Raises ImportFailed when the zip is unsafe."""

    def __init__(self, zip_file: zipfile.ZipFile, left_out: LeftOut) -> None:
        self._zip_file = zip_file
        self.left_out = left_out
        members = [member for member in zip_file.infolist() if not member.is_dir()]
        _check_sizes(members)
        for member in members:
            _check_path(member.filename)
        top = _common_folder([member.filename for member in members])
        self._members = {member.filename.removeprefix(top): member for member in members}
        self.folders: defaultdict[str, list[str]] = defaultdict(list)
        """Names of the files directly in a folder, sorted."""
        for name in sorted(self._members):
            self.folders[name.rpartition("/")[0]].append(name)

    def read_objects(self, name: str) -> Iterator[tuple[int, dict[str, object]]]:
        """The objects of a file that holds a JSON list, each with its number from 1. What is none is left out. Raises
        RecordRefused for a file that cannot be read."""
        if name not in self._members:
            raise RecordRefused("there is none in this zip")
        try:
            with self._zip_file.open(self._members[name]) as source:
                raw = source.read(MAX_FILE_BYTES + 1)
            values = json.loads(raw.decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise RecordRefused("it is not UTF-8 text") from None
        except (ValueError, RecursionError):
            raise RecordRefused("it is not JSON") from None
        except (zlib.error, *_ZIP_ERRORS):
            raise RecordRefused("it is damaged") from None
        if not isinstance(values, list):
            raise RecordRefused("it does not hold a list")
        for number, value in enumerate(values, start=1):
            if isinstance(value, dict):
                yield number, value
            else:
                self.left_out.add(f"{shorten(name, 80)} record {number}", "it is not an object")


def _check_sizes(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_FILES:
        raise ImportFailed(f"This zip holds more than {MAX_FILES:,} files. Export fewer channels at once.")
    if sum(member.file_size for member in members) > MAX_TOTAL_BYTES:
        raise ImportFailed("This zip unpacks to more than 2 GB. Export a shorter time at once.")
    for member in members:
        packed_hard = member.file_size > MAX_COMPRESSION_RATIO * max(member.compress_size, 1)
        if member.file_size > MAX_FILE_BYTES or (packed_hard and member.file_size > _MIN_BYTES_FOR_RATIO):
            raise ImportFailed(f"{member.filename!r} in this zip unpacks to far too much; it was not opened.")


def _check_path(name: str) -> None:
    parts = PurePosixPath(name).parts
    if name.startswith("/") or "\\" in name or ".." in parts or (parts and parts[0].endswith(":")):
        raise ImportFailed(f"This zip holds a path that leads out of it ({name!r}); it was not opened.")


def _common_folder(names: list[str]) -> str:
    """Some exports are zipped with their folder around them: "export/" when channels.json is in there."""
    inside = [name for name in names if name.endswith("/channels.json") and name.count("/") == 1]
    return "" if "channels.json" in names or not inside else inside[0].removesuffix("channels.json")


_MARKUP = re.compile(r"<([^<>]{1,4000})>")


def slack_to_markdown(text: str, people: Mapping[str, str], channel_names: Mapping[str, str]) -> str:
    """Turns `<@U1>`, `<#C1|name>`, `<!here>`, `<https://…|label>` and entities into text.

    `people` maps user ids to display names, `channel_names` channel ids to names; an unknown id stays readable.
    A mention becomes `@` and the handle made of the person's name.
    """
    text = _MARKUP.sub(lambda match: _convert_markup(match[1], people, channel_names), text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _convert_markup(markup: str, people: Mapping[str, str], channel_names: Mapping[str, str]) -> str:
    target, _, label = markup.partition("|")
    if target.startswith("@"):
        return "@" + clean_handle(people.get(target[1:]) or label or target[1:])
    if target.startswith("#"):
        return "#" + (channel_names.get(target[1:]) or label or target[1:])
    if target.startswith("!"):
        return label or "@" + target[1:].partition("^")[0]
    address = target.removeprefix("mailto:")
    return address if not label or label in {target, address} else f"{label} ({address})"


_DAY_FILE = re.compile(r"\d{4}-\d{2}-\d{2}\.json")

# What somebody said. Every other subtype tells of the room (joined, renamed, pinned) or of a deleted message.
_TEXT_SUBTYPES = {"", "bot_message", "me_message", "thread_broadcast", "file_share", "file_comment"}


@dataclass(frozen=True, slots=True)
class _SlackMessage:
    ts: str
    thread_ts: str
    at: datetime
    line: ImportedLine


def read_slack(path: Path | str, left_out: LeftOut | None = None) -> Iterator[ImportedThread]:
    """Yields the public channels of an export: each reply thread, then what stands outside of threads.

    Only channels in channels.json are read, never private ones or direct messages. `<@U1>`, `<#C1>` and
    links become text; deleted and system messages are `left_out`, as are days and records that cannot be read; bots
    speak under their own name. The days of one channel are in memory at a time. Nothing is unpacked to disk.

    Raises ImportFailed when the file is no export or is unsafe to open.
    """
    with open_file(Path(path)) as source:
        try:
            with zipfile.ZipFile(source) as zip_file:
                yield from _read_threads(SlackArchive(zip_file, left_out or LeftOut()))
        except _ZIP_ERRORS:
            raise ImportFailed(
                f"{Path(path).name} is not a readable zip. Export it from Slack again and do not unpack it."
            ) from None


def _read_threads(archive: SlackArchive) -> Iterator[ImportedThread]:
    try:
        channels = list(archive.read_objects("channels.json"))
    except RecordRefused as problem:
        raise ImportFailed(
            f"There is no channels.json to go by: {problem.reason}. Is it an export from Slack?"
        ) from None
    channel_names = {str(channel.get("id", "")): str(channel.get("name", "")) for _, channel in channels}
    people = _read_people(archive)
    for number, channel in channels:
        name = replace_unstorable(_text_or_empty(channel.get("name")))
        if name:
            yield from _read_channel(archive, str(channel.get("id") or name), name, people, channel_names)
        else:
            archive.left_out.add(f"channels.json record {number}", 'it has no "name"')
    public = {str(channel.get("name", "")) for _, channel in channels}
    for folder in sorted(archive.folders.keys() - public - {""}):
        archive.left_out.add(shorten(folder, 80), "it is no public channel of channels.json, and stays private")


def _read_people(archive: SlackArchive) -> dict[str, str]:
    """Display names by id. Without them people are called by their ids."""
    people = {}
    try:
        for number, user in archive.read_objects("users.json"):
            if "id" in user:
                people[str(user["id"])] = _display_name(user)
            else:
                archive.left_out.add(f"users.json record {number}", 'it has no "id"')
    except RecordRefused as problem:
        archive.left_out.add("users.json", problem.reason)
    return people


def _read_channel(
    archive: SlackArchive, channel_id: str, name: str, people: dict[str, str], channel_names: dict[str, str]
) -> Iterator[ImportedThread]:
    messages: dict[tuple[str, str], _SlackMessage] = {}
    left_out = archive.left_out
    for day in archive.folders[name]:
        if not _DAY_FILE.fullmatch(day.rpartition("/")[2]):
            left_out.add(shorten(day, 80), "its name is not that of a day")
            continue
        try:
            for number, value in archive.read_objects(day):
                try:
                    message = _parse_message(value, people, channel_names)
                    key = message.ts, str(value.get("user") or value.get("bot_id") or message.line.author)
                    if key in messages:
                        raise RecordRefused("it stands there already, with the same time and person")
                    messages[key] = message
                except RecordRefused as problem:
                    left_out.add(f"{shorten(day, 80)} record {number}", problem.reason)
        except RecordRefused as problem:
            left_out.add(shorten(day, 80), problem.reason)
    replies: defaultdict[str, list[_SlackMessage]] = defaultdict(list)
    for message in sorted(messages.values(), key=lambda each: (each.at, each.ts)):
        replies[message.thread_ts].append(message)
    messages_outside = replies.pop("", [])
    for thread_ts, thread_messages in replies.items():
        subject = shorten(thread_messages[0].line.text, TITLE_CHARACTERS - len(name) - 3)
        lines = tuple(message.line for message in thread_messages)
        yield ImportedThread(f"slack:{channel_id}:{thread_ts}", f"#{name}: {subject}", lines)
    if messages_outside:
        yield ImportedThread(f"slack:{channel_id}", f"#{name}", tuple(message.line for message in messages_outside))


def _parse_message(value: dict[str, object], people: dict[str, str], channel_names: dict[str, str]) -> _SlackMessage:
    kind, subtype = str(value.get("type", "message")), str(value.get("subtype") or "")
    if kind != "message" or subtype not in _TEXT_SUBTYPES:
        raise RecordRefused(f"nobody said it: it tells of the room ({shorten(subtype or kind, 40)})")
    if value.get("hidden") or value.get("deleted_ts"):
        raise RecordRefused("it was deleted")
    ts = value.get("ts")
    if isinstance(ts, bool) or not isinstance(ts, str | int | float):
        raise RecordRefused('it has no "ts", the time that Slack knows it by')
    try:
        at = parse_timestamp(ts)
    except ValueError:
        raise RecordRefused('its "ts" is no time') from None
    text = slack_to_markdown(replace_unstorable(_text_or_empty(value.get("text"))), people, channel_names)
    text = visible_text("\n".join([text, *_file_labels(value)]))
    if not text:
        raise RecordRefused(NOTHING_TO_SEE)
    if subtype == "me_message":
        text = f"({text})"
    thread_ts = _text_or_empty(value.get("thread_ts"))
    author = replace_unstorable(_author_name(value, people))
    is_bot = subtype == "bot_message" or bool(value.get("bot_id"))
    return _SlackMessage(str(ts), thread_ts, at, ImportedLine(author, text, at, is_bot))


def _author_name(value: dict[str, object], people: dict[str, str]) -> str:
    user = _text_or_empty(value.get("user"))
    if user in people:
        return people[user]
    candidates = [value.get("username")]
    for source in ("user_profile", "bot_profile"):
        profile = value.get(source)
        if isinstance(profile, dict):
            candidates += [profile.get("display_name"), profile.get("real_name"), profile.get("name")]
    return _first_text([*candidates, user, value.get("bot_id"), "unknown"])


def _display_name(user: dict[str, object]) -> str:
    profile = user.get("profile")
    details = profile if isinstance(profile, dict) else {}
    names = [details.get("display_name"), details.get("real_name"), user.get("real_name"), user.get("name")]
    return replace_unstorable(_first_text(names) or str(user["id"]))


def _file_labels(value: dict[str, object]) -> list[str]:
    files = value.get("files")
    names = [
        _text_or_empty(each.get("title")) or _text_or_empty(each.get("name")) or "without a name"
        for each in (files if isinstance(files, list) else [])
        if isinstance(each, dict)
    ]
    return [f"[file: {replace_unstorable(name)}]" for name in names]


def _first_text(candidates: list[object]) -> str:
    return next((text for each in candidates if (text := _text_or_empty(each).strip())), "")


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""
