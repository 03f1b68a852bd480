"""Names that people read: one line without what cannot be seen, whichever door they come through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from openvibe.engines.text.cleaning import remove_invisible
from openvibe.engines.text.lookalikes import is_misleading_name, name_key

if TYPE_CHECKING:
    _Text = models.CharField[str, str]
    _Truth = models.BooleanField[bool, bool]
else:
    _Text, _Truth = models.CharField, models.BooleanField


class NameField(_Text):
    """A text that is stored as `remove_invisible` leaves it: saved, updated, restored from an archive or typed in a
    form. For the database it is any other text."""

    def clean(self, value: Any, model_instance: models.Model | None) -> Any:
        return super().clean(_visible(value), model_instance)

    def get_db_prep_save(self, value: Any, connection: BaseDatabaseWrapper) -> Any:
        return super().get_db_prep_save(_visible(value), connection)

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.CharField", args, kwargs


class NameKeyField(_Text):
    """What the row's `name` looks like (`lookalikes.name_key`), cut at `max_length`; written with every row."""

    def key_of(self, name: str) -> str:
        return name_key(remove_invisible(name))[: self.max_length]

    def pre_save(self, model_instance: Any, add: bool) -> str:
        model_instance.__dict__[self.attname] = key = self.key_of(model_instance.name)
        return key

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.CharField", args, kwargs


class MisleadingNameField(_Truth):
    """Whether the row's `name` reads as more than a name (`lookalikes.is_misleading_name`)."""

    def pre_save(self, model_instance: Any, add: bool) -> bool:
        model_instance.__dict__[self.attname] = is_misleading = is_misleading_name(model_instance.name)
        return is_misleading

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.BooleanField", args, kwargs


def _visible(value: Any) -> Any:
    return remove_invisible(value) if isinstance(value, str) else value
