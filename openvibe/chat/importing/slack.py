"""Reader of Slack's export zip: channels.json, users.json, and a folder per channel with one JSON file per day.

Only channels in channels.json are read. Private ones and direct messages are counted and left out: nobody here can say
who of the workspace was in them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from openvibe.chat.importing.account import NOTHING_TO_SEE, Account
from openvibe.chat.importing.archives import ZipOfJson, open_zip
from openvibe.chat.importing.slack_text import Names, message_text, slack_key
from openvibe.chat.importing.spool import Spool
from openvibe.chat.importing.values import (
    TITLE_CHARACTERS,
    ImportedChannel,
    ImportedLine,
    ImportedThread,
    ImportFailed,
    RecordRefused,
    count_files,
    parse_timestamp,
    replace_unstorable,
    shorten,
    title_text,
    visible_text,
)
from openvibe.engines.text.emoji_names import emoji_of_name

_DAY_FILE = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
_OTHER_FILES = {
    "groups.json": ("record", "it lists a private channel, and those stay out"),
    "mpims.json": ("record", "it lists direct messages of several, and those stay out"),
    "dms.json": ("record", "it lists direct messages, and those stay out"),
    "canvases.json": ("canvas", "what is in it was not in what was read"),
    "lists.json": ("record", "it is a Slack list, which has no place here"),
    "integration_logs.json": ("record", "it tells which apps were installed, and by whom"),
    "file_conversations.json": ("record", "it tells where a file or canvas was shared"),
    "huddle_transcripts.json": ("record", "what is in it is read from the channels alone"),
}
_CHANNELS, _USERS = "channels.json", "users.json"
_PRIVATE_LISTS = ("groups.json", "mpims.json", "dms.json")
_PRIVATE_MARKS = ("is_private", "is_im", "is_mpim")
PRIVATE_ROOM = "it is a private channel or a direct message, and those stay out"
PRIVATE = "it is in a private channel or a direct message, and those stay out"
_SYSTEM_PREFIXES = ("channel_", "group_", "mpim_", "im_", "bot_add", "bot_remove", "bot_enable", "bot_disable")
_SYSTEM_SUBTYPES = frozenset(
    (
        *("pinned_item", "unpinned_item", "reminder_add", "reminder_delete", "reminder_completed"),
        *("app_conversation_join", "joiner_notification", "joiner_notification_for_inviter", "added_to_team"),
        *("ekm_access_denied", "file_mention", "message_replied"),
    )
)
_DELETED_SUBTYPES = frozenset(("tombstone", "message_deleted"))
_IS_FILE_OF_CANVAS = frozenset(("quip", "canvas", "channel_canvas"))
_PIN_REASON = "messages are not pinned here, only threads are; the message itself is there"
_PREVIEW_REASON = "it previews a page, which the link in the message leads to"
_NO_EMOJI = "its emoji is one that the workspace drew itself, or none that is known"


@dataclass(frozen=True, slots=True)
class _Export:
    archive: ZipOfJson
    names: Names

    @property
    def account(self) -> Account:
        return self.archive.account


def read_slack(path: Path | str, account: Account | None = None) -> Iterator[ImportedThread]:
    """Yields the public channels of an export: each reply thread, and each day (UTC) of what stands outside of threads.

    What a record says in its text, blocks and attachments becomes Markdown; bots speak under their own name. Days and
    records that cannot be read, deleted and system messages are left out. Nothing is unpacked to disk but the lines of
    one channel, in a file of their own. Raises ImportFailed when the file is no export or is unsafe to open.
    """
    with open_zip(Path(path), account or Account(), _CHANNELS, what="Slack") as archive:
        yield from _read_channels(archive)


def _read_channels(archive: ZipOfJson) -> Iterator[ImportedThread]:
    account = archive.account
    try:
        channels = list(archive.read_objects(_CHANNELS, "channel"))
    except RecordRefused as problem:
        raise ImportFailed(
            f"There is no channels.json to go by: {problem.reason}. Is it an export from Slack?"
        ) from None
    people = _read_people(archive)
    channel_names = {str(each.get("id", "")): replace_unstorable(_text(each, "name")) for _, each in channels}
    export = _Export(archive, Names(people, channel_names))
    folders, private = set(), _private_rooms(archive)
    for number, channel in channels:
        name = replace_unstorable(_text(channel, "name")).strip()
        if any(channel.get(mark) for mark in _PRIVATE_MARKS) or private & {_text(channel, "id"), name}:
            account.leave_out(f"{_CHANNELS} record {number}", PRIVATE_ROOM, "channel")
            continue
        if not name:
            account.leave_out(f"{_CHANNELS} record {number}", 'it has no "name"', "channel")
            continue
        folder = next((each for each in (_text(channel, "name"), name) if each in archive.folders), name)
        if folder in folders:
            account.leave_out(f"{_CHANNELS} record {number}", "there is a channel of this name already", "channel")
            continue
        folders.add(folder)
        yield from _read_channel(export, channel, name, folder)
    _count_other_files(archive, folders)


def _private_rooms(archive: ZipOfJson) -> set[str]:
    """Ids and names in the lists of private channels and direct messages: some programs list these rooms twice."""
    rooms: set[str] = set()
    for name in _PRIVATE_LISTS:
        try:
            for value in archive.iter_objects(name):
                rooms |= {_text(value, "id"), replace_unstorable(_text(value, "name")).strip()}
        except RecordRefused:
            continue  # said when it is counted
    return rooms - {""}


def _read_people(archive: ZipOfJson) -> dict[str, str]:
    """Display names by id. Without them people are called by their ids."""
    people: dict[str, str] = {}
    try:
        for number, user in archive.read_objects(_USERS, ""):
            if not isinstance(user.get("id"), str) or not user["id"]:
                archive.account.refuse(f"{_USERS} record {number}", 'it has no "id"', "person")
                continue
            user_id = str(user["id"])
            people.setdefault(user_id, _display_name(user))
            archive.account.read_person(slack_key(user_id), f"{_USERS} record {number}")
    except RecordRefused as problem:
        archive.account.refuse(_USERS, problem.reason, "record")
    return people


def _read_channel(export: _Export, channel: Mapping[str, object], name: str, folder: str) -> Iterator[ImportedThread]:
    place = ImportedChannel(
        f"slack:{channel.get('id') or name}", name, _description(channel), tuple(_members(channel, export))
    )
    with Spool() as spool:
        for day in export.archive.folders.get(folder, []):
            if _DAY_FILE.fullmatch(day.rpartition("/")[2]):
                _read_day(export, day, spool)
            else:
                export.account.refuse(shorten(day, 80), "its name is not that of a day", "record")
        if spool.is_empty():
            export.account.leave_out(f"#{name}", "nothing in it is taken in", "channel")
            return
        export.account.take_in("channel")
        spool.join_threads()
        spool.cut_into_days()
        for thread, first in spool.threads():
            external_id = f"{place.key}:{thread.removeprefix('day ')}"
            title = _title(thread, first)
            yield ImportedThread(external_id, title, spool.lines(thread), place.key, is_timed=True, channel=place)


def _title(thread: str, first: ImportedLine) -> str:
    subject = title_text(first.text)
    if not thread.startswith("day "):
        return shorten(subject, TITLE_CHARACTERS)
    day = date.fromisoformat(thread.removeprefix("day "))
    head = f"{day.day} {day:%B %Y}: "
    return head + shorten(subject, TITLE_CHARACTERS - len(head))


def _description(channel: Mapping[str, object]) -> str:
    """Topic and purpose."""
    texts = []
    for key in ("topic", "purpose"):
        value = channel.get(key)
        text = _text(value, "value") if isinstance(value, dict) else value if isinstance(value, str) else ""
        if text.strip() and text.strip() not in texts:
            texts.append(replace_unstorable(text).strip())
    return "\n\n".join(texts)


def _members(channel: Mapping[str, object], export: _Export) -> Iterator[tuple[str, str]]:
    members = channel.get("members")
    for user in dict.fromkeys(members if isinstance(members, list) else []):
        if isinstance(user, str) and user in export.names.people:
            yield slack_key(user), export.names.people[user]


def _read_day(export: _Export, day: str, spool: Spool) -> None:
    account, name = export.account, shorten(day, 80)
    try:
        for number, value in export.archive.read_objects(day, "message"):
            place = f"{name} record {number}"
            try:
                _read_message(export, value, place, spool)
            except RecordRefused as problem:
                account.leave_out(place, problem.reason)
                _count_parts(account, value, place, is_kept=False)
    except RecordRefused as problem:
        account.refuse(name, problem.reason, "record")


def _read_message(export: _Export, value: Mapping[str, object], place: str, spool: Spool) -> None:
    kind, subtype = str(value.get("type", "message")), _text(value, "subtype")
    inner = value.get("message")
    if subtype == "message_changed" and isinstance(inner, dict):
        value, subtype = {"ts": value.get("ts"), **inner}, _text(inner, "subtype")
    if kind != "message" or subtype in _SYSTEM_SUBTYPES or subtype.startswith(_SYSTEM_PREFIXES):
        raise RecordRefused(f"nobody said it: it tells of the room ({shorten(subtype or kind, 40)})")
    _link_replies(value, spool)
    if subtype in _DELETED_SUBTYPES or value.get("hidden") or value.get("deleted_ts"):
        raise RecordRefused("it was deleted")
    ts, at = _read_ts(value)
    previews: list[None] = []
    text = message_text(value, export.names, lambda: previews.append(None))
    text = visible_text("\n".join([text, *_huddle(value, subtype, export.names), *_file_labels(value)]))
    if not text:
        raise RecordRefused(NOTHING_TO_SEE)
    if subtype == "me_message":
        text = f"({text})"
    author, key, is_bot = _author(value, subtype, export)
    thread_ts = value.get("thread_ts")
    thread = _normal_ts(thread_ts) if isinstance(thread_ts, str | int | float) and thread_ts else ""
    reactions = tuple(_reactions(value, export, place))
    line = ImportedLine(author, text, at, is_bot, (), key, place, reactions)
    spool.add(thread, f"{ts}/{value.get('user') or value.get('bot_id') or author}", line)
    _count_parts(export.account, value, place, is_kept=True)
    if previews:
        export.account.refuse(place, _PREVIEW_REASON, "link preview", len(previews))


def _normal_ts(ts: str | float) -> str:
    return str(ts).strip()


def _read_ts(value: Mapping[str, object]) -> tuple[str, datetime]:
    ts = value.get("ts")
    if isinstance(ts, bool) or not isinstance(ts, str | int | float):
        raise RecordRefused('it has no "ts", the time that Slack knows it by')
    try:
        return _normal_ts(ts), parse_timestamp(ts)
    except ValueError:
        raise RecordRefused('its "ts" is no time') from None


def _link_replies(value: Mapping[str, object], spool: Spool) -> None:
    """Replies that the message they answer names."""
    replies, ts = value.get("replies"), value.get("ts")
    for reply in replies if isinstance(replies, list) and isinstance(ts, str | int | float) else []:
        reply_ts = reply.get("ts") if isinstance(reply, dict) else None
        if isinstance(reply_ts, str | int | float) and isinstance(ts, str | int | float):
            spool.link(_normal_ts(reply_ts), _normal_ts(ts))


def _author(value: Mapping[str, object], subtype: str, export: _Export) -> tuple[str, str, bool]:
    """Display name, key, and whether it is a bot's. Bots are who their id and the name they post under say."""
    user, bot = _text(value, "user"), _text(value, "bot_id")
    is_bot = subtype == "bot_message" or bool(bot) or user == "USLACKBOT"
    names: list[object] = [value.get("username")] if is_bot else []
    names.append(export.names.people.get(user))
    for source in ("user_profile", "bot_profile"):
        profile = value.get(source)
        if isinstance(profile, dict):
            names += [profile.get("display_name"), profile.get("real_name"), profile.get("name")]
    comment = value.get("comment")
    if not user and isinstance(comment, dict):
        user = _text(comment, "user")
        names.append(export.names.people.get(user))
    own_id = user or bot
    name = replace_unstorable(_first_text([*names, value.get("username"), own_id, "unknown"]))
    if is_bot and (named := _text(value, "username").strip()):
        return name, slack_key(f"{own_id}/{named}"), is_bot
    return name, slack_key(own_id) if own_id else "", is_bot


