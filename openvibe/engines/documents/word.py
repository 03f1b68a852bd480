"""Word documents, page by page. Runs in the reader's own process."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import docx
from docx.oxml.ns import qn
from docx.table import Table
from docx.text.paragraph import Paragraph

from openvibe.engines.documents.formats import OpenDocument
from openvibe.engines.documents.tables import table_lines

_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_BREAKS = (qn("w:lastRenderedPageBreak"), qn("w:br"))


def open_document(name: str, data: bytes) -> OpenDocument:
    """Raises whatever the library does over a damaged file."""
    return OpenDocument(_page_texts(docx.Document(BytesIO(data)).iter_inner_content()))


def _page_texts(blocks: Iterator[Paragraph | Table]) -> Iterator[str]:
    """The pages as Word last laid them out, or as breaks part them: headings, lists and tables as Markdown."""
    page: list[str] = []
    for block in blocks:
        if isinstance(block, Table):
            page += ["\n", *table_lines(_rows(block)), "\n"]
            continue
        first, *others = _paragraph_parts(block)
        page.append(f"{_prefix(block)}{first}\n" if first.strip() else "\n")
        for part in others:
            yield "".join(page)
            page = [f"{part}\n"]
    yield "".join(page)


def _rows(table: Table) -> Iterator[list[str]]:
    for row in table.rows:
        cells = {id(cell._tc): cell.text for cell in row.cells}  # a merged cell stands once
        yield list(cells.values())


def _paragraph_parts(paragraph: Paragraph) -> list[str]:
    """The paragraph's text, parted where a page ends in it."""
    parts = [""]
    said_twice = {id(each) for fallback in paragraph._p.iter(_FALLBACK) for each in fallback.iter()}  # as in text boxes
    for element in paragraph._p.iter():
        tag = element.tag
        if said_twice and id(element) in said_twice:
            continue
        if tag in _BREAKS and (tag == _BREAKS[0] or element.get(qn("w:type")) == "page"):
            if tag == _BREAKS[0] and len(parts) > 1 and not parts[-1].strip():
                continue  # the page that the break before it made
            parts.append("")
        elif tag == qn("w:t"):
            parts[-1] += element.text or ""
        elif tag in (qn("w:tab"), qn("w:cr"), qn("w:br")) and element.getparent().tag == qn("w:r"):
            parts[-1] += "\t" if tag == qn("w:tab") else "\n"
    return parts


def _prefix(paragraph: Paragraph) -> str:
    properties = paragraph._p.pPr
    style = paragraph.style.name or "" if paragraph.style else ""
    if style.startswith("Heading ") and style[8:].isdigit():
        return "#" * min(int(style[8:]), 6) + " "
    if style == "Title":
        return "# "
    is_listed = style.startswith("List") or (properties is not None and properties.numPr is not None)
    return "- " if is_listed else ""
