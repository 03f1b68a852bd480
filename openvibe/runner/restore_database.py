"""The database of a backup, put in the place of the one there is."""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

import psycopg
from django.core.management.base import CommandError
from django.db import connection
from psycopg import sql

from openvibe.engines.database.embedded.programs import find_program, run_program
from openvibe.runner.dump_reader import ForeignStatement, read_statements

# All that is OpenVibe's, and no extension: its database's owner may use pgvector, and often not create it again.
DROP_EVERYTHING = """
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS pgmq CASCADE;
CREATE SCHEMA IF NOT EXISTS public;
DO $$
DECLARE command text;
BEGIN
    FOREACH command IN ARRAY ARRAY(
        SELECT format('DROP %s IF EXISTS %s CASCADE', kind, name)
        FROM (SELECT 1, 'TABLE', oid, oid::regclass::text FROM pg_class
              WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
              UNION ALL
              SELECT 2, 'SEQUENCE', oid, oid::regclass::text FROM pg_class  -- those of tables are gone by then
              WHERE relnamespace = 'public'::regnamespace AND relkind = 'S'
              UNION ALL
              SELECT 3, 'ROUTINE', oid, oid::regprocedure::text FROM pg_proc
              WHERE pronamespace = 'public'::regnamespace) AS ours (step, kind, oid, name)
        WHERE NOT EXISTS (SELECT FROM pg_depend WHERE objid = ours.oid AND deptype = 'e')
        ORDER BY step
    ) LOOP EXECUTE command;
    END LOOP;
END $$;
"""
QUEUE_SCHEMA = "pgmq"  # its functions are made anew; what waits in it is sent again by whoever looks after the rows
UNRESTORED_ENTRIES = (
    " SCHEMA - public ",
    " COMMENT - SCHEMA public ",
    " EXTENSION - ",
    " COMMENT - EXTENSION ",
    f" SCHEMA - {QUEUE_SCHEMA} ",
    f" ACL - SCHEMA {QUEUE_SCHEMA} ",
)
"""Entries that are not restored: whoever owns them says. Extensions are the server's: pgvector is there before, and
what else an operator put beside it (for monitoring, say) stays as it is."""
CHUNK_BYTES = 1024 * 1024


def restore_database(dump: Path, *, max_bytes: int) -> None:
    """Restores in one transaction: what was there goes only when all of it is back.

    What the dump says is carried out as far as `dump_reader` knows it, by this process and not by `psql`, and as a role
    without a superuser's rights, so that nothing of it reaches the machine.
    """
    listing = dump.with_name("restore.list")
    contents = run_program("pg_restore", "--list", str(dump)).splitlines()
    listing.write_text("\n".join(line for line in contents if not any(part in line for part in UNRESTORED_ENTRIES)))
    options = ("--no-owner", "--no-privileges", f"--exclude-schema={QUEUE_SCHEMA}", f"--use-list={listing}")
    try:
        with (
            psycopg.connect(**connection.get_connection_params()) as session,
            _script_of("pg_restore", *options, "--file=-", str(dump), max_bytes=max_bytes) as script,
        ):
            session.execute(DROP_EVERYTHING)
            session.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
            with _unprivileged_role(session):
                _carry_out(session, script)
    except ForeignStatement as error:
        raise CommandError(f"This backup was tampered with: {error}. Nothing was changed.") from None
    except psycopg.Error as error:
        reason = str(error).partition("\n")[0]
        raise CommandError(f"The database does not take the backup ({reason}). Nothing was changed.") from None


class _Script:
    """Lines of a dump's SQL, cut where they are longer than CHUNK_BYTES, and no more of them than may be."""

    def __init__(self, stream: IO[bytes], max_bytes: int) -> None:
        self._stream, self._max_bytes, self._bytes_left = stream, max_bytes, max_bytes

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        line = self._stream.readline(CHUNK_BYTES)
        if not line:
            raise StopIteration
        self._bytes_left -= len(line)
        if self._bytes_left < 0:
            raise CommandError(
                f"Unpacked, the backup is larger than {self._max_bytes / 1024**3:g} GiB. --max-gib allows more. "
                "Nothing was changed."
            )
        return line

    def rows(self) -> Iterator[bytes]:
        """The lines that follow a COPY, up to the one that ends them."""
        begins_line = True
        for line in self:
            if begins_line and line == b"\\.\n":
                return
            yield line
            begins_line = line.endswith(b"\n")
        raise CommandError("The backup ends in the middle of a table. Nothing was changed.")


@contextmanager
def _script_of(program: str, *arguments: str, max_bytes: int) -> Iterator[_Script]:
    """What the program prints, while it prints it. Raises CommandError where that fails in the end."""
    with tempfile.TemporaryFile() as errors:
        command = [find_program(program), *arguments]
        process = subprocess.Popen(command, env={**os.environ, "LC_ALL": "C"}, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdout is not None
        try:
            yield _Script(process.stdout, max_bytes)
            if process.wait():
                errors.seek(0)
                reason = errors.read(1000).decode(errors="replace").strip().partition("\n")[0]
                raise CommandError(f"{program} failed: {reason or process.returncode}. Nothing was changed.")
        finally:
            process.kill()
            process.stdout.close()
            process.wait()


def _carry_out(session: psycopg.Connection[Any], script: _Script) -> None:
    session.execute("SET LOCAL check_function_bodies = off; SET LOCAL client_min_messages = warning")
    session.execute("SELECT set_config('search_path', '', true), set_config('statement_timeout', '0', true)")
    session.execute("SET LOCAL standard_conforming_strings = on")
    with psycopg.Cursor(session) as cursor:
        for statement in read_statements(script):
            if not statement.rows:
                cursor.execute(statement.sql.encode(), binary=True)  # by the protocol that takes one statement alone
                continue
            with cursor.copy(statement.sql.encode()) as copy:
                for line in script.rows():
                    copy.write(line)


@contextmanager
def _unprivileged_role(session: psycopg.Connection[Any]) -> Iterator[None]:
    """Lets a superuser, as the embedded server's is, act meanwhile as a role that may make tables here and nothing
    else. It is gone with the transaction; what it made is the user's then. Any other user has no more rights than
    that."""
    is_superuser = session.execute("SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user").fetchone()
    if is_superuser != (True,):
        yield
        return
    role = sql.Identifier(f"openvibe_restore_{secrets.token_hex(8)}")
    for command in ("CREATE ROLE {} NOLOGIN", "GRANT USAGE, CREATE ON SCHEMA public TO {}", "SET LOCAL ROLE {}"):
        session.execute(sql.SQL(command).format(role))
    yield
    for command in ("RESET ROLE", "REASSIGN OWNED BY {} TO CURRENT_USER", "DROP OWNED BY {}", "DROP ROLE {}"):
        session.execute(sql.SQL(command).format(role))
