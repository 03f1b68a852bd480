"""Slides of PowerPoint, one by one. Runs in the reader's own process."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pptx
from pptx.presentation import Presentation
from pptx.shapes.group import GroupShape

from openvibe.engines.documents.formats import OpenDocument
from openvibe.engines.documents.tables import table_lines

MAX_LEVELS = 20
"""Groups of shapes in one another that are read."""


def open_document(name: str, data: bytes) -> OpenDocument:
    """Raises whatever the library does over a damaged file."""
    presentation = pptx.Presentation(BytesIO(data))
    return OpenDocument(_slide_texts(presentation), len(presentation.slides))


def _slide_texts(presentation: Presentation) -> Iterator[str]:
    """A page for each slide: what its shapes say, tables as Markdown, and the speaker's notes."""
    for slide in presentation.slides:
        lines = list(_shape_lines(slide.shapes))
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            notes = slide.notes_slide.notes_text_frame.text.strip()
            lines += ["\nNotes: ", notes, "\n"] if notes else []
        yield "".join(lines)


def _shape_lines(shapes: Any, level: int = 0) -> Iterator[str]:
    for shape in shapes:
        if isinstance(shape, GroupShape):
            yield from _shape_lines(shape.shapes, level + 1) if level < MAX_LEVELS else ()
        elif getattr(shape, "has_table", False):
            yield from table_lines([cell.text for cell in row.cells] for row in shape.table.rows)
        elif shape.has_text_frame and shape.text_frame.text.strip():
            text = shape.text_frame.text.replace("\v", "\n").strip()
            is_title = shape.is_placeholder and shape.placeholder_format.type in (1, 3)  # title, centred title
            yield f"## {text}\n\n" if is_title else f"{text}\n\n"
