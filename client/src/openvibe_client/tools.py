"""OpenVibe's tools for a command that runs here: an MCP server on this machine's own address that passes calls on.

The command never holds the agent's token, and the client sees when the tools were listed. For commands that speak MCP
over standard input and output only, `python -m openvibe_client.tools` passes lines on to it."""

import json
import os
import secrets
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from openvibe_client.http import Api, Unanswered

MAX_BODY_BYTES = 2_000_000
ADDRESS = "OPENVIBE_MCP_URL"
PASSED_ON = ("Content-Type", "Accept", "MCP-Protocol-Version")


class ToolsServer(ThreadingHTTPServer):
    """Serves in a thread until `close`. Its address holds a secret for each command."""

    daemon_threads = True

    def __init__(self, api: Api) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api = api
        self.listed: dict[str, threading.Event] = {}
        threading.Thread(target=self.serve_forever, name="openvibe-tools", daemon=True).start()

    def open(self) -> tuple[str, threading.Event]:
        """A new address, and an event that is set once the tools were listed there."""
        path = f"/{secrets.token_urlsafe(24)}/mcp"
        self.listed[path] = threading.Event()
        return f"http://127.0.0.1:{self.server_port}{path}", self.listed[path]

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ToolsServer

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        is_known = self.path in self.server.listed and length <= MAX_BODY_BYTES and "Origin" not in self.headers
        if not is_known:
            self.close_connection = True
            self._answer(404, {}, b"")
            return
        data = self.rfile.read(length)
        headers = {name: self.headers[name] for name in PASSED_ON if self.headers.get(name)}
        try:
            status, answered, body = self.server.api.forward("mcp", data, headers)
        except Unanswered:
            status, answered, body = 503, {}, b""
        if status == 200 and _method_of(data) == "tools/list":
            self.server.listed[self.path].set()
        self._answer(status, {"Content-Type": answered.get("Content-Type", "application/json")}, body)

    def do_GET(self) -> None:
        self._answer(405, {"Allow": "POST"}, b"")

    do_DELETE = do_GET  # noqa: N815 - the name http.server calls

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


def _method_of(data: bytes) -> str:
    try:
        call: Any = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    return str(call.get("method", "")) if isinstance(call, dict) else ""


def pass_lines_on() -> None:
    """Standard input and output as an MCP server: each line goes to the address in the environment."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for line in sys.stdin.buffer:
        try:
            with direct.open(urllib.request.Request(os.environ[ADDRESS], line, headers), timeout=600) as response:
                answer = response.read().strip()
        except OSError as error:
            failure = {"code": -32603, "message": f"OpenVibe did not answer: {error}"}
            answer = json.dumps({"jsonrpc": "2.0", "id": json.loads(line).get("id"), "error": failure}).encode()
        if answer:
            sys.stdout.buffer.write(answer + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    pass_lines_on()
