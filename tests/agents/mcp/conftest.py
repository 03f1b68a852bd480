"""The official client at `/mcp`, in this process: over ASGI, on one thread that shares the test's transaction."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import httpx2
import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connections
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pytest_django.fixtures import Settings

from agents.mcp.server import McpApplication
from openvibe.api.services import issue_token
from openvibe.workspaces.models import Participant
from tests.agents.mcp.remote_server import Remote, remote_server

T = TypeVar("T")
ALL_SCOPES = ("read", "write", "memory", "knowledge", "admin")
Visit = Callable[..., T]


@pytest.fixture
def executor(db: None) -> Iterator[ThreadPoolExecutor]:
    """One thread with the test's own database connection."""

    def share() -> None:
        connections["default"] = shared

    shared = connections["default"]
    shared.inc_thread_sharing()
    for signal in (request_started, request_finished):  # as Django's test client does: the connection stays open
        signal.disconnect(close_old_connections)
    with ThreadPoolExecutor(1, initializer=share) as pool:
        yield pool
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)
    shared.dec_thread_sharing()


@pytest.fixture
def visit(executor: ThreadPoolExecutor) -> Callable[..., object]:
    """`visit(participant, story)`: what `story(client)` returns, with the official client and a fresh token.

    `mode` is the client's: "legacy" for the protocol with a handshake.
    """

    def run(
        participant: Participant,
        story: Callable[[Client], Awaitable[T]],
        *,
        scopes: tuple[str, ...] = ALL_SCOPES,
        mode: str = "auto",
    ) -> T:
        _, secret = issue_token(participant=participant, name="tests", scopes=scopes)

        async def main() -> T:
            transport = httpx2.ASGITransport(app=McpApplication(executor))
            headers = {"Authorization": f"Bearer {secret}"}
            async with httpx2.AsyncClient(transport=transport, headers=headers) as http:
                server = streamable_http_client("http://testserver/mcp", http_client=http)
                async with Client(server, mode=mode) as client:
                    return await story(client)

        return asyncio.run(main())

    return run


@pytest.fixture
def remote(settings: Settings) -> Iterator[Remote]:
    """Somebody else's MCP server on the loopback, which the operator allows."""
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with remote_server() as server:
        yield server
