"""Tables of entries as CSV and as JSONL, written and read. Pure: no Django, no database.

A cell that a spreadsheet would take for a formula is written with an apostrophe before it, and read without it.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain, islice
from math import isfinite

from knowledge.tags import join_tags
from openvibe.base.problems import Problem
from openvibe.engines.text.cleaning import escape_formula

MAX_BYTES = 10 * 1024 * 1024
MAX_ROWS = 5_000
MAX_GUESSED_NAMES = 50
CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
_HEADER = (
    "id,client_id,topic,content,kind,visibility,status,tags,expires_at,owner,pinned,source,author,decided_by,"
    "decided_at,created_at,source_thread,source_message,supersedes,use_count,last_used_at,version"
)
COLUMNS = tuple(_HEADER.split(","))
"""What an export holds. An import reads the first eleven and passes over the rest; what it does not know it names."""

IMPORTED_COLUMNS = COLUMNS[:11]
OTHER_NAMES = {"title": "topic", "subject": "topic", "text": "content", "body": "content"}
"""What other programs call a column that is read, where the file has none of its own name."""

csv.field_size_limit(MAX_BYTES)  # of the whole process: set and reset, two files at once would meet each other's

_END = "\x00end"
"""A row of its own after the last one, unless a quotation mark is still open there."""

_UNCLOSED_QUOTE = (
    "A quotation mark that is opened here is never closed: all that follows would be one cell. Close it, or write two "
    "inside a text."
)

_QUOTATION_ADVICE = "A text with the separator or a line break in it stands in quotation marks."
_JSONL_ADVICE = 'Write one object a line, as {"topic": "…", "content": "…"}'

Cells = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a file. `number` is that of a spreadsheet or a line, from 1; `why` says what is wrong with it."""

    number: int
    cells: Cells
    why: str = ""


def read_rows(raw: bytes, form: str = "") -> list[TableRow]:
    """The rows of a file, broken ones with what is wrong. `form` is csv or jsonl; left out, it is guessed.

    Raises Problem where the file as a whole cannot be read: too large, not UTF-8, no header, no rows or too many, or a
    column that is nearly one that is read: what it holds would be lost, for its rows would be there already.
    """
    text = _decode(raw)
    if not text.strip():
        raise Problem("The file is empty.", code="empty", field="file")
    if form not in ("", "csv", "jsonl"):
        raise Problem("A file is csv or jsonl.", code="bad_format", field="format")
    if form != "csv" and _is_whole_json(text):
        raise Problem(
            f"This is JSON, but not JSONL. {_JSONL_ADVICE}, or take a CSV file.", code="bad_format", field="file"
        )
    is_jsonl = form == "jsonl" or (not form and text.lstrip().startswith("{"))
    rows = list(islice(_read_jsonl(text) if is_jsonl else _read_csv(text, form), MAX_ROWS + 1))
    if not rows:
        raise Problem("The file names its columns and has no row below them.", code="empty", field="file")
    if len(rows) > MAX_ROWS:
        raise Problem(f"At most {MAX_ROWS:,} rows at a time. Split the file.", code="too_many", field="file")
    for name in unknown_columns(rows)[:MAX_GUESSED_NAMES]:
        if meant := get_close_matches(name[:40], IMPORTED_COLUMNS, n=1, cutoff=0.75):
            raise Problem(
                f"There is no column {name[:40]!r}. Did you mean {meant[0]}? Rename it, or take it out.",
                code="bad_header",
                field="file",
            )
    return rows


def unknown_columns(rows: Iterable[TableRow]) -> list[str]:
    """What no export holds, so nobody can say what it means."""
    return sorted({name for row in rows for name in row.cells} - {*COLUMNS})


def csv_lines(rows: Iterable[Cells]) -> Iterator[str]:
    """A header and the rows, each ending in a newline. Lists are joined as tags are, None is empty."""
    yield _format_csv_line(COLUMNS)
    for row in rows:
        yield _format_csv_line([escape_formula(_format_cell(row.get(name))) for name in COLUMNS])


def jsonl_lines(rows: Iterable[Cells]) -> Iterator[str]:
    for row in rows:
        yield json.dumps({name: row.get(name) for name in COLUMNS}, ensure_ascii=False) + "\n"


def unescape_formula(cell: str) -> str:
    """The cell as it was before `escape_formula`."""
    text = cell[1:]
    return text if cell[:1] == "'" and text and escape_formula(text) != text else cell


def _decode(raw: bytes) -> str:
    if len(raw) > MAX_BYTES:
        raise Problem(
            f"The file has {len(raw) / 1024 / 1024:.1f} MB; at most {MAX_BYTES // 1024 // 1024} MB are read. Split it.",
            code="too_large",
            field="file",
        )
    is_wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        return raw.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError:
        raise Problem(
            "The file is not UTF-8 text. Save it as CSV or JSONL in UTF-8 and try again.",
            code="bad_encoding",
            field="file",
        ) from None


