"""One answer of an agent that speaks the protocol: its words go into the reply, what it does beside it, and what it
asks for to the people and the trust of the workspace."""

import asyncio
import hashlib
import json
import re
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from acp.schema import AllowedOutcome, DeniedOutcome, PermissionOption, RequestPermissionResponse, ToolCallUpdate, Usage

from openvibe_client.answer import MAX_STEP_CHARACTERS, Answer, Stopped, storable
from openvibe_client.diffs import file_change
from openvibe_client.http import ApiError, backoff_seconds

REPORT_SECONDS, ASK_AGAIN_SECONDS, CLOSE_SECONDS = 0.3, 5.0, 10.0
MAX_FILES, MAX_PLAN_ENTRIES, MAX_ENTRY_CHARACTERS = 50, 100, 500
STATES = {"completed": "done", "failed": "failed"}
OWN_TOOL = re.compile(r"mcp__openvibe__\w+|openvibe[_./:]\w+|\w+ \(openvibe MCP Server\)")
"""Names that agents give to the tools of OpenVibe, which judges each such call at its own door."""
PLAIN_MODEL = re.compile(r"[\w./:@+\[\]-]+")
CURRENT_MODEL = re.compile(r"\bcurrently ([^()·]+)")
ACTING_KINDS = ("execute", "edit", "delete", "move")
CALL_FIELDS = ("title", "kind", "status", "raw_input", "raw_output", "content", "locations", "field_meta")
CANCELLATION = RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
DENIAL = {"state": "denied", "why": "", "note": ""}


