"""The documentation as a site: what `make docs` builds says on every page what its Markdown says on GitHub.

The site is made by Python-Markdown, which reads some Markdown otherwise: a list right below a paragraph, a code block
indented by seven, a placeholder in angle brackets."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from difflib import unified_diff
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from openvibe.help.pages import read_page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
WRITTEN_PAGES = [page for page in PAGES if page.stem != "api-reference"]
"""Pages that hold what their source holds; the reference is made when the site is built (`test_reference_page.py`)."""
BLOCKS = {
    "blockquote",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "table",
    "td",
    "th",
    "tr",
    "ul",
}
OPENS_A_LINE = {"ol", "pre", "table", "tr", "ul"}
SOURCE_READER = MarkdownIt("commonmark", {"html": False}).enable("table")
"""Reads pages as GitHub does, but takes no HTML: what stands in angle brackets is text."""

FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


class Outline(HTMLParser):
    """The blocks of a page in order, each with the tags it stands in and its text: ("ol li", "Sign in.").

    Lists, tables, rows and code blocks have a line of their own where they begin. Paragraphs in an item are not told
    apart from the item, nor highlighted code from plain."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []
        self._inside: list[str] = []
        self._text: list[str] = []
        self._is_hidden = False
        self.feed(html)
        self._end_block()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a" and "headerlink" in (dict(attrs).get("class") or ""):
            self._is_hidden = True
        if tag not in BLOCKS:
            return
        self._end_block()
        self._inside.append(tag)
        if tag in OPENS_A_LINE:
            self.lines.append((self._place(), ""))
        if tag == "hr":
            self._inside.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self._is_hidden = False
        if tag in BLOCKS and tag != "hr":
            self._end_block()
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._is_hidden:
            self._text.append(data)

    def _place(self) -> str:
        return " ".join(tag for tag in self._inside if tag != "p")

    def _end_block(self) -> None:
        text = "".join(self._text)
        self._text.clear()
        text = text.strip("\n") if "pre" in self._inside else " ".join(text.split())
        if text:
            self.lines.append((self._place(), text))


def run_build(folder: Path) -> Path:
    """The site built in a folder of its own, as `make docs` builds it; the folder it is in."""
    shutil.copytree(DOCS, folder / "docs")
    (folder / "zensical.toml").write_bytes((ROOT / "zensical.toml").read_bytes())
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}  # the reference of the API is made by an extension of ours
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_build(tmp_path_factory.mktemp("site"))


def built_name(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix(".html").as_posix()


def built_article(page: Path) -> str:
    html = page.read_text()
    return html.partition("<article")[2].partition(">")[2].partition("</article>")[0]


@pytest.mark.parametrize("page", WRITTEN_PAGES, ids=lambda page: page.stem)
def test_a_page_of_the_site_holds_what_its_source_holds(page: Path, site: Path) -> None:
    source = Outline(SOURCE_READER.render(FRONT_MATTER.sub("", page.read_text()))).lines
    built = Outline(built_article(site / built_name(page))).lines
    changes = list(
        unified_diff(list(map(": ".join, source)), list(map(": ".join, built)), "GitHub", "site", lineterm="", n=0)
    )
    assert not changes, "\n".join(changes)


@pytest.mark.parametrize("page", WRITTEN_PAGES, ids=lambda page: page.stem)
def test_a_heading_has_the_same_address_on_the_site_and_in_the_app(page: Path, site: Path) -> None:
    shown = read_page(page.relative_to(ROOT / "docs").with_suffix("").as_posix())
    assert shown is not None
    headings = re.compile(r'<h[1-6] id="([^"]+)"')
    assert headings.findall(shown.html) == headings.findall(built_article(site / built_name(page)))


def test_the_search_of_the_site_leaves_history_out(site: Path) -> None:
    places = {item["location"].partition("#")[0] for item in json.loads((site / "search.json").read_text())["items"]}
    history = {page for page in PAGES if "history" in page.parts}
    assert {built_name(page) for page in PAGES} - places == {built_name(page) for page in history}


@pytest.mark.parametrize(
    ("word", "place"),
    [
        ("invite", "members.html#accept-an-invite"),
        ("invite", "admins.html#invite-people"),
        ("password", "members.html#a-lost-password"),
        ("password", "operations-troubleshoot.html#somebody-lost-a-password"),
        ("ollama", "getting-started.html#4-connect-a-model"),
    ],
)
def test_the_search_of_the_site_finds_what_newcomers_type(word: str, place: str, site: Path) -> None:
    items = {item["location"]: item for item in json.loads((site / "search.json").read_text())["items"]}
    assert re.search(rf"(?i)\b{word}\b", f"{items[place]['title']} {items[place]['text']}")


def test_an_address_of_old_leads_to_the_page_of_now(site: Path) -> None:
    maps = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["plugins"]["redirects"]["redirect_maps"]
    for old, new in maps.items():
        assert not (DOCS / old).exists()
        assert f"{new.removesuffix('.md')}.html" in (site / f"{old.removesuffix('.md')}.html").read_text()
