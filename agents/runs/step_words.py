"""What a run's steps are called where people read along: a tool call as a few plain words, from what it was asked and
answered.

Pure. Whatever a model or a tool wrote is cleaned, masked and bounded here; the caller has decided what may be shown."""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from agents.agent.trust import CALL_LABELS, call_kind
from openvibe.engines.llm.transcripts import one_line
from openvibe.engines.text.cleaning import pluralize
from openvibe.engines.text.masking import mask_secrets

MAX_QUOTED_CHARACTERS = 60
"""The most characters that are quoted of what a model wrote, in the words of one step."""

_ORDINALS = re.compile(r"^(?:#|summary \d+ \(#)(\d{1,9})", re.MULTILINE)
_ENTRIES = re.compile(r"^\W{0,3}knowledge:\d+\b", re.MULTILINE)
_HITS = re.compile(r"^(?:#\d+|summary \d+) ", re.MULTILINE)

Arguments = Mapping[str, Any]


def quoted(value: object) -> str:
    """A few words that a model wrote, in quotation marks; empty where there are none."""
    words = plain(value)
    return f"“{words}”" if words else ""


def plain(value: object, limit: int = MAX_QUOTED_CHARACTERS) -> str:
    """The same without marks."""
    text = one_line(mask_secrets(str(value)[: 20 * limit])) if isinstance(value, str | int) else ""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def call_words(
    name: str,
    arguments: str = "",
    result: str = "",
    *,
    decision: str = "allowed",
    why: str = "",
    is_under_way: bool = False,
) -> str:
    """What a tool call was, in a few words that begin a line. `arguments` and `result` are empty where the reader may
    not see them."""
    values: Arguments = {}
    with suppress(ValueError, RecursionError):
        given = json.loads(arguments)
        values = given if isinstance(given, dict) else {}
    if decision == "refused":
        return f"Was refused {_tool_words(name)}" + (f": {plain(_first_sentence(why), 100)}" if why else "")
    if decision == "waits" and name != "request_approval":
        return f"Asked people about {_tool_words(name)}"
    words = _call_words(name, values, result)
    return f"{words.replace('Used', 'Uses', 1)}…" if is_under_way else words


def _first_sentence(text: str) -> str:
    """The reason why something was refused, without what the model was told to do instead."""
    return re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]


def _call_words(name: str, values: Arguments, result: str) -> str:
    if describe := _TOOLS.get(name):
        return describe(values, result)
    return f"Used {_tool_words(name)}"


def _tool_words(name: str) -> str:
    """A tool's name; of an MCP server's, with that of the server."""
    server, mark, tool = name.partition("__")
    return f"{plain(tool, 100)} of {plain(server, 100)}" if mark and server and tool else plain(name, 100)


def _with(verb: str, *parts: str) -> str:
    return " ".join(filter(None, (verb, *parts)))


def _found(count: int, result: str) -> str:
    return f", {count} found" if result else ""


def _memory(values: Arguments, result: str) -> str:
    action = values.get("action")
    if action == "search":
        words = _with("Searched the conversation", f"for {hits}" if (hits := quoted(values.get("query"))) else "")
        return words + _found(len(_HITS.findall(result)), result)
    if action in ("expand", "describe"):
        ordinals = [int(number) for number in _ORDINALS.findall(result)]
        if not ordinals:
            return "Looked into a summary of the conversation"
        first, last = min(ordinals), max(ordinals)
        return f"Read message {first}" if first == last else f"Read messages {first} to {last}"
    others = {
        "profile_get": "Looked at its notes about who asks",
        "profile_update": "Changed its notes about who asks",
        "compact": "Asked for the conversation to be summarised",
        "status": "Looked at what it remembers",
    }
    return others.get(str(action), "Looked into its memory")


def _knowledge_search(values: Arguments, result: str) -> str:
    words = _with("Searched knowledge", f"for {query}" if (query := quoted(values.get("query"))) else "")
    return words + _found(len(_ENTRIES.findall(result)), result)


def _read_file(values: Arguments, result: str) -> str:
    head = re.match(r"(.{1,200}?), characters ([\d,]+) to ([\d,]+) of ([\d,]+)\.", result)
    if head is None:
        return "Read a file"
    words = f"Read {plain(head[1], 100)}"
    return words if head[2] in ("0", "1") and head[3] == head[4] else f"{words}, characters {head[2]} to {head[3]}"


def _work_update(values: Arguments, result: str) -> str:
    words = {"add": "Added to the work", "done": "Marked work as done", "drop": "Dropped work"}
    return _with(words.get(str(values.get("action")), "Changed the work"), quoted(values.get("text")))


def _simple(verb: str, argument: str) -> Callable[[Arguments, str], str]:
    return lambda values, result: _with(verb, quoted(values.get(argument)))


_TOOLS: dict[str, Callable[[Arguments, str], str]] = {
    "memory": _memory,
    "knowledge_search": _knowledge_search,
    "knowledge_suggest": _simple("Suggested knowledge", "topic"),
    "read_file": _read_file,
    "update_context_block": _simple("Wrote its context block", "label"),
    "work_update": _work_update,
    "log_progress": _simple("Noted progress", "checkpoint"),
    "request_approval": _simple("Asked people", "what"),
    "load_skill": _simple("Took up the skill", "name"),
    "unload_skill": _simple("Put down the skill", "name"),
}


def reported_words(kind: str, state: str, text: str, tool: str) -> str:
    """What an agent elsewhere said that it does."""
    words = plain(text, 160) or (f"Used {plain(tool, 100)}" if tool else "Did something that is no longer kept")
    return {"failed": f"Failed: {words}", "refused": f"Was refused: {words}"}.get(state, words)


def seconds_words(seconds: float) -> str:
    """0.4 → under 1 s, 12.3 → 12 s, 150 → 2 min 30 s."""
    if seconds < 1:
        return "under 1 s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def thought_words(seconds: float, tokens: int | None, *, is_thinking: bool) -> str:
    """The line that folds what a model thought."""
    if is_thinking:
        return "Thinking…"
    counted = f", {pluralize(tokens, 'token')}" if tokens else ""
    return f"Thought for {seconds_words(seconds)}{counted}"


def permission_words(kind: str, title: str, state: str) -> str:
    """What an agent elsewhere asked leave for, and the answer."""
    what = plain(title, 160) or CALL_LABELS[call_kind(kind)].lower()
    return f"{PERMISSION_VERBS.get(state, 'Asked')}: {what}"


PERMISSION_VERBS = {"allowed": "Was allowed", "denied": "Was denied", "waiting": "Asked people"}
