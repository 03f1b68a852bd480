"""OpenDocument texts and slides, page by page. Runs in the reader's own process."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from io import BytesIO

from lxml import etree

from openvibe.engines.documents.formats import OpenDocument
from openvibe.engines.documents.tables import table_lines

_NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE = f"{{{_NAMESPACE}text:1.0}}", f"{{{_NAMESPACE}table:1.0}}"
_DRAW, _OFFICE = f"{{{_NAMESPACE}drawing:1.0}}", f"{{{_NAMESPACE}office:1.0}}"
_PRESENTATION = f"{{{_NAMESPACE}presentation:1.0}}"
_SKIPPED_TAGS = frozenset((f"{_TEXT}tracked-changes", f"{_OFFICE}annotation", f"{_TEXT}note-citation"))
MAX_LEVELS = 200
MAX_SPACES = 100
"""Elements in one another that are read, and blanks in a row."""


def open_document(name: str, data: bytes) -> OpenDocument:
    """The slides, or the pages as the file was last laid out: headings, lists and tables as Markdown."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        content = archive.read("content.xml")
    root = etree.fromstring(content, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))
    body = root.find(f"{_OFFICE}body")
    if body is None:
        raise ValueError("It has no body.")
    if name == "odp":
        slides = list(body.iter(f"{_DRAW}page"))
        return OpenDocument(("".join(_block_texts(slide, 0)).replace("\f", "") for slide in slides), len(slides))
    pages = "".join(_block_texts(body, 0)).split("\f")
    return OpenDocument(iter(pages))


def _block_texts(element: etree._Element, level: int) -> Iterator[str]:
    """Texts of what stands in it, block by block; a form feed where a page ends."""
    if level > MAX_LEVELS:
        return
    for child in element:
        if child.tag in _SKIPPED_TAGS or not isinstance(child.tag, str):
            continue
        if child.tag == f"{_TEXT}h":
            depth = child.get(f"{_TEXT}outline-level", "1")
            yield f"{'#' * min(max(int(depth) if depth.isdigit() else 1, 1), 6)} {_inline_text(child, 0).strip()}\n\n"
        elif child.tag == f"{_TEXT}p":
            is_listed = element.tag == f"{_TEXT}list-item"
            yield f"{'- ' if is_listed else ''}{_inline_text(child, 0)}\n{'' if is_listed else chr(10)}"
        elif child.tag == f"{_TABLE}table":
            yield from table_lines(_rows(child))
            yield "\n"
        elif child.tag == f"{_TEXT}soft-page-break":
            yield "\f"
        elif child.tag == f"{_PRESENTATION}notes":
            notes = "".join(_block_texts(child, level + 1)).strip()
            yield f"Notes: {notes}\n" if notes else ""
        else:
            yield from _block_texts(child, level + 1)


def _rows(table: etree._Element) -> Iterator[list[str]]:
    for row in table.iter(f"{_TABLE}table-row"):
        yield [" ".join(_inline_text(cell, 0).split()) for cell in row if cell.tag == f"{_TABLE}table-cell"]


def _inline_text(element: etree._Element, level: int) -> str:
    if level > MAX_LEVELS:
        return ""
    parts = [element.text or ""]
    for child in element:
        if isinstance(child.tag, str) and child.tag not in _SKIPPED_TAGS:
            parts.append(_mark_text(child) or _inline_text(child, level + 1))
            parts.append("\n" if child.tag in (f"{_TEXT}p", f"{_TEXT}h") else "")
        parts.append(child.tail or "")
    return "".join(parts)


def _mark_text(element: etree._Element) -> str:
    """What an empty element stands for: blanks, a tab, the end of a line or a page."""
    if element.tag == f"{_TEXT}s":
        count = element.get(f"{_TEXT}c", "1")
        return " " * (min(int(count), MAX_SPACES) if count.isdigit() and len(count) < 9 else 1)
    marks = {f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n", f"{_TEXT}soft-page-break": "\f"}
    return marks.get(str(element.tag), "")
