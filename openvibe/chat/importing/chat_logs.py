"""Readers of conversations with assistants: exports of ChatGPT and Claude, chats of Open WebUI, logs of model APIs as
lists, and session files of Claude Code."""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, cast

from openvibe.chat.importing.account import NOTHING_TO_SEE, Account
from openvibe.chat.importing.archives import open_zip
from openvibe.chat.importing.chat_parts import ONLY_THOUGHTS, Saying, is_machine, read_said, role_name
from openvibe.chat.importing.json_stream import iter_json_list
from openvibe.chat.importing.spool import Spool
from openvibe.chat.importing.values import (
    MAX_LINE_BYTES,
    NOT_HERE,
    TITLE_CHARACTERS,
    ImportedLine,
    ImportedThread,
    ImportFailed,
    RecordRefused,
    count_files,
    fingerprint,
    iter_raw_lines,
    open_file,
    parse_json_object,
    parse_timestamp,
    replace_unstorable,
    shorten,
    title_text,
    visible_text,
)

Object = Mapping[str, object]
_LIST_KEYS = ("chat_messages", "messages", "conversations", "conversation", "turns", "input", "items")
_TEXT_KEYS = ("content", "text", "value", "parts", "message")
_ROLE_KEYS = ("role", "sender", "from", "author", "speaker")
_TIME_KEYS = ("create_time", "created_at", "timestamp", "time", "createdAt", "date")
_ID_KEYS = ("conversation_id", "uuid", "id")
_TITLE_KEYS = ("title", "name")
_SYSTEM = role_name("system")
TOOK_ITS_PLACE = "a later answer or question took its place"
_OF_THE_ACCOUNT = "it belongs to the account, not to a conversation"


def read_chats(path: Path | str, account: Account | None = None, name: str = "") -> Iterator[ImportedThread]:
    """Yields one thread for each conversation of a zip with conversations.json, a JSON list or object, or JSONL.

    One conversation is in memory at a time; a list of messages alone is one conversation, and waits on disk. Of a tree
    of versions the branch that was open last is read. Raises ImportFailed when nothing in it can be read.
    """
    path, account = Path(path), account or Account()
    if zipfile.is_zipfile(path):
        yield from _read_zip(path, account, name or path.stem)
        return
    with open_file(path) as source:
        yield from _Chats(account, name or path.stem).threads(source)


def _read_zip(path: Path, account: Account, name: str) -> Iterator[ImportedThread]:
    """Large exports have their conversations in several files, in the order of their names."""
    with open_zip(path, account, what="where you took it from") as archive:
        names = [each for each in archive.names() if is_of_conversations(each)]
        if not names:
            raise ImportFailed(f"There is no conversations.json in {path.name}. Is it an export of ChatGPT or Claude?")
        for other in archive.names():
            if other not in names:
                reason = _OF_THE_ACCOUNT if other.endswith((".json", ".html")) else NOT_HERE
                account.refuse(shorten(other, 80), reason, "file")
        for each in names:
            try:
                with archive.open(each) as source:
                    yield from _Chats(account, name, each if len(names) > 1 else "").threads(source)
            except RecordRefused as problem:
                if len(names) == 1:
                    raise ImportFailed(f"{each} in this zip cannot be read: {problem.reason}.") from None
                account.refuse(shorten(each, 80), problem.reason, "file")


def is_of_conversations(name: str) -> bool:
    """Whether a file of an export of ChatGPT or Claude holds its conversations, or some of them."""
    return re.fullmatch(r"conversations(?:[-_]\d+)?\.json", name.rpartition("/")[2]) is not None


