"""Brings a workspace in from an archive, whole or not at all, under new ids.

An archive may be damaged or made to do harm, so nothing of it is believed: entries are those the manifest names, sizes
are counted as they are read, every reference leads to a row of the same archive, and the database checks the rest."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pgtrigger
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connection, connections, transaction
from django.db.models import BinaryField, Field, Model
from django.utils import timezone
from psycopg import Error as DriverError
from psycopg import sql

from agents.agent.models import Agent
from agents.archive.export import FOLDERS, FORMAT, FORMAT_VERSION, USERS, entry_name, file_name, folder_file_name
from agents.archive.folders import MAX_FILE_BYTES, MAX_FILES, folder_writer, is_plain, own_folder
from agents.archive.json_columns import column_problem
from agents.archive.tables import FILE_FIELDS, REFERENCES, USER_FIELDS, Table, archived_tables, is_number
from openvibe.base.problems import Problem
from openvibe.engines.database.migration_operations import known_migrations
from openvibe.engines.search.indexing import VECTOR_TABLES
from openvibe.engines.search.models import VectorSpace
from openvibe.workspaces.models import Participant, User, Workspace
from openvibe.workspaces.services import check_handle

MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_MANIFEST_BYTES = 1024 * 1024
MAX_BYTES = 20 * 1024**3
"""Bytes of an archive once unpacked, all entries together, unless the command is told otherwise."""
FIRST_MISSING_ID = 2**62
"""Ids from here on stand for rows that were gone when the archive was written; no row ever has one."""
UNREADABLE_VALUES = (
    DatabaseError,
    DriverError,
    ValidationError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What is raised over a row whose values are not what its columns hold."""


class BadArchive(Problem):
    """An archive that cannot be brought in. The message says why; nothing was changed."""

    code = "bad_archive"


@dataclass(frozen=True)
class Manifest:
    """What an archive says it holds: the workspace, and of each table its columns, number of rows and digest."""

    name: str
    slug: str
    tables: Mapping[str, Mapping[str, Any]]


def import_workspace(
    *, path: Path, slug: str = "", max_bytes: int = MAX_BYTES, progress: Callable[[int], object] = lambda rows: None
) -> Workspace:
    """The workspace of an archive, under `slug` where that is given. All or nothing.

    People are known by their addresses; who has no account gets one without a password. Raises BadArchive.
    """
    try:
        with zipfile.ZipFile(path) as file:
            _check_entries(file, max_bytes)
            manifest = _read_manifest(file)
            with folder_writer() as write_folder, transaction.atomic():
                return _Import(file, manifest, slug or manifest.slug, progress, write_folder).run()
    except FileExistsError as error:
        name = str(error.filename or error)[-120:]
        raise BadArchive(
            f"The agents' folder {name!r} is there already. Move it away first. Nothing was changed."
        ) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise BadArchive(f"{path.name} is no archive, or a damaged one ({error}). Nothing was changed.") from None
    except UNREADABLE_VALUES as error:
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise BadArchive(f"The archive holds what no workspace has ({reason}). Nothing was changed.") from None


def _check_entries(file: zipfile.ZipFile, max_bytes: int) -> None:
    """Names that stay inside, each once, packed as an export packs them, and no more bytes than may be."""
    names = [entry.filename for entry in file.infolist()]
    for name in names:
        if not name.startswith(("tables/", "files/")) and name != "manifest.json":
            raise BadArchive(f"The archive holds {name[:80]!r}, which belongs to none. Nothing was changed.")
        if ".." in name.split("/") or "\\" in name or "\x00" in name:
            raise BadArchive(f"The archive names {name[:80]!r}, which leads out of it. Nothing was changed.")
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in file.infolist()):
        raise BadArchive("The archive is packed in a way that no export is. Nothing was changed.")
    if len(set(names)) != len(names):
        raise BadArchive("The archive holds a file twice. Nothing was changed.")
    if sum(entry.file_size for entry in file.infolist()) > max_bytes:
        size = f"{max_bytes / 1024**3:g} GiB"
        raise BadArchive(f"Unpacked, the archive is larger than {size}. --max-gib allows more. Nothing was changed.")


def _read_manifest(file: zipfile.ZipFile) -> Manifest:
    try:
        with file.open("manifest.json") as stream:
            manifest = json.loads(stream.read(MAX_MANIFEST_BYTES))
        if manifest["format"] != FORMAT:
            raise ValueError
        _check_version(manifest)
        tables = {str(each["name"]): each for each in manifest["tables"]}
        if len(tables) != len(manifest["tables"]):
            raise BadArchive("The archive names a table twice. Nothing was changed.")
        if any(not is_number(each["rows"]) or each["rows"] < 0 for each in tables.values()):
            raise ValueError
        return Manifest(str(manifest["workspace"]["name"]), str(manifest["workspace"]["slug"]), tables)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        raise BadArchive("This is no archive of a workspace: its manifest cannot be read.") from None


