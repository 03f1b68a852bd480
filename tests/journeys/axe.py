"""What axe finds on a page: every rule of its own, best practice included, and those it keeps for whoever asks."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

SCRIPT = Axe().axe_script
LOOK = "async (options) => (await axe.run(options)).violations"
ON_REQUEST = (
    "target-size",
    "label-content-name-mismatch",
    "focus-order-semantics",
    "p-as-heading",
    "table-fake-caption",
    "td-has-header",
)
"""Rules that axe leaves out unasked: WCAG 2.2 AA's on targets, and experimental ones. `hidden-content` is not among
them: it only ever says that somebody has to look."""
QUICK: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
"""Styles are not fetched once more, for the one rule that no style of ours can break (`css-orientation-lock`)."""
WHOLE: dict[str, Any] = {"rules": {rule: {"enabled": True} for rule in ON_REQUEST}, **QUICK}
LOOKS_ALONE: dict[str, Any] = {"runOnly": ["color-contrast", "target-size"], **QUICK}
"""What another theme or width can change on a page that was looked at as a whole."""


def violations(page: Page, options: dict[str, Any] = WHOLE, impacts: tuple[str, ...] = ()) -> list[str]:
    """Each rule with the first place that breaks it; of all impacts unless some are named."""
    if page.evaluate("!window.axe"):
        page.evaluate(SCRIPT)
    results = page.evaluate(LOOK, options)
    return [f"{v['id']}: {v['nodes'][0]['html'][:200]}" for v in results if not impacts or v["impact"] in impacts]


def scrolls_sideways(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"))