@dataclass(frozen=True, slots=True)
class _Chats:
    account: Account
    name: str
    """Name of the file, for messages that stand in no conversation."""

    file: str = ""
    """Name of the file in its zip, where there are several."""

    def _place(self, number: int) -> str:
        return f"{shorten(self.file, 80)} record {number}".strip()

    def threads(self, source: BinaryIO) -> Iterator[ImportedThread]:
        with Spool() as spool:
            number = 0
            try:
                for number, value in enumerate(_elements(source, self.account), start=1):
                    place = self._place(number)
                    if isinstance(value, list) or (isinstance(value, dict) and _messages_of(value) is not None):
                        thread = self._conversation({"messages": value} if isinstance(value, list) else value, place)
                        if thread is not None:
                            yield thread
                    else:
                        self._add_loose(value, place, spool)
            except RecordRefused as problem:
                self.account.refuse(self._place(number + 1), problem.reason, "record")
            if not spool.is_empty():
                spool.join_threads()
                first = next(spool.lines(self.name))
                key = fingerprint(self.name, first.author, first.text)
                title = shorten(self.name, TITLE_CHARACTERS) or "Imported conversation"
                yield ImportedThread(f"chat:{key}", title, spool.lines(self.name))

    def _add_loose(self, value: object, place: str, spool: Spool) -> None:
        self.account.read()
        try:
            if not isinstance(value, dict):
                raise RecordRefused("it is not an object")
            spool.add(self.name, place, _parse_message(value, place), keep_order=True)
        except RecordRefused as problem:
            self.account.leave_out(place, problem.reason)

    def _conversation(self, value: Object, place: str) -> ImportedThread | None:
        lines = []
        for where, message, refusal in _walk(value):
            at = f"{place}, {where}"
            self.account.read()
            try:
                if refusal or not isinstance(message, dict):
                    raise RecordRefused(refusal or "it is not an object")
                line = _parse_message(message, at)
            except RecordRefused as problem:
                self.account.leave_out(at, problem.reason)
                continue
            count_files(self.account, line.files, at)
            lines.append(line)
        self.account.read("record")
        if not lines:
            self.account.leave_out(place, "nobody says anything in it", "record")
            return None
        self.account.take_in("record")
        own_id = _first_text(value, _ID_KEYS)
        key = fingerprint(own_id) if own_id else fingerprint(lines[0].author, lines[0].text, str(lines[0].at))
        opening = next((line for line in lines if line.author != _SYSTEM), lines[0])
        title = shorten(_first_text(value, _TITLE_KEYS) or title_text(opening.text), TITLE_CHARACTERS) or "Conversation"
        times = [line.at for line in lines if line.at is not None]
        is_timed = len(times) == len(lines) and all(one <= other for one, other in pairwise(times))
        return ImportedThread(f"chat:{key}", replace_unstorable(title), tuple(lines), is_timed=is_timed)


def _elements(source: BinaryIO, account: Account) -> Iterator[object]:
    """Conversations or messages: elements of a list, lines, or what an object holds."""
    first = _peek(source)
    if first == b"[":
        yield from iter_json_list(source)
        return
    values = []
    for number, _offset, raw in iter_raw_lines(source, account):
        try:
            values.append(parse_json_object(raw))
        except RecordRefused as problem:
            if number == 1 and (whole := _whole_object(raw, source)) is not None:
                yield from _unwrapped(whole)
                return
            account.refuse(f"line {number}", problem.reason, "record")
        while values:
            yield from _unwrapped(values.pop())


_MAX_OBJECT_BYTES = 64 * 1024 * 1024


def _whole_object(first: bytes, source: BinaryIO) -> Object | None:
    """The object that begins with this line and goes on to the end; None, and the source where it was, when the lines
    are one thing each. Raises RecordRefused when it is none of both."""
    place = source.tell()
    raw = first + source.read(_MAX_OBJECT_BYTES)
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        source.seek(place)
        if _has_lines_of_objects(source):
            source.seek(place)
            return None
        reason = "it is one object of more than 64 MB" if len(raw) > _MAX_OBJECT_BYTES else "it is not JSON"
        raise RecordRefused(reason) from None
    return value if isinstance(value, dict) else None


def _has_lines_of_objects(source: BinaryIO) -> bool:
    """Whether one of the next lines is an object or a list of its own."""
    for _ in range(_LOOKED_AT_LINES):
        line = source.readline(MAX_LINE_BYTES)
        if not line:
            return False
        try:
            if isinstance(json.loads(line), dict) and line[:1] == b"{":
                return True
        except (ValueError, RecursionError):
            continue
    return False


_LOOKED_AT_LINES = 20


def _unwrapped(value: Object) -> Iterator[object]:
    """An object around a list of conversations is taken off."""
    for key in ("data", "chats", "conversations"):
        inner = value.get(key)
        if not isinstance(inner, list) or not all(isinstance(each, dict) for each in inner):
            continue
        if any(_messages_of(each) is not None for each in inner):
            yield from inner
            return
    yield value


