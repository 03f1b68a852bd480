"""docs/outside_agent.py where something fails: the run is ended, and the script goes on."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.http_server import serve_http

SCRIPT = Path(__file__).parents[2] / "docs/outside_agent.py"
MAX_BODY = 1_000
"""Characters of a body that the server below takes."""


class Server:
    """What the API answers the script, and what it was told."""

    def __init__(self) -> None:
        self.url = ""
        self.ends: list[dict[str, Any]] = []
        self.broken: bytes | None = None
        """What it answers to the first call, in place of JSON."""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path.endswith("/context/"):
            return 200, {"messages": [{"role": "user", "content": "@reed when?"}]}
        if not path.endswith("/finish/"):
            return 201, {"id": 7, "attempt": 1}
        words = body.get("body", "")
        if "body" in body and (not isinstance(words, str) or len(words) > MAX_BODY):
            return 400, {"detail": "A reply is text of at most 1,000 characters.", "code": "too_long"}
        self.ends.append(body)
        return 200, {}


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = state.answer(self.path, body)
            content = json.dumps(answer).encode() if state.broken is None else state.broken
            self.send_response(status)
            self.send_header("Content-Length", str(len(content) + (state.broken is not None)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with serve_http(Handler) as served:
        state.url = f"http://127.0.0.1:{served.server_port}"
        yield state


@pytest.fixture
def script(server: Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The functions of the script, before it listens."""
    monkeypatch.setenv("OPENVIBE_URL", server.url)
    monkeypatch.setenv("OPENVIBE_TOKEN", "ovk_1")
    names: dict[str, Any] = {}
    exec(SCRIPT.read_text().partition("\nhandle = ")[0], names)  # noqa: S102 - our own script
    return names


class ModelAway(Exception):
    pass


def failing(error: Exception) -> Callable[[object], str]:
    def ask(messages: object) -> str:
        raise error

    return ask


@pytest.mark.parametrize(
    ("ask", "end"),
    [
        (failing(ModelAway("no such model")), {"error": "The model did not answer: no such model"}),
        (failing(ModelAway()), {"error": "The model did not answer: ModelAway"}),
        (failing(KeyError("choices")), {"error": "The model did not answer: 'choices'"}),
        (failing(ConnectionError("refused")), {"error": "The model did not answer: refused"}),
        (lambda messages: None, {"body": "The model said nothing."}),
        (lambda messages: "In March.", {"body": "In March."}),
    ],
)
def test_the_run_ends_whatever_the_model_does(
    server: Server, script: dict[str, Any], ask: Callable[[object], Any], end: dict[str, Any]
) -> None:
    script["ask_a_model"] = ask
    script["answer"](5)
    assert server.ends == [{"attempt": 1, **end}]


@pytest.mark.parametrize("words", ["x" * (MAX_BODY + 1), {"choices": []}])
def test_an_answer_that_is_not_taken_is_said_to_have_failed(
    server: Server, script: dict[str, Any], words: object
) -> None:
    script["ask_a_model"] = lambda messages: words
    script["answer"](5)
    (end,) = server.ends
    assert "A reply is text of at most 1,000 characters." in end["error"]


def test_a_long_error_is_cut(server: Server, script: dict[str, Any]) -> None:
    script["ask_a_model"] = failing(ModelAway("x" * 50_000))
    script["answer"](5)
    assert len(server.ends[0]["error"]) == 2_000


@pytest.mark.parametrize("broken", [b"", b"<html>A proxy</html>", b"{"])
def test_an_answer_of_the_server_that_is_broken_ends_nothing(
    server: Server, script: dict[str, Any], broken: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    server.broken = broken
    script["answer"](5)
    assert capsys.readouterr().out.startswith("Message 5 is not answered: ")
