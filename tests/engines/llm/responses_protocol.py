"""The Responses protocol, as `model_server` speaks it at `…/responses`: events of a stream, and a whole response."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.engines.llm.model_server import Answer, Asked

INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


def whole(asked: Asked, answer: Answer) -> dict[str, Any]:
    """The response as it is at its end."""
    response: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 1, "model": asked.body["model"]}
    response |= {"status": "completed", "error": None, "incomplete_details": None, "output": _items(answer)}
    if reason := INCOMPLETE_REASONS.get(answer.finish_reason or ""):
        response |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
    return response | ({"usage": _usage(asked, answer)} if answer.tells_usage else {})


def pieces(asked: Asked, answer: Answer) -> Iterator[bytes]:
    """A stream in pieces: what opens it, then a word or a part of a call each, then what ends it."""
    opening = whole(asked, answer) | {"status": "in_progress", "output": [], "usage": None}
    yield _event("response.created", response=opening) + _event("response.in_progress", response=opening)
    for index, item in enumerate(_items(answer)):
        place = {"item_id": item["id"], "output_index": index}
        began = _event("response.output_item.added", output_index=index, item=_begun(item))
        deltas = list(_deltas(item, place, answer))
        for number, delta in enumerate(deltas):
            ended = _event("response.output_item.done", output_index=index, item=item)
            is_last = number == len(deltas) - 1
            yield (began if number == 0 else b"") + delta + (ended if is_last else b"")
    yield b""  # what was sent before this can be cut off
    response = whole(asked, answer)
    yield _event(f"response.{response['status']}", response=response)


def text_events(text: str, status: str = "completed") -> bytes:
    """A whole stream whose text comes letter by letter, as a server sends it that says only what it must."""
    letters = b"".join(_event("response.output_text.delta", delta=letter) for letter in text)
    return letters + _event("response.completed", response={"status": status})


def _items(answer: Answer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        items.append({"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "sealed"})
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}]
        items.append({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content})
    for call_id, name, arguments in answer.tool_calls:
        call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        items.append({"id": f"fc_{call_id}", "status": "completed", **call})
    return items


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    empty = {"content": [], "summary": [], "arguments": "", "encrypted_content": ""}
    return item | {name: value for name, value in empty.items() if name in item}


def _deltas(item: dict[str, Any], place: dict[str, Any], answer: Answer) -> Iterator[bytes]:
    if item["type"] == "reasoning":
        yield _event("response.reasoning_summary_text.delta", **place, summary_index=0, delta=answer.thinking)
    elif item["type"] == "message":
        for at, word in enumerate(answer.text.split(" ")):
            delta = f" {word}" if at else word
            yield _event("response.output_text.delta", **place, content_index=0, delta=delta, logprobs=[])
    else:
        arguments, half = item["arguments"], len(item["arguments"]) // 2
        for part in (arguments[:half], arguments[half:]):
            yield _event("response.function_call_arguments.delta", **place, delta=part)


def _usage(asked: Asked, answer: Answer) -> dict[str, Any]:
    words, said = len(json.dumps(asked.body["input"]).split()), len(answer.text.split())
    thought = len(answer.thinking.split())
    inputs = {} if answer.cached_tokens is None else {"cached_tokens": answer.cached_tokens}
    usage = {"input_tokens": words, "output_tokens": said + thought, "total_tokens": words + said + thought}
    return usage | {"input_tokens_details": inputs, "output_tokens_details": {"reasoning_tokens": thought}}


def _event(kind: str, **values: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': 0, **values})}\n\n".encode()