def _peek(source: BinaryIO) -> bytes:
    """The first byte that is no blank."""
    beginning = source.read(4096)
    source.seek(0)
    return beginning.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]


def _messages_of(value: Object) -> object:
    """The messages of a conversation: a tree or a list; None when it is none."""
    if isinstance(value.get("mapping"), dict):
        return value["mapping"]
    chat = value.get("chat")
    if isinstance(chat, dict) and (inner := _messages_of(chat)) is not None:
        return inner
    history = value.get("history")
    if isinstance(history, dict) and isinstance(history.get("messages"), dict) and history["messages"]:
        return history["messages"]
    return next((value[key] for key in _LIST_KEYS if isinstance(value.get(key), list)), None)


def _walk(value: Object) -> Iterator[tuple[str, object, str]]:
    """Place, message and (of what is not read) the reason, in order: those on the open branch first."""
    messages = _messages_of(value)
    if isinstance(messages, list):
        answered = _open_branch_of_list(value, messages)
        for number, message in enumerate(messages, start=1):
            is_read = answered is None or number - 1 in answered
            yield f"message {number}", message, "" if is_read else TOOK_ITS_PLACE
        return
    if not isinstance(messages, dict):
        return
    branch = _branch(messages, _current_of(value, messages))
    for key in branch:
        node = messages[key]
        yield f"message {shorten(str(key), 40)}", _node_message(node), ""
    for key, node in messages.items():
        if key not in branch and _node_message(node) is not None:
            yield f"message {shorten(str(key), 40)}", _node_message(node), TOOK_ITS_PLACE


def _open_branch_of_list(value: Object, messages: list[object]) -> set[int] | None:
    """Claude's: each message names the one before it, and the conversation the last one. None where all are read."""
    by_id = {each["uuid"]: n for n, each in enumerate(messages) if isinstance(each, dict) and "uuid" in each}
    current = value.get("current_leaf_message_uuid")
    if not isinstance(current, str) or current not in by_id:
        return None
    found: set[int] = set()
    while isinstance(current, str) and current in by_id and by_id[current] not in found:
        found.add(by_id[current])
        node = messages[by_id[current]]
        current = node.get("parent_message_uuid") if isinstance(node, dict) else None
    return found if len(found) > 1 or len(messages) == 1 else None


def _node_message(node: object) -> object:
    """ChatGPT's nodes hold a message or none, Open WebUI's are messages."""
    if isinstance(node, dict) and ("message" in node or "mapping" in node):
        return node["message"] if isinstance(node["message"], dict) else None
    return node if isinstance(node, dict) and "role" in node else None


def _current_of(value: Object, nodes: Mapping[str, object]) -> str:
    chat = value.get("chat")
    places = [value, value.get("history"), chat, chat.get("history") if isinstance(chat, dict) else None]
    for place in places:
        for key in ("current_node", "currentId"):
            current = place.get(key) if isinstance(place, dict) else None
            if isinstance(current, str) and current in nodes:
                return current
    parents = {node.get("parent", node.get("parentId")) for node in nodes.values() if isinstance(node, dict)}
    leaves = [key for key in nodes if key not in parents]
    return leaves[-1] if leaves else next(iter(nodes), "")


def _branch(nodes: Mapping[str, object], current: str) -> dict[str, None]:
    """Keys of the messages from the root to `current`."""
    found: dict[str, None] = {}
    key: object = current
    while isinstance(key, str) and key in nodes and key not in found:
        found[key] = None
        node = nodes[key]
        key = node.get("parent", node.get("parentId")) if isinstance(node, dict) else None
    return {key: None for key in reversed(found) if _node_message(nodes[key]) is not None}


def _parse_message(message: Object, place: str) -> ImportedLine:
    role = _role(message)
    metadata = message.get("metadata")
    if isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation"):
        raise RecordRefused("it was never shown to anybody")
    key = next((key for key in _TEXT_KEYS if message.get(key) not in (None, "", [])), "content")
    said = read_said(message, key, listed=[own_id for own_id, _ in _attached(message)])
    author = role_name(role)
    if said.is_result and role not in ("assistant",):
        role = author = "tool" if is_machine(role) or role in ("user", "human") else role
        author = role_name(role)
    return _line(message, said, author, role, place)


