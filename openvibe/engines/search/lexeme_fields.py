"""Columns of lexemes: a tsvector made from other fields whenever a row is saved, and a trigger for whoever writes
past that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pgtrigger
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Func, Value

from openvibe.engines.search.lexemes import VERSION, make_tsvector

if TYPE_CHECKING:
    _SmallInteger = models.PositiveSmallIntegerField[int, int]
else:
    _SmallInteger = models.PositiveSmallIntegerField


class LexemesField(models.Field):  # type: ignore[type-arg]  # takes none when it runs
    """The tsvector of other fields of the row, made by our own tokenizer whenever the row is saved.

    `sources` names each of these fields and the weights of what it says (`lexemes.HEADING`, `BODY`). What is written
    past `save` (an update, COPY) loses its lexemes by a trigger, and gets new ones by the job `lexeme_backfill`.
    """

    def __init__(self, *args: Any, sources: Mapping[str, str] = MappingProxyType({}), **kwargs: Any) -> None:
        self.sources = dict(sources)
        super().__init__(
            *args, **{"editable": False, "default": "", "db_default": Value("", models.TextField()), **kwargs}
        )

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        name, path, args, kwargs = super().deconstruct()
        for made in ("editable", "default", "db_default"):
            kwargs.pop(made, None)
        return name, path, args, {**kwargs, "sources": self.sources}

    @property
    def db_returning(self) -> bool:
        """False: what is made here need not be read back."""
        return False

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "tsvector"

    def get_placeholder(self, value: Any, compiler: Any, connection: Any) -> str:
        return "%s::tsvector"

    def pre_save(self, model_instance: models.Model, add: bool) -> str:
        lexemes = make_tsvector(
            *((str(getattr(model_instance, name) or ""), weights) for name, weights in self.sources.items())
        )
        setattr(model_instance, self.attname, lexemes)
        return lexemes


class LexemesVersionField(_SmallInteger):
    """The version of the tokenizer that made the lexemes of the row; 0 where they wait to be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"editable": False, "default": 0, "db_default": 0, **kwargs})

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        name, path, args, kwargs = super().deconstruct()
        for made in ("editable", "default", "db_default"):
            kwargs.pop(made, None)
        return name, path, args, kwargs

    def pre_save(self, model_instance: models.Model, add: bool) -> int:
        setattr(model_instance, self.attname, VERSION)
        return VERSION


def loses_lexemes(*columns: str, writing_state: str = "") -> pgtrigger.Trigger:
    """A trigger: whoever changes what a row says, and makes no lexemes of it, leaves them to the background job.

    `writing_state`: the `state` of a row whose text is still being written, which waits until it is done.
    """
    is_changed = " OR ".join(f"NEW.{column} IS DISTINCT FROM OLD.{column}" for column in columns)
    is_settled = " AND ".join(f"NEW.{column} = ''" for column in columns)
    if writing_state:
        is_changed += f" OR (OLD.state = '{writing_state}' AND NEW.state <> '{writing_state}')"
        is_settled += f" OR NEW.state = '{writing_state}'"
    return pgtrigger.Trigger(
        name="loses_lexemes",
        operation=pgtrigger.UpdateOf(*columns, *(["state"] if writing_state else [])),
        when=pgtrigger.Before,
        condition=pgtrigger.Condition(f"(({is_changed}) AND NEW.search IS NOT DISTINCT FROM OLD.search)"),
        func=(
            f"IF {is_settled} THEN NEW.search := ''; NEW.lexemes_version := {VERSION};"
            " ELSE NEW.lexemes_version := 0; END IF; RETURN NEW;"
        ),
    )


def matches_tsquery(column: str, tsquery: str) -> BooleanExpression:
    """The condition that a tsvector of the row matches this tsquery, for `filter`."""
    return BooleanExpression(
        F(column), Value(tsquery, models.TextField()), template="%(expressions)s::tsquery", arg_joiner=" @@ "
    )


class BooleanExpression(Func):
    output_field = models.BooleanField()
