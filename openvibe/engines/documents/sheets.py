"""Sheets of Excel and OpenDocument workbooks, one by one. Runs in the reader's own process."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time
from io import BytesIO
from typing import Any

import python_calamine

from openvibe.engines.documents.formats import OpenDocument
from openvibe.engines.documents.tables import table_lines


def open_document(name: str, data: bytes) -> OpenDocument:
    """Raises whatever the library does over a damaged file."""
    workbook = python_calamine.load_workbook(BytesIO(data))
    return OpenDocument(_sheet_texts(workbook), len(workbook.sheet_names))


def _sheet_texts(workbook: python_calamine.CalamineWorkbook) -> Iterator[str]:
    """A page for each sheet, its name as the heading, its rows as a table, where their first value begins."""
    for name in workbook.sheet_names:
        sheet = workbook.get_sheet_by_name(name)
        rows = ([_cell_text(cell) for cell in row] for row in sheet.iter_rows()) if sheet.height else ()
        yield "".join((f"## {name}\n\n", *table_lines(rows)))


def _cell_text(value: Any) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return value.isoformat() if isinstance(value, date | time) else str(value)
