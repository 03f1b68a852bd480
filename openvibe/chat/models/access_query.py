"""Queries of what an access may see, compiled once in a process for all who are allowed the same."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from django.db.models import Model, QuerySet

from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing
from openvibe.chat.models.visibility import Visibility, visibility_of
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.workspaces.access import Access

Row = TypeVar("Row", bound=Model)
Key = TypeVar("Key", int, str)
MAX_COMPILED = 256
"""Statements of one query that are kept: one for each kind of access, and each length of a page."""


class AccessQuery:
    """Decorates `build(access, *arguments, **options)`, a query of what an access may see.

    It is compiled once in a process for each kind of access and its options, which are keyword-only. Arguments are
    numbers, or array literals of them."""

    def __init__(self, build: Callable[..., QuerySet[Any, Any]]) -> None:
        kinds = [parameter.kind for parameter in inspect.signature(build).parameters.values()]
        self._build = build
        self._argument_count = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) - 1
        self._compiled = lru_cache(maxsize=MAX_COMPILED)(self._compile)

    def rows(
        self, access: Access, *arguments: int | str, now: datetime | None = None, **options: object
    ) -> list[tuple[Any, ...]]:
        """The rows that `CompiledQuery.rows` gives."""
        return self._compiled(access.shape, **options).rows(*_asker_values(access), *arguments, now=now)

    def objects(
        self, access: Access, *arguments: int | str, now: datetime | None = None, **options: object
    ) -> list[Any]:
        """The objects that `CompiledQuery.objects` gives."""
        return self._compiled(access.shape, **options).objects(*_asker_values(access), *arguments, now=now)

    def _compile(self, shape: Access, **options: object) -> CompiledQuery:
        def build(
            workspace_id: int, participant_id: int, channels: int, threads: int, shut_out: int, *arguments: int
        ) -> Any:
            access = replace(shape, workspace_id=workspace_id, participant_id=participant_id, shut_out=str(shut_out))
            access.memo["visibility"] = Visibility(frozenset(), frozenset(), str(channels), str(threads))
            return self._build(access, *arguments, **options)

        return CompiledQuery(build, 5 + self._argument_count, optional_count=5)


def access_by(field: str, visible: Callable[[Access], QuerySet[Row]]) -> Callable[[Access, Key], Row]:
    """What looks up one row by a field of its own, a number or text, among those that `visible` lets the asker see. It
    raises Missing where there is none, or it is not among them.

    As `get_object_or_404(visible(access), …)`, but its SQL is made once: that takes longer than it runs. Without what
    `visible` prefetches."""
    query = AccessQuery(lambda access, key: visible(access).filter(**{field: key}))

    def access_row(access: Access, key: Key) -> Row:
        is_possible = key <= MAX_ID if isinstance(key, int) else "\x00" not in key
        rows: list[Row] = query.objects(access, key) if is_possible else []
        if not rows:
            raise Missing
        return rows[0]

    return access_row


def _asker_values(access: Access) -> tuple[int, int, str, str, str]:
    visibility = visibility_of(access)
    return access.workspace_id, access.participant_id, visibility.channels, visibility.threads, access.shut_out or "{}"
