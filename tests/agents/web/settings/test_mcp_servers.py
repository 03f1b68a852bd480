"""Owners and admins connect MCP servers in the settings, read their tools, and say what those do and who may use
them."""

import pytest
from django.urls import reverse

from agents.models import Agent, McpServer, McpTool
from agents.tools.mcp_servers.tools import refresh_tools
from openvibe.base.models import AuditRecord
from openvibe.workspaces.models import Member
from tests import factories
from tests.agents.factories import McpServerFactory, McpToolFactory
from tests.agents.mcp.remote_server import Remote, remote_server
from tests.factories import signed_in

pytestmark = pytest.mark.django_db
TOKEN = "sesame-open-1234"


@pytest.fixture
def shop(ana: Member) -> McpServer:
    return McpServerFactory.create(workspace=ana.workspace, token=TOKEN)


@pytest.fixture
def order(shop: McpServer) -> McpTool:
    schema = {"properties": {"plant": {"type": "object", "properties": {"size": {"description": "<b>In litres"}}}}}
    return McpToolFactory.create(server=shop, description="Order a plant.", input_schema=schema)


def server_form(**changes: object) -> dict[str, object]:
    limits = {"header": "Authorization", "timeout_seconds": 5, "max_bytes": 100_000, "is_active": "on"}
    return {"name": "shop", "url": "https://shop.example/mcp", "token": TOKEN, **limits, **changes}


def page_of(server: McpServer) -> str:
    return reverse("settings-mcp-server", args=[server.workspace.slug, server.pk])


def use_form(tool: McpTool, **changes: object) -> dict[str, object]:
    values = {"act": "tools", f"effect-{tool.pk}": "reads", f"asks-{tool.pk}": "on", f"fingerprint-{tool.pk}": "f1"}
    return values | changes


def test_a_server_is_connected_its_tools_fetched_and_allowed(ana: Member, vibe: Agent, settings: object) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True  # type: ignore[attr-defined]  # pytest-django's
    browser = signed_in(ana)
    with remote_server() as remote:
        new = reverse("settings-mcp-server-new", args=[ana.workspace.slug])
        assert browser.post(new, server_form(url=remote.url)).status_code == 302
        server = McpServer.objects.get()
        said = browser.post(page_of(server), {"act": "fetch"}, follow=True).content.decode()
        bearer = remote.headers["authorization"]
    tool = server.tools.get(name="price_of")
    tools = reverse("agent-tools", args=[ana.workspace.slug, vibe.handle])
    assert b"shop__price_of" in browser.get(tools).content
    browser.post(tools, {"tools": [tool.pk]})

    html = browser.get(page_of(server)).content.decode()
    assert (server.token, bearer) == (TOKEN, f"Bearer {TOKEN}")
    assert "shop answered: 2 tools." in said
    assert TOKEN not in html
    assert "A token ending in …1234 is stored." in html
    assert list(vibe.mcp_tools.all()) == [tool]
    assert b"2 tools, fetched" in browser.get(reverse("settings-mcp-servers", args=[ana.workspace.slug])).content
    assert [*AuditRecord.objects.order_by("pk").values_list("action", "after")][-2:] == [
        ("mcp_server", "made"),
        ("tools", "shop__price_of"),
    ]


def test_a_server_that_does_not_answer_is_a_sentence(ana: Member, settings: object) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True  # type: ignore[attr-defined]  # pytest-django's
    with remote_server() as remote:
        url = remote.url
    server = McpServerFactory.create(workspace=ana.workspace, url=url)
    answer = signed_in(ana).post(page_of(server), {"act": "fetch"}, follow=True)
    assert answer.status_code == 200
    assert b"notice-error" in answer.content


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"url": "http://127.0.0.1:5432/"}, "url"),
        ({"url": "no address"}, "url"),
        ({"name": "Shop of Plants"}, "name"),
        ({"name": "shop"}, "name"),
        ({"header": "X: y"}, "header"),
        ({"timeout_seconds": 301}, "timeout_seconds"),
        ({"max_bytes": "many"}, "max_bytes"),
    ],
)
def test_what_cannot_be_saved_is_said_at_its_field(
    ana: Member, shop: McpServer, changes: dict[str, object], field: str
) -> None:
    new = reverse("settings-mcp-server-new", args=[ana.workspace.slug])
    answer = signed_in(ana).post(new, server_form(name="other") | changes)
    assert (answer.status_code, McpServer.objects.count()) == (400, 1)
    assert set(answer.context["form"].errors) == {field}
    assert TOKEN not in answer.content.decode()


