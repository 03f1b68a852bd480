"""Recordings of endpoints (README.md beside this): read, served on loopback, and what was asked of them checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.engines.llm.model_server import Answer, Asked, FakeEndpoint, serving

FOLDER = Path(__file__).parent
LAST_WORDS = "All done."
"""Said once a recording's answers are used up and its last one called a tool."""


@dataclass(frozen=True)
class Recording:
    """One line. `answers` are raw bodies with their status and headers."""

    name: str
    protocol: str
    values: dict[str, Any]
    answers: tuple[Answer, ...]
    refusal: Answer | None
    file: str = ""

    @property
    def model(self) -> str:
        return str(self.values.get("model") or ("claude" if self.protocol == "anthropic" else "gpt-4o-mini"))

    @property
    def through(self) -> list[str]:
        return list(self.values.get("through", ["client", "run"]))

    def expected(self, name: str) -> Any:
        """What is expected under `expect_…`; None where nothing is."""
        return self.values.get(f"expect_{name}")

    def expects(self, name: str) -> bool:
        return f"expect_{name}" in self.values


@dataclass
class RecordedEndpoint:
    """A recording that is being served: every answer in turn, the refusal in its place where it applies."""

    recording: Recording
    refused: int = 0
    _left: list[Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = list(self.recording.answers)

    def answer(self, asked: Asked) -> Answer:
        if self.recording.refusal and self._is_refused(asked.body):
            self.refused += 1
            return self.recording.refusal
        if len(self._left) > 1:
            return self._left.pop(0)
        last = self._left[0] if self._left else Answer(LAST_WORDS)
        if self.recording.values.get("ends_with_call", _holds_call(last)):
            self._left = []
        return last

    def _is_refused(self, body: dict[str, Any]) -> bool:
        when = self.recording.values.get("when")
        if isinstance(when, dict):
            return request_problem(body, when) == ""
        return not self.refused


@contextmanager
def serving_recording(recording: Recording) -> Iterator[FakeEndpoint]:
    """The recording behind a real server until the block ends."""
    with serving(script=RecordedEndpoint(recording).answer) as server:
        yield server


def read_recordings(folder: Path = FOLDER) -> list[Recording]:
    """Every line of every file, by file and line."""
    return [
        _read_line(json.loads(line), path.name)
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]


def _read_line(values: dict[str, Any], file: str) -> Recording:
    protocol = values["protocol"]
    refusal = (
        _read_answer({"status": values["status"], "body": values["body"]}, protocol) if "status" in values else None
    )
    answers = tuple(_read_answer(answer, protocol) for answer in values.get("answers", ()))
    return Recording(values["name"], protocol, values, answers, refusal, file)


def _read_answer(answer: Any, protocol: str) -> Answer:
    if isinstance(answer, str):
        answer = {"body": answer}
    body = answer["body"] if "body" in answer else _stream_body(answer, protocol)
    text = body if isinstance(body, str) else json.dumps(body)
    is_stream = answer.get("status", 200) == 200 and not text.lstrip("\ufeff \r\n").startswith(("{", "<"))
    headers = {"Content-Type": "text/event-stream" if is_stream else "application/json"} | answer.get("headers", {})
    return Answer(status=answer.get("status", 200), body=text.encode(), headers=headers)


def _stream_body(answer: dict[str, Any], protocol: str) -> str:
    """The body of a stream that is written as its events."""
    if "events" in answer:
        return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in answer["events"])
    chunks = answer.get("chunks") or [
        *({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in answer["deltas"]),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": answer.get("finish_reason", "stop")}]},
        *([{"choices": [], "usage": answer["usage"]}] if "usage" in answer else []),
    ]
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return "".join(f"data: {json.dumps(head | chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def _holds_call(answer: Answer) -> bool:
    body = (answer.body or b"").decode()
    return answer.status == 200 and any(mark in body for mark in ('"tool_calls": [', '"tool_calls":[', '"tool_use"'))


def request_problem(body: dict[str, Any], wanted: dict[str, Any]) -> str:
    """What of a request is not as wanted; empty where all of it is."""
    text = json.dumps(body, ensure_ascii=False)
    for path in wanted.get("has", ()):
        if not _values_at(body, path):
            return f"has no {path}"
    for path in wanted.get("lacks", ()):
        if _values_at(body, path):
            return f"has {path}"
    for part in wanted.get("contains", ()):
        if part not in text:
            return f"does not contain {part!r}"
    for part in wanted.get("omits", ()):
        if part in text:
            return f"contains {part!r}"
    return _answer_problem(body, wanted)


def _answer_problem(body: dict[str, Any], wanted: dict[str, Any]) -> str:
    """What of the model's last answer in a request is not as wanted."""
    if "assistant" not in wanted and "calls" not in wanted:
        return ""
    answers = [message for message in body["messages"] if message["role"] == "assistant"]
    if not answers:
        return "has no answer of the model"
    for name, value in wanted.get("assistant", {}).items():
        if answers[-1].get(name) != value:
            return f"gives back {name} {answers[-1].get(name)!r} in place of {value!r}"
    for number, fields in enumerate(wanted.get("calls", ())):
        call = answers[-1]["tool_calls"][number]
        if {name: call.get(name) for name in fields} != fields:
            return f"gives back a call {call!r} without {fields!r}"
    return ""


def _values_at(value: Any, path: str) -> list[Any]:
    """What stands at a path of names and numbers, `*` for every item."""
    found = [value]
    for name in path.split("."):
        below: list[Any] = []
        for each in found:
            if isinstance(each, list):
                below += each if name == "*" else each[int(name) :][:1] if name.lstrip("-").isdigit() else []
            elif isinstance(each, dict) and name in each:
                below.append(each[name])
        found = below
    return found
