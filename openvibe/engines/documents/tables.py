"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def table_lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The rows as lines of a Markdown table, the first as its head. No empty rows; each cell on one line."""
    width = 0
    for row in rows:
        cells = [" ".join(cell.split()).replace("|", "\\|") for cell in row]
        if not any(cells):
            continue
        if not width:
            width = len(cells)
            yield f"| {' | '.join(cells)} |\n"
            yield f"|{' --- |' * width}\n"
        else:
            yield f"| {' | '.join(cells)} |\n"
