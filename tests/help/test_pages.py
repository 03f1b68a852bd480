"""The documentation as the server itself shows it: every page, every link, and nothing but what lies in docs/."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from openvibe.help.pages import contents, page_address, page_paths, read_page
from openvibe.workspaces.models import Member

DOCS = Path(settings.BASE_DIR) / "docs"
ADDRESSES = [page_address(name) for name in page_paths()]


class Elements(HTMLParser):
    """What an HTML text holds of links, pictures, ids, and styles or scripts of its own."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.pictures: list[str] = []
        self.ids: set[str] = set()
        self.inline: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.ids.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "img":
            self.pictures.append(values["src"])
        is_code = tag == "style" or (tag == "script" and "src" not in values)
        self.inline += [tag] * is_code + [name for name in values if name == "style" or name.startswith("on")]


def ids_of(address: str, client: Client, known: dict[str, set[str]] = {}) -> set[str]:  # noqa: B006
    """The ids on a page; asked for once."""
    if address not in known:
        answer = client.get(address)
        assert answer.status_code == 200, address
        is_page = answer.headers["Content-Type"].startswith("text/html")
        known[address] = Elements(answer.content.decode()).ids if is_page else set()
    return known[address]


@pytest.mark.parametrize("name", page_paths())
def test_a_page_is_shown_to_everybody_and_all_it_leads_to_is_there(name: str, client: Client) -> None:
    answer = client.get(page_address(name))
    shown = Elements(answer.content.decode())
    title = re.search(r"(?m)^# (.+)$", page_paths()[name].read_text())
    assert title is not None
    assert f">{title[1].replace('`', '')}</h1>" in re.sub("</?code>", "", answer.content.decode())
    assert shown.inline == []
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    for link in filter(lambda link: link.startswith(("/help/", "#")), shown.links):
        address, anchor = urldefrag(link)
        assert not anchor or anchor in ids_of(address or page_address(name), client), link
        assert address or anchor
    for picture in shown.pictures:
        assert client.get(picture).headers["Content-Type"] in ("image/png", "image/webp"), picture


@pytest.mark.parametrize("name", page_paths())
def test_no_link_of_a_page_is_lost(name: str) -> None:
    """Each link among the files of docs/ has an address: those with none lead to a file outside them."""
    shown = read_page(name)
    assert shown is not None
    lost = re.findall(r"<a>(.*?)</a>", shown.html)
    outside = re.findall(r"\[([^\]]+)\]\(((?:\.\./)+[^)\s]+)\)", page_paths()[name].read_text())
    assert len(lost) <= len(outside), lost


@pytest.mark.django_db
def test_a_page_of_the_documentation_takes_no_statement_and_no_session(client: Client) -> None:
    with CaptureQueriesContext(connection) as queries:
        answer = client.get("/help/members/")
    assert (answer.status_code, len(queries), client.cookies) == (200, 0, {})


def test_who_is_signed_in_reads_in_her_own_theme(ana: Member, client: Client) -> None:
    ana.user.theme = "dark"
    ana.user.save()
    client.force_login(ana.user)
    assert 'data-theme="dark"' in client.get("/help/knowledge/").content.decode()


def test_the_contents_lead_to_every_page_and_mark_the_one_that_is_open(client: Client) -> None:
    listed = [page_address(name) for section in contents() for name, _ in section.pages]
    assert len(listed) == len(set(listed))
    assert {page_address(page.stem) for page in DOCS.glob("*.md")} <= set(listed) <= set(ADDRESSES)
    page = client.get("/help/admins/").content.decode()
    assert set(listed) <= set(Elements(page).links)
    assert re.findall(r'href="([^"]+)" aria-current="page"', page) == ["/help/admins/"]


@pytest.mark.parametrize(
    "path",
    [
        "../manage.py",
        "../manage/",
        "%2e%2e/manage.py",
        "..%2fmanage.py",
        "images/../../manage.py",
        "images/..%2f..%2fvar/secret_key",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "..\\manage.py",
        "images/",
        "images",
        "members%00/",
        "Members/",
        "no-such-page/",
    ],
)
def test_nothing_else_is_served(path: str, client: Client, db: None) -> None:
    answer = client.get(f"/help/{path}", follow=False)
    assert answer.status_code in (301, 404)
    if answer.status_code == 301:  # a slash is added first, and then there is nothing
        assert client.get(answer.headers["Location"]).status_code == 404


@pytest.mark.parametrize("path", ["/help/members", "/help/members.md"])
def test_an_address_as_it_stands_in_the_repository_leads_to_the_page(path: str, client: Client) -> None:
    assert client.get(path).headers["Location"] == "/help/members/"


def test_programs_are_shown_as_text(client: Client) -> None:
    answer = client.get("/help/outside_agent.py")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.getvalue() == (DOCS / "outside_agent.py").read_bytes()


def test_nothing_can_be_sent(client: Client) -> None:
    assert client.post("/help/members/").status_code == 405
    assert client.post("/help/outside_agent.py").status_code == 405


def test_a_placeholder_in_angle_brackets_is_text(client: Client) -> None:
    assert "&lt;address of the repository&gt;" in client.get("/help/getting-started/").content.decode()
