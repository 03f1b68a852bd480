"""The pages of `docs/` as HTML, so that an installation without internet can show its own documentation.

Pure: no Django, no database. A page is named by its path below `docs/` without `.md`: "members". Only what lies there
can be asked for; a name is looked up among those, never joined to a path.
"""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from openvibe.engines.text.markdown import render_code

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ADDRESS = "/help/"
FIRST_PAGE = "index"
OPERATIONS = "<!-- operations -->"
"""The mark where the site puts what `/api/v1/docs/` shows on every server."""
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_HAS_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|/", re.IGNORECASE)


@dataclass(frozen=True)
class Page:
    """A page: the text of its first heading, and what it says as HTML."""

    title: str
    html: str


@dataclass(frozen=True)
class Section:
    """A part of the table of contents: its title ("" for a page that stands alone), and names with titles."""

    title: str
    pages: tuple[tuple[str, str], ...]


@cache
def page_paths() -> dict[str, Path]:
    """The Markdown file of each page, by the page's name."""
    return {path.relative_to(DOCS).with_suffix("").as_posix(): path for path in sorted(DOCS.rglob("*.md"))}


@cache
def file_paths() -> dict[str, Path]:
    """Pictures, programs and whatever else pages link to, by their path below `docs/`."""
    files = (path for path in sorted(DOCS.rglob("*")) if path.is_file() and path.suffix != ".md")
    return {path.relative_to(DOCS).as_posix(): path for path in files}


def read_page(name: str) -> Page | None:
    """The page of this name as its file is now; None where there is none."""
    path = page_paths().get(name)
    return _render(name, path, path.stat().st_mtime_ns) if path else None


def page_address(name: str) -> str:
    return ADDRESS if name == FIRST_PAGE else f"{ADDRESS}{name}/"


@cache
def contents() -> tuple[Section, ...]:
    """The table of contents, which is that of the site that `make docs` builds."""
    nav = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"]
    return tuple(_section(title, below) for entry in nav for title, below in entry.items())


def _section(title: str, below: Any) -> Section:
    if isinstance(below, str):
        return Section("", ((below.removesuffix(".md"), title),))
    return Section(title, tuple(_leaves(below)))


def _leaves(entries: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        for title, below in entry.items():
            if isinstance(below, str):
                yield below.removesuffix(".md"), title
            else:
                yield from _leaves(below)


@lru_cache(maxsize=128)
def _render(name: str, path: Path, _changed_at: int) -> Page:
    source = _FRONT_MATTER.sub("", path.read_text("utf-8"))
    source = source.replace(OPERATIONS, "[The operations of this server](/api/v1/docs/).")
    tokens = _PARSER.parse(source)
    title = _name_headings(tokens) or name
    for token in tokens:
        for child in token.children or ():
            if child.type == "link_open":
                _lead_on(child, "href", name)
            elif child.type == "image":
                _lead_on(child, "src", name)
    return Page(title, _PARSER.renderer.render(tokens, _PARSER.options, {}))


def _name_headings(tokens: Sequence[Token]) -> str:
    """Gives each heading the id that it has on the site. Returns the text of the first."""
    first, uses = "", Counter[str]()
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(child.content for child in inline.children or ())
            slug = _slug(text)
            opening.attrSet("id", f"{slug}_{uses[slug]}" if uses[slug] else slug)
            uses[slug] += 1
            first = first or text
    return first


def _slug(text: str) -> str:
    """The id that Python-Markdown makes of a heading: "4. Connect a model" is `4-connect-a-model`."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_text).strip().lower())


def _lead_on(token: Token, attribute: str, page: str) -> None:
    """Turns a link among the files of `docs/` into an address; one to a file outside them is no link here."""
    target, mark, anchor = str(token.attrGet(attribute) or "").partition("#")
    if not target or _HAS_SCHEME.match(target):
        return
    name = normpath(join(dirname(page), target))
    if (linked := name.removesuffix(".md")) in page_paths():
        token.attrSet(attribute, f"{page_address(linked)}{mark}{anchor}")
    elif name in file_paths():
        token.attrSet(attribute, f"{ADDRESS}{name}")
    else:
        del token.attrs[attribute]


_PARSER = MarkdownIt(
    "commonmark", {"html": False, "highlight": lambda code, info, _: render_code(code, info, {})}
).enable("table")
"""Takes no HTML: what stands in angle brackets is text, as on the site."""
