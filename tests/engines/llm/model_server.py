"""A model endpoint for tests: a real HTTP server on 127.0.0.1 that speaks the chat-completions protocol, and the
Messages protocol at `…/messages`, and the Responses protocol at `…/responses`. It lists its `models` at `…/models`.

    with serving(Answer("Hello"), Answer(status=429)) as server:
        OpenAIModel(base_url=server.base_url, …)

Answers are given in order, the last one again and again; or a function makes one from each request. Waiting is
done on events, never by sleeping. It serves by hand, too:
`python -m tests.engines.llm.model_server --port 8123 --say "Hello there"`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Event, Lock
from typing import Any

from tests.engines.llm import messages_protocol, responses_protocol
from tests.http_server import serve_http

LONGEST_WAIT = 600.0  # seconds; a test that forgets to set an event still ends


@dataclass(frozen=True)
class Answer:
    """What the endpoint does with one request.

    `hold` is waited for before anything is sent, `hold_after_first` after the first piece of a stream.
    `drop_after` pieces of a stream the connection is cut. `body` is sent as it is, whatever was asked.
    """

    text: str = ""
    tool_calls: tuple[tuple[str, str, str], ...] = ()  # id, name, arguments
    status: int = 200
    error: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cached_tokens: int | None = 0  # None: the endpoint does not say
    tells_usage: bool = True
    finish_reason: str | None = None
    hold: Event | None = None
    hold_after_first: Event | None = None
    drop_after: int | None = None
    thinking: str = ""
    cache_write_tokens: int | None = 0


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Script = Callable[[Asked], Answer]


class FakeEndpoint:
    """The running server. `asked` holds every request, `hung_up` is set when a client left in mid-stream."""

    def __init__(self, script: Script) -> None:
        self.asked: list[Asked] = []
        self.hung_up = Event()
        self._script = script
        self._lock = Lock()
        self.handler = _handler(self)
        self.port = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def answer(self, asked: Asked) -> Answer:
        with self._lock:
            self.asked.append(asked)
            return self._script(asked)


@contextmanager
def serving(*answers: Answer, script: Script | None = None, port: int = 0) -> Iterator[FakeEndpoint]:
    """Serves the answers, or what `script` makes of each request, until the block ends."""
    endpoint = FakeEndpoint(script or in_order(*answers))
    with serve_http(endpoint.handler, port=port) as server:
        endpoint.port = server.server_port
        yield endpoint


def in_order(*answers: Answer) -> Script:
    """A script that gives the answers in order, and the last one from then on. It knows no other addresses than those
    of the two protocols: what a program asks of other servers besides is not found, and uses up no answer."""
    left = list(answers)

    def script(asked: Asked) -> Answer:
        if not asked.path.startswith("/v1/"):
            return Answer(status=404)
        return left.pop(0) if len(left) > 1 else left[0]

    return script


def _handler(endpoint: FakeEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, json.loads(raw or b"{}"))
            try:
                _give(self, asked, endpoint.answer(asked))
            except (BrokenPipeError, ConnectionResetError):
                endpoint.hung_up.set()
            self.close_connection = True

        def do_GET(self) -> None:
            asked = Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, {"model": "", "messages": []})
            with suppress(BrokenPipeError, ConnectionResetError):
                _give(self, asked, endpoint.answer(asked))
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    return Handler


def _give(to: BaseHTTPRequestHandler, asked: Asked, answer: Answer) -> None:
    if answer.hold is not None:
        answer.hold.wait(LONGEST_WAIT)
    streams = bool(asked.body.get("stream")) and answer.status == 200 and answer.body is None
    to.send_response(answer.status)
    headers = {"Content-Type": "text/event-stream" if streams else "application/json", "Connection": "close"}
    for name, value in (headers | answer.headers).items():
        to.send_header(name, value)
    to.end_headers()
    if streams:
        _stream(to, asked, answer)
    else:
        to.wfile.write(answer.body if answer.body is not None else json.dumps(_whole(asked, answer)).encode())


def _whole(asked: Asked, answer: Answer) -> dict[str, Any]:
    if asked.path.startswith("/v1/models") and answer.status == 200:
        return {"object": "list", "data": [{"id": name, "object": "model"} for name in answer.text.split()]}
    if _speaks_messages(asked):
        return messages_protocol.error_body(answer)
    if answer.status != 200:
        return {"error": answer.error or {"message": f"Status {answer.status}", "type": "test", "code": None}}
    if _speaks_responses(asked):
        return responses_protocol.whole(asked, answer)
    said: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.tool_calls:
        said["tool_calls"] = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id_, name, arguments in answer.tool_calls
        ]
    body: dict[str, Any] = {"id": "chat-1", "object": "chat.completion", "created": 1, "model": asked.body["model"]}
    body["choices"] = [{"index": 0, "message": said, "finish_reason": _reason(answer)}]
    return body | ({"usage": _usage(asked, answer)} if answer.tells_usage else {})


def _speaks_messages(asked: Asked) -> bool:
    return asked.path.partition("?")[0].endswith("/messages")


def _speaks_responses(asked: Asked) -> bool:
    return asked.path.endswith("/responses")


def _stream(to: BaseHTTPRequestHandler, asked: Asked, answer: Answer) -> None:
    if _speaks_messages(asked) or _speaks_responses(asked):
        protocol = messages_protocol if _speaks_messages(asked) else responses_protocol
        _stream_pieces(to, protocol.pieces(asked, answer), answer)
        return
    for piece_count, delta in enumerate(_deltas(answer)):
        if piece_count == answer.drop_after:
            return
        _event(to, asked, [{"index": 0, "delta": delta, "finish_reason": None}])
        if piece_count == 1 and answer.hold_after_first is not None:
            answer.hold_after_first.wait(LONGEST_WAIT)
    if answer.drop_after is not None:
        return
    _event(to, asked, [{"index": 0, "delta": {}, "finish_reason": _reason(answer)}])
    if answer.tells_usage and (asked.body.get("stream_options") or {}).get("include_usage"):
        _event(to, asked, [], usage=_usage(asked, answer))
    to.wfile.write(b"data: [DONE]\n\n")


def _stream_pieces(to: BaseHTTPRequestHandler, pieces: Iterator[bytes], answer: Answer) -> None:
    for piece_count, piece in enumerate(pieces):
        if piece_count == answer.drop_after:
            return
        to.wfile.write(piece)
        to.wfile.flush()
        if piece_count == 1 and answer.hold_after_first is not None:
            answer.hold_after_first.wait(LONGEST_WAIT)


def _deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for at, word in enumerate(answer.text.split(" ")):
        if piece := (f" {word}" if at else word):
            yield {"content": piece}
    for at, (id_, name, arguments) in enumerate(answer.tool_calls):
        yield _fragment(at, {"id": id_, "type": "function"}, {"name": name, "arguments": ""})
        half = len(arguments) // 2
        for part in (arguments[:half], arguments[half:]):
            yield _fragment(at, {}, {"arguments": part})


def _fragment(index: int, call: dict[str, Any], function: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, **call, "function": function}]}


def _event(to: BaseHTTPRequestHandler, asked: Asked, choices: list[dict[str, Any]], **more: Any) -> None:
    chunk = {"id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": asked.body["model"]}
    to.wfile.write(f"data: {json.dumps({**chunk, 'choices': choices, **more})}\n\n".encode())
    to.wfile.flush()


def _reason(answer: Answer) -> str:
    return answer.finish_reason or ("tool_calls" if answer.tool_calls else "stop")


def _usage(asked: Asked, answer: Answer) -> dict[str, Any]:
    prompt_tokens = sum(len(str(m.get("content") or "").split()) for m in asked.body["messages"])
    said = len(answer.text.split())
    usage: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": said,
        "total_tokens": prompt_tokens + said,
    }
    if answer.cached_tokens is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": answer.cached_tokens}
    return usage


def main() -> None:
    parser = argparse.ArgumentParser(description="A fake chat-completions endpoint.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--say", default="Hello from the fake endpoint.")
    options = parser.parse_args()
    with serving(Answer(options.say), port=options.port) as endpoint, suppress(KeyboardInterrupt):
        print(endpoint.base_url, flush=True)
        Event().wait()


if __name__ == "__main__":
    main()
