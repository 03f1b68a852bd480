"""Queries of what an access may see, compiled once in a process for all who are allowed the same."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import QuerySet

from openvibe.base.query_cache import CompiledQuery
from openvibe.chat.models.reach import Reach, reach_of
from openvibe.workspaces.access import Access

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
        """As `CompiledQuery.rows`."""
        return self._compiled(access.shape, **options).rows(*_asker_values(access), *arguments, now=now)

    def objects(
        self, access: Access, *arguments: int | str, now: datetime | None = None, **options: object
    ) -> list[Any]:
        """As `CompiledQuery.objects`."""
        return self._compiled(access.shape, **options).objects(*_asker_values(access), *arguments, now=now)

    def _compile(self, shape: Access, **options: object) -> CompiledQuery:
        def build(workspace_id: int, participant_id: int, channels: int, threads: int, *arguments: int) -> Any:
            access = replace(shape, workspace_id=workspace_id, participant_id=participant_id)
            access.memo["reach"] = Reach(frozenset(), frozenset(), str(channels), str(threads))
            return self._build(access, *arguments, **options)

        return CompiledQuery(build, 4 + self._argument_count)


def _asker_values(access: Access) -> tuple[int, int, str, str]:
    reach = reach_of(access)
    return access.workspace_id, access.participant_id, reach.channels, reach.threads