def _display_name(user: Mapping[str, object]) -> str:
    profile = user.get("profile")
    details = profile if isinstance(profile, dict) else {}
    names = [details.get("display_name"), details.get("real_name"), user.get("real_name"), user.get("name")]
    return replace_unstorable(_first_text(names) or str(user["id"]))


def _huddle(value: Mapping[str, object], subtype: str, names: Names) -> Iterator[str]:
    room = value.get("room")
    if subtype not in ("huddle_thread", "sh_room_created", "sh_room_shared") or not isinstance(room, dict):
        return
    people = room.get("participant_history") or room.get("participants")
    who = [names.person(user) for user in (people if isinstance(people, list) else []) if isinstance(user, str)]
    begin, end = room.get("date_start"), room.get("date_end")
    is_over = isinstance(begin, int) and isinstance(end, int) and end > begin
    minutes = f", {(int(str(end)) - int(str(begin))) // 60:,} min" if is_over else ""
    yield f"Huddle{minutes}" + (f": {', '.join(who)}" if who else "")


def _files(value: Mapping[str, object]) -> list[Mapping[str, object]]:
    files = value.get("files")
    single = value.get("file")
    found = files if isinstance(files, list) and files else [single] if isinstance(single, dict) else []
    return [each for each in found if isinstance(each, dict)]


