"""A database of the version before, restored from a real dump of it, is carried over to the fresh migrations."""

import gzip
import os
import shutil
import tarfile
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.core.management.commands.migrate import Command as DjangoMigrate
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from pytest_django import DjangoDbBlocker
from pytest_django.fixtures import Settings

from openvibe.engines.database.migration_operations import known_migrations
from openvibe.runner.bootstrap import BEFORE, count_unapplied_migrations, prepare_database
from openvibe.runner.schema_upgrade import FRESH, steps, upgrade_schema
from tests.databases import connected_to, create_database, drop_database, schema
from tests.run_once import run_program

pytestmark = pytest.mark.django_db(transaction=True)  # where no test of a run has it, there is no test database
DUMP = Path(__file__).parent.parent / "data/version_before.sql.gz"  # pg_dump; most of its messages left out


@pytest.fixture(scope="module")
def fresh_schema(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> str:
    """The schema of the test database, which only ever saw the fresh migrations."""
    with django_db_blocker.unblock():
        return schema(connection.settings_dict["NAME"])


@pytest.fixture(scope="module")
def restored(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """The name of a database that the version before made and filled."""
    name = f"version_before_{os.getpid()}"
    with django_db_blocker.unblock():
        create_database(name, dump=gzip.decompress(DUMP.read_bytes()).decode())
        yield name
        drop_database(name)


@pytest.fixture
def old_database(restored: str, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """Connects Django meanwhile to a copy of it."""
    name = f"{restored}_copy"
    with django_db_blocker.unblock():
        create_database(name, template=restored)
        try:
            with connected_to(name):
                yield name
        finally:
            drop_database(name)


@pytest.fixture
def empty_database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """Connects Django meanwhile to it."""
    name = f"empty_{os.getpid()}"
    with django_db_blocker.unblock():
        create_database(name)
        try:
            with connected_to(name):
                yield name
        finally:
            drop_database(name)


class Interruption:
    """What is killed `before` it records this migration."""

    before: tuple[str, str] | None = None


@pytest.fixture
def interruption(monkeypatch: pytest.MonkeyPatch) -> Interruption:
    interruption, usual = Interruption(), MigrationRecorder.record_applied

    def record_applied(self: MigrationRecorder, app: str, name: str) -> None:
        if (app, name) == interruption.before:
            raise KeyboardInterrupt
        usual(self, app, name)

    monkeypatch.setattr(MigrationRecorder, "record_applied", record_applied)
    return interruption


DJANGO_TABLES = ("django_migrations", "django_content_type", "auth_permission")


def row_counts() -> dict[str, int]:
    """Rows of every table but those that Django fills by the migrations there are."""
    counts = {}
    with connection.cursor() as cursor:
        for table in sorted(connection.introspection.table_names(cursor)):
            if table not in DJANGO_TABLES:
                cursor.execute(f"SELECT count(*) FROM {table}")
                counts[table] = cursor.fetchone()[0]
    return counts


IMPORTED_BY_KEY = r"""SELECT thread_id, max(substring(client_id FROM '\d+$')::bigint) FROM chat_message
WHERE client_id LIKE 'import:%' GROUP BY 1 ORDER BY 1"""
IMPORTED_BY_COUNT = "SELECT id, imported_count FROM chat_thread WHERE imported_count > 0 ORDER BY 1"


def fetch(statement: str) -> list[tuple[int, int]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        rows: list[tuple[int, int]] = cursor.fetchall()
        return rows


def record() -> set[tuple[str, str]]:
    return set(MigrationRecorder(connection).applied_migrations())


def adopt() -> str:
    call_command("adopt_migrations", stdout=(output := StringIO()))
    return output.getvalue()


def test_what_the_version_before_made_becomes_what_a_fresh_migrate_makes(old_database: str, fresh_schema: str) -> None:
    rows = row_counts()
    assert rows["chat_message"] > 50
    imported = fetch(IMPORTED_BY_KEY)
    assert imported
    of_others = record() - BEFORE
    assert "was carried over" in adopt()
    assert record() == of_others | FRESH
    upgrade_schema()
    call_command(DjangoMigrate(), verbosity=0)  # the fresh schema was made with `single_model_rendering`
    assert count_unapplied_migrations() == 0
    assert {table: count for table, count in row_counts().items() if table in rows} == rows
    assert fetch(IMPORTED_BY_COUNT) == imported
    assert not fetch(IMPORTED_BY_KEY)
    assert schema(old_database) == fresh_schema
    carried_over = record()
    assert "Nothing to do" in adopt()
    assert record() == carried_over


def test_an_earlier_version_waits_for_what_it_lacks(old_database: str) -> None:
    adopt()
    before = record(), row_counts()
    call_command("migrate", plan=True, stdout=(output := StringIO()))
    assert "workspaces.0003_cached_tokens_unknown" in output.getvalue()
    with pytest.raises(SystemExit, match="1"):
        call_command("migrate", check_unapplied=True, stdout=StringIO())
    assert count_unapplied_migrations() == len(steps())
    assert (record(), row_counts()) == before


def test_an_upgrade_that_is_interrupted_changes_nothing(old_database: str, interruption: Interruption) -> None:
    adopt()
    before = record(), row_counts()
    interruption.before = next(reversed(list(steps())))
    with pytest.raises(KeyboardInterrupt):
        call_command("migrate", verbosity=0)
    assert (record(), row_counts()) == before
    interruption.before = None
    call_command("migrate", verbosity=0)
    assert count_unapplied_migrations() == 0


def test_a_first_migrate_that_is_interrupted_goes_on_where_it_was(
    empty_database: str, interruption: Interruption, fresh_schema: str
) -> None:
    """Django records what a migration replaces row by row, after its tables are there."""
    interruption.before = ("chat", "0007_reactions_saved_pins")
    with pytest.raises(KeyboardInterrupt):
        call_command("migrate", verbosity=0)
    interruption.before = None
    call_command("migrate", verbosity=0)
    assert count_unapplied_migrations() == 0
    assert schema(empty_database) == fresh_schema


def test_a_first_migrate_that_an_earlier_version_left_half_done_is_named(empty_database: str) -> None:
    recorder = MigrationRecorder(connection)
    recorder.ensure_schema()
    recorder.record_applied("base", "0001_initial")
    for attempt in (count_unapplied_migrations, prepare_database, lambda: call_command("migrate", verbosity=0)):
        with pytest.raises(CommandError, match="Delete the database"):
            attempt()
    assert record() == {("base", "0001_initial")}


def test_migrate_stops_before_it_and_names_the_command(old_database: str) -> None:
    before = record(), row_counts()
    with pytest.raises(CommandError, match=r"manage\.py adopt_migrations"):
        call_command("migrate", verbosity=0)
    assert (record(), row_counts()) == before


def test_serving_adopts_by_itself(old_database: str) -> None:
    prepare_database()
    assert record() >= FRESH
    assert count_unapplied_migrations() == 0


def test_a_backup_is_restored_and_brought_up_to_this_version(
    old_database: str, tmp_path: Path, settings: Settings
) -> None:
    settings.VAR, settings.HOME = tmp_path, tmp_path / "home"
    file, skill = tmp_path / "all.tar", tmp_path / "home/workspaces/vibe/SOUL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Calm.")
    rows = row_counts()
    call_command("backup", str(file), stdout=StringIO())
    assert file.stat().st_mode & 0o777 == 0o600
    skill.unlink()
    for said, damaged in damaged_backups(file):
        with pytest.raises(CommandError, match=said):
            call_command("restore", str(damaged), replace=True)
    with pytest.raises(CommandError, match="--replace"):
        call_command("restore", str(file))
    assert row_counts() == rows
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE chat_message CASCADE")
    call_command("restore", str(file), replace=True, stdout=StringIO())
    assert {table: count for table, count in row_counts().items() if table in rows} == rows
    assert count_unapplied_migrations() == 0
    assert skill.read_text() == "Calm."


def test_who_owns_a_database_and_nothing_else_restores_it(
    old_database: str, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a role may use pgvector, and not create it."""
    settings.VAR, settings.HOME = tmp_path, tmp_path / "home"
    file, owner, owned = tmp_path / "all.tar", f"owner_{os.getpid()}", f"{old_database}_owned"
    rows = row_counts()
    call_command("backup", str(file), stdout=StringIO())
    create_database(
        owned, dump=f"CREATE EXTENSION vector; CREATE ROLE {owner}; ALTER DATABASE {owned} OWNER TO {owner}"
    )
    monkeypatch.setenv("PGOPTIONS", f"-c role={owner}")
    monkeypatch.setitem(connection.settings_dict, "NAME", owned)
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {"options": f"-c role={owner}"})
    connection.close()
    try:
        for replace in (False, True):
            call_command("restore", str(file), replace=replace, stdout=StringIO())
            assert {table: count for table, count in row_counts().items() if table in rows} == rows
    finally:
        connection.close()
        monkeypatch.undo()
        drop_database(owned)
        run_program("psql", "-q", "-d", old_database, given=f"DROP ROLE {owner}")


def damaged_backups(whole: Path) -> Iterator[tuple[str, Path]]:
    """What may be taken for a backup, and what is said of each."""
    damaged = whole.with_name("damaged.tar")
    for content in (b"", b"<html>", whole.read_bytes()[:20_000]):
        damaged.write_bytes(content)
        yield "Nothing was changed", damaged
    for name, said in (("home/../../elsewhere", "outside|no backup|damaged"), ("/etc/elsewhere", "no backup")):
        shutil.copy(whole, damaged)
        with tarfile.open(damaged, "a") as tar:
            tar.addfile(tarfile.TarInfo(name))
        yield said, damaged


def test_a_database_that_is_older_still_is_left_alone(old_database: str) -> None:
    MigrationRecorder(connection).record_unapplied("memory", "0004_compaction_note")
    before = record()
    with pytest.raises(CommandError, match=r"lacks memory\.0004_compaction_note.*version before"):
        adopt()
    assert record() == before


@pytest.mark.django_db
def test_a_fresh_database_has_nothing_to_adopt() -> None:
    before = record()
    assert "Nothing to do" in adopt()
    assert record() == before


def test_no_migration_has_a_name_by_which_the_version_before_is_known() -> None:
    assert known_migrations() >= FRESH
    assert not known_migrations() & (BEFORE - FRESH)
