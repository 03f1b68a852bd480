"""What migrations that create many models are written with."""

from functools import cache
from typing import Any

from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import CreateModel
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from pgtrigger.compiler import Trigger, UpsertTriggerSql


def create_model(name: str, /, *, meta: dict[str, Any] | None = None, **fields: Any) -> CreateModel:
    """Returns the operation that creates a model, written as the model itself is: `fields` in the order of the columns,
    Django's own key unless one of them is the primary key, `meta` as in the class `Meta`."""
    if not any(field.primary_key for field in fields.values()):
        key = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")
        fields = {"id": key, **fields}
    return CreateModel(name, list(fields.items()), options=meta or {})


@cache
def known_migrations() -> frozenset[tuple[str, str]]:
    """Returns app and name of every migration on disk, and of those that they replace."""
    on_disk = MigrationLoader(None).disk_migrations
    return frozenset(on_disk) | {name for migration in on_disk.values() for name in migration.replaces}


def replaced(app: str, names: str) -> list[tuple[str, str]]:
    """Returns the migrations that a squashed one replaces, from their names with blanks between."""
    return [(app, name) for name in names.split()]


def trigger(pgid: str, table: str, when: str, operation: str, **others: str) -> Trigger:
    """Returns a trigger as pgtrigger compiles it for a migration. `pgid` is `pgtrigger_`, its name, and five digits."""
    name = pgid.removeprefix("pgtrigger_").rpartition("_")[0]
    return Trigger(name=name, sql=UpsertTriggerSql(pgid=pgid, table=table, when=when, operation=operation, **others))


class CreateModels(Operation):
    """Creates models that may refer to each other. Django alone renders every related model anew for each of them,
    which made up most of the time of a first `migrate`; here they are rendered once."""

    def __init__(self, *models: CreateModel) -> None:
        self.models = models

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        state.__dict__.pop("apps", None)  # a cached property: rendered when it is next asked for
        for model in self.models:
            model.state_forwards(app_label, state)

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        for model in self.models:
            model.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        for model in reversed(self.models):
            model.database_backwards(app_label, schema_editor, from_state, to_state)

    def describe(self) -> str:
        return f"Create models {', '.join(str(model.name) for model in self.models)}"