def _check_version(manifest: Mapping[str, Any]) -> None:
    known = known_migrations()
    unknown = [f"{app}.{name}" for app, name in manifest["migrations"].items() if (app, name) not in known]
    if manifest["version"] != FORMAT_VERSION or unknown:
        raise BadArchive(
            "The archive was written by a newer OpenVibe"
            f"{f' (it has {unknown[0]!s:.80})' if unknown else ''}. Update this one first. Nothing was changed."
        )


class _Import:
    """One archive on its way in. Everything happens in the caller's transaction."""

    def __init__(
        self,
        file: zipfile.ZipFile,
        manifest: Manifest,
        slug: str,
        progress: Callable[[int], object],
        write_folder: Callable[[Path, Mapping[str, bytes]], None],
    ) -> None:
        self._file, self._manifest, self._slug, self._progress = file, manifest, slug, progress
        self._write_folder = write_folder
        self._ids: dict[type[Model], Sequence[int]] = {}
        self._users: list[int] = []

    def run(self) -> Workspace:
        tables = archived_tables()
        self._check_tables(tables)
        self._users = list(self._accounts())
        for table in tables:
            if table.has_number:
                self._ids[table.model] = _reserve_ids(table, self._count(table.name))
        with pgtrigger.ignore(), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1")  # says to the transaction which triggers are ignored; COPY itself cannot
            for table in tables:
                self._copy(table)
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # every reference is checked while we can say so
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        workspace = Workspace.objects.get(pk=self._ids[Workspace][0])
        Participant.objects.filter(workspace=workspace).refresh_name_columns()
        _want_vectors(workspace)
        self._restore_folders()
        return workspace

    def _restore_folders(self) -> None:
        """The folders of agents, each under the name that is of this agent alone."""
        folders: dict[int, dict[str, bytes]] = {}
        for count, row in enumerate(self._lines(FOLDERS), 1):
            number, path = _place(row["agent"], len(self._ids[Agent])), row["path"]
            files = folders.setdefault(self._ids[Agent][number], {})
            if count > MAX_FILES or not isinstance(path, str) or not is_plain(path) or path in files:
                raise BadArchive("The archive holds an agent's file that could not be one. Nothing was changed.")
            files[path] = self._folder_file(row["agent"], path, row["sha256"])
        handles = dict(Agent.objects.filter(pk__in=folders).values_list("pk", "participant__handle"))
        for pk, files in folders.items():
            self._write_folder(own_folder(handles[pk], self._slug), files)

    def _folder_file(self, number: int, path: str, sha256: object) -> bytes:
        with self._file.open(folder_file_name(number, path)) as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES or hashlib.sha256(content).hexdigest() != sha256:
            raise BadArchive("An agent's file was changed after it was exported. Nothing was changed here.")
        return content

    def _check_tables(self, tables: Sequence[Table]) -> None:
        table_names = {table.name for table in tables} | {USERS, FOLDERS}
        for name in self._manifest.tables:
            if name not in table_names:
                raise BadArchive(f"The archive holds a table {name[:80]!r}, which this version has not.")
        if self._count(Workspace._meta.label) != 1:
            raise BadArchive("The archive holds no workspace, or several. Nothing was changed.")
        Workspace._meta.get_field("slug").clean(self._slug, None)  # it names folders, too
        if Workspace.objects.filter(slug=self._slug).exists():
            raise BadArchive(
                f"There is a workspace {self._slug!r} already. Give another name for addresses with --slug. "
                "Nothing was changed."
            )

    def _count(self, name: str) -> int:
        """Rows of a table, as the manifest says; never more than its entry could hold."""
        if name not in self._manifest.tables:
            return 0
        rows = int(self._manifest.tables[name]["rows"])
        if rows > self._file.getinfo(entry_name(name)).file_size:
            raise BadArchive("The archive says it has more rows than it holds. Nothing was changed.")
        return rows

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        """Rows of a table. Raises BadArchive when they are not what the manifest says."""
        if name not in self._manifest.tables:
            return
        about, digest, rows = self._manifest.tables[name], hashlib.sha256(), 0
        with self._file.open(entry_name(name)) as stream:
            for line in iter_lines(stream):
                digest.update(line)
                rows += 1
                row = json.loads(line)
                if not isinstance(row, dict) or list(row) != list(about["columns"]) or rows > about["rows"]:
                    raise BadArchive(f"Row {rows} of {name} is not as the manifest says. Nothing was changed.")
                yield row
                self._progress(1)
        if rows != about["rows"] or digest.hexdigest() != about["sha256"]:
            raise BadArchive(f"{name} was changed after it was exported. Nothing was changed here.")

    def _accounts(self) -> Iterator[int]:
        """The account of each person, found by its address or made without a password and without rights."""
        for row in self._lines(USERS):
            if set(row) != set(USER_FIELDS) or not isinstance(row["is_active"], bool):
                raise BadArchive("An account of the archive is not one. Nothing was changed.")
            email = str(row["email"]).lower()
            user = User.objects.filter(email__iexact=email).first()
            if user is None:
                user = User(email=email, name=str(row["name"]), is_active=row["is_active"])
                user.set_unusable_password()
                user.full_clean(exclude=["name"])
                user.save()
            yield user.pk

    def _copy(self, table: Table) -> None:
        columns, rows = self._columns(table), self._lines(table.name)
        first_row = next(rows, None)
        if first_row is None:  # as in most tables of a small workspace
            return
        key_columns = [table.key_column] if table.has_number else []
        names = [sql.Identifier(name) for name in (*key_columns, *(str(each.column) for each in columns))]
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
            sql.Identifier(table.model._meta.db_table), sql.SQL(", ").join(names)
        )
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for number, row in enumerate(chain((first_row,), rows), 1):
                values = [self._value(table, each, row, number) for each in columns]
                copy.write_row([self._ids[table.model][number - 1], *values] if key_columns else values)

    def _columns(self, table: Table) -> list[Field[Any, Any]]:
        """Columns to fill: what an older archive lacks is left to the database where that knows what to write."""
        present = set(self._manifest.tables.get(table.name, {}).get("columns", ()))
        field_names = {each.name for each in table.fields()}
        if present - field_names:
            raise BadArchive(f"{table.name} has no {sorted(present - field_names)[0][:80]!r} in this version.")
        fields = [each for each in table.stored_fields() if each.name in present or not each.has_db_default()]
        file = table.file_field()
        return [*fields, file] if file else fields

    def _value(self, table: Table, field: Field[Any, Any], row: dict[str, Any], number: int) -> Any:
        if field.name == FILE_FIELDS.get(table.model):
            with self._file.open(file_name(table.name, number)) as stream:
                content = next(iter_lines(stream, whole=True), b"")
                return content if isinstance(field, BinaryField) else content.decode()
        if field.name not in row:
            value = None if field.null else field.get_default()
        else:
            value = self._given_value(table, field, row, number)
        return field.get_db_prep_save(value, connection=connections["default"])

    def _given_value(self, table: Table, field: Field[Any, Any], row: dict[str, Any], number: int) -> Any:
        value = row[field.name]
        if value is None:
            return None
        if table.model is Workspace and field.name == "slug":
            value = self._slug
        if reference := REFERENCES.get((table.model, field.name)):
            value = reference.translate(value, row, self._id)
            _check_column(table, field, value, number)
            return reference.store(value)
        if field.related_model is User:
            return self._users[_place(value, len(self._users))]
        if isinstance(field.related_model, type):
            ids = self._ids[field.related_model]
            return ids[_place(value, len(ids))]
        value = field.to_python(value)
        _check_column(table, field, value, number)
        if value not in field.empty_values:
            field.run_validators(value)
        if table.model is Participant and field.name == "handle":
            self._check_handle(value, number)
        return value

    def _check_handle(self, handle: str, number: int) -> None:
        """A name that OpenVibe itself answers to, or that reads as another, is nobody's."""
        try:
            check_handle(handle)
        except Problem as problem:
            where = f"Row {number} of {Participant._meta.label}"
            raise BadArchive(f"{where}: {problem.message} Nothing was changed.") from None

    def _id(self, model: type[Model], number: int) -> int:
        if number < 0:
            return FIRST_MISSING_ID - number
        return self._ids[model][_place(number, len(self._ids[model]))]


