"""Backups go from one version of PostgreSQL to another, and back."""

from pathlib import Path

import psycopg
import pytest

from openvibe.engines.database.embedded.server import ensure_server, release_server
from tests.operations.old_postgresql import DEBIAN_15, old_server
from tests.operations.processes import manage

VERSIONS = [16, *([15] if (DEBIAN_15 / "bin/postgres").exists() else [])]
TABLES = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
OWNERS = "SELECT DISTINCT tableowner::text FROM pg_tables WHERE schemaname = 'public'"


def rows(conninfo: str, statement: str) -> list[tuple[str, ...]]:
    with psycopg.connect(conninfo) as session:
        return session.execute(statement.encode()).fetchall()


def counts(conninfo: str) -> dict[str, str]:
    """Rows of every table."""
    tables = [name for (name,) in rows(conninfo, TABLES)]
    every = " UNION ALL ".join(f"SELECT '{name}', count(*)::text FROM public.{name}" for name in tables)
    return dict(rows(conninfo, every))  # type: ignore[arg-type]  # two columns each


def done(*arguments: str, var: Path, **settings: str) -> None:
    process = manage(*arguments, var=var, **settings)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_a_backup_goes_to_an_older_server_and_back(version: int, var: Path, furnished: None) -> None:
    first, second, back, elsewhere = var / "first.tar", var / "second.tar", var / "back", var / "elsewhere"
    server = ensure_server(var)
    try:
        done("backup", str(first), var=var)
        before = counts(server.conninfo())
    finally:
        release_server(var)
    with old_server(version, var / "old") as url:
        done("restore", str(first), var=elsewhere, DATABASE_URL=url)
        assert counts(url) == before
        assert rows(url, OWNERS) == [("openvibe",)]
        assert rows(url, "SELECT rolname::text FROM pg_roles WHERE rolname LIKE 'openvibe%'") == [("openvibe",)]
        assert rows(url, "SHOW server_version_num")[0][0].startswith(str(version))
        if version == 15:  # an operator's own, for monitoring say, which the next server does not have
            with psycopg.connect(url) as session:
                session.execute("CREATE EXTENSION pg_trgm")
        done("backup", str(second), var=elsewhere, DATABASE_URL=url)
    back.mkdir(mode=0o755)
    done("restore", str(second), var=back)
    server = ensure_server(back)
    try:
        assert counts(server.conninfo()) == before
    finally:
        release_server(back)
