"""Readers by format, and the format of a file by what stands in it."""

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from openvibe.chat.importing.account import Account
from openvibe.chat.importing.archives import ZIP_ERRORS
from openvibe.chat.importing.chat_logs import is_of_conversations, read_chats, read_claude_code
from openvibe.chat.importing.mattermost import read_mattermost
from openvibe.chat.importing.readers import read_jsonl, read_qmsum
from openvibe.chat.importing.slack import read_slack
from openvibe.chat.importing.values import ImportedThread, ImportFailed, is_no_text, open_as_utf8, open_file

Reader = Callable[[Path, Account, str], Iterator[ImportedThread]]
READERS: dict[str, Reader] = {
    "qmsum": lambda path, account, name: read_qmsum(path, account),
    "jsonl": read_jsonl,
    "slack": lambda path, account, name: read_slack(path, account),
    "mattermost": lambda path, account, name: read_mattermost(path, account),
    "chats": read_chats,
    "claude-code": lambda path, account, name: read_claude_code(path, account),
}
"""Readers by what a format is called. The last argument names the conversation of a file that says nothing of
it."""

FORMATS = {
    "slack": "Slack export (zip)",
    "mattermost": "Mattermost bulk export",
    "chats": "ChatGPT, Claude, Open WebUI or a list of chats",
    "claude-code": "Claude Code session",
    "jsonl": "JSONL, one message a line",
    "qmsum": "Meetings (QMSum)",
}
"""What people read, in the order in which it is offered."""

FORMATS_SENTENCE = (
    "Bring the export of Slack or Mattermost, chats of ChatGPT, Claude or Open WebUI, a session of Claude Code, JSONL "
    "or QMSum."
)
"""What people may bring, as a sentence."""

WITH_CHANNELS = frozenset(("slack", "mattermost"))
"""Formats that have channels of their own."""

_SNIFF_BYTES = 1024 * 1024  # of a line, that decide what the file is
_SNIFF_LINES = 20
_SIGNATURE_BYTES = 4096


def guess_format(file: Path) -> str:
    """What the file looks like; a zip is Slack's unless it says otherwise, and all that is not known JSONL. Raises
    ImportFailed when it cannot be opened, or is neither a zip nor text."""
    if zipfile.is_zipfile(file):
        return _guess_zip(file)
    with open_file(file) as source:
        beginning = source.read(_SIGNATURE_BYTES)
    if beginning.startswith(b"PK\x03\x04"):
        raise ImportFailed(
            "This zip is damaged, or not all of it arrived. Nothing was imported. Download it again, and import that."
        )
    if is_no_text(beginning):
        raise ImportFailed(f"This is no file that conversations come in. Nothing was imported. {FORMATS_SENTENCE}")
    try:
        return _guess_text(file)
    except UnicodeDecodeError:
        return "jsonl"


def _guess_text(file: Path) -> str:
    with open_as_utf8(file) as source:
        beginning = source.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
        if beginning.startswith(b"["):
            return "chats"
        source.seek(0)
        for _ in range(_SNIFF_LINES):
            raw = source.readline(_SNIFF_BYTES)
            if not raw:
                break
            if found := _guess_line(raw):
                return found
    if beginning.startswith(b"{") and not beginning.startswith(b'{"author"'):
        return "chats" if _is_whole_object(file) else "jsonl"
    return "jsonl"


def _guess_zip(file: Path) -> str:
    try:
        with zipfile.ZipFile(file) as archive:
            names = [name.rpartition("/")[2] for name in archive.namelist()]
    except ZIP_ERRORS:
        return "slack"
    if "channels.json" in names:
        return "slack"
    if any(map(is_of_conversations, names)):
        return "chats"
    return "mattermost" if any(name.endswith((".jsonl", ".ndjson")) for name in names) else "slack"


def _guess_line(raw: bytes) -> str:
    """The format that a line belongs to, empty when it does not tell."""
    if b'"meeting_transcripts"' in raw[:4096]:
        return "qmsum"
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return "chats" if b'"mapping"' in raw or b'"chat_messages"' in raw else ""
    if not isinstance(value, dict):
        return ""
    if (value.get("type") == "version" and "version" in value) or (
        value.get("type") in ("post", "channel", "team") and isinstance(value.get(str(value.get("type"))), dict)
    ):
        return "mattermost"
    if "meeting_transcripts" in value:
        return "qmsum"
    if ("sessionId" in value and ("type" in value)) or value.get("type") in ("summary", "file-history-snapshot"):
        return "claude-code"
    if any(isinstance(value.get(key), list | dict) for key in ("messages", "mapping", "chat_messages", "chat")):
        return "chats"
    if isinstance(value.get("conversations"), list):
        return "chats"
    return "jsonl" if {"text", "content", "author", "role"} & value.keys() else ""


def _is_whole_object(file: Path) -> bool:
    """Whether the text is one object on several lines."""
    with open_as_utf8(file) as source:
        first = source.readline(_SNIFF_BYTES)
        return bool(first.strip() in (b"{", b"\xef\xbb\xbf{") and source.readline(64))