def _check_column(table: Table, field: Field[Any, Any], value: Any, number: int) -> None:
    """Raises BadArchive over a value that the pages could not read."""
    if problem := column_problem(table.model, field.name, value):
        where = f"Row {number} of {table.name}"
        raise BadArchive(f"{where}: its {field.name} cannot be read ({problem}). Nothing was changed.")


def _place(number: Any, count: int) -> int:
    if not is_number(number) or not 1 <= number <= count:
        raise BadArchive("A row of the archive refers to one that it does not hold. Nothing was changed.")
    return int(number) - 1


def iter_lines(stream: IO[bytes], *, whole: bool = False) -> Iterator[bytes]:
    """Lines, or all of it as one; none longer than MAX_LINE_BYTES. Raises BadArchive."""
    while line := stream.read(MAX_LINE_BYTES + 1) if whole else stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise BadArchive("A row of the archive is longer than 64 MB. Nothing was changed.")
        yield line


def _reserve_ids(table: Table, count: int) -> Sequence[int]:
    """Reserves that many ids, which no other row will have; returns them in ascending order."""
    if not count:
        return array("q")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT array_agg(nextval((SELECT pg_get_serial_sequence(%s, %s)::regclass))) FROM generate_series(1, %s)",
            [f'"{table.model._meta.db_table}"', table.key_column, count],
        )
        return array("q", cursor.fetchone()[0])


def _want_vectors(workspace: Workspace) -> None:
    """Lets every text of the workspace wait for its vector, which the embedder makes in the background."""
    space = _built_in_space(workspace)
    for table in VECTOR_TABLES:
        table.enqueue_all(space.pk, workspace.pk)


def _built_in_space(workspace: Workspace) -> VectorSpace:
    state, kind = VectorSpace.State.SERVING, VectorSpace.Kind.STATIC
    return VectorSpace.objects.create(
        workspace=workspace, kind=kind, dimension=256, state=state, served_since=timezone.now()
    )