def _line(message: Object, said: Saying, author: str, role: str, place: str) -> ImportedLine:
    text = visible_text(said.text)
    files = (*said.files, *(name for _, name in _attached(message)))
    extracted = [words for words in _extracted(message) if words]
    if extracted:
        text = "\n\n".join(filter(None, [text, *extracted]))
    if not (text or files):
        raise RecordRefused(ONLY_THOUGHTS if said.has_thoughts else NOTHING_TO_SEE)
    return ImportedLine(author, text, _time(message), is_machine(role), files, "", place)


def _role(message: Object) -> str:
    for key in _ROLE_KEYS:
        value = message.get(key)
        role = value.get("role") if isinstance(value, dict) else value
        if isinstance(role, str) and role.strip():
            return {"human": "user", "gpt": "assistant"}.get(role.strip().lower(), role.strip().lower())
    if message.get("type") == "function_call":
        return "assistant"
    if message.get("type") == "function_call_output":
        return "tool"
    raise RecordRefused('it has no "role"')


def _time(message: Object) -> datetime | None:
    """The time, None of one that cannot be read: the words still come in."""
    for key in _TIME_KEYS:
        if message.get(key) not in (None, "", 0):
            try:
                return parse_timestamp(message[key])
            except ValueError:
                continue
    return None


def _attached(message: Object) -> Iterator[tuple[str, str]]:
    """Ids and names of the files that a message lists."""
    for holder in (message, message.get("metadata")):
        for key in ("attachments", "files"):
            values = holder.get(key) if isinstance(holder, dict) else None
            for each in values if isinstance(values, list) else []:
                name = _first_text(each, ("file_name", "name", "filename", "id")) if isinstance(each, dict) else each
                if isinstance(name, str) and name:
                    yield str(each.get("id", "")) if isinstance(each, dict) else "", replace_unstorable(name)


def _extracted(message: Object) -> Iterator[str]:
    """Claude's attachments hold the text that was in them."""
    attachments = message.get("attachments")
    for each in attachments if isinstance(attachments, list) else []:
        words = each.get("extracted_content") if isinstance(each, dict) else None
        if isinstance(words, str) and words.strip():
            yield replace_unstorable(words).strip()


def _first_text(value: Object, keys: tuple[str, ...]) -> str:
    for key in keys:
        text = value.get(key)
        if isinstance(text, str) and text.strip():
            return " ".join(replace_unstorable(text).split())
    return ""


def read_claude_code(path: Path | str, account: Account | None = None) -> Iterator[ImportedThread]:
    """Yields a session file of Claude Code as one thread for each session, and one for each agent of its own in it."""
    path, account = Path(path), account or Account()
    with Spool() as spool:
        titles: dict[str, str] = {}
        with open_file(path) as source:
            for number, _offset, raw in iter_raw_lines(source, account):
                try:
                    _add_session_line(parse_json_object(raw), f"line {number}", spool, account, titles)
                except RecordRefused as problem:
                    account.refuse(f"line {number}", problem.reason, "record")
        spool.join_threads()
        for thread, first in spool.threads():
            title = titles.get(thread) or title_text(first.text)
            lines = spool.lines(thread)
            yield ImportedThread(f"claude-code:{fingerprint(thread)}", shorten(title, TITLE_CHARACTERS), lines)


def _add_session_line(
    value: dict[str, object], place: str, spool: Spool, account: Account, titles: dict[str, str]
) -> None:
    """Raises RecordRefused for what is no message."""
    kind, message = value.get("type"), value.get("message")
    session = str(value.get("sessionId") or "session")
    if kind == "summary" and isinstance(value.get("summary"), str):
        titles.setdefault(session, replace_unstorable(str(value["summary"])))
    if kind not in ("user", "assistant") or not isinstance(message, dict):
        raise RecordRefused(f"it is bookkeeping of the program ({shorten(str(kind), 40)})")
    account.read()
    try:
        if value.get("isMeta"):
            raise RecordRefused("the program wrote it for the model, and nobody saw it")
        own_time = value.get("timestamp")
        line = _parse_message({"role": kind, "timestamp": own_time, **cast(dict[str, object], message)}, place)
        side = value.get("agentId") if value.get("isSidechain") else ""
        thread = f"{session}/{side or 'side'}" if value.get("isSidechain") else session
        spool.add(thread, str(value.get("uuid") or place), line, keep_order=True)
        count_files(account, line.files, place)
    except RecordRefused as problem:
        account.leave_out(place, problem.reason)
