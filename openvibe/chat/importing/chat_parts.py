"""What a message of a chat log says, whichever program wrote it: text, parts, calls of tools and results. Pure."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from openvibe.chat.importing.values import RecordRefused, replace_unstorable

MAX_DEPTH = 6
"""Parts within parts that are read."""

ASSISTANT_ROLES = frozenset(("assistant", "agent", "ai", "bot", "chatbot", "model"))
"""Roles of a line that a model wrote, as the usual chat logs name them."""

TOOL_ROLES = frozenset(("tool", "function", "tool_result", "ipython"))
_USER_ROLES = {"human": "User"}

_THOUGHT_TYPES = frozenset(("thinking", "redacted_thinking", "thoughts", "reasoning", "reasoning_recap", "thought"))
_CALL_TYPES = frozenset(("tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "function_call", "tool-call"))
_FILE_WORDS = ("image", "file", "document", "audio", "video", "asset", "attachment")
_TEXT_KEYS = ("text", "refusal", "transcript", "content", "result", "output", "thinking")
ONLY_THOUGHTS = "it holds only what a model thought, which nobody was told"


@dataclass(frozen=True, slots=True)
class Saying:
    """Text in Markdown, and names of files that stood there. `is_result`: it is nothing but results of tools."""

    text: str
    files: tuple[str, ...] = ()
    is_result: bool = False
    has_thoughts: bool = False


def is_machine(role: str) -> bool:
    """Whether no person wrote what has this role."""
    return role in ASSISTANT_ROLES or role in TOOL_ROLES


def role_name(role: str) -> str:
    """What a speaker is called of whom only the role is known."""
    if role in ASSISTANT_ROLES:
        return "Assistant"
    return "Tool" if role in TOOL_ROLES else _USER_ROLES.get(role, role.capitalize())


def read_said(message: Mapping[str, object], key: str = "content", *, listed: Collection[str] = ()) -> Saying:
    """What a message says in `key`, and what it calls beside it. `listed`: ids of files that are named elsewhere in the
    message. Raises RecordRefused."""
    pieces = _Pieces(listed)
    pieces.add(message.get(key), key)
    for name in ("tool_calls", "function_call"):
        calls = message.get(name)
        for call in calls if isinstance(calls, list) else [calls]:
            if isinstance(call, dict):
                pieces.texts.append(_call_text(call))
                pieces.results_only = False
    return pieces.said()


class _Pieces:
    """Parts as they are found."""

    def __init__(self, listed: Collection[str]) -> None:
        self.listed = listed
        self.texts: list[str] = []
        self.files: list[str] = []
        self.results_only = True
        self.has_thoughts = False

    def said(self) -> Saying:
        text = "\n\n".join(piece for piece in self.texts if piece.strip())
        is_result = self.results_only and bool(text or self.files)
        return Saying(
            replace_unstorable(text), tuple(map(replace_unstorable, self.files)), is_result, self.has_thoughts
        )

    def add(self, value: object, key: str, depth: int = 0, *, in_result: bool = False) -> None:
        if isinstance(value, str):
            self.texts.append(value)
            self.results_only &= in_result
        elif isinstance(value, bool | int | float):
            raise RecordRefused(f'its "{key}" is not a text')
        elif isinstance(value, list) and depth < MAX_DEPTH:
            for each in value:
                if isinstance(each, str | list | dict):
                    self.add(each, key, depth + 1, in_result=in_result)
        elif isinstance(value, dict) and depth < MAX_DEPTH:
            self._add_part(value, key, depth, in_result=in_result)

    def _add_part(self, part: Mapping[str, object], key: str, depth: int, *, in_result: bool) -> None:
        kind = str(part.get("type") or part.get("content_type") or "")
        if kind in _THOUGHT_TYPES:
            self.has_thoughts = True
        elif kind in _CALL_TYPES or "functionCall" in part:
            call = part.get("functionCall")
            self.texts.append(_call_text(call if isinstance(call, dict) else part))
            self.results_only = False
        elif kind.endswith("tool_result") or kind in ("function_call_output", "tool-result"):
            result = next((part[name] for name in ("content", "output", "result") if part.get(name)), None)
            self.add(result, key, depth + 1, in_result=True)
        elif kind in ("code", "execution_output") and isinstance(part.get("text"), str):
            language = part.get("language")
            self.texts.append(fenced(str(part["text"]), language if isinstance(language, str) else ""))
            self.results_only &= in_result
        elif isinstance(part.get("parts"), list):
            self.add(part["parts"], key, depth + 1, in_result=in_result)
        elif text := next((part[name] for name in _TEXT_KEYS if isinstance(part.get(name), str)), ""):
            title, address = part.get("title"), part.get("url")
            head = " ".join(each for each in (title, address) if isinstance(each, str) and each)
            self.texts.append(f"{head}\n{text}" if head else str(text))
            self.results_only &= in_result
        elif any(word in kind for word in _FILE_WORDS):
            if str(part.get("asset_pointer")).rpartition("/")[2] in self.listed:
                return
            self.files.append(_file_name(part, kind))
        else:
            for name in _TEXT_KEYS:
                if isinstance(part.get(name), list | dict):
                    self.add(part[name], key, depth + 1, in_result=in_result)


def fenced(text: str, language: str = "") -> str:
    """A block of code that holds `text`, whatever stands in it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    language = language if re.fullmatch(r"[A-Za-z0-9+#.-]{1,20}", language) and language != "unknown" else ""
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _call_text(call: Mapping[str, object]) -> str:
    function = call.get("function")
    details = function if isinstance(function, dict) else call
    name = details.get("name") or details.get("toolName") or "a tool"
    arguments: object = next(
        (details[key] for key in ("arguments", "input", "args", "parameters") if details.get(key) is not None), None
    )
    if isinstance(arguments, str):
        raw = arguments
        try:
            arguments = json.loads(raw)
        except (ValueError, RecursionError):
            return f"Called `{name}`:\n\n{fenced(raw)}" if raw.strip() else f"Called `{name}`."
    if not arguments:
        return f"Called `{name}`."
    return f"Called `{name}`:\n\n{fenced(json.dumps(arguments, ensure_ascii=False, indent=2), 'json')}"


def _file_name(part: Mapping[str, object], kind: str) -> str:
    for value in _names(part):
        return value.rpartition("/")[2][:200]
    return f"without a name ({kind.replace('_', ' ')[:40]})"


def _names(part: Mapping[str, object]) -> Iterator[str]:
    for holder in (part, part.get("file"), part.get("source"), part.get("metadata")):
        if isinstance(holder, dict):
            for key in ("filename", "file_name", "name", "title"):
                value = holder.get(key)
                if isinstance(value, str) and value.strip():
                    yield value.strip()
