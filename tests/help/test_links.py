"""Pages of the app lead to what the documentation says of them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from openvibe.base.admin_site import HELP, LIST_PAGES
from openvibe.help.pages import ADDRESS, page_paths, read_page
from openvibe.workspaces.models import Member
from tests.help.test_pages import Elements

TEMPLATES = Path(settings.BASE_DIR) / "templates"
FRAGMENT = re.compile(r'fragment "_help\.html" at="([^"]*)" about="([^"]+)"')
PLACES = [
    ("inbox", "members/#find-things"),
    ("search", "members/#find-things"),
    ("knowledge", "knowledge/#knowledge"),
    ("knowledge-review", "knowledge/#review"),
    ("knowledge-new", "knowledge/#add-an-entry"),
    ("knowledge-import", "knowledge/#bring-in-many-entries"),
    ("notifications", "notifications/"),
    ("members", "admins/#people"),
    ("workspace-settings", "admins/"),
    ("settings-models", "admins/#models-and-budgets"),
    ("settings-model-new", "admins/#models-and-budgets"),
    ("connect-model", "getting-started/#4-connect-a-model"),
    ("settings-memory", "admins/#memory"),
    ("settings-instructions", "admins/#what-agents-are-told"),
    ("settings-exports", "admins/#data-out-and-back"),
    ("snippets", "admins/#what-agents-are-told"),
    ("budgets", "admins/#models-and-budgets"),
    ("tokens", "api/#get-a-token"),
    ("webhooks", "webhooks/"),
    ("audit", "admins/#what-happened"),
    ("agent-new", "agents/#make-an-agent"),
]
"""Pages of a workspace by the name of their address, and where each leads."""


def linked_places() -> Iterator[tuple[str, str]]:
    """(template or model, place below /help/) for every link to the documentation."""
    for template in sorted(TEMPLATES.rglob("*.html")):
        for at, _ in FRAGMENT.findall(template.read_text()):
            yield template.relative_to(TEMPLATES).as_posix(), at
    yield from HELP.items()


@pytest.mark.parametrize(("source", "at"), list(linked_places()))
def test_what_a_page_leads_to_is_there(source: str, at: str) -> None:
    name, _, anchor = at.partition("/")
    page = read_page(name)
    assert name in page_paths()
    assert page is not None
    assert not anchor or anchor.removeprefix("#") in Elements(page.html).ids


@pytest.mark.parametrize(("name", "at"), PLACES)
def test_a_page_has_one_link_with_its_subject(name: str, at: str, ana: Member, client: Client) -> None:
    client.force_login(ana.user)
    page = client.get(reverse(name, args=[ana.workspace.slug])).content.decode()
    links = re.findall(r'<a class="help-link" href="([^"]+)"[^>]*>Help<span[^>]*>: [^<]+</span>', page)
    assert links == [f"{ADDRESS}{at}"]


def test_every_link_of_the_admin_is_of_a_list_there_is() -> None:
    assert set(HELP) <= {page.model for page in LIST_PAGES.values()}


@pytest.mark.parametrize("path", ["/admin/", "/admin/agents/mcpserver/"])
def test_the_administration_has_its_links(path: str, ana: Member, client: Client) -> None:
    ana.user.is_superuser = ana.user.is_staff = True
    ana.user.save()
    client.force_login(ana.user)
    at = HELP["agents.mcpserver"] if "mcpserver" in path else "admins/"
    assert f'href="{ADDRESS}{at}' in client.get(path).content.decode()


def test_who_is_not_signed_in_finds_the_lost_password(client: Client, db: None) -> None:
    assert f'href="{ADDRESS}members/#a-lost-password"' in client.get("/accounts/login/").content.decode()


def test_the_menu_leads_to_the_documentation(ana: Member, client: Client) -> None:
    client.force_login(ana.user)
    page = client.get(reverse("inbox", args=[ana.workspace.slug])).content.decode()
    assert '<a href="/help/" target="_blank" rel="noopener">Help</a>' in page
