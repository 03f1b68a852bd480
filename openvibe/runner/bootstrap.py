"""Prepares the database before serving; does nothing again while nothing has changed.

The version before had 43 migrations, which were then begun afresh with one set of tables per app. Both made the same
schema, so a database of that version is adopted by exchanging rows of `django_migrations`; `schema_upgrade` brings it
and every later one up to this version."""

from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from openvibe.chat.services import push_key
from openvibe.engines.jobs.queue import install_queue
from openvibe.runner.schema_upgrade import APPS, FRESH, Migrations, missing_steps, upgrade_schema

BEFORE: Migrations = frozenset(
    (app, name)
    for app, names in {
        "agents": "0001_initial 0002_initial 0003_initial 0004_tool_calls 0005_tools_offered 0006_runs_in_thread"
        " 0007_knowledge_uses 0008_uses_of_knowledge",
        "api": "0001_initial 0002_initial",
        "base": "0001_initial 0002_event_position",
        "chat": "0001_initial 0002_initial 0003_changed_messages 0004_dives_and_vectors 0005_vectors_once_a_statement"
        " 0006_passages_of_long_messages 0007_signs_of_pairs 0008_dive_ended_by 0009_short_pending_list",
        "knowledge": "0001_initial 0002_compared_version 0003_passages_of_long_entries 0004_topics_in_any_case"
        " 0005_short_pending_list",
        "lcm": "0001_initial 0002_changed_messages 0003_changes_wait",
        "llm": "0001_initial 0002_initial 0003_endpoint_for_summaries",
        "memory": "0001_initial 0002_initial 0003_plugins_blocks_work 0004_compaction_note",
        "search": "0001_initial 0002_address 0003_search_embedders",
        "workspaces": "0001_initial 0002_workspace_has_vector_space 0003_spending 0004_background_calls",
    }.items()
    for name in names.split()
)


def count_unapplied_migrations() -> int:
    """Counts what `migrate` would carry out. Raises CommandError as `missing_steps` does."""
    if missing := missing_steps():
        return len(missing)  # Django reads no half of what a squashed migration replaces
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def prepare_database() -> None:
    """Tables and queue as this version expects them, also where the version before made them, and the key that signs
    pushes.

    Raises django.db.Error, and CommandError when the database is of no version that is known.
    """
    adopt_migrations()
    upgrade_schema()
    if count_unapplied_migrations():
        call_command("migrate", interactive=False, verbosity=0)
    install_queue()
    push_key()


def needs_adoption(using: str = "default") -> bool:
    """Whether the database records migrations that only the version before, or an older one, had."""
    return bool(_recorded_migrations(using) & (BEFORE - FRESH))


def adopt_migrations(using: str = "default") -> bool:
    """Records the fresh migrations instead of those of the version before; False when there is nothing to do.

    All or nothing. Raises CommandError when the database is not exactly as the version before left it.
    """
    if not needs_adoption(using):
        return False
    recorder = MigrationRecorder(connections[using])
    with transaction.atomic(using), connections[using].cursor() as cursor:
        cursor.execute("LOCK TABLE django_migrations IN SHARE ROW EXCLUSIVE MODE")
        if not needs_adoption(using):  # somebody else was faster
            return False
        recorded_migrations = _recorded_migrations(using)
        differences = [
            f"{verb} {', '.join(f'{app}.{name}' for app, name in sorted(migrations))}"
            for verb, migrations in (
                ("it lacks", BEFORE - recorded_migrations),
                ("it has", recorded_migrations - BEFORE),
            )
            if migrations
        ]
        if differences:
            raise CommandError(
                f"This database is not as the version before left it: {' and '.join(differences)}. Nothing was "
                "changed. Install the version before, run its `manage.py migrate`, and come back."
            )
        recorder.migration_qs.filter(app__in=APPS).delete()
        for app, name in sorted(FRESH):
            recorder.record_applied(app, name)
    return True


def require_adopted_migrations(using: str) -> None:
    """Raises CommandError while an adoption is due."""
    if needs_adoption(using):
        raise CommandError(
            "This database was made by the version before, whose migrations have other names. Nothing was changed. "
            "Run `manage.py adopt_migrations` once, then `manage.py migrate`."
        )


def _recorded_migrations(using: str) -> Migrations:
    applied_migrations = MigrationRecorder(connections[using]).applied_migrations()
    return frozenset((app, name) for app, name in applied_migrations if app in APPS)
