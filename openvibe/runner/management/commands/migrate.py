"""Django's migrate, for databases of earlier versions, too, and several times as fast."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import Error, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import ProjectState

from openvibe.runner.bootstrap import require_adopted_migrations
from openvibe.runner.schema_upgrade import missing_steps, upgrade_schema

NO_PGVECTOR = (
    "The database has no pgvector, and it could not be created ({}). Install pgvector on the database server, have a "
    "superuser run CREATE EXTENSION vector; in this database, and migrate again."
)


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        using = options["database"]
        require_adopted_migrations(using)
        if options["plan"] or options["check_unapplied"]:
            if missing := missing_steps(using):
                self.stdout.write("\n".join(["Planned operations:", *(f"{app}.{name}" for app, name in missing)]))
                if options["check_unapplied"]:
                    sys.exit(1)
                return
        else:
            upgrade_schema(using)
        try:
            with single_model_rendering(), recorded_with_changes():
                super().handle(*args, **options)
        except Error as error:
            if "vector" in str(error) and "extension" in str(error):
                raise CommandError(NO_PGVECTOR.format(" ".join(str(error).split()))) from error
            raise


@contextmanager
def single_model_rendering() -> Iterator[None]:
    """Renders, of the models in Django's memory, only the one that a migration changes, and not the dozens that relate
    to it: a new database takes a sixth of the time.

    Those go on to point to what it was before, in the same table. Django does so itself for some changes, which it
    calls delayed: a migration that runs Python first has all models made anew. A test compares the schema with that
    of a database that was migrated as usual.
    """
    usual = ProjectState.reload_model

    def reload_alone(state: Any, app_label: str, model_name: str, delay: bool = False) -> None:
        if "apps" in vars(state):
            state.is_delayed = True
            state._reload({(app_label, model_name)})

    ProjectState.reload_model = reload_alone  # type: ignore[assignment,method-assign]  # Django offers no other way
    try:
        yield
    finally:
        ProjectState.reload_model = usual  # type: ignore[method-assign]  # Django's own again


@contextmanager
def recorded_with_changes() -> Iterator[None]:
    """Records a migration in the transaction that carries it out, and all that it replaces: Django does so afterwards,
    a row at a time, and a database of which it was killed in between could never be migrated again."""
    usual = MigrationExecutor.apply_migration

    def apply_and_record(self: MigrationExecutor, state: Any, migration: Any, **options: Any) -> Any:
        if not migration.atomic:
            return usual(self, state, migration, **options)
        with transaction.atomic(self.connection.alias):
            return usual(self, state, migration, **options)

    MigrationExecutor.apply_migration = apply_and_record  # type: ignore[assignment,method-assign]  # no other way
    try:
        yield
    finally:
        MigrationExecutor.apply_migration = usual  # type: ignore[method-assign]  # Django's own again
