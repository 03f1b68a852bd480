"""Import of knowledge from whatever file is sent: a table, a Markdown file, or a zip of Markdown files."""

from pathlib import PurePosixPath

from knowledge.exchange.csv_jsonl import MAX_BYTES
from knowledge.exchange.entry_import import ImportReport, import_entries
from knowledge.exchange.markdown_files import SUFFIXES, import_files, import_zip, is_zip
from openvibe.base.problems import Problem
from openvibe.workspaces.access import Access


def import_upload(*, by: Access, raw: bytes, form: str = "", name: str = "") -> ImportReport:
    """Imports a file by what it is: `form` is csv, jsonl, md or zip, guessed when left out. Raises Refused, Problem."""
    if len(raw) > MAX_BYTES:
        raise Problem(
            f"At most {MAX_BYTES // 1024 // 1024} MB are read at a time. Split the file.",
            code="too_large",
            field="file",
        )
    if form == "zip" or (not form and is_zip(raw)):
        return import_zip(by=by, raw=raw)
    if form == "md" or (not form and PurePosixPath(name).suffix.lower() in SUFFIXES):
        return import_files(by=by, files=[(PurePosixPath(name.replace("\\", "/")).name or "text.md", raw)])
    return import_entries(by=by, raw=raw, form=form)
