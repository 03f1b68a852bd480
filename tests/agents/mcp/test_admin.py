"""An admin connects an MCP server, reads its tools, and says what they do and who may use them."""

import pytest
from django.urls import reverse
from django.utils import timezone
from pytest_django.fixtures import Settings

from agents.models import Agent, McpServer
from openvibe.workspaces.models import Member
from tests.admin.conftest import as_superuser
from tests.agents.mcp.remote_server import Remote, list_of

pytestmark = pytest.mark.django_db
TOKEN = "sesame-open-1234"


def form_of(ana: Member, remote: Remote, **changed: object) -> dict[str, object]:
    return {
        **{"workspace": ana.workspace.pk, "name": "shop", "url": remote.url, "token": TOKEN, "is_active": "on"},
        **{"header": "Authorization", "timeout_seconds": 5, "max_bytes": 100_000},
        **{"tools-TOTAL_FORMS": 0, "tools-INITIAL_FORMS": 0},
        **changed,
    }


def test_a_server_is_connected_its_tools_fetched_and_allowed(ana: Member, vibe: Agent, remote: Remote) -> None:
    client = as_superuser(ana)
    client.post(reverse("admin:agents_mcpserver_add"), form_of(ana, remote))
    server = McpServer.objects.get()
    page = reverse("admin:agents_mcpserver_change", args=[server.pk])

    response = client.post(reverse("admin:agents_mcpserver_fetch_tools", args=[server.pk]), follow=True)
    tool = server.tools.get(name="price_of")
    client.post(reverse("admin:agents_agent_tools_page", args=[vibe.pk]), {"tools": [tool.pk]})
    html = client.get(page).content.decode()

    assert (server.token, remote.headers["authorization"]) == (TOKEN, f"Bearer {TOKEN}")
    assert "shop answered: 2 tools." in response.content.decode()
    assert TOKEN not in html
    assert "A token ending in …1234 is stored." in html
    assert "@vibe" in html
    assert "count; plant" in html
    assert list(vibe.mcp_tools.all()) == [tool]


def test_what_of_a_servers_tools_is_left_out_is_said(ana: Member, remote: Remote) -> None:
    server = McpServer.objects.create(workspace=ana.workspace, name="shop", url=remote.url)
    remote.misbehave_at = "tools/list"
    remote.misbehave = list_of(
        **{"<b>x": '{"type": "object", "properties": 5}', **{f"t{n}": '{"type": "object"}' for n in range(201)}}
    )
    page = as_superuser(ana).post(reverse("admin:agents_mcpserver_fetch_tools", args=[server.pk]), follow=True)
    assert "what the server says of them: &lt;b&gt;x." in page.content.decode()
    assert "It has more; the first 200 are kept." in page.content.decode()


def test_a_token_stays_with_its_address(ana: Member, remote: Remote) -> None:
    server = McpServer.objects.create(workspace=ana.workspace, name="shop", url=remote.url, token=TOKEN)
    client, page = as_superuser(ana), reverse("admin:agents_mcpserver_change", args=[server.pk])

    client.post(page, form_of(ana, remote, token="", max_bytes=200_000))
    old_token = McpServer.objects.get().token
    client.post(page, form_of(ana, remote, token="", url="https://elsewhere.example/mcp"))

    assert (old_token, McpServer.objects.get().token) == (TOKEN, "")


def test_a_token_that_cannot_be_read_is_asked_for_again(ana: Member, settings: Settings) -> None:
    server = McpServer.objects.create(workspace=ana.workspace, name="shop", url="https://shop.example/mcp", token=TOKEN)
    settings.SECRET_KEY = "another"

    page = as_superuser(ana).get(reverse("admin:agents_mcpserver_change", args=[server.pk])).content.decode()

    assert "Enter the token again." in page


def test_all_that_agents_read_of_a_tool_is_shown(ana: Member) -> None:
    """Text deep in its arguments, or in what is no description, is shown too."""
    server = McpServer.objects.create(workspace=ana.workspace, name="shop", url="https://shop.example/mcp")
    size = {"description": "Two", "anyOf": [{"enum": ["Three"]}, {"type": "string", "title": "Four"}]}
    schema = {
        "description": "One",
        "properties": {"order": {"type": "object", "description": "Zero", "properties": {"size": size}}},
        "$defs": {"Rose": {"items": {"description": "<b>Five"}}},
    }
    now = timezone.now()
    server.tools.create(name="buy", description="Buys.", input_schema=schema, fingerprint="f", fetched_at=now)

    page = as_superuser(ana).get(reverse("admin:agents_mcpserver_change", args=[server.pk])).content.decode()

    for words in ("Zero", "One", "Two", "Three", "Four", "Five"):
        assert words in page, words
    assert "order.size: Two" in page
    assert "<b>Five" not in page
