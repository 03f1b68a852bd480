"""What is dear to make is made once in a run of the tests, by whichever of its processes needs it first."""

import fcntl
import hashlib
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.core.management import call_command
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader

from openvibe.engines.database import migration_operations
from openvibe.engines.database.embedded.server import program_path
from openvibe.runner.management.commands import migrate

ROOT = Path(__file__).resolve().parent.parent
_SHARED = "SHARED_BY_TESTS"
_PREFIX = "openvibe-run-"
ROOM = 4 * 1024**3  # bytes
JUST_MADE = 60  # seconds
TEMPLATE = "openvibe_tests_template"
TEMPLATE_LOCK = 0x7465_6D70_6C61_7465  # an advisory lock of the tests' own

NO_AUTOVACUUM = """
DO $$ DECLARE name regclass; BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', name);
    END LOOP;
END $$"""
"""A script that turns autovacuum off: it would look in the middle of a run, find tables whose rows were all taken back,
and have every later test plan for an empty one: tests would take longer the slower the machine is."""


def begin() -> None:
    """Begins a run before its processes are started: a folder for what they share and for all temporary files."""
    memory = _folder_in_memory()
    if memory:
        _remove_abandoned(memory)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=memory)).resolve()
    folder.chmod(0o755)  # PostgreSQL may run as somebody else
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH)  # until this process ends
    os.environ[_SHARED] = os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def end() -> None:
    shutil.rmtree(os.environ.pop(_SHARED), ignore_errors=True)


def _folder_in_memory() -> Path | None:
    """A folder in memory, where files are made and removed at a fraction of a disk's price: installations are thousands
    of small ones."""
    folder = Path("/dev/shm")
    try:
        there = os.statvfs(folder)
    except OSError:
        return None
    has_room = there.f_bavail * there.f_frsize >= ROOM
    return folder if has_room and not there.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK | os.X_OK) else None


def _remove_abandoned(parent: Path) -> None:
    """Folders of runs that were killed. One that is made right now is not locked yet."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # somebody else's, or in use
            if time.time() - folder.stat().st_mtime < JUST_MADE:
                continue
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def shared() -> Path:
    return Path(os.environ[_SHARED])


@contextmanager
def once(name: str) -> Iterator[bool]:
    """True for the first; the others wait until it is done, and make it themselves where it failed."""
    done = shared() / f"{name}.done"
    with open(shared() / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not done.exists()
        done.touch()


def migrated_template() -> str:
    """The name of a database with every migration, which the test databases are copies of.

    It is kept on the server for later runs, until a migration or a version of a package changes.
    """
    name = f"{TEMPLATE}_{migrations_digest()}"
    with connection._nodb_cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [TEMPLATE_LOCK])  # until this session ends; one makes it
        cursor.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [TEMPLATE])
        there = {datname for (datname,) in cursor.fetchall()}
        if name not in there:
            for outdated in there:
                with suppress(OperationalError):  # another run copies it right now
                    cursor.execute(f"DROP DATABASE {connection.ops.quote_name(outdated)}")
            cursor.execute(f"CREATE DATABASE {TEMPLATE}")
            _migrate(TEMPLATE)
            cursor.execute(f"ALTER DATABASE {TEMPLATE} RENAME TO {name}")  # only a whole one has the digest
    return name


def migrated_dump() -> Path:
    """A file of SQL that fills an empty database as the migrations would: in a fraction of the time."""
    file = shared() / "migrated.sql"
    with once(file.name) as is_first:
        if is_first:
            template, copy = migrated_template(), f"{TEMPLATE}_dumped_{os.getpid()}"
            with connection._nodb_cursor() as cursor:  # of a copy: who reads the template keeps others from copying it
                cursor.execute(f"CREATE DATABASE {copy} TEMPLATE {template}")
                dump = run_program("pg_dump", copy)
                cursor.execute(f"DROP DATABASE {copy}")
            file.write_text(with_autovacuum(dump))
            file.chmod(0o644)
    return file


def with_autovacuum(dump: str) -> str:
    """What `pg_dump` printed of a test database, without what NO_AUTOVACUUM did."""
    return dump.replace("WITH (autovacuum_enabled=off)", "")


def run_program(name: str, *arguments: str, given: str = "", **at: object) -> str:
    """What one of PostgreSQL's own programs prints, connected to the server at `host`, `port` and `user`: to Django's,
    when they are not given."""
    place = at or connection.get_connection_params()
    command = [str(program_path(name)), "-h", str(place["host"]), "-p", str(place["port"]), "-U", str(place["user"])]
    return subprocess.run([*command, *arguments], input=given, capture_output=True, text=True, check=True).stdout


def migrations_digest() -> str:
    """Changes with any migration, ours or a package's, and with any version of a package."""
    digest = hashlib.sha256((ROOT / "requirements.txt").read_bytes())
    migrations = MigrationLoader(None).disk_migrations.values()
    modules = {sys.modules[type(migration).__module__] for migration in migrations} | {migration_operations}
    digest.update((NO_AUTOVACUUM + inspect.getsource(migrate)).encode())
    for file in sorted(str(module.__file__) for module in modules):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()[:12]


def _migrate(name: str) -> None:
    usual = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = name
    try:
        call_command("migrate", interactive=False, verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute(NO_AUTOVACUUM)
    finally:
        connection.close()
        connection.settings_dict["NAME"] = usual
