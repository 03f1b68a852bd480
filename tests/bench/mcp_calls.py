"""`bench mcp`: a call of a tool at `/mcp` against the same call of the REST API, in processor time."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import TYPE_CHECKING, Any, cast

from a2wsgi import WSGIMiddleware
from django.db import connection
from django.test import override_settings

from agents.mcp.server import McpApplication
from openvibe.api.services import issue_token
from openvibe.wsgi import application as pages
from tests.bench.corpus import make_bench_workspace, make_thread
from tests.bench.measurement import Aim, Measurement, Report

if TYPE_CHECKING:
    from a2wsgi.wsgi_typing import WSGIApp

MAX_RATIO = 2.0
TODAY, HANDSHAKE = "2026-07-28", "2025-11-25"
"""Versions of the protocol: the one without sessions, and the last one with a handshake."""

Call = Callable[[], Coroutine[Any, Any, None]]


def measure_mcp(*, repeats: int = 150, warm_up: int = 20) -> Report:
    """Three calls, each in turns with the other ways to make it: all three applications in this process, on one thread
    each, as in the web server; without the server's own part, which is the same for all."""
    world = make_bench_workspace()
    thread = make_thread(world, 200)
    _, secret = issue_token(participant=world.vibe.participant, name="bench", scopes=["read", "write", "memory"])
    at = {"thread": thread.pk}
    with ThreadPoolExecutor(1) as executor:
        wsgi = WSGIMiddleware(cast("WSGIApp", pages), workers=1)
        mcp = McpApplication(executor)
        ways = {
            name: {
                "rest": _caller(wsgi, secret, method, path, body),
                "today": _mcp_caller(mcp, secret, tool, arguments, TODAY),
                "handshake": _mcp_caller(mcp, secret, tool, arguments, HANDSHAKE),
            }
            for name, method, path, body, tool, arguments in (
                ("who am I", "GET", "/api/v1/me/", None, "me_get", {}),
                ("50 messages", "GET", f"/api/v1/threads/{thread.pk}/messages/", None, "messages_list", at),
                ("a to-do", "POST", "/api/v1/work/", {**at, **TODO}, "work_create", {**at, **TODO}),
            )
        }
        with override_settings(API_CALLS_PER_MINUTE=10**9):
            medians = asyncio.run(_medians(ways, repeats=repeats, warm_up=warm_up))
        for pool in (executor, wsgi.executor):
            pool.submit(lambda: connection.close()).result()
    return _report(medians)


TODO = {"kind": "todo", "text": "Prune the roses."}


def _report(medians: dict[str, dict[str, float]]) -> Report:
    rows: list[Measurement] = []
    for name, by_way in medians.items():
        rows.append(Measurement(f"{name}: floor, the REST API", by_way["rest"], "ms"))
        rows += [
            Measurement(f"{name}: /mcp, {way}", by_way[way], "ms", by_way[way] / by_way["rest"])
            for way in ("today", "handshake")
        ]
    worst = max(row.ratio or 0 for row in rows)
    return Report("mcp", rows, (Aim("a call at /mcp over the same REST call", worst, MAX_RATIO),))


async def _medians(ways: dict[str, dict[str, Call]], *, repeats: int, warm_up: int) -> dict[str, dict[str, float]]:
    """Milliseconds of processor time of the whole process."""
    medians: dict[str, dict[str, float]] = {}
    for name, by_way in ways.items():
        spent: dict[str, list[float]] = {way: [] for way in by_way}
        for turn in range(warm_up + repeats):
            for way, call in by_way.items():
                start_time = time.process_time()
                await call()
                if turn >= warm_up:
                    spent[way].append((time.process_time() - start_time) * 1000)
        medians[name] = {way: median(times) for way, times in spent.items()}
    return medians


def _mcp_caller(application: Any, secret: str, tool: str, arguments: dict[str, Any], version: str) -> Call:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    headers = [(b"accept", b"application/json, text/event-stream"), (b"mcp-protocol-version", version.encode())]
    if version == TODAY:
        prefix = "io.modelcontextprotocol/"
        params["_meta"] = {f"{prefix}protocolVersion": version, f"{prefix}clientCapabilities": {}}
        headers += [(b"mcp-method", b"tools/call"), (b"mcp-name", tool.encode())]
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return _caller(application, secret, "POST", "/mcp", call, headers)


def _caller(
    application: Any, secret: str, method: str, path: str, body: Any, headers: list[tuple[bytes, bytes]] | None = None
) -> Call:
    """Makes the call, and holds that it succeeds."""
    content = b"" if body is None else json.dumps(body).encode()
    scope = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http"},
        **{"path": path, "raw_path": path.encode(), "query_string": b"", "client": ("127.0.0.1", 1)},
        "server": ("localhost", 80),
        "headers": [
            *((b"host", b"localhost"), (b"authorization", f"Bearer {secret}".encode())),
            *((b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())),
            *(headers or ()),
        ],
    }

    async def call() -> None:
        messages: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            messages.append(message)

        await application(scope, receive, send)
        answer = b"".join(message.get("body", b"") for message in messages)
        assert messages[0]["status"] in (200, 201), answer
        assert b'"isError":true' not in answer, answer

    return call
