"""A door before a served OpenVibe that adds what its API does not have yet: permissions, the plan, what was said
meanwhile, and joining.

Everything else is passed on as it is. Tests that go through it say in `Shim` what people decide."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from tests.http_server import serve_http

OWN = re.compile(r"/api/v1/(?:runs/(\d+)/(permissions|plan|heard)/(?:(\w+)/)?|(join)/)$")
REPLY = re.compile(r"/api/v1/runs/(\d+)/reply/$")


@dataclass
class Shim:
    """What people decide, by titles of questions (`default` for the rest), and what was asked and told."""

    url: str = ""
    default: str = "allowed"
    scope: str = "once"
    why: str = ""
    note: str = ""
    permissions: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    read_at: list[float] = field(default_factory=list)
    plans: list[Any] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    contexts: list[Any] = field(default_factory=list)
    interrupt: bool = False
    is_away: bool = False
    refused: int = 0
    joined: dict[str, Any] | None = None
    joining_headers: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def decide(self, state: str, **facts: str) -> None:
        """People answer everything that waits."""
        with self.lock:
            for permission in self.permissions.values():
                permission.update(state=state, **facts)

    def answer(self, method: str, groups: tuple[Any, ...], body: Any) -> tuple[int, Any]:
        _, what, key, join = groups
        with self.lock:
            if join:
                if self.joined is None:
                    return 409, {"code": "used", "detail": "This code was used. Make a new one on the agent's page."}
                answered, self.joined = self.joined, None
                return 201, answered
            if what == "plan":
                self.plans.append(body["entries"])
                return 200, {}
            if what == "heard":
                said, self.said, self.interrupt = self.said, [], False
                row: dict[str, Any] = {"role": "user", "tool_calls": [], "tool_call_id": None}
                return 200, {"messages": [{**row, "content": text} for text in said], "heard": [], "interrupt": False}
            if method == "GET":
                self.read_at.append(time.monotonic())
                return 200, self.permissions[key]
            is_new = body["key"] not in self.permissions
            if is_new:
                self.asked.append(body)
                row = {"key": body["key"], "state": self.default, "scope": self.scope, "why": self.why}
                more = {"note": self.note, "approval": None, "expires_at": None}
                self.permissions[body["key"]] = {**row, **more}
            return 201 if is_new else 200, self.permissions[body["key"]]


@contextmanager
def shim_before(url: str, *, is_old: bool = False) -> Iterator[Shim]:
    """The door before the server at `url`; `is_old`: without anything of its own."""
    shim, behind = Shim(), urlsplit(url)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            if shim.is_away:
                shim.refused += 1
                self.give(503, {"code": "unavailable", "detail": "The server is being started."})
                return
            if (own := OWN.search(path)) and not is_old:
                shim.joining_headers = dict(self.headers) if own[4] else shim.joining_headers
                self.give(*shim.answer(self.command, own.groups(), json.loads(data) if data else None))
                return
            if path.endswith("/context/") and self.command == "POST":
                shim.contexts.append(json.loads(data))
            connection = HTTPConnection(str(behind.hostname), behind.port, timeout=120)
            connection.request(self.command, self.path, data or None, {**self.headers, "Connection": "close"})
            response = connection.getresponse()
            if response.getheader("Content-Type", "").startswith("text/event-stream"):
                self.stream(response)
                return
            answered = response.read()
            if REPLY.search(path) and response.status == 200 and not is_old:
                with shim.lock:
                    news = {"unheard": len(shim.said), "interrupt": shim.interrupt}
                answered = json.dumps({**json.loads(answered), **news}).encode()
            self.give(response.status, answered, response.getheader("Content-Type", "application/json"))

        def stream(self, response: Any) -> None:
            self.close_connection = True
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            with suppress(OSError):
                while line := response.readline():
                    self.wfile.write(line)

        def give(self, status: int, body: Any, kind: str = "application/json") -> None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            with suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = answer  # noqa: N815 - the names http.server calls

        def log_message(self, format: str, *args: object) -> None:
            return

    with serve_http(Handler) as server:
        shim.url = f"http://127.0.0.1:{server.server_port}"
        yield shim
