"""Names that people read: one line without what cannot be seen, whichever door they come through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from openvibe.base.text import remove_invisible

if TYPE_CHECKING:
    _Text = models.CharField[str, str]
else:
    _Text = models.CharField


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


def _visible(value: Any) -> Any:
    return remove_invisible(value) if isinstance(value, str) else value