def _is_whole_json(text: str) -> bool:
    """Whether all of the text is one list, or one object on several lines."""
    start = text.strip()
    if not start.startswith("[") and not (start.startswith("{") and "\n" in start):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _read_csv(text: str, form: str = "csv") -> Iterator[TableRow]:
    delimiter, text, skipped = _named_delimiter(text)
    lines = chain(io.StringIO(text, newline=""), [_END])
    header: list[str] = []
    reader = csv.reader(lines, delimiter=delimiter or _detect_delimiter(text))
    for number, cells in enumerate(reader, 1 + skipped):
        if cells == [_END] or not any(cell.strip() for cell in cells):
            continue
        if cells[-1].endswith(_END):
            yield TableRow(number, {}, _UNCLOSED_QUOTE)
        elif not header:
            header = _parse_header(_strip_blank_end(cells, 0), is_guessed=not form)
        elif len(cells := _strip_blank_end(cells, len(header))) != len(header):
            counts = f"This row has {len(cells)} cells, the header has {len(header)}."
            yield TableRow(number, {}, f"{counts} {_QUOTATION_ADVICE}")
        else:
            yield TableRow(number, {name: unescape_formula(cell) for name, cell in zip(header, cells, strict=True)})


def _strip_blank_end(cells: list[str], length: int) -> list[str]:
    """The cells without the blank cells that spreadsheets write after the last one, but not shorter than that."""
    end = len(cells)
    while end > length and not cells[end - 1].strip():
        end -= 1
    return cells[:end]


def _parse_header(cells: Sequence[str], *, is_guessed: bool) -> list[str]:
    if any("\x00" in cell for cell in cells):
        raise Problem(
            "The first row holds NUL characters, as UTF-16 and UTF-32 do. Save the file as UTF-8 and try again.",
            code="bad_encoding",
            field="file",
        )
    names = _with_own_names([_column_name(cell) for cell in cells])
    missing_columns = [name for name in ("topic", "content") if name not in names]
    if missing_columns:
        verb = "is" if len(missing_columns) == 1 else "are"
        sentence = f"The first row names the columns, and {' and '.join(missing_columns)} {verb} missing."
        sentence = f"{sentence} Known are {', '.join(IMPORTED_COLUMNS)}."
        if is_guessed and not set(names) & set(COLUMNS):
            sentence = f"This is neither CSV nor JSONL. In CSV: {sentence} In JSONL: {_JSONL_ADVICE}."
        raise Problem(sentence, code="no_header", field="file")
    _check_names(names)
    return names


def _column_name(text: str) -> str:
    return text.strip().lower().replace(" ", "_")


def _check_names(names: Sequence[str]) -> None:
    """Raises Problem for a name that stands there twice."""
    duplicates = sorted(name for name, count in Counter(names).items() if name and count > 1)
    if duplicates:
        raise Problem(f"The column {duplicates[0][:40]!r} stands there twice.", code="bad_header", field="file")


def _with_own_names(names: Sequence[str]) -> list[str]:
    """The names, those of other programs as ours."""
    own = {*names}
    return [OTHER_NAMES[name] if name in OTHER_NAMES and OTHER_NAMES[name] not in own else name for name in names]


def _named_delimiter(text: str) -> tuple[str, str, int]:
    """The separator that a first line `sep=;` names, as spreadsheets write it, what is below, and how many lines that
    is off; empty, all of it and 0 without one."""
    first, _, rest = text.partition("\n")
    named = first.strip().strip('"').lower()
    if named.startswith("sep=") and len(separator := first.strip().strip('"')[4:] or "\t") == 1:
        return separator, rest, 1
    return "", text, 0


def _detect_delimiter(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(",;\t", key=first.count)


def _read_jsonl(text: str) -> Iterator[TableRow]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, object_pairs_hook=tuple, parse_float=_parse_finite, parse_constant=_parse_finite)
            cells = _parse_object(value) if isinstance(value, tuple) else None
        except Problem as problem:
            yield TableRow(number, {}, problem.message)
            continue
        except (ValueError, RecursionError):
            yield TableRow(number, {}, "This line is not JSON.")
            continue
        if cells is not None:
            yield TableRow(number, cells)
        else:
            yield TableRow(number, {}, "This line is JSON but not an object: it has to start with {.")


def _parse_object(pairs: tuple[tuple[str, object], ...]) -> Cells:
    """The cells by the names of columns. Raises Problem where one stands there twice."""
    names = _with_own_names([_column_name(name) for name, _ in pairs])
    _check_names(names)
    return dict(zip(names, (value for _, value in pairs), strict=True))


def _parse_finite(number: str) -> float:
    """Raises Problem for NaN and Infinity, which are not JSON, and for what is as large."""
    value = float(number)
    if not isfinite(value):
        raise Problem(f"{number[:40]} cannot be kept. Write it as a text, or leave it out.")
    return value


def _format_csv_line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def _format_cell(value: object) -> str:
    if isinstance(value, list):
        return join_tags(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
