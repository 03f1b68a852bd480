"""Brings a database up that an earlier version made, to the tables that the squashed migrations make.

Each app has one set of tables since 2026-11-29, which replaces all migrations there were. A database that has them all
needs nothing: Django records the squashed ones in their place. One that has only some, from an earlier version, is
brought up by `schema_upgrade.sql`, which holds what each of them did as SQL, frozen: no code of ours or of a package
changes it. All or nothing: it is one transaction.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from django.core.management import CommandError
from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper
from django.db.migrations import Migration as BaseMigration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from pgtrigger.compiler import Trigger

from openvibe.engines.text.lookalikes import is_misleading_name, name_key

Migration = tuple[str, str]  # app label, name
Migrations = frozenset[Migration]

HEADING = re.compile(r"^-- (\w+)\.(\d{4}_\w+)$", re.MULTILINE)
APPS = frozenset({"agents", "api", "base", "chat", "knowledge", "lcm", "llm", "memory", "search", "workspaces"})
FRESH: Migrations = frozenset((app, "0001_initial") for app in APPS) | {("workspaces", "0002_invitation")}
"""The migrations that every database has which anybody used: they were begun afresh with these."""


@cache
def steps() -> Mapping[Migration, str]:
    """Returns the SQL of every migration after the first ones, in the order in which they are carried out."""
    _, *parts = HEADING.split(Path(__file__).with_suffix(".sql").read_text())
    return {(app, name): sql for app, name, sql in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


def missing_steps(using: str = "default") -> list[Migration]:
    """Returns what a database of an earlier version lacks; nothing for a new one, and for one of this version.

    Raises CommandError for one whose first migration was interrupted, by a version of before the squash.
    """
    applied = set(MigrationRecorder(connections[using]).applied_migrations())
    if applied >= FRESH:
        return [step for step in steps() if step not in applied]
    replaced = (set(migration.replaces) for migration in _squashed_migrations(MigrationLoader(None)).values())
    if any(names & applied and not names <= applied for names in replaced):
        raise CommandError(
            "An earlier version was interrupted while it made this database, so nobody ever used it. Nothing was "
            "changed. Delete the database, make an empty one, and come back."
        )
    return []


def upgrade_schema(using: str = "default") -> int:
    """Carries the missing steps out, records them and returns how many there were.

    Raises CommandError as `missing_steps` does, and django.db.Error.
    """
    if not missing_steps(using):
        return 0
    recorder = MigrationRecorder(connections[using])
    with transaction.atomic(using), connections[using].cursor() as cursor:
        cursor.execute("LOCK TABLE django_migrations IN SHARE ROW EXCLUSIVE MODE")
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # a table with rows that wait to be checked cannot be changed
        missing = missing_steps(using)  # none, where somebody else was faster
        for app, name in missing:
            if prepare := PREPARATIONS.get((app, name)):
                prepare(cursor)
            if sql := steps()[app, name].strip():
                cursor.execute(sql)
            recorder.record_applied(app, name)
        for trigger in _triggers() if missing else ():
            cursor.execute(trigger.install_sql)
    return len(missing)


def _write_name_keys(cursor: CursorWrapper) -> None:
    """Tells a step what PostgreSQL cannot: which names look alike."""
    cursor.execute("SELECT id, name FROM workspaces_participant")
    rows = [(pk, name_key(name)[:160], is_misleading_name(name)) for pk, name in cursor.fetchall()]
    cursor.execute(
        "CREATE TEMPORARY TABLE participant_name_keys (id bigint, name_key text, is_name_misleading boolean)"
        " ON COMMIT DROP"
    )
    cursor.executemany("INSERT INTO participant_name_keys VALUES (%s, %s, %s)", rows)


PREPARATIONS: Mapping[Migration, Callable[[CursorWrapper], None]] = {
    ("workspaces", "0012_names_that_look_alike"): _write_name_keys
}
"""What is done before a step that SQL alone cannot carry out."""


def _squashed_migrations(loader: MigrationLoader) -> dict[Migration, BaseMigration]:
    ours = APPS | {app for app, _ in steps()}
    return {key: each for key, each in loader.disk_migrations.items() if key[0] in ours and each.replaces}


def _triggers() -> Iterator[Trigger]:
    """Yields the triggers of the squashed migrations: a database may lack them, or have others of their names."""
    loader = MigrationLoader(None)
    for model in loader.project_state(list(_squashed_migrations(loader))).models.values():
        yield from model.options.get("triggers", [])
