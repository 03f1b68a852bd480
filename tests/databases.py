"""Databases beside the tests' own: made from a dump or from another, and looked at in its place."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.contenttypes.models import ContentType
from django.db import connection

from openvibe.engines.search import candidates
from openvibe.engines.search.spaces import clear_space_cache
from openvibe.runner.schema_upgrade import steps
from tests.run_once import run_program, with_autovacuum


def create_database(name: str, *, dump: str = "", template: str = "template0") -> None:
    drop_database(name)
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    if dump:
        run_program("psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", name, given=dump)


def drop_database(name: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def schema(database: str) -> str:
    """The schema as it is printed once it was dumped and restored: PostgreSQL then prints some conditions in other
    words."""
    name = f"schema_{os.getpid()}"
    create_database(name, dump=with_autovacuum(run_program("pg_dump", "--schema-only", "--no-owner", database)))
    printed = run_program("pg_dump", "--schema-only", "--no-owner", "--schema=public", "--restrict-key=same", name)
    drop_database(name)
    return printed


def convert_rows(app: str, migration: str) -> None:
    """Carries out what a migration of before the squash did to rows, and nothing of what it did to tables."""
    with connection.cursor() as cursor:
        for statement in steps()[app, migration].strip().split(";\n"):
            if statement.startswith(("UPDATE", "WITH", "INSERT", "DELETE")):
                cursor.execute(statement)


@contextmanager
def connected_to(name: str) -> Iterator[None]:
    """Connects Django meanwhile to this database; what was kept of the other one is forgotten."""
    usual = connection.settings_dict["NAME"]
    _connect(name)
    try:
        yield
    finally:
        _connect(usual)


def _connect(name: str) -> None:
    connection.close()
    connection.settings_dict["NAME"] = name
    ContentType.objects.clear_cache()
    candidates._statistics_cache.clear()
    clear_space_cache()
