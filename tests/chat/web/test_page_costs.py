"""What a page costs: statements, bytes, and HTML that is made once for all who see the same."""

import gzip
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.files.storage import FileSystemStorage
from django.db import connection
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import Agent
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import ThreadItem
from openvibe.chat.services import create_reply, mark_read
from openvibe.engines.serving.fragments import render_fragment
from openvibe.engines.serving.middleware import CompressionMiddleware
from openvibe.engines.serving.static_files import BUNDLES, StaticStorage
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import end_first_steps
from tests.chat.web.visible_words import visible_words
from tests.factories import access, make_channel, make_entry, make_thread, say, say_all, write_channels

SignedIn = Callable[[Member], Client]
REQUEST_STATEMENTS = 3  # session, member with her user, what she reaches
SHELL_STATEMENTS = 2  # the sidebar, and what upper floors add to it


@pytest.mark.parametrize(
    ("page", "content_statements"),
    [("sidebar/", 0), ("", 5), ("c/{c}/", 2), ("knowledge/", 2), ("t/{t}/", 12)],
    ids=["sidebar", "inbox", "channel", "knowledge", "thread"],
)
def test_a_page_takes_few_statements(
    ana: Member,
    dora: Member,
    vibe: Agent,
    thread: Thread,
    home: str,
    signed_in: SignedIn,
    page: str,
    content_statements: int,
) -> None:
    say(thread, dora, "Pruning, @ana and @vibe?")
    reply = create_reply(thread=thread, author=vibe.participant, client_id="1")
    Message.objects.filter(pk=reply.pk).update(body="In March.", state="complete")
    make_entry(ana)
    end_first_steps(ana)
    browser, address = signed_in(ana), home + page.format(t=thread.pk, c=thread.channel_id)
    browser.get(address)
    with CaptureQueriesContext(connection) as statements:
        assert browser.get(address).status_code == 200
    assert len(statements) == REQUEST_STATEMENTS + SHELL_STATEMENTS + content_statements


