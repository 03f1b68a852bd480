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

from openvibe.base.text import clean_handle
from openvibe.chat.importing.readers import (
    TITLE_CHARACTERS,
    ImportedLine,
    ImportedThread,
    ImportFailed,
    open_file,
    parse_timestamp,
    replace_unstorable,
    shorten,
)

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

    def __init__(self, zip_file: zipfile.ZipFile) -> None:
        self._zip_file = zip_file
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

    def read_objects(self, name: str, *, required: bool) -> list[dict[str, object]]:
        """Read a file that holds a JSON list; what in it is not an object is left out."""
        if name not in self._members:
            if required:
                raise ImportFailed(None, f"There is no {name} in this zip. Is it an export from Slack?")
            return []
        try:
            with self._zip_file.open(self._members[name]) as source:
                raw = source.read(MAX_FILE_BYTES + 1)
            value = json.loads(raw.decode("utf-8-sig"))
        except zlib.error:
            raise ImportFailed(None, f"{name} in this zip is damaged. Export it from Slack again.") from None
        except (ValueError, RecursionError):
            raise ImportFailed(None, f"{name} in this zip is not JSON. Export it from Slack again.") from None
        if not isinstance(value, list):
            raise ImportFailed(None, f"{name} in this zip does not hold a list. Is it an export from Slack?")
        return [each for each in value if isinstance(each, dict)]


def _check_sizes(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_FILES:
        raise ImportFailed(None, f"This zip holds more than {MAX_FILES:,} files. Export fewer channels at once.")
    if sum(member.file_size for member in members) > MAX_TOTAL_BYTES:
        raise ImportFailed(None, "This zip unpacks to more than 2 GB. Export a shorter time at once.")
    for member in members:
        packed_hard = member.file_size > MAX_COMPRESSION_RATIO * max(member.compress_size, 1)
        if member.file_size > MAX_FILE_BYTES or (packed_hard and member.file_size > _MIN_BYTES_FOR_RATIO):
            raise ImportFailed(None, f"{member.filename!r} in this zip unpacks to far too much; it was not opened.")


def _check_path(name: str) -> None:
    parts = PurePosixPath(name).parts
    if name.startswith("/") or "\\" in name or ".." in parts or (parts and parts[0].endswith(":")):
        raise ImportFailed(None, f"This zip holds a path that leads out of it ({name!r}); it was not opened.")


def _common_folder(names: list[str]) -> str:
    """Some exports are zipped with their folder around them: "export/" when channels.json is in there."""
    inside = [name for name in names if name.endswith("/channels.json") and name.count("/") == 1]
    return "" if "channels.json" in names or not inside else inside[0].removesuffix("channels.json")


_MARKUP = re.compile(r"<([^<>]{1,4000})>")


def slack_to_markdown(text: str, people: Mapping[str, str], channel_names: Mapping[str, str]) -> str:
    """Turn `<@U1>`, `<#C1|name>`, `<!here>`, `<https://…|label>` and entities into text.

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


def read_slack(path: Path | str) -> Iterator[ImportedThread]:
    """Yield the public channels of an export: each reply thread, then what stands outside of threads.

    Only channels in channels.json are read, never private ones or direct messages. `<@U1>`, `<#C1>` and
    links become text; deleted and system messages are left out; bots speak under their own name. The days
    of one channel are in memory at a time. Nothing is unpacked to disk.

    Raises ImportFailed when the file is no export, is unsafe to open, or holds broken JSON.
    """
    with open_file(Path(path)) as source:
        try:
            with zipfile.ZipFile(source) as zip_file:
                yield from _read_threads(SlackArchive(zip_file))
        except _ZIP_ERRORS:
            raise ImportFailed(
                None, f"{Path(path).name} is not a readable zip. Export it from Slack again and do not unpack it."
            ) from None


def _read_threads(archive: SlackArchive) -> Iterator[ImportedThread]:
    people = {
        str(user["id"]): _display_name(user)
        for user in archive.read_objects("users.json", required=False)
        if "id" in user
    }
    channels = archive.read_objects("channels.json", required=True)
    channel_names = {str(channel.get("id", "")): str(channel.get("name", "")) for channel in channels}
    for channel in channels:
        name = replace_unstorable(str(channel.get("name", "")))
        if name:
            yield from _read_channel(archive, str(channel.get("id") or name), name, people, channel_names)


def _read_channel(
    archive: SlackArchive, channel_id: str, name: str, people: dict[str, str], channel_names: dict[str, str]
) -> Iterator[ImportedThread]:
    messages: dict[str, _SlackMessage] = {}
    for day in archive.folders[name]:
        if not _DAY_FILE.fullmatch(day.rpartition("/")[2]):
            continue
        for value in archive.read_objects(day, required=True):
            message = _parse_message(value, people, channel_names, day)
            if message is not None:
                messages[message.ts + message.line.author] = message
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


def _parse_message(
    value: dict[str, object], people: dict[str, str], channel_names: dict[str, str], day: str
) -> _SlackMessage | None:
    is_text = str(value.get("type", "message")) == "message" and str(value.get("subtype") or "") in _TEXT_SUBTYPES
    if not is_text or value.get("hidden") or value.get("deleted_ts"):
        return None
    ts = str(value.get("ts", ""))
    try:
        at = parse_timestamp(ts)
    except ValueError:
        raise ImportFailed(None, f'In {day} a message has no readable "ts". Export it from Slack again.') from None
    text = slack_to_markdown(replace_unstorable(_text_or_empty(value.get("text"))), people, channel_names)
    text = "\n".join([text, *_file_labels(value)]).strip()
    if value.get("subtype") == "me_message" and text:
        text = f"({text})"
    if not text:
        return None
    thread_ts = _text_or_empty(value.get("thread_ts"))
    author = replace_unstorable(_author_name(value, people))
    is_bot = value.get("subtype") == "bot_message" or bool(value.get("bot_id"))
    return _SlackMessage(ts, thread_ts, at, ImportedLine(author, text, at, is_bot))


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