class Turn:
    """What the agent sends while it answers. All but `close` is called on the event loop; nothing here waits there."""

    def __init__(self, answer: Answer, folder: str) -> None:
        """`folder`: the agent's own, absolute."""
        self.answer, self._folder = answer, folder
        self.model = ""
        self.usages: list[Usage] = []
        self.notes: list[str] = []
        self.at_end: list[Callable[[], None]] = []
        self.changed = asyncio.Event()
        self._calls: dict[str, dict[str, Any]] = {}
        self._thought, self._thoughts, self._message_id = "", 0, ""
        self._is_new_paragraph = False
        self._questions: dict[str, asyncio.Task[dict[str, Any] | None]] = {}
        self._reporter = Reporter(answer)

    def take(self, update: Any) -> None:
        """One update of the session; what nobody knows is passed over."""
        kind = update.session_update
        if kind != "agent_thought_chunk" and self._thought:
            self._think("", "done")
            self._thought = ""
        if kind == "agent_message_chunk":
            self._write(update)
            return
        if kind == "agent_thought_chunk":
            self.begin_paragraph()
            self._think(_text_of(update.content), "running")
        elif kind in ("tool_call", "tool_call_update"):
            self._merge(update)
        elif kind in ("plan", "plan_update"):
            self._reporter.report("plan", list(getattr(getattr(update, "plan", update), "entries", None) or ()))
        elif kind == "current_mode_update":
            self.note(f"It went into the mode “{update.current_mode_id}”.")
        elif kind == "config_option_update":
            self.model = model_of(update.config_options) or self.model

    def wake(self) -> None:
        """Has everybody look again who waits for a change: people's answers, a Stop, an interruption."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def note(self, text: str, key: str = "") -> None:
        """Tells people something beside the reply."""
        self._reporter.report(key or f"note-{hash(text):x}", {"kind": "note", "text": text})

    def begin_paragraph(self) -> None:
        self._is_new_paragraph = True

    def _write(self, update: Any) -> None:
        with suppress(ValueError):  # some tell what they used beside their words, once for each call of their model
            self.usages += [Usage.model_validate(used) for used in [(update.field_meta or {}).get("usage")] if used]
        words, message_id = _text_of(update.content), update.message_id or ""
        is_new = self._is_new_paragraph or (message_id != self._message_id and self._message_id)
        if not words:
            return
        self._is_new_paragraph, self._message_id = False, message_id
        with suppress(Stopped, ApiError):  # the prompt that is under way hears of it
            self.answer.write(f"\n\n{words.lstrip()}" if is_new and self.answer.has_words else words)

    def _think(self, words: str, state: str) -> None:
        self._thoughts += not self._thought
        self._thought += words
        if self._thought.strip():
            step = {"kind": "thought", "text": self._thought, "state": state}
            self._reporter.report(f"thought-{self._thoughts}", step)

    def _merge(self, update: Any) -> dict[str, Any]:
        """What is known of a call by now; shown once more."""
        if update.tool_call_id not in self._calls:  # some ask for permission before they tell of a call
            self.begin_paragraph()
        call = self._calls.get(update.tool_call_id, {"id": update.tool_call_id, "began": time.monotonic()})
        news = {name: getattr(update, name) for name in CALL_FIELDS if getattr(update, name, None) is not None}
        call = {**call, **news}
        if call.get("status") in STATES and "seconds" not in call:
            call["seconds"] = time.monotonic() - call["began"]
        self._calls[update.tool_call_id] = call
        self._reporter.report(f"call-{_digest(update.tool_call_id)}", call)
        return call

    async def permit(self, update: ToolCallUpdate, options: Sequence[PermissionOption]) -> RequestPermissionResponse:
        """The answer to a request for permission: the workspace's. Asked twice it is one question; nobody who was
        stopped is allowed anything."""
        call = self._merge(update)
        if self.answer.is_over:
            return CANCELLATION
        if is_own_tool(call):
            return choose(options, {**DENIAL, "state": "allowed"})
        question = _question(call)
        if not any(option.kind == "allow_once" for option in options):
            self.note(f"“{question['title']}” was not asked about: it offers no way to be allowed this once.")
            return choose(options, DENIAL)
        key = _digest(json.dumps([call["id"], question], default=str))
        if key not in self._questions:
            self._questions[key] = asyncio.create_task(self._ask({"key": key, "folder": self._folder, **question}))
        verdict = await asyncio.shield(self._questions[key])
        if verdict is not None and verdict["state"] == "denied":  # what people stop is denied, too
            await asyncio.to_thread(self.answer.look)
        if verdict is None or self.answer.is_over:
            return CANCELLATION
        if verdict["state"] != "allowed":
            why = " ".join(filter(None, (verdict["why"], verdict["note"])))
            self._calls[call["id"]] = call = {**self._calls[call["id"]], "refused": why or "It was denied."}
            self._reporter.report(f"call-{_digest(call['id'])}", call)
            if verdict["note"]:
                self.notes.append(f"“{question['title']}” was denied: {verdict['note']}")
        return choose(options, verdict)

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any] | None:
        """The workspace's verdict, however long people take; None when nobody waits for it any more."""
        verdict: dict[str, Any] = {}
        failures = 0
        while not self.answer.is_over:
            changed = self.changed
            call: tuple[Any, ...] = (self.answer.tell, "POST", "permissions/", question)
            if verdict:
                call = (self.answer.tell, "GET", f"permissions/{question['key']}/")
            wait = ASK_AGAIN_SECONDS
            try:
                verdict = await asyncio.to_thread(*call)
                failures = 0
            except Stopped:
                return None
            except ApiError as error:
                if not error.is_away and error.status < 500:
                    return {**DENIAL, "why": error.detail}
                wait = backoff_seconds(failures, longest=ASK_AGAIN_SECONDS)
                failures += 1
            if verdict and verdict["state"] != "waiting":
                return verdict
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), wait)
        return None

    def close(self, state: str) -> None:
        """Sends what is not sent yet; calls and thoughts that did not end get this state. Waits some seconds only."""
        for call in self._calls.values():
            if call.get("status") not in STATES and "refused" not in call:
                self._reporter.report(f"call-{_digest(call['id'])}", {**call, "status": state})
        if self._thought:
            self._think("", "done")
        self._reporter.close()