def test_a_token_stays_with_its_address(ana: Member, shop: McpServer) -> None:
    browser, kept = signed_in(ana), []
    for changes in ({"max_bytes": 200_000}, {"url": "https://elsewhere.example/mcp"}):
        assert browser.post(page_of(shop), server_form(token="") | changes).status_code == 302
        kept.append(McpServer.objects.get().token)
    assert kept == [TOKEN, ""]
    assert TOKEN not in str(AuditRecord.objects.values_list("before", "after"))


def test_what_a_tool_may_do_is_set_and_written_down(ana: Member, shop: McpServer, order: McpTool) -> None:
    browser = signed_in(ana)
    html = browser.get(page_of(shop)).content.decode()
    assert "plant.size" in html
    assert "<b>In litres" not in html
    assert browser.post(page_of(shop), use_form(order)).status_code == 302
    order.refresh_from_db()
    assert (order.effect, order.asks_first) == ("reads", True)
    record = AuditRecord.objects.get(action="mcp_server")
    assert (record.subject, record.before, record.after, record.actor) == (
        *("order of shop", "acts outside the workspace", "only reads, asks first", "Ana (@ana)"),
    )
    answer = browser.post(page_of(shop), use_form(order) | {f"effect-{order.pk}": "harms"})
    assert answer.status_code == 400


def test_nobody_decides_on_what_a_tool_said_before(ana: Member, shop: McpServer, order: McpTool) -> None:
    """A server that says something else since the page was opened."""
    McpTool.objects.filter(pk=order.pk).update(fingerprint="f2", description="Orders all plants.")
    answer = signed_in(ana).post(page_of(shop), use_form(order))
    assert answer.status_code == 409
    assert "says something else of order than when this page was opened" in answer.content.decode()
    assert "Orders all plants." in answer.content.decode()
    order.refresh_from_db()
    assert order.effect == "external"
    assert not AuditRecord.objects.exists()


def test_a_server_is_deleted_with_its_tools(ana: Member, vibe: Agent, shop: McpServer, order: McpTool) -> None:
    vibe.mcp_tools.add(order)
    signed_in(ana).post(page_of(shop), {"act": "delete"})
    assert not McpServer.objects.exists()
    assert not vibe.mcp_tools.exists()
    assert AuditRecord.objects.get(action="mcp_server").after == "deleted"


def test_members_and_other_workspaces_reach_none_of_it(
    ana: Member, dora: Member, cleo: Member, vibe: Agent, shop: McpServer, order: McpTool
) -> None:
    tools = reverse("agent-tools", args=[ana.workspace.slug, vibe.handle])
    posts: list[dict[str, object]] = [{"act": "delete"}, {"act": "fetch"}, use_form(order), server_form()]
    for member, status in ((dora, 403), (cleo, 404)):
        browser = signed_in(member)
        assert [browser.post(page_of(shop), form).status_code for form in posts] == [status] * 4
        assert [browser.get(page_of(shop)).status_code, browser.get(tools).status_code] == [status] * 2
        assert browser.post(tools, {"tools": [order.pk]}).status_code == status
    theirs = reverse("settings-mcp-server", args=[cleo.workspace.slug, shop.pk])
    assert signed_in(cleo).post(theirs, {"act": "delete"}).status_code == 404
    fern = factories.make_agent(cleo, "fern")
    answer = signed_in(cleo).post(reverse("agent-tools", args=[cleo.workspace.slug, "fern"]), {"tools": [order.pk]})
    assert answer.status_code == 422
    assert McpServer.objects.get().name == "shop"
    assert not vibe.mcp_tools.exists()
    assert not fern.mcp_tools.exists()


def test_fetching_again_is_what_an_open_page_waits_for(ana: Member, settings: object) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True  # type: ignore[attr-defined]  # pytest-django's
    remote: Remote
    with remote_server() as remote:
        server = McpServerFactory.create(workspace=ana.workspace, url=remote.url)
        refresh_tools(server=server)
        form = signed_in(ana).get(page_of(server)).context["uses"]
        shown = {name: field.initial for name, field in form.fields.items() if field.initial not in (None, False)}
        remote.description = "What a plant costs, and your keys."
        refresh_tools(server=server)
    answer = signed_in(ana).post(page_of(server), {**shown, "act": "tools"})
    assert answer.status_code == 409
