"""The Messages protocol, as `model_server` speaks it at `…/messages`: events of a stream, and errors."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.engines.llm.model_server import Answer, Asked

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
STOP_REASONS = {"length": "max_tokens", "content_filter": "refusal"}


def error_body(answer: Answer) -> dict[str, Any]:
    kind = ERROR_TYPES.get(answer.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": f"Status {answer.status}"} | (answer.error or {})}


def pieces(asked: Asked, answer: Answer) -> Iterator[bytes]:
    """A stream in pieces: what opens it, then a word or a part of a call each, then what ends it."""
    id_ = f"msg_{uuid.uuid4().hex}"
    start = {"id": id_, "type": "message", "role": "assistant", "model": asked.body["model"], "content": []}
    usage = _input_usage(asked, answer)
    opening = _event("message_start", message=start | {"stop_reason": None, "stop_sequence": None, "usage": usage})
    yield opening + _event("ping")
    index = -1
    if answer.thinking:
        index += 1
        yield _block(index, {"type": "thinking", "thinking": "", "signature": ""}, answer.thinking, "thinking")
        yield _delta(index, {"type": "signature_delta", "signature": "signed"}) + _stop(index)
    if answer.text:
        index += 1
        words = [f" {word}" if at else word for at, word in enumerate(answer.text.split(" "))]
        for at, word in enumerate(words):
            start_event = _start(index, {"type": "text", "text": ""}) if at == 0 else b""
            end_event = _stop(index) if at == len(words) - 1 else b""
            yield start_event + _delta(index, {"type": "text_delta", "text": word}) + end_event
    for id_, name, arguments in answer.tool_calls:
        index += 1
        half = len(arguments) // 2
        yield _start(index, {"type": "tool_use", "id": id_, "name": name, "input": {}})
        yield _delta(index, {"type": "input_json_delta", "partial_json": arguments[:half]})
        yield _delta(index, {"type": "input_json_delta", "partial_json": arguments[half:]}) + _stop(index)
    yield b""  # what was sent before this can be cut off
    yield _ending(answer)


def message_events(text: str, reason: str) -> bytes:
    """A whole stream whose text comes letter by letter."""
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    letters = b"".join(_delta(0, {"type": "text_delta", "text": letter}) for letter in text)
    stop_reason = STOP_REASONS.get(reason, "end_turn" if reason == "stop" else reason)
    end = _event("message_delta", delta={"stop_reason": stop_reason}, usage={}) + _event("message_stop")
    return _event("message_start", message=start) + _start(0, {"type": "text", "text": ""}) + letters + end


def _ending(answer: Answer) -> bytes:
    reason = STOP_REASONS.get(answer.finish_reason or "", answer.finish_reason)
    reason = reason or ("tool_use" if answer.tool_calls else "end_turn")
    details = {"type": "refusal", "category": None, "explanation": "This cannot be answered."}
    delta = {"stop_reason": reason, "stop_sequence": None, "stop_details": details if reason == "refusal" else None}
    output = {"output_tokens": len(answer.text.split())} if answer.tells_usage else {}
    return _event("message_delta", delta=delta, usage=output) + _event("message_stop")


def _input_usage(asked: Asked, answer: Answer) -> dict[str, Any]:
    """What was read from the cache and written to it is not part of `input_tokens`."""
    if not answer.tells_usage:
        return {}
    words = len(json.dumps(asked.body["messages"]).split())
    return {
        "input_tokens": words,
        "output_tokens": 1,
        "cache_read_input_tokens": answer.cached_tokens,
        "cache_creation_input_tokens": answer.cache_write_tokens,
    }


def _block(index: int, block: dict[str, Any], text: str, kind: str) -> bytes:
    return _start(index, block) + _delta(index, {"type": f"{kind}_delta", kind: text})


def _start(index: int, block: dict[str, Any]) -> bytes:
    return _event("content_block_start", index=index, content_block=block)


def _delta(index: int, delta: dict[str, Any]) -> bytes:
    return _event("content_block_delta", index=index, delta=delta)


def _stop(index: int) -> bytes:
    return _event("content_block_stop", index=index)


def _event(kind: str, **values: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **values})}\n\n".encode()
