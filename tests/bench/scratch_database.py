"""A database of the bench's own, removed afterwards: nothing measured here stays in a workspace."""

import io
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any
from urllib.parse import quote, urlencode

import psutil
import psycopg
from django.db import connection
from psycopg import sql

DATABASE_PREFIX = "openvibe_bench_"


@contextmanager
def scratch_database() -> Iterator[None]:
    """Connects Django, inside, to an empty, migrated database on the same server."""
    usual = connection.settings_dict["NAME"]
    _drop_leftovers()
    connection.settings_dict["TEST"]["NAME"] = f"{DATABASE_PREFIX}{os.getpid()}_{secrets.token_hex(3)}"
    with redirect_stdout(io.StringIO()):  # a command inside says what it makes, and `--json` is to print JSON alone
        connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        yield
    finally:
        _end_other_sessions()
        connection.creation.destroy_test_db(usual, verbosity=0)


def _end_other_sessions() -> None:
    """Sessions of a server that was just stopped may outlive it by a moment, and hold the database."""
    with connect_bare() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def connect_bare() -> psycopg.Connection[Any]:
    """A plain psycopg connection to the database Django uses now, in autocommit: what floors are measured on."""
    parameters = connection.get_connection_params()
    parameter_names = ("host", "port", "user", "password", "dbname")
    return psycopg.connect(
        **{name: parameters[name] for name in parameter_names if parameters.get(name)}, autocommit=True
    )


def database_url() -> str:
    """DATABASE_URL of the database Django uses now, for a process of its own."""
    at = connection.get_connection_params()
    secret = f":{quote(at['password'], safe='')}" if at.get("password") else ""
    who = f"{quote(at['user'], safe='')}{secret}@" if at.get("user") else ""
    port = f":{at['port']}" if at.get("port") else ""
    options = f"?{urlencode({'host': at['host']})}" if at.get("host") else ""
    return f"postgres://{who}{port}/{quote(at['dbname'])}{options}"


def _drop_leftovers() -> None:
    """Drops the databases of benches that were killed."""
    with connect_bare() as connection:
        unused = connection.execute(
            "SELECT datname FROM pg_database WHERE datname LIKE %s AND NOT EXISTS"
            " (SELECT 1 FROM pg_stat_activity a WHERE a.datname = pg_database.datname)",
            [f"{DATABASE_PREFIX}%"],
        ).fetchall()
        for (name,) in unused:
            pid = str(name).removeprefix(DATABASE_PREFIX).partition("_")[0]
            if pid.isdigit() and not psutil.pid_exists(int(pid)):
                with suppress(psycopg.Error):
                    connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))
