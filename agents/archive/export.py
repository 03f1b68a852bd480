"""Writes a workspace into one file: a zip of JSONL tables and attached files, and a manifest.

Rows are numbered from 1 in the order of their ids, and refer to one another by these numbers. So the same content gives
the same bytes wherever it stands, and an archive that was brought in and written again is the one it came from."""

import base64
import hashlib
import json
import zipfile
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Model

from agents.agent.models import Agent, EntryErasure
from agents.archive.folders import folder_files
from agents.archive.tables import FILE_FIELDS, REFERENCES, USER_FIELDS, Reference, Table, archived_tables
from openvibe.base.audit import Actor, AuditAction, record_audit
from openvibe.base.problems import Conflict
from openvibe.chat.models import Erasure, StoredFile
from openvibe.chat.services import read_stored_file
from openvibe.engines.serving.atomic_write import atomic_write
from openvibe.workspaces.models import User, Workspace

FORMAT = "openvibe-workspace"
FORMAT_VERSION = 1
CHUNK_ROWS = 100  # read from the database at a time
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every entry: the same content gives the same bytes

Progress = Callable[[int], object]


@dataclass
class Numbers:
    """The number of each row in the archive: its place among the sorted ids of its table. An id whose row is gone has a
    negative one, counted by when it was first met."""

    ids: Mapping[type[Model], Sequence[int]]
    gone: dict[tuple[type[Model], int], int] = field(default_factory=dict)

    def number(self, model: type[Model], row_id: int) -> int:
        ids = self.ids[model]
        place = bisect_left(ids, row_id)
        if place < len(ids) and ids[place] == row_id:
            return place + 1
        return self.gone.setdefault((model, row_id), -1 - len(self.gone))


