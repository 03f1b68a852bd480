"""Everything of an installation in one file, and back: database, agents' files, and the secret key kept in `var`.

The file is a tar of `about.json`, `database.dump` (pg_dump's custom format), `home/`, those files of messages that are
in another place than the database (`files/`) and, where it is not the operator's own, `secret_key`. It holds all that
anybody ever wrote and what opens stored keys, so only this system user can read it."""

import fcntl
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import IO, Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from openvibe.chat.models import StoredFile
from openvibe.chat.services import FileUnavailable, read_stored_file
from openvibe.engines.database.embedded.programs import database_name, run_program
from openvibe.engines.database.migration_operations import known_migrations
from openvibe.runner.bootstrap import BEFORE
from openvibe.runner.restore_database import QUEUE_SCHEMA, restore_database

ABOUT, DUMP, HOME, FILES, KEY = "about.json", "database.dump", "home", "files", "secret_key"
FORMAT = "openvibe-backup"
WORK_PREFIX = ".openvibe-backup-"
RESTORE_MARKER = "restore.unfinished"
MAX_ABOUT_BYTES = 1024 * 1024
MAX_BYTES_IN_MEMORY = 16 * 1024 * 1024
MAX_GROWTH = 50
MIN_ALLOWED_BYTES = 4 * 1024**3
"""The SQL of a backup may be so many times as large as the file, or this large, whichever is more, unless the command
is told otherwise. What people write takes three to ten times its packed size."""


def write_backup(path: Path) -> int:
    """Writes everything to a new file, mode 0600; returns its size in bytes. Raises CommandError, OSError.

    What is written is the state of one moment; nobody has to stop working. A file of that name stays as it is until the
    new one is whole; where `path` is a link, that is the file it leads to.
    """
    path = _find_target(path)
    with _folder_beside(path) as folder:
        dump, new = folder / DUMP, folder / "new"
        options = ("--format=custom", "--no-owner", "--no-privileges", f"--exclude-schema={QUEUE_SCHEMA}")
        run_program("pg_dump", *options, f"--file={dump}", database_name())
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            _write_tar(stream, dump)
        size = new.stat().st_size
        new.replace(path)
    return size


@contextmanager
def _folder_beside(path: Path) -> Iterator[Path]:
    """A folder on the disk of `path`, gone at the end; those that killed commands left there go first."""
    parent = path.absolute().parent
    for leftover in parent.glob(f"{WORK_PREFIX}*"):
        with suppress(OSError), _folder_lock(leftover):
            shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=parent) as name, _folder_lock(Path(name)):
        yield Path(name)


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Raises BlockingIOError while another process has it. A process that ends, however it ends, has it no more."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _find_target(link: Path) -> Path:
    """The file to write. Raises CommandError where a backup would replace what is no file, hold itself, or hold
    nothing."""
    path = Path(os.path.realpath(link))  # of a pipe, what is not there; of a link that leads to itself, the link
    if (link.exists() or path.is_symlink()) and not link.is_file():
        raise CommandError(f"{link} is no file. Name the file to write, such as openvibe.tar. Nothing was written.")
    if path.is_relative_to(settings.HOME.resolve()):
        raise CommandError(f"{path} is among the files that are backed up. Name one elsewhere. Nothing was written.")
    if is_empty():
        raise CommandError(
            f"The database has no accounts, so there is nothing to keep. OPENVIBE_VAR is {settings.VAR}: is that the "
            "folder you mean? Nothing was written."
        )
    return path


def _write_tar(stream: IO[bytes], dump: Path) -> None:
    migration_names = sorted(".".join(key) for key in MigrationRecorder(connection).applied_migrations())
    with _LiveTar.open(fileobj=stream, mode="w") as tar, dump.open("rb") as database:
        tar.folder = dump.parent
        _add_text(tar, ABOUT, json.dumps({"format": FORMAT, "migrations": migration_names}))
        tar.addfile(tar.gettarinfo(arcname=DUMP, fileobj=database), database)
        if settings.HOME.is_dir():
            tar.add(settings.HOME.resolve(), HOME, filter=_belongs_in_backup)
        if StoredFile._meta.db_table in connection.introspection.table_names():  # an older version's has none
            for file in StoredFile.objects.filter(content=None, attachment__isnull=False).order_by("pk").iterator(20):
                _add_file(tar, file)
        if not settings.ENV.secret_key:
            _add_text(tar, KEY, settings.SECRET_KEY)