def test_what_is_asked_for_once_and_for_all_costs_its_thread_one_statement(
    ana: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    browser, address, counts = signed_in(ana), f"{home}t/{thread.pk}/", []
    for words in ("Pruning?", "Mulch.", "Always give me amounts in grams.", "From now on, answer in German."):
        say(thread, ana, words)
        browser.get(address)
        with CaptureQueriesContext(connection) as statements:
            page = browser.get(address).content.decode()
        counts.append(len(statements))
    assert page.count("Make binding") == 2
    assert counts == [counts[0], counts[0], counts[0] + 1, counts[0] + 1]


def test_first_steps_cost_the_inbox_one_statement_while_they_are_shown(
    ana: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    browser, counts = signed_in(ana), []
    for _ in range(2):
        browser.get(home)
        with CaptureQueriesContext(connection) as statements:
            assert browser.get(home).status_code == 200
        counts.append(len(statements))
        assert browser.post(f"{home}first-steps/hide/").status_code == 302
    assert counts[0] == counts[1] + 1


def test_the_sidebar_counts_what_was_not_read_outside_dives_and_archives(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    archived = make_thread(thread.channel, ana, "Put away")
    for each in (thread, archived, make_thread(make_channel(ana, "other"), ana, "Read")):
        say(each, ana, "Look, @dora")
    Thread.objects.filter(pk=archived.pk).update(archived_at=timezone.now())
    mark_read(thread=Thread.objects.get(title="Read"), by=access(dora), seq=1)

    sidebar = visible_words(signed_in(dora).get(f"{home}sidebar/").content.decode())
    channels = sidebar[sidebar.index("Channels") : sidebar.index("Browse")]
    assert channels == "Channels By name Unread first general , something new 2 mentions other "


def test_equal_values_are_rendered_once_and_tokens_stay_everybodys_own(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    pages = [signed_in(member).get(f"{home}sidebar/").content.decode() for member in (ana, dora, ana)]
    tokens = [set(re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)) for page in pages]
    assert [len(each) for each in tokens] == [1, 1, 1]
    assert len(set.union(*tokens)) == 3
    assert pages[0].replace(tokens[0].pop(), "") == pages[2].replace(tokens[2].pop(), "")


def test_a_fragment_shows_its_values_in_the_readers_time_and_escapes_them() -> None:
    at = datetime(2026, 5, 1, 23, 30, tzinfo=UTC)
    item = ThreadItem(1, "<b>Roses", "general", 1, "open", at, unread=False)
    fragments = []
    for zone in ("UTC", "Asia/Tokyo"):
        with timezone.override(zone):
            fragments.append(
                render_fragment("chat/_thread_item.html", slug="w", thread=item, show_channel=False, is_today=True)
            )
    assert "&lt;b&gt;Roses" in fragments[0]
    assert ["23:30" in each for each in fragments] == [True, False]
    assert "08:30" in fragments[1]


def test_what_is_sent_whole_is_compressed_and_streams_are_not(
    ana: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    say(thread, ana, "Pruning. " * 50)
    browser = signed_in(ana)
    for address in (home, f"{home}t/{thread.pk}/", f"/api/v1/threads/{thread.pk}/messages/"):
        plain, packed = browser.get(address), browser.get(address, headers={"Accept-Encoding": "gzip, br"})
        assert "Content-Encoding" not in plain
        assert (packed["Content-Encoding"], "Accept-Encoding" in packed["Vary"]) == ("gzip", True)
        assert len(packed.content) < len(plain.content)
        refusing = browser.get(address, headers={"Accept-Encoding": "br, gzip;q=0"})
        assert ("Content-Encoding" in refusing, "Accept-Encoding" in refusing["Vary"]) == (False, True)
    request = HttpRequest()
    request.META["HTTP_ACCEPT_ENCODING"] = "gzip"
    stream = StreamingHttpResponse([b"data: 1\n\n" * 100], content_type="text/event-stream")

    def get_response(_request: HttpRequest) -> HttpResponseBase:
        return stream

    assert "Content-Encoding" not in CompressionMiddleware(get_response)(request)


def test_a_first_visit_weighs_150_kb_and_each_later_page_25(
    ana: Member, vibe: Agent, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    words = (Path(settings.BASE_DIR) / "docs/security.md").read_text().split()
    say_all(thread, ana, [" ".join(words[n * 30 : n * 30 + 30]) for n in range(60)])
    write_channels(ana, 2_000)
    for number in range(60):
        make_entry(ana, f"Topic {number}", " ".join(words[number * 20 : number * 20 + 20]))
    paths = ["", f"t/{thread.pk}/", f"c/{thread.channel_id}/", "channels/", "knowledge/", "agents/vibe/", "search/?q=a"]
    browser, packed = signed_in(ana), {"Accept-Encoding": "gzip"}
    pages = {path: browser.get(f"{home}{path}", headers=packed).content for path in paths}
    assert {path: len(page) for path, page in pages.items() if len(page) > 25_000} == {}
    html = gzip.decompress(pages[paths[1]]).decode()
    assert html.count('<li class="message') == 50
    assert "\n  " not in html

    sign_in = Client().get("/accounts/login/", headers=packed).content
    visit = [sign_in, pages[paths[0]], pages[paths[1]]]
    named = {name for page in visit for name in re.findall(r'(?:href|src)="/static/([^"]+)"', page_text(page))}
    assert {name.removeprefix("css/") for name in named if name.endswith(".css")} == {"app.css"}
    sizes = [len(page) + HEADERS for page in visit] + [size_of(name) + HEADERS for name in named]
    assert sum(sizes) <= 150_000


HEADERS = 550
"""Bytes of the header of an answer, as the server sends it."""


def page_text(page: bytes) -> str:
    return gzip.decompress(page).decode()


def size_of(name: str) -> int:
    """The bytes that a static file takes, once it is collected."""
    file = Path(str(finders.find(name)))
    text = BUNDLES[name](file).encode() if name in BUNDLES else file.read_bytes()
    return len(gzip.compress(text))


def test_our_styles_and_modules_are_collected_as_one_file_each(tmp_path: Path) -> None:
    source, target = (tmp_path / "source", tmp_path / "target")
    storage = StaticStorage(location=target, base_url="/static/")
    for root in (source, target):  # as `collectstatic` copied them
        (root / "js").mkdir(parents=True)
        (root / "js/page.js").write_text("export const one = 1;\n")
        (root / "js/app.js").write_text('import { one } from "./page.js";\nalert(one);\n')
    names = ("js/app.js", "js/page.js")
    assert all(done for _, _, done in storage.post_process({name: (FileSystemStorage(source), name) for name in names}))
    assert re.fullmatch(r"js/app\.[0-9a-f]{12}\.js", storage.stored_name("js/app.js"))
    script = (target / storage.stored_name("js/app.js")).read_text()
    assert "const one = 1;" in script
    assert "import" not in script
