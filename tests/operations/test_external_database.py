"""DATABASE_URL: everything, the queue included, lies in the server it names, and no embedded one is made."""

from pathlib import Path

import psycopg

from openvibe.engines.database.embedded.server import ensure_server, find_postmaster, release_server
from tests.operations.installation_template import prepare
from tests.operations.processes import manage, processes_of
from tests.operations.server import serving


def test_a_server_of_ones_own_is_served_from(var: Path, migrated_dump: Path) -> None:
    ours, theirs = var / "ours", var / "theirs"
    theirs.mkdir()
    prepare(theirs, migrated_dump)
    server = ensure_server(theirs)
    url = f"postgres://{server.user}@/openvibe?host={server.socket}"
    try:
        with serving(ours, DATABASE_URL=url) as serve:
            assert serve.status("/healthz") == 200
            serve.wait_for("ready.")
            doctor = manage("doctor", "--wait", "150", var=ours, DATABASE_URL=url)
            assert doctor.returncode == 0, doctor.stdout + doctor.stderr
            assert ", outside." in doctor.stdout
            assert serve.interrupt() == 0
        with psycopg.connect(server.conninfo()) as connection:
            row = connection.execute("SELECT count(*) FROM workspaces_workspace").fetchone()
        assert row == (1,)
        assert not (ours / "postgres").exists()
        assert processes_of(ours) == []
        assert find_postmaster(theirs / "postgres") is not None, "somebody else's server was stopped"
    finally:
        release_server(theirs)


def test_a_database_without_pgvector_and_without_leave_to_make_it_is_told_in_a_sentence(var: Path) -> None:
    ours, theirs = var / "ours", var / "theirs"
    theirs.mkdir()
    server = ensure_server(theirs)
    try:
        with psycopg.connect(server.conninfo("postgres"), autocommit=True) as connection:
            connection.execute("CREATE ROLE guest LOGIN")
            connection.execute("CREATE DATABASE bare")
        with psycopg.connect(server.conninfo("bare"), autocommit=True) as connection:
            connection.execute("GRANT ALL ON SCHEMA public TO guest")
        migrate = manage("migrate", var=ours, DATABASE_URL=f"postgres://guest@/bare?host={server.socket}")
    finally:
        release_server(theirs)
    assert migrate.returncode == 1
    assert "have a superuser run CREATE EXTENSION vector;" in migrate.stderr
    assert "Traceback" not in migrate.stderr
