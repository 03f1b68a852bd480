"""Answers in the shapes of the two protocols, whole and as server-sent events. Pure: no Django.

Source of the shapes: the types of the official `openai` package, which the tests read the answers with."""

import json
import time
from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

Event = dict[str, Any]


WAITS = "\n\n[This waits for a decision of people in the thread. The answer goes on there.]"

INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""What `/v1/responses` calls the stop reasons of `/v1/chat/completions` that end no answer."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `status`: of HTTP, where it failed. `calls`: id, name and arguments of the client's tools."""

    run_id: int
    text: str
    status: int = 200
    error: str = ""
    code: str = ""
    stop_reason: str = "stop"
    calls: tuple[tuple[str, str, str], ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    thoughts: str = ""


@dataclass(frozen=True)
class Thought:
    """New words of what the model thinks before it answers; empty where there is nothing new and it goes on."""

    text: str = ""


STILL_HERE = b": still here\n\n"
"""A comment of the event stream: it keeps proxies from taking a long wait for a dead connection."""

Piece = str | Thought | Outcome
"""New words of the answer, of the thoughts, or the end."""


class AnswerFormat(Protocol):
    """One protocol's way to say an answer of `model`."""

    def whole(self, outcome: Outcome) -> Event:
        """The answer as one object."""
        ...

    def events(self, pieces: AsyncIterable[Piece]) -> AsyncGenerator[bytes, None]:
        """The answer as server-sent events."""
        ...


def error_body(message: str, status: int, code: str, param: str | None = None) -> Event:
    """An error as OpenAI's clients read it."""
    return {"error": {"message": message, "type": error_type(status), "code": code, "param": param}}


def error_type(status: int) -> str:
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    return "server_error" if status >= 500 else kinds.get(status, "invalid_request_error")


def _frame(data: Event, name: str = "") -> bytes:
    event = f"event: {name}\n" if name else ""
    return f"{event}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


class ChatFormat:
    """`/v1/chat/completions`."""

    def __init__(self, run_id: int, model: str, *, with_usage: bool) -> None:
        self._with_usage = with_usage
        self._common = {"id": f"chatcmpl-{run_id}", "created": int(time.time()), "model": model}

    def whole(self, outcome: Outcome) -> Event:
        message: Event = {"role": "assistant", "content": outcome.text or None, "refusal": None}
        if outcome.thoughts:
            message["reasoning_content"] = outcome.thoughts
        if outcome.calls:
            message["tool_calls"] = _chat_calls(outcome)
        choice = {"index": 0, "message": message, "finish_reason": outcome.stop_reason, "logprobs": None}
        return {**self._common, "object": "chat.completion", "choices": [choice], "usage": _chat_usage(outcome)}

    async def events(self, pieces: AsyncIterable[Piece]) -> AsyncGenerator[bytes, None]:
        yield self._chunk({"role": "assistant", "content": ""})
        async for piece in pieces:
            if isinstance(piece, str):
                yield self._chunk({"content": piece})
            elif isinstance(piece, Thought):
                yield self._chunk({"reasoning_content": piece.text}) if piece.text else STILL_HERE
            else:
                for frame in self._end(piece):
                    yield frame

    def _end(self, outcome: Outcome) -> Iterator[bytes]:
        if outcome.error:
            yield _frame(error_body(outcome.error, outcome.status, outcome.code))
            return
        if outcome.calls:
            yield self._chunk({"tool_calls": [{"index": n, **call} for n, call in enumerate(_chat_calls(outcome))]})
        yield self._chunk({}, outcome.stop_reason)
        if self._with_usage:
            yield _frame(
                {**self._common, "object": "chat.completion.chunk", "choices": [], "usage": _chat_usage(outcome)}
            )
        yield b"data: [DONE]\n\n"

    def _chunk(self, delta: Event, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        usage = {"usage": None} if self._with_usage else {}
        return _frame({**self._common, "object": "chat.completion.chunk", "choices": [choice], **usage})


def _chat_calls(outcome: Outcome) -> list[Event]:
    return [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in outcome.calls
    ]


def _chat_usage(outcome: Outcome) -> Event:
    return {
        "prompt_tokens": outcome.input_tokens,
        "completion_tokens": outcome.output_tokens,
        "total_tokens": outcome.input_tokens + outcome.output_tokens,
        "prompt_tokens_details": {"cached_tokens": outcome.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": outcome.reasoning_tokens},
    }


class ResponseFormat:
    """`/v1/responses`."""

    def __init__(self, run_id: int, model: str, tools: list[Event], previous_id: str) -> None:
        self._id, self._message_id, self._call_id = f"resp_{run_id}", f"msg_{run_id}", f"fc_{run_id}_"
        self._number = 0
        self._common = {
            "id": self._id,
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "top_p": 1.0,
            "tool_choice": "auto",
            "tools": [{"type": "function", "strict": None, **tool} for tool in tools],
            "previous_response_id": previous_id or None,
            "usage": None,
        }

    def whole(self, outcome: Outcome) -> Event:
        usage = {
            "input_tokens": outcome.input_tokens,
            "input_tokens_details": {"cached_tokens": outcome.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": outcome.output_tokens,
            "output_tokens_details": {"reasoning_tokens": outcome.reasoning_tokens},
            "total_tokens": outcome.input_tokens + outcome.output_tokens,
        }
        message = [self._message(outcome.text)] if outcome.text else []
        output = [*message, *(self._call(number, outcome) for number in range(len(outcome.calls)))]
        if reason := INCOMPLETE_REASONS.get(outcome.stop_reason):
            status = {"status": "incomplete", "incomplete_details": {"reason": reason}}
            return {**self._common, **status, "output": output, "usage": usage}
        return {**self._common, "status": "completed", "output": output, "usage": usage}

    async def events(self, pieces: AsyncIterable[Piece]) -> AsyncGenerator[bytes, None]:
        opening = {**self._common, "status": "in_progress", "output": []}
        yield self._event("response.created", response=opening)
        yield self._event("response.in_progress", response=opening)
        has_text = False
        async for piece in pieces:
            if isinstance(piece, str):
                for frame in [] if has_text else self._begin_text():
                    yield frame
                has_text = True
                yield self._event("response.output_text.delta", **self._part, delta=piece, logprobs=[])
            elif isinstance(piece, Thought):
                yield STILL_HERE
            else:
                for frame in self._end(piece, has_text=has_text):
                    yield frame

    @property
    def _part(self) -> Event:
        return {"item_id": self._message_id, "output_index": 0, "content_index": 0}

    def _begin_text(self) -> Iterator[bytes]:
        item = {**self._message(""), "status": "in_progress", "content": []}
        yield self._event("response.output_item.added", output_index=0, item=item)
        yield self._event("response.content_part.added", **self._part, part=_text_part(""))

    def _end(self, outcome: Outcome, *, has_text: bool) -> Iterator[bytes]:
        if outcome.error:
            error = {"code": "server_error", "message": outcome.error}
            failed = {**self._common, "status": "failed", "output": [], "error": error}
            yield self._event("response.failed", response=failed)
            return
        if has_text:
            yield self._event("response.output_text.done", **self._part, text=outcome.text, logprobs=[])
            yield self._event("response.content_part.done", **self._part, part=_text_part(outcome.text))
            yield self._event("response.output_item.done", output_index=0, item=self._message(outcome.text))
        for number in range(len(outcome.calls)):
            yield from self._call_events(number, outcome, number + has_text)
        whole = self.whole(outcome)
        yield self._event(f"response.{whole['status']}", response=whole)

    def _call_events(self, number: int, outcome: Outcome, index: int) -> Iterator[bytes]:
        item, place = self._call(number, outcome), {"item_id": f"{self._call_id}{number}", "output_index": index}
        opening = {**item, "arguments": "", "status": "in_progress"}
        yield self._event("response.output_item.added", output_index=index, item=opening)
        yield self._event("response.function_call_arguments.delta", **place, delta=item["arguments"])
        yield self._event(
            "response.function_call_arguments.done", **place, name=item["name"], arguments=item["arguments"]
        )
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _message(self, text: str) -> Event:
        content = [_text_part(text)]
        return {
            "id": self._message_id,
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }

    def _call(self, number: int, outcome: Outcome) -> Event:
        call_id, name, arguments = outcome.calls[number]
        ids = {"id": f"{self._call_id}{number}", "call_id": call_id}
        return {"type": "function_call", "status": "completed", **ids, "name": name, "arguments": arguments}

    def _event(self, kind: str, /, **fields: Any) -> bytes:
        self._number += 1
        return _frame({"type": kind, "sequence_number": self._number - 1, **fields}, kind)


def _text_part(text: str) -> Event:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
