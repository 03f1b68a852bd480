"""The twelve pages that are used most, at four widths and in both themes: nothing is gone, moved or covered.

What they looked like is kept in docs/images/screens: pictures to look at, and for each page the structure that is
compared. `make screenshots` takes both anew."""

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Page, expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.palette_png import palette_png
from tests.journeys.roof_gardens import SLUG, Roofs, planted
from tests.journeys.structure import READ_COLLISIONS, Part, differences, in_both_themes, read_part, read_structure

FOLDER = Path(__file__).parents[2] / "docs/images/screens"
IS_TAKING = os.environ.get("OPENVIBE_SCREENSHOTS") == "1"
SIZES = {1440: 900, 1280: 800, 900: 800, 360: 740}
"""Widths of a window, each with its height."""

THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
ACCEPT = "If that is meant: `make screenshots`, look at the pictures that changed, and commit them with the page."
COLOURS = 128
MOST_TOLD = 40
SCROLL_TO_TOP = """top => {
  for (const part of document.querySelectorAll("*")) if (part.scrollTop) part.scrollTop = 0;
  if (top) document.querySelector(top).scrollIntoView({ block: "start" });
}"""


SIDEBAR, FEED = "Workspace", "Messages"


class Screen(NamedTuple):
    """`address` below the workspace, with names of `Roofs` in braces. `ready`: what stands there once all has come.
    `top`: what is scrolled to, where a page does not begin with what it is about. `folded`: what is compared elsewhere,
    and here only from outside."""

    name: str
    address: str
    ready: str = "#main h1"
    top: str = ""
    folded: tuple[str, ...] = (SIDEBAR,)


SCREENS = (
    Screen("thread", "{watering}", ".link-preview", top=".message.by-agent"),
    Screen("viewer", "{watering}?panel={context}", "#panel h1", top=".message.by-agent", folded=(SIDEBAR, FEED)),
    Screen("inbox", "", folded=()),
    Screen("channel", "{channel}"),
    Screen("search", "search/?q=valve&order=newest", "#main mark"),
    Screen("knowledge", "knowledge/"),
    Screen("entry", "{entry}"),
    Screen("memory", "{greenhouse}memory/"),
    Screen("work", "{greenhouse}work/"),
    Screen("agent", "agents/vibe/"),
    Screen("settings", "settings/"),
    Screen("new-agent", "new-agent/"),
)


@pytest.fixture(scope="module")
def roofs(installation: Installation) -> Roofs:
    return planted(installation)


def test_every_screen_is_as_it_was_kept(people: People, installation: Installation, roofs: Roofs) -> None:
    page = people.page(reduced_motion="reduce")
    page.context.add_cookies([{"name": "sessionid", "value": roofs.session, "url": installation.url}])
    problems: dict[str, list[str]] = {}
    for screen in SCREENS:
        for sight, problem in look_at(page, screen, roofs):
            problems.setdefault(f"{screen.name}: {problem}", []).append(sight)
    told = "\n".join(f"{problem} ({', '.join(sights)})" for problem, sights in [*problems.items()][:MOST_TOLD])
    assert not problems, f"{len(problems)} differences:\n{told}\n{ACCEPT}"


def look_at(page: Page, screen: Screen, roofs: Roofs) -> Iterator[tuple[str, str]]:
    """The widths and themes at which something is wrong with the screen, each with what it is. With IS_TAKING that is
    what collides, and all else is kept."""
    page.goto(f"/w/{SLUG}/{screen.address.format(**vars(roofs))}")
    expect(page.locator(screen.ready).first).to_be_visible()
    kept = {} if IS_TAKING else read_kept(screen)
    for width, height in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        themes = {}
        for theme in THEMES:
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            page.evaluate(SCROLL_TO_TOP, screen.top)
            themes[theme] = read_structure(page, folded=screen.folded)
            problems = page.evaluate(READ_COLLISIONS)
            if IS_TAKING:
                write_picture(FOLDER / f"{screen.name}-{width}-{theme}.webp", page.screenshot(caret="hide"))
            else:
                problems += differences(kept[width], themes[theme])
            yield from ((f"{width} px {theme}", problem) for problem in problems)
        if IS_TAKING:
            kept[width] = in_both_themes(themes["light"], themes["dark"])
    if IS_TAKING:
        write_kept(screen, kept)