def _file_labels(value: Mapping[str, object]) -> list[str]:
    comment = value.get("comment")
    labels = [replace_unstorable(_text(comment, "comment"))] if isinstance(comment, dict) else []
    for each in _files(value):
        name = _first_text([each.get("title"), each.get("name")]) or "without a name"
        labels.append(f"[{_file_kind(each)}: {replace_unstorable(name)}]")
    return labels


def _file_kind(file: Mapping[str, object]) -> str:
    return "canvas" if {file.get("mode"), file.get("filetype")} & _IS_FILE_OF_CANVAS else "file"


def _reactions(value: Mapping[str, object], export: _Export, place: str) -> Iterator[tuple[str, str, str]]:
    reactions = value.get("reactions")
    for reaction in reactions if isinstance(reactions, list) else []:
        users = reaction.get("users") if isinstance(reaction, dict) else None
        users = [user for user in users if isinstance(user, str)] if isinstance(users, list) else []
        emoji = emoji_of_name(_text(reaction, "name")) if users else ""
        if users:
            export.account.read("reaction", len(users))
        if users and not emoji:
            export.account.leave_out(place, _NO_EMOJI, "reaction", len(users))
        for user in users if emoji else []:
            yield emoji, slack_key(user), export.names.people.get(user, user)


def _count_parts(account: Account, value: Mapping[str, object], place: str, *, is_kept: bool) -> None:
    """Files, pins, and of a message that is left out the reactions."""
    for each in _files(value):
        kind = "canvas" if _file_kind(each) == "canvas" else "file"
        count_files(account, [""], place, kind) if is_kept else account.refuse(place, _WITH_MESSAGE, kind)
    if value.get("pinned_to"):
        account.refuse(place, _PIN_REASON if is_kept else _WITH_MESSAGE, "pin")
    reactions = value.get("reactions")
    for reaction in reactions if isinstance(reactions, list) and not is_kept else []:
        users = reaction.get("users") if isinstance(reaction, dict) else None
        if isinstance(users, list) and users:
            account.refuse(place, _WITH_MESSAGE, "reaction", len(users))


_WITH_MESSAGE = "its message is left out"


def _count_other_files(archive: ZipOfJson, folders: set[str]) -> None:
    """Counts the records of what no public channel holds, so that the sum is right."""
    account = archive.account
    known = {_CHANNELS, _USERS}
    for name in archive.names():
        folder, _, file = name.rpartition("/")
        if folder in folders or name in known:
            continue
        if not name.endswith(".json"):
            account.refuse(shorten(name, 80), "what is in it is no message", "file")
            continue
        kind, reason = _OTHER_FILES.get(name, ("record", "nothing is known of this file"))
        if folder and _DAY_FILE.fullmatch(file):
            kind, reason = "message", PRIVATE
        try:
            for number, _value in archive.read_objects(name, kind):
                account.leave_out(f"{shorten(name, 80)} record {number}", reason, kind)
        except RecordRefused as problem:
            account.refuse(shorten(name, 80), problem.reason, "record")


def _first_text(candidates: list[object]) -> str:
    return next((text for each in candidates if isinstance(each, str) and (text := each.strip())), "")


def _text(value: object, key: str) -> str:
    text = value.get(key) if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""