class Archive:
    """A zip that is being written: entries one after the other, each with its digest."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file

    def write_lines(self, name: str, values: Iterator[object]) -> dict[str, Any]:
        """One JSON value a line; how many there were, and their digest."""
        digest, rows = hashlib.sha256(), 0
        with self._file.open(_entry(name), "w", force_zip64=True) as stream:
            for value in values:
                line = (
                    json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_json_value).encode() + b"\n"
                )
                digest.update(line)
                stream.write(line)
                rows += 1
        return {"rows": rows, "sha256": digest.hexdigest()}

    def write_text(self, name: str, text: str) -> None:
        self._file.writestr(_entry(name), text)

    def write_bytes(self, name: str, content: bytes) -> None:
        self._file.writestr(_entry(name), content)


def export_workspace(
    *, workspace: Workspace, path: Path, by: Actor | None = None, progress: Progress = lambda rows: None
) -> dict[str, Any]:
    """Writes the workspace, as it is at one moment, to a new file that only this system user can read. Returns its
    manifest.

    Raises Conflict while a deleted text has not left everything that repeats it, and OSError. A file of that name
    stays as it is until the new one is whole.
    """
    with atomic_write(path) as stream:
        with zipfile.ZipFile(stream, "w") as file, _one_moment():
            manifest = _write(Archive(file), workspace, progress)
        record_audit(AuditAction.EXPORT, workspace_id=workspace.pk, by=by, subject="the workspace", after=path.name)
    return manifest


@contextmanager
def _one_moment() -> Iterator[None]:
    """What is read within is the same however long it takes and whoever writes meanwhile."""
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


def _write(archive: Archive, workspace: Workspace, progress: Progress) -> dict[str, Any]:
    messages = Erasure.objects.filter(message__thread__workspace=workspace, finished_at=None)
    if messages.exists() or EntryErasure.objects.filter(entry__workspace=workspace).exists():
        raise Conflict(
            "A deleted or changed text is still being taken out of what repeats it. Nothing was written; "
            "try again in a minute."
        )
    tables = archived_tables()
    ids: dict[type[Model], Sequence[int]] = {
        table.model: array("q", table.rows(workspace.pk).values_list("pk", flat=True).iterator(chunk_size=10_000))
        for table in tables
        if table.has_number
    }
    emails = _user_emails(tables, workspace.pk)
    numbers = Numbers(ids)
    users = User.objects.filter(pk__in=emails).order_by("email").values(*USER_FIELDS)
    accounts = {pk: place for place, pk in enumerate(sorted(emails, key=lambda pk: emails[pk]), 1)}
    entries = [{"name": USERS, "columns": list(USER_FIELDS), **archive.write_lines(entry_name(USERS), iter(users))}]
    for table in tables:
        is_empty = table.has_number and not ids[table.model]
        rows = iter(()) if is_empty else _rows(table, workspace.pk, numbers, accounts, progress)
        columns = [each.name for each in table.fields()]
        entries.append({"name": table.name, "columns": columns, **archive.write_lines(entry_name(table.name), rows)})
    for table in tables:
        if table.model in FILE_FIELDS:
            _write_files(archive, table, workspace.pk)
    about_files = _write_folders(archive, workspace)
    lines = archive.write_lines(entry_name(FOLDERS), iter(about_files))
    entries.append({"name": FOLDERS, "columns": list(FOLDER_COLUMNS), **lines})
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "migrations": latest_migrations(),
        "workspace": {"name": workspace.name, "slug": workspace.slug},
        "tables": entries,
    }
    archive.write_text("manifest.json", json.dumps(manifest, ensure_ascii=False, indent=1))
    return manifest


USERS = "accounts"
FOLDERS = "folders"
FOLDER_COLUMNS = ("agent", "path", "sha256")


def entry_name(table: str) -> str:
    return f"tables/{table}.jsonl"


def folder_file_name(agent: int, path: str) -> str:
    return f"files/agents/{agent}/{path}"


def file_name(table: str, number: int) -> str:
    return f"files/{table}/{number}.txt"


def latest_migrations() -> dict[str, str]:
    """The last migration of each of our apps that this database has: what version wrote an archive."""
    own = {table.model._meta.app_label for table in archived_tables()}
    applied_migrations = sorted(MigrationRecorder(connection).applied_migrations())
    return {app: name for app, name in applied_migrations if app in own}


def _user_emails(tables: Sequence[Table], workspace_id: int) -> dict[int, str]:
    """Accounts that rows of the workspace refer to: id and address."""
    user_ids: set[int] = set()
    for table in tables:
        for each in table.fields():
            if each.related_model is User:
                user_ids.update(
                    table.rows(workspace_id).exclude(**{each.name: None}).values_list(each.attname, flat=True)
                )
    return dict(User.objects.filter(pk__in=user_ids).values_list("pk", "email"))


def _rows(
    table: Table, workspace_id: int, numbers: Numbers, accounts: Mapping[int, int], progress: Progress
) -> Iterator[dict[str, Any]]:
    fields = table.fields()
    values = table.rows(workspace_id).values_list(*(each.attname for each in fields))
    for count, row_values in enumerate(values.iterator(chunk_size=CHUNK_ROWS), 1):
        row = dict(zip((each.name for each in fields), row_values, strict=True))
        for each in fields:
            value, reference = row[each.name], REFERENCES.get((table.model, each.name))
            if value is None:
                continue
            if reference:
                row[each.name] = _translate_reference(reference, value, row, numbers)
            elif each.related_model is User:
                row[each.name] = accounts[value]
            elif isinstance(each.related_model, type):
                row[each.name] = (
                    numbers.number(each.related_model, value) if each.related_model in numbers.ids else None
                )
        yield row
        if count % CHUNK_ROWS == 0:
            progress(CHUNK_ROWS)


def _translate_reference(reference: Reference, value: Any, row: Mapping[str, Any], numbers: Numbers) -> Any:
    return reference.translate(reference.load(value), row, numbers.number)


def _write_files(archive: Archive, table: Table, workspace_id: int) -> None:
    rows = table.rows(workspace_id)
    if table.model is StoredFile:
        for number, file in enumerate(rows.iterator(chunk_size=1), 1):
            archive.write_bytes(file_name(table.name, number), read_stored_file(file))
        return
    texts = rows.values_list(FILE_FIELDS[table.model], flat=True).iterator(chunk_size=1)
    for number, text in enumerate(texts, 1):
        archive.write_text(file_name(table.name, number), text)


def _write_folders(archive: Archive, workspace: Workspace) -> list[dict[str, Any]]:
    """The agents' folders, file by file; what the archive says of each file."""
    agents = Agent.objects.filter(workspace=workspace).select_related("participant", "workspace").order_by("pk")
    about_files = []
    for number, path, file in folder_files(list(agents)):
        content = file.read_bytes()
        archive.write_bytes(folder_file_name(number, path), content)
        about_files.append({"agent": number, "path": path, "sha256": hashlib.sha256(content).hexdigest()})
    return about_files


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    return entry


def _json_value(value: object) -> object:
    """How JSON has what it knows no type for; each field reads it back (`to_python`)."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1) / 1_000_000:f}"
    if isinstance(value, bytes | memoryview):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written to an archive.")
