"""Every page of the browser, found by its address, so that a new one cannot be forgotten: axe finds nothing, nothing
is logged, nothing scrolls sideways, and what people wrote in Hebrew stands from right to left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from threading import Lock, Thread
from typing import Any, Literal
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
from django.apps import apps
from django.db import connection, connections, models
from django.test.client import ClientHandler
from django.urls import get_resolver
from playwright.sync_api import ConsoleMessage, Page, sync_playwright

from openvibe.runner.bootstrap_venv import HEADLESS_SHELL
from tests.journeys.axe import LOOKS_ALONE, WHOLE, scrolls_sideways, violations
from tests.journeys.conftest import launched
from tests.test_statement_counts import World, address, make_world, named_paths

pytestmark = pytest.mark.django_db
WRITTEN = """
name title topic text body content description headline full summary learning note what why reason reason_note
instructions changed checkpoint evidence next_action open_issues prompt subject because before after focus by_name
"""
"""Columns that hold what people write."""
OF_MACHINES = ("ToolCall", "McpTool", "MemoryPlugin", "Heartbeat", "StoredFile", "LoadedSkill", "Snippet", "McpServer")
"""Tables whose names no person gave, or in letters of ASCII alone."""
SIGHTS: list[tuple[Literal["light", "dark"], int]] = [("light", 1280), ("dark", 360)]
BEFORE, BEHIND = "שלום ", " עולם"
FLOWERS = "🌱" * 60
"""Flowers that make a name with the rest as long as one may be."""
WRONG_WAY = """(code) => {
  const places = new Set();
  const open = (one) => one.cloneNode(false).outerHTML.replace(/<\\/.*/, "").slice(0, 90);
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const { parentElement: parent, data } = words.currentNode;
    const start = data.search(/[\\u0590-\\u05ff]/);
    if (start < 0 || parent.closest(code)) continue;
    const hasOwn = parent.matches("[dir]") || getComputedStyle(parent).unicodeBidi === "plaintext";
    const ours = data.slice(0, start) + data.replace(/^.*[\\u0590-\\u05ff]/s, "");
    const isMixed = /\\p{L}/u.test(ours) && !parent.closest("[dir]");
    if (!hasOwn || isMixed) places.add(`${open(parent.parentElement)} ${open(parent)}${data.trim().slice(0, 60)}`);
  }
  return [...places];
}"""
CODE = "script, style, title, pre, code, math, option, .visually-hidden"
"""Words among code have its direction, those that are heard or that the browser itself shows have none."""
SENTENCES = ".quote-where, .effective, .first-steps, .run-words, .waiting-words, #run-title, #versions-title"
"""Sentences that services word, for the API or another page, too, names included."""


def write_in_hebrew() -> None:
    """Puts Hebrew around whatever people wrote, and flowers into their names."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SET LOCAL session_replication_role = replica"
        )  # what must not change stays what it is in Hebrew
        for model in apps.get_models():
            if model.__name__ in OF_MACHINES or model._meta.app_label in ("contenttypes", "auth", "admin"):
                continue
            for field in model._meta.concrete_fields:
                if field.name in WRITTEN.split() and isinstance(field, models.CharField | models.TextField):
                    write_column(cursor, field, FLOWERS if model.__name__ in ("User", "Participant") else "")
        cursor.execute("SET LOCAL session_replication_role = origin")


def write_column(cursor: Any, field: models.Field[Any, Any], behind: str) -> None:
    table, column = field.model._meta.db_table, field.column
    if str(field) == "chat.Attachment.content":
        return  # its size is kept beside it
    where = "TRUE" if field.name in ("description", "instructions") else f"\"{column}\" <> ''"
    room = (field.max_length or 20_000) - len(BEFORE + behind + BEHIND)
    words = f'%s || left("{column}", {room}) || %s'
    cursor.execute(f'UPDATE "{table}" SET "{column}" = {words} WHERE {where}', [BEFORE, behind + BEHIND])


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served() -> Iterator[str]:
    """The address at which this process answers from the test's own transaction, one request at a time."""
    django, shared, turn = ClientHandler(enforce_csrf_checks=True), connections["default"], Lock()

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with turn:
            connections["default"] = shared
            response = django(environ)
            body = response.getvalue()
        cookies = [("Set-Cookie", cookie.OutputString()) for cookie in response.cookies.values()]
        start_response(f"{response.status_code} {response.reason_phrase}", [*response.items(), *cookies])
        return [body]

    shared.inc_thread_sharing()
    with make_server("127.0.0.1", 0, answer, Server, Quiet) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            shared.dec_thread_sharing()


OTHERWISE_OPENED = """
admin-tables join unsubscribe help settings-jobs settings-import settings-export connect-model-local watch-look
permission-diff run-context-tab context-preview-tab result-full attachment-preview work-handoff thread-memory-prompt
thread-memory-compaction thread-memory-summary picture help-file
"""
"""Pages of rows that this world does not have, of secrets or for superusers: each is built of the parts of one that is
opened here, or is in a journey."""


def pages_of(world: World) -> Iterator[tuple[str, str]]:
    """The name and address of every page: what takes posts alone, leads on, or is a file or a stream is none."""
    for name, path in named_paths(get_resolver().url_patterns):
        url = address(name, path, world)
        if path.startswith(("/api/", "/v1", "/.well-known/", "/client")) or path.endswith("/events/"):
            continue
        response = world.browser.get(url)
        if response.status_code == 404:
            assert name in OTHERWISE_OPENED.split(), f"{name} opens nothing in this world: {url}"
        elif response.status_code == 200 and not response.streaming and b"<!doctype html" in response.content[:99]:
            yield name, url


EVENTS_NOT_HERE = "/events/"
"""The stream of events, which a server without streams says it does not have."""


def complaints_of(page: Page) -> list[str]:
    """What the page will have logged, and which requests failed."""
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and EVENTS_NOT_HERE not in message.location["url"]:
            complaints.append(f"{message.text} {message.location['url']}")

    page.on("console", note)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return complaints


def findings(page: Page, url: str) -> Iterator[str]:
    """What is wrong with a page: in light on a desktop all of it, in dark on a phone what can differ there."""
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(url)
    page.locator("#main details, #panel details").evaluate_all("all => all.forEach((one) => { one.open = true })")
    yield from violations(page, WHOLE)
    yield from (f"wrong way: {place}" for place in page.evaluate(WRONG_WAY, f"{CODE}, {SENTENCES}"))
    for scheme, width in SIGHTS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        if scheme == "dark":
            yield from (f"dark, {width} px: {finding}" for finding in violations(page, LOOKS_ALONE))
        if scrolls_sideways(page):
            yield f"scrolls sideways at {width} px"


def test_nothing_is_found_on_any_page() -> None:
    world = make_world("Ana", 2)
    pages = list(pages_of(world))
    write_in_hebrew()
    wrong = []
    with served() as url, sync_playwright() as playwright, launched(playwright, HEADLESS_SHELL) as chromium:
        context = chromium.new_context(base_url=url)
        context.add_cookies([{"name": "sessionid", "value": world.browser.cookies["sessionid"].value, "url": url}])
        page = context.new_page()
        complaints = complaints_of(page)
        for name, page_url in pages:
            complaints.clear()
            wrong += [f"{name}: {found}" for found in (*findings(page, page_url), *complaints)]
    told = "\n".join(wrong).encode(errors="replace").decode()  # half an emoji, where a text was cut, is no UTF-8
    assert not told, told
