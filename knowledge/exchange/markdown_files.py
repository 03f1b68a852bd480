"""Folders and zips of Markdown as entries: one for each section, with its file as source; brought again, updated."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath

import yaml
from markdown_it import MarkdownIt

from knowledge.exchange.csv_jsonl import MAX_BYTES, MAX_ROWS, TableRow
from knowledge.exchange.entry_import import ImportReport, import_rows
from knowledge.models import ENTRY_TOKEN_LIMIT, MAX_TOPIC_CHARACTERS, Entry
from openvibe.base.problems import Problem
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.text.cleaning import has_visible_character
from openvibe.workspaces.access import Access

SUFFIXES = (".md", ".markdown", ".mdown")
MAX_UNPACKED_BYTES = 4 * MAX_BYTES
SOURCE_TOKENS = 60
"""Room that the line with the source takes at most."""

SECTION_TOKENS = ENTRY_TOKEN_LIMIT - SOURCE_TOKENS
SPLIT_LEVEL = 2
"""Headings down to this one begin an entry of their own."""

_FRONT_MATTER = re.compile(r"---\r?\n(.*?)\r?\n(?:---|\.\.\.)\r?\n", re.DOTALL)
_MARKDOWN = MarkdownIt("commonmark")


@dataclass(frozen=True, slots=True)
class _Section:
    """`heading` is empty for what stands before the first one."""

    heading: str
    text: str


def import_folder(*, by: Access, folder: Path) -> ImportReport:
    """Imports the Markdown files of a folder; of a git checkout with `docs/`, those in it. Raises Problem, OSError."""
    root = folder / "docs" if (folder / ".git").exists() and (folder / "docs").is_dir() else folder
    return import_files(by=by, files=_files_of_folder(root))


def import_zip(*, by: Access, raw: bytes) -> ImportReport:
    """Imports the Markdown files of a zip. Raises Problem when it is none, unsafe or larger than is read."""
    return import_files(by=by, files=_files_of_zip(raw))


def is_zip(raw: bytes) -> bool:
    return raw[:4] == b"PK\x03\x04"


def import_files(*, by: Access, files: Iterable[tuple[str, bytes]]) -> ImportReport:
    """Imports files by their paths. An entry of the same file and heading is updated where its words are others, so
    that nothing is doubled; what the files do not have any more is named, and stays. Raises Problem."""
    rows: list[TableRow] = []
    places: list[str] = []
    paths: list[str] = []
    for path, raw in files:
        paths.append(path)
        for row, place in _rows_of_file(path, raw, len(rows) + 1):
            rows.append(row)
            places.append(place)
        if len(rows) > MAX_ROWS:
            raise Problem(f"At most {MAX_ROWS:,} sections at a time. Take fewer files.", code="too_many", field="file")
    if not rows:
        raise Problem("There is no Markdown file with a text in it.", code="empty", field="file")
    remark = _gone_remark(by, paths, {str(row.cells.get("client_id")) for row in rows})
    report = import_rows(by=by, rows=rows, remark=remark)
    placed = [replace(each, place=place) for each, place in zip(report.rows, places, strict=True)]
    return replace(report, rows=placed)


def _rows_of_file(path: str, raw: bytes, first: int) -> Iterator[tuple[TableRow, str]]:
    try:
        text = raw.decode("utf-8-sig").replace("\x00", "")
    except UnicodeDecodeError:
        yield TableRow(first, {}, f"{path} is not UTF-8 text."), path
        return
    info, text = _front_matter(text)
    sections = [each for each in _split(text) if has_visible_character(each.text)]
    title = _title(info, sections, path)
    seen: Counter[str] = Counter()
    for section in sections:
        pieces = _pieces(section.text)
        for part, piece in enumerate(pieces, 1):
            anchor = re.sub(r"[^\w-]+", "-", section.heading.lower()).strip("-")
            seen[anchor] += 1
            if seen[anchor] > 1:
                anchor = f"{anchor}-{seen[anchor]}"
            place = f"{path}#{anchor}" if anchor else path
            topic = title if section.heading in ("", title) else f"{title}: {section.heading}"
            if len(pieces) > 1:
                topic = f"{_cut(topic, MAX_TOPIC_CHARACTERS - 10)} ({part})"
            cells: dict[str, object] = {
                "topic": _cut(topic, MAX_TOPIC_CHARACTERS),
                "content": f"{piece.strip()}\n\nSource: {_cut(path, 100)}",
                "client_id": entry_key(path, anchor),
                "tags": info.get("tags", []),
            }
            yield TableRow(first, cells), place
            first += 1


def entry_key(path: str, anchor: str) -> str:
    """What a section is known by, in every import."""
    return f"{_path_key(path)}{sha256(anchor.encode()).hexdigest()[:16]}"


def _path_key(path: str) -> str:
    return f"md:{sha256(path.encode()).hexdigest()[:24]}:"


def _front_matter(text: str) -> tuple[Mapping[str, object], str]:
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, text
    try:
        value = yaml.safe_load(match[1])
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}, text
    if not isinstance(value, dict):
        return {}, text
    tags = value.get("tags")
    named = tags.split(",") if isinstance(tags, str) else tags if isinstance(tags, list) else []
    return {"title": value.get("title"), "tags": [str(tag).strip() for tag in named if str(tag).strip()][:10]}, text[
        match.end() :
    ]


def _title(info: Mapping[str, object], sections: Sequence[_Section], path: str) -> str:
    named = info.get("title")
    if isinstance(named, str) and named.strip():
        return " ".join(named.split())
    first = next((each.heading for each in sections if each.heading), "")
    stem = PurePosixPath(path).stem
    return first or (PurePosixPath(path).parent.name if stem.lower() in ("index", "readme") else "") or stem


def _split(text: str) -> Iterator[_Section]:
    """Sections by headings, which are none in code."""
    lines, start, heading = text.splitlines(keepends=True), 0, ""
    tokens = _MARKDOWN.parse(text)
    for number, token in enumerate(tokens):
        if token.type != "heading_open" or token.level or token.map is None or int(token.tag[1:]) > SPLIT_LEVEL:
            continue
        yield _Section(heading, "".join(lines[start : token.map[0]]))
        start, heading = token.map[1], " ".join(tokens[number + 1].content.split())
    yield _Section(heading, "".join(lines[start:]))


def _pieces(text: str) -> list[str]:
    """The text in as many pieces as entries take, cut between paragraphs, else lines, else anywhere."""
    if count_tokens(text) <= SECTION_TOKENS:
        return [text]
    for separator in ("\n\n", "\n", " "):
        parts = text.split(separator)
        if len(parts) > 1:
            return _gather(parts, separator)
    half = len(text) // 2
    return [*_pieces(text[:half]), *_pieces(text[half:])]


def _gather(parts: Sequence[str], separator: str) -> list[str]:
    pieces: list[str] = []
    held: list[str] = []
    room = SECTION_TOKENS
    for part in parts:
        tokens = count_tokens(part + separator) + 1
        if held and tokens > room:
            pieces.append(separator.join(held))
            held, room = [], SECTION_TOKENS
        if tokens > SECTION_TOKENS:
            pieces.extend(_pieces(part))
            continue
        held.append(part)
        room -= tokens
    if held:
        pieces.append(separator.join(held))
    return [piece for piece in pieces if piece.strip()]


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _gone_remark(by: Access, paths: Sequence[str], keys: set[str]) -> str:
    """Names entries of these files whose section is not in them any more."""
    gone: list[tuple[int, str]] = []
    for path in paths:
        entries = Entry.objects.visible_to(by).filter(client_id__startswith=_path_key(path), source=Entry.Source.IMPORT)
        rows = entries.exclude(client_id__in=keys).exclude(status=Entry.Status.ARCHIVED)
        gone += rows.values_list("pk", "topic")
    if not gone:
        return ""
    named = ", ".join(f"{pk} ({topic[:60]})" for pk, topic in gone[:10])
    more = f" and {len(gone) - 10:,} more" if len(gone) > 10 else ""
    return f"Not in the files any more, and left as they are: entries {named}{more}. Archive what does not hold."


def _files_of_folder(root: Path) -> Iterator[tuple[str, bytes]]:
    if not root.is_dir():
        raise Problem(f"{root} is no folder.", code="bad_file", field="file")
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if any(part.startswith(".") or part == "node_modules" for part in inside.parts):
            continue
        if path.suffix.lower() in SUFFIXES and path.is_file() and not path.is_symlink():
            with path.open("rb") as source:
                yield inside.as_posix(), source.read(MAX_BYTES)


def _files_of_zip(raw: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            members = [
                each
                for each in archive.infolist()
                if not each.is_dir() and PurePosixPath(each.filename).suffix.lower() in SUFFIXES
            ]
            if sum(member.file_size for member in members) > MAX_UNPACKED_BYTES:
                limit = MAX_UNPACKED_BYTES // 1024 // 1024
                raise Problem(f"This zip unpacks to more than {limit} MB. Split it.", code="too_large", field="file")
            top = _common_folder([each.filename for each in archive.infolist() if not each.is_dir()])
            for member in sorted(members, key=lambda each: each.filename):
                parts = PurePosixPath(member.filename).parts
                if not any(part.startswith((".", "__MACOSX")) for part in parts):
                    yield member.filename.removeprefix(top), archive.read(member)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, zlib.error):
        raise Problem("This zip cannot be read. Make it again.", code="bad_file", field="file") from None


def _common_folder(names: Sequence[str]) -> str:
    """The folder around everything, with its slash: it has the name of a release or a download, which is another the
    next time, and none where the folder itself is imported."""
    tops = {name.partition("/")[0] for name in names if not name.startswith("__MACOSX/")}
    is_around = len(tops) == 1 and all("/" in name for name in names)
    return f"{tops.pop()}/" if is_around else ""
