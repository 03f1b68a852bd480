"""What a browser fetches, on the wire: the sizes that `docs/interface.md` promises, of the served installation."""

import re

from playwright.sync_api import Page

from tests.journeys.conftest import People, sign_in
from tests.journeys.sample_thread import Scene
from tests.wire import FETCH_ICONS, Wire

FIRST_VISIT, LATER_PAGE = 150_000, 25_000  # bytes


def load(page: Page, path: str) -> None:
    page.goto(f"/w/willow/{path}")
    page.locator('body[data-live="on"]').wait_for()


def test_a_first_visit_and_each_later_page_are_small(people: People, scene: Scene) -> None:
    page = people.page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    wire = Wire.of(page.context.new_cdp_session(page))
    page.goto("/accounts/login/")
    page.evaluate(FETCH_ICONS)
    sign_in(page, people.installation.email, people.installation.password)
    load(page, scene.thread)
    first = wire.take()
    assert sum(first.values()) <= FIRST_VISIT, first
    files = [path for path in first if path.startswith("/static/") and re.search(r"/app\.\w+\.(?:js|css)$", path)]
    assert len(files) == 2, first

    for path in ("", scene.thread, scene.agent, "channels/", "knowledge/", "search/?q=roses"):
        load(page, path)
        later = wire.take()
        assert sum(later.values()) <= LATER_PAGE, later
    assert errors == []
