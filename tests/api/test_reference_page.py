"""The reference of the REST API, as the documentation's site shows it."""

import html
import re
import tomllib
from html.parser import HTMLParser
from typing import Any

import pytest
import yaml
from markdown import Markdown

from tests.api.problem_codes import ROOT
from tests.api.reference_page import MARKER, escape

DESCRIPTION: dict[str, Any] = yaml.load((ROOT / "docs" / "openapi.yaml").read_text("utf-8"), yaml.CSafeLoader)


@pytest.fixture(scope="module")
def page() -> str:
    """The page's HTML, by the extensions that the site is built with."""
    extensions = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["markdown_extensions"]
    names = [
        f"{name}.{inner}" if name == "pymdownx" else name
        for name, options in extensions.items()
        for inner in (options if name == "pymdownx" else [""])
    ]
    source = (ROOT / "docs" / "api-reference.md").read_text("utf-8")
    return str(Markdown(extensions=names).convert(source))


class Sections(HTMLParser):
    """The page's text by the heading that it stands below, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.links: list[str] = []
        self.id = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("h1", "h2", "h3"):
            self.id = values["id"] or ""
            assert self.id not in self.texts, f"two headings are {self.id}"
            self.texts[self.id] = ""
        elif tag == "a":
            self.links.append(values["href"] or "")

    def handle_data(self, data: str) -> None:
        if self.id:
            self.texts[self.id] += data


@pytest.fixture(scope="module")
def sections(page: str) -> Sections:
    parser = Sections()
    parser.feed(page)
    return parser


def test_it_shows_every_operation_with_what_it_takes_and_answers(sections: Sections) -> None:
    for path, methods in DESCRIPTION["paths"].items():
        for method, operation in methods.items():
            text = sections.texts[operation["operationId"]]
            assert text.startswith(operation["summary"])
            assert f"{method.upper()} {path}" in text
            assert re.search(r"Answer \d{3}(?s:.)+Errors .*401 bad_token.*429 throttled", text)
            assert all(each["name"] in text for each in operation.get("parameters", ())), text
            described = " ".join(operation["description"].replace("`", "").split())
            assert described in " ".join(text.split()), (described, text)


def test_it_shows_the_examples_of_bodies_and_answers(sections: Sections) -> None:
    body, answer = '"body": "@vibe when do I prune?"', '"created_at": "2026-03-02T09:30:00Z"'
    assert body in sections.texts["messages_create"]
    assert answer in sections.texts["messages_create"]
    assert "409 being_written" in sections.texts["runs_begin"]
    assert "412 stale" in sections.texts["blocks_update"]
    assert "event: mention" in sections.texts["events_stream"]


def test_its_links_lead_somewhere_and_nothing_is_markup_by_accident(page: str, sections: Sections) -> None:
    anchors = [link.removeprefix("#") for link in sections.links if link.startswith("#")]
    assert len(anchors) > 200
    assert [anchor for anchor in anchors if anchor not in sections.texts] == []
    assert MARKER not in page
    markup = "h1 h2 h3 p a ul li code pre span div table thead tbody tr th td strong"
    assert set(re.findall(r"<(\w+)", page)) <= set(markup.split())
    assert not re.search(r"\|\s?---", html.unescape(page))


def test_a_text_stands_in_a_table_as_it_was_written() -> None:
    text = "Of `a|b`, <handle>, o200k_base and\n  [x](y)* | z"
    cell = Markdown(extensions=["tables"]).convert(f"| a | b |\n|---|---|\n| {escape(text)} | c |")
    assert "<td>Of <code>a|b</code>, &lt;handle&gt;, o200k_base and [x](y)* | z</td>" in cell