class Reporter:
    """Sends steps and the plan from a thread of its own: of each only its newest state, a few times a second."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._news: dict[str, Any] = {}
        self._has_news, self._is_closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="openvibe-steps", daemon=True)
        self._thread.start()

    def report(self, key: str, what: Any) -> None:
        self._news[key] = what
        self._has_news.set()

    def close(self) -> None:
        self._is_closing.set()
        self._has_news.set()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._answer.is_over and (self._news or not self._is_closing.is_set()):
            self._has_news.wait()
            self._has_news.clear()
            for key in list(self._news):
                what = self._news.pop(key)
                try:
                    self._send(key, what)
                except Stopped:
                    return
                except ApiError as error:
                    if error.is_away and not self._is_closing.is_set():
                        self._news.setdefault(key, what)
                        self._has_news.set()
            self._is_closing.wait(REPORT_SECONDS)

    def _send(self, key: str, what: Any) -> None:
        if key != "plan":
            self._answer.step(**{"key": key, **(_step(what) if "id" in what else what)})
            return
        cut = [(storable(entry.content)[:MAX_ENTRY_CHARACTERS], entry) for entry in what[:MAX_PLAN_ENTRIES]]
        entries = [{"content": text, "status": entry.status, "priority": entry.priority} for text, entry in cut]
        self._answer.tell("PUT", "plan/", {"entries": entries})


def choose(options: Sequence[PermissionOption], verdict: dict[str, Any]) -> RequestPermissionResponse:
    """The agent's option that says no more than the verdict: never one that allows for good, since the workspace
    judges the next call, too."""
    for kind in ["allow_once"] if verdict["state"] == "allowed" else ["reject_once", "reject_always"]:
        for option in options:
            if option.kind == kind:
                outcome = AllowedOutcome(outcome="selected", option_id=option.option_id)
                return RequestPermissionResponse(outcome=outcome)
    return CANCELLATION


def is_own_tool(call: dict[str, Any]) -> bool:
    """Whether the call is one of OpenVibe's own tools, as far as the agent's name for it says."""
    meta = (call.get("field_meta") or {}).get("claudeCode")
    name = meta.get("toolName") if isinstance(meta, dict) else call.get("title")
    return call.get("kind") not in ACTING_KINDS and bool(OWN_TOOL.fullmatch(str(name or "").strip()))


def model_of(options: Any) -> str:
    """The model that a session says it asks; empty where it does not say. Of one whose id is an agent's own key, the
    name that people are shown; of the default, the model that it is now."""
    for option in options or ():
        if "model" not in (option.category, option.id):
            continue
        value = str(option.current_value)
        choices = [each for each in getattr(option, "options", ()) if getattr(each, "value", "") == value]
        if not choices or (value != "default" and PLAIN_MODEL.fullmatch(value)):
            return value
        current = CURRENT_MODEL.search(choices[0].description or "") if value == "default" else None
        return current[1].strip() if current else str(choices[0].name)
    return ""


def _question(call: dict[str, Any]) -> dict[str, Any]:
    """What people and the workspace's trust are asked. Command and paths are never cut: what is too long for people to
    see the server refuses, and so it is denied."""
    kind, raw = call.get("kind") or "other", call.get("raw_input")
    title = (call.get("title") or kind).strip()
    command = raw.get("command", "") if isinstance(raw, dict) else ""
    command = shlex.join(map(str, command)) if isinstance(command, list) else str(command)
    question: dict[str, Any] = {"kind": kind, "title": title[:500]}
    diffs = [file_change(part.path, part.old_text or "", part.new_text) for part in _diffs_in(call)]
    paths = [*(diff["path"] for diff in diffs), *(location.path for location in call.get("locations") or ())]
    fields = {
        "command": command or (title if kind == "execute" else ""),
        "paths": list(dict.fromkeys(paths)),
        "arguments": _bounded("" if raw is None else json.dumps(raw, ensure_ascii=False, default=str)),
        "diff": _bounded("\n".join(f"--- {diff['path']}\n{diff['diff']}" for diff in diffs)),
    }
    return question | {name: value for name, value in fields.items() if value}


def _step(call: dict[str, Any]) -> dict[str, Any]:
    """A call as a step of the reply."""
    raw, kind = call.get("raw_input"), call.get("kind") or "other"
    texts = [_text_of(part.content) for part in call.get("content") or () if part.type == "content"]
    result = "\n".join(filter(None, texts))
    if not result and call.get("raw_output") is not None:
        raw_output = call["raw_output"]
        result = raw_output if isinstance(raw_output, str) else json.dumps(raw_output, ensure_ascii=False, default=str)
    state = "refused" if "refused" in call else STATES.get(call.get("status") or "", "running")
    changed = [] if state in ("refused", "failed") else list(_diffs_in(call))[:MAX_FILES]
    return {
        "text": call.get("title") or kind,
        "kind": "tool",
        "tool": kind if kind != "other" else "tool",
        "state": state,
        "arguments": "" if raw is None else json.dumps(raw, ensure_ascii=False, default=str),
        "result": call.get("refused") or result,
        "seconds": call.get("seconds", 0.0),
        "tool_kind": kind,
        "files": [file_change(part.path, part.old_text or "", part.new_text) for part in changed],
    }


def _diffs_in(call: dict[str, Any]) -> list[Any]:
    return [part for part in call.get("content") or () if part.type == "diff"]


def _text_of(block: Any) -> str:
    return str(getattr(block, "text", "") or "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _bounded(text: str) -> str:
    if len(text) <= MAX_STEP_CHARACTERS:
        return text
    return f"{text[: MAX_STEP_CHARACTERS - 60]}\n[{len(text) - MAX_STEP_CHARACTERS + 60:,} more characters were cut.]"