def test_every_screen_is_kept_and_shown() -> None:
    pictures = {f"{screen.name}-{width}-{theme}.webp" for screen in SCREENS for width in SIZES for theme in THEMES}
    structures = {f"{screen.name}.txt" for screen in SCREENS}
    assert {file.name for file in FOLDER.iterdir() if file.is_file()} == pictures | structures
    page = (FOLDER.parents[1] / "screens.md").read_text()
    links = {f"{place}.webp" for screen in SCREENS for place in (f"before/{screen.name}", f"{screen.name}-1280-light")}
    assert set(re.findall(r"\(images/screens/([^)]+)\)", page)) == links


SAMPLE = """<style>
  :root { color-scheme: light dark; --text: light-dark(#26231e, #ebe7df); --ground: light-dark(#fbfaf7, #1b1a18); }
  body { margin: 0; display: flex; color: var(--text); background: var(--ground); }
  nav { width: 240px; } main { width: 600px; } button { color: var(--text); background: var(--ground); }
</style>
<nav><a href="/">Inbox</a></nav>
<main><h1>Orders</h1><p>What was <a href="/1">ordered</a>, and when.</p>
<button>Save</button> <button>Cancel</button></main>"""
NO_DIFFERENCE = (
    "document.body.style.fontFamily = 'serif'",
    "document.querySelector('p').prepend('All of it. ')",
    "document.querySelector('h1').style.fontSize = '110%'",
)
DIFFERENCES = {
    "document.querySelector('button').remove()": "button “Save” is gone",
    "document.querySelector('nav').append(document.querySelector('button'))": "button “Save” stands elsewhere",
    "document.querySelector('button').style.marginLeft = '200px'": "button “Save”: its left edge was at",
    "document.querySelector('button').style.marginRight = '-30px'": "“Save” and “Cancel” lie over one another",
    "document.querySelector('button').style.background = '#eee'": "the colour of its ground was “ground”",
    "document.querySelector('nav').style.width = '1400px'; document.body.style.width = '2000px'": "scrolls sideways",
    "document.querySelector('h1').append(' of today')": "heading “Orders of today” is new",
}


def test_what_is_wrong_with_a_screen_is_named(people: People) -> None:
    page = people.page(viewport={"width": 1280, "height": 800}, color_scheme="dark")

    def look(change: str) -> str:
        page.set_content(SAMPLE)
        before = read_structure(page)
        page.evaluate(change)
        return "\n".join([*differences(before, read_structure(page)), *page.evaluate(READ_COLLISIONS)])

    assert [change for change in NO_DIFFERENCE if look(change)] == []
    for change, words in DIFFERENCES.items():
        assert words in look(change)


def read_kept(screen: Screen) -> dict[int, list[Part]]:
    """The structure of the screen by width."""
    sections = (FOLDER / f"{screen.name}.txt").read_text().split("\n\n")
    lines = (section.splitlines() for section in sections)
    return {int(width.removesuffix(" px")): [read_part(line) for line in rest] for width, *rest in lines}


def write_kept(screen: Screen, kept: dict[int, list[Part]]) -> None:
    """Writes the structure of the screen, where it is not what is kept already."""
    file = FOLDER / f"{screen.name}.txt"
    before = read_kept(screen) if file.exists() else {}
    if before.keys() == kept.keys() and not any(differences(before[width], kept[width]) for width in kept):
        return
    sections = ("\n".join([f"{width} px", *(part.line() for part in parts)]) for width, parts in kept.items())
    file.write_text("\n\n".join(sections) + "\n")


def write_picture(file: Path, png: bytes) -> None:
    """A small picture of the window; one that looks as before, but for a time of day, stays as it is."""
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    picture = Image.open(io.BytesIO(palette_png(pixels, COLOURS))).convert("RGB")
    if not (file.exists() and looks_same(Image.open(file).convert("RGB"), picture)):
        picture.save(file, "WEBP", lossless=True, method=4)


def looks_same(before: Image.Image, after: Image.Image) -> bool:
    if before.size != after.size:
        return False
    levels = ImageChops.difference(before, after).convert("L").point(lambda level: 255 if level > 48 else 0)
    return levels.histogram()[255] < before.width * before.height / 1000