class _LiveTar(tarfile.TarFile):
    """Takes folders in while agents work there: what is deleted before its turn is left out, and of a file that grows
    or shrinks it holds what was read, which waits in `folder` until its length is known."""

    folder: Path
    inodes: dict[Any, str]  # tarfile's own, not in its types

    def add(self, *arguments: Any, **options: Any) -> None:
        self.inodes.clear()  # a second name is a file of its own: the first may be gone before it is read
        with suppress(FileNotFoundError):
            super().add(*arguments, **options)

    def addfile(self, tarinfo: tarfile.TarInfo, fileobj: Any = None) -> None:
        if fileobj is None or tarinfo.name == DUMP:
            super().addfile(tarinfo, fileobj)
            return
        with tempfile.SpooledTemporaryFile(MAX_BYTES_IN_MEMORY, dir=str(self.folder)) as copy:
            shutil.copyfileobj(fileobj, copy)
            tarinfo.size = copy.tell()
            copy.seek(0)
            super().addfile(tarinfo, copy)


def _belongs_in_backup(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files and folders, but no archives of workspaces, which are deleted after a day."""
    return member if (member.isreg() or member.isdir()) and member.name != f"{HOME}/exports" else None


def _add_file(tar: tarfile.TarFile, file: StoredFile) -> None:
    """Raises CommandError where it cannot be read, unless it was deleted meanwhile."""
    try:
        content = read_stored_file(file)
    except FileUnavailable as error:
        if StoredFile.objects.filter(pk=file.pk, attachment__isnull=False).exists():
            raise CommandError(f"{file.name}: {error} Nothing was written.") from error
        return
    member = tarfile.TarInfo(file.name)
    member.size, member.mode = len(content), 0o600
    tar.addfile(member, io.BytesIO(content))


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(text.encode()), 0o600
    tar.addfile(member, io.BytesIO(text.encode()))


def restore_backup(path: Path, *, replace: bool, max_bytes: int = 0) -> None:
    """Brings everything of a backup back. The database is as it was before when that fails half-way.

    `max_bytes`: of its SQL once unpacked; 0 allows MAX_GROWTH times the file. Raises CommandError: for a database
    or `home` that holds something, unless `replace`, and for what is no backup or one that was tampered with;
    OSError, after which `unfinished_restore` says whether the database is back already.
    """
    occupied = "" if replace else _find_occupied()
    if occupied:
        raise CommandError(
            f"{occupied} holds something. --replace puts the backup in its place; what it holds now is gone then. "
            "Nothing was changed."
        )
    if path.exists() and not path.is_file():
        raise CommandError(f"{path} is no file. Nothing was changed.")
    for leftover in settings.VAR.glob(".restore-*"):  # of a command that was killed: all that anybody wrote
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=settings.VAR) as name:
        folder = Path(name)
        _unpack(path, folder)
        _check_version(folder / ABOUT)
        _check_key(folder / KEY)
        connection.close()
        with _unfinished_mark(path, folder):
            allowed_bytes = max_bytes or max(MAX_GROWTH * path.stat().st_size, MIN_ALLOWED_BYTES)
            restore_database(folder / DUMP, max_bytes=allowed_bytes)
            _restore_home(folder / HOME)
            _restore_files(folder)
            _restore_key(folder / KEY)


@contextmanager
def _unfinished_mark(path: Path, folder: Path) -> Iterator[None]:
    """Marks the backup in a file in `var` meanwhile: one that was killed left a database without its files and key. It
    goes when all is back, or when nothing was changed. It is written in `folder`, on the same disk, so it is whole."""
    mark, new = settings.VAR / RESTORE_MARKER, folder / RESTORE_MARKER
    is_first = not mark.exists()
    new.write_text(str(path.absolute()))
    new.replace(mark)
    try:
        yield
    except CommandError:  # the transaction of the database was rolled back
        if is_first:
            mark.unlink()
        raise
    mark.unlink()


def unfinished_restore() -> str:
    """Instructions for a restore that was interrupted; empty where none was."""
    mark = settings.VAR / RESTORE_MARKER
    try:
        path = mark.read_text()
    except OSError:
        return ""
    command = f"manage.py restore {quote(path)} --replace"
    return (
        f"The restore of {path} was interrupted: the database may be back already, agents' files and the secret key "
        f"may not. Run `{command}` to its end; or delete {mark} to go on with what is there."
    )


def _find_occupied() -> str:
    """Names what a restore would write over, empty where there is nothing."""
    if not is_empty():
        return "The database"
    files = (path for path in settings.HOME.rglob("*") if path.is_file() and not _is_archive(path))
    return f"The folder {settings.HOME}" if any(files) else ""


def _is_archive(path: Path) -> bool:
    """Whether it is one of the archives of workspaces in `home`, which are in no backup."""
    return path.relative_to(settings.HOME).parts[0] == "exports"


def is_empty() -> bool:
    """Whether nobody ever used the database: it has no accounts."""
    with connection.cursor() as cursor:
        if "workspaces_user" not in connection.introspection.table_names(cursor):
            return True
        cursor.execute("SELECT EXISTS (SELECT FROM workspaces_user)")
        return not cursor.fetchone()[0]


def _unpack(path: Path, folder: Path) -> None:
    try:
        with tarfile.open(path, "r:") as tar:  # not packed again, so it is as large as it looks
            parts = {name.split("/")[0] for name in tar.getnames()}
            if not {ABOUT, DUMP} <= parts <= {ABOUT, DUMP, HOME, FILES, KEY}:
                raise CommandError(f"{path} is no backup of OpenVibe. Nothing was changed.")
            members = [_checked_member(member) for member in tar.getmembers()]
            tar.extraction_filter = lambda member, _: member  # all are checked already
            tar.extractall(folder, members)
    except (tarfile.TarError, EOFError, KeyError) as error:  # KeyError: a second name of what is not there
        reason = str(error).partition("\n")[0].rstrip(":")
        raise CommandError(f"{path} is no backup, or a damaged one ({reason}). Nothing was changed.") from None


def _checked_member(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The member, checked as by tarfile's "data" filter, which Python 3.11.2 of Debian 12 does not have: files, folders
    and second names that stay in the folder, of whoever runs this. Raises ExtractError."""
    paths = [Path(member.name), *([Path(member.linkname)] if member.islnk() else [])]
    leads_out = any(path.is_absolute() or ".." in path.parts for path in paths)
    if leads_out or not (member.isreg() or member.isdir() or member.islnk()) or member.issparse():
        raise tarfile.ExtractError(f"{member.name} leads elsewhere")
    member.mode = member.mode & 0o755 | (0o700 if member.isdir() else 0o600)
    member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""
    return member


def _check_version(about: Path) -> None:
    try:
        with about.open("rb") as stream:
            manifest = json.loads(stream.read(MAX_ABOUT_BYTES))
        migrations = {tuple(name.split(".", 1)) for name in manifest["migrations"]}
        if manifest["format"] != FORMAT:
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CommandError("This is no backup of OpenVibe. Nothing was changed.") from None
    newer = sorted(".".join(key) for key in migrations - known_migrations() - BEFORE)
    if newer:
        raise CommandError(f"The backup was written by a newer OpenVibe (it has {newer[0]}). Nothing was changed.")


def _check_key(key: Path) -> None:
    """Raises CommandError for a key that the next start could not use."""
    try:
        if key.exists() and not key.read_text(encoding="ascii").strip():
            raise ValueError
    except (ValueError, IsADirectoryError):
        raise CommandError("The secret key in the backup is damaged. Nothing was changed.") from None


def _restore_home(restored: Path) -> None:
    """Agents' files as the backup has them. Folders that are links to another disk stay, as do archives."""
    for path in sorted(settings.HOME.rglob("*"), reverse=True):  # what is in a folder before the folder
        kept = restored / path.relative_to(settings.HOME)
        if _is_archive(path) or (path.is_symlink() and not kept.is_file()):
            continue
        if path.is_symlink() or (path.is_file() and not kept.is_file()):
            path.unlink()
        elif path.is_dir() and not kept.is_dir():
            with suppress(OSError):  # it holds a link
                path.rmdir()
    if restored.is_dir():
        shutil.copytree(restored, settings.HOME, dirs_exist_ok=True)


def _restore_files(folder: Path) -> None:
    """Files of messages come back into the database; from there a job takes them to their place, if there is one."""
    for path in (folder / FILES).rglob("*"):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            StoredFile.objects.filter(name=name, content=None).update(content=path.read_bytes())


def _restore_key(restored: Path) -> None:
    """The key that what is stored is encrypted with, unless the operator has set one."""
    if restored.is_file() and not settings.ENV.secret_key:
        path = settings.VAR / KEY
        new = path.with_suffix(".restored")
        new.touch(mode=0o600)
        new.write_text(restored.read_text())
        new.replace(path)
