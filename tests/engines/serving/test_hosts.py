"""The host that a request names: ours, port included, at every path."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from agents.mcp.server import McpApplication
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member

PATHS = (
    "/accounts/login/",
    "/api/v1/me/",
    "/api/v1/events/",
    "/v1/models",
    "/v1/chat/completions",
    "/.well-known/oauth-protected-resource",
    "/w/garden/events/",
    "/nowhere/",
)


@pytest.fixture(autouse=True)
def own_host(settings: Settings) -> None:
    settings.ALLOWED_HOSTS, settings.PUBLIC_URL = (
        ["vibe.example", "vibe.lan", "localhost", "[::1]"],
        "https://vibe.example",
    )
    settings.CSRF_TRUSTED_ORIGINS = ["https://vibe.lan:7443"]


def is_refused(host: str, path: str = "/accounts/login/", **environ: Any) -> bool:
    answer = Client(headers={"host": host}).get(path, **environ)
    return answer.status_code == 400 and b"OPENVIBE_ALLOWED_HOSTS" in answer.content


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host", ["vibe.example:8443", "evil.example", "evil.example:443", "vibe.example:443@evil.example"]
)
def test_a_foreign_host_or_port_is_refused_at_every_path(db: None, host: str, path: str) -> None:
    assert is_refused(host, path)


@pytest.mark.parametrize(
    ("public", "host", "is_foreign"),
    [
        ("https://vibe.example", "vibe.example", False),
        ("https://vibe.example", "vibe.example:443", False),
        ("https://vibe.example", "vibe.example:80", False),
        ("https://vibe.example:8443", "vibe.example:8443", False),
        ("https://vibe.example:8443", "vibe.example", False),  # a proxy that passes on the name alone
        ("https://vibe.example:8443", "vibe.example:443", True),
        ("https://vibe.example:8443", "vibe.example:9", True),
        ("https://vibe.example", "vibe.lan:7443", False),  # a trusted origin
        ("https://vibe.example", "vibe.lan:8000", False),  # the port it listens on
        ("https://vibe.example", "vibe.lan:8001", True),
        ("https://vibe.example", "localhost:8001", False),
        ("https://vibe.example", "[::1]:5", False),
    ],
)
def test_which_ports_are_ours(db: None, settings: Settings, public: str, host: str, is_foreign: bool) -> None:
    settings.PUBLIC_URL = public
    assert is_refused(host, SERVER_PORT="8000") == is_foreign


def test_where_any_host_is_allowed_any_port_is(db: None, settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert not is_refused("10.0.0.7:31337")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_ask_by_any_address(db: None, path: str) -> None:
    assert Client(headers={"host": "10.0.0.7:31337"}).get(path).status_code == 200


def test_what_a_proxy_says_of_the_host_is_not_asked(db: None) -> None:
    forwarded = {"x-forwarded-host": "evil.example", "x-forwarded-port": "31337"}
    page = Client(headers={"host": "vibe.example", **forwarded}).get("/accounts/login/")
    assert page.status_code == 200
    assert b"evil.example" not in page.content


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS", "POST"])
@pytest.mark.parametrize("host", ["evil.example", "vibe.example:31337"])
def test_mcp_refuses_a_foreign_host_before_all_else(db: None, method: str, host: str) -> None:
    status, body = ask_mcp(method, host)
    assert status == 400
    assert b"bad_request" in body


def test_mcp_answers_its_own_host(db: None) -> None:
    assert [ask_mcp("GET", host)[0] for host in ("vibe.example", "localhost:31337")] == [405, 405]


def ask_mcp(method: str, host: str) -> tuple[int, bytes]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": "/mcp",
        "query_string": b"",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 5),
        "headers": [(b"host", host.encode())],
    }
    with ThreadPoolExecutor(1) as executor:
        asyncio.run(McpApplication(executor)(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def test_no_link_in_a_mail_or_page_is_made_of_a_foreign_port(ana: Member, thread: Thread) -> None:
    client = Client(headers={"host": "vibe.example:31337"})
    answer = client.post("/accounts/password/reset/", {"email": ana.user.email})
    assert answer.status_code == 400
    assert b"31337" not in answer.content
