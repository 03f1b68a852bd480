"""Requests held back, and the events that a page was told meanwhile."""

import re

from playwright.sync_api import APIResponse, Page, Route

from tests.operations.processes import wait_until

HEAR = """() => {
  window.told = [];
  document.addEventListener("openvibe:event", ({ detail }) => window.told.push(detail.kind));
}"""


def hear(page: Page) -> None:
    """Lets the page be heard from here on, and from its beginning on whatever it shows next."""
    page.add_init_script(f"({HEAR})()")
    page.evaluate(HEAR)


def wait_for_event(page: Page, kind: str, count: int = 1) -> None:
    """Waits for so many of the events that the page was told since `hear`: others may have come after it."""
    wait_until(lambda: page.evaluate("window.told").count(kind) >= count, f"{kind} is told")


class Held:
    """The first request for what `pattern` matches, by this method, waits here; others pass."""

    def __init__(self, page: Page, pattern: str | re.Pattern[str], method: str = "") -> None:
        self.page, self.method, self.routes = page, method, list[Route]()
        page.route(pattern, self._take)

    def _take(self, route: Route) -> None:
        if self.method not in ("", route.request.method):
            return route.continue_()
        self.routes.append(route)
        if len(self.routes) > 1:
            route.continue_()

    def wait(self) -> Route:
        wait_until(lambda: bool(self.page.evaluate("1") and self.routes), "it is asked for")
        return self.routes[0]

    def wait_for_answer(self) -> tuple[Route, APIResponse]:
        """What the server says now."""
        route = self.wait()
        return route, route.fetch()
