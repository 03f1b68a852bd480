"""Spaces that are not needed any more: their vectors go in batches, then their indexes, then they."""

from __future__ import annotations

from datetime import timedelta

from django.db import connection
from django.utils import timezone
from psycopg import sql

from openvibe.search.models import VectorSpace
from openvibe.search.tables import vector_tables

AT_ONCE = 5_000
"""Rows that are removed in one statement."""
STILL_USED = timedelta(seconds=30)
"""How long searches that began before go on finding its vectors."""
STILL_NAMED = timedelta(hours=2)
"""How long its row stays: a transaction that began before may still let texts wait for it."""
KEPT_DIMENSION = 256
"""The built-in embedder's, whose indexes are part of the tables."""


def retire(space: VectorSpace) -> None:
    """Take the space out of use. Its vectors are removed by `remove_retired`."""
    space.state = VectorSpace.State.RETIRED
    space.problem, space.failures = "", 0
    space.try_again_at = timezone.now()
    space.save(update_fields=["state", "problem", "failures", "try_again_at"])


def remove_retired() -> int:
    """Remove one batch of what each retired space has, and the spaces of which nothing is left. Rows removed."""
    now = timezone.now()
    retired = VectorSpace.objects.filter(state=VectorSpace.State.RETIRED)
    removed = 0
    for space in retired.filter(try_again_at__lte=now - STILL_USED):
        went = sum(table.remove(space.pk, AT_ONCE) for table in vector_tables())
        removed += went
        if not went and space.try_again_at and space.try_again_at <= now - STILL_NAMED:
            space.delete()
            _drop_indexes(space.dimension)
    return removed


def make_indexes(dimension: int) -> None:
    """The HNSW indexes of a dimension, made without stopping anybody; one left half made by a worker that died, anew.

    Outside a transaction, as PostgreSQL wants it. Long for many vectors.
    """
    if dimension == KEPT_DIMENSION:
        return
    for table in vector_tables():
        index = sql.Identifier(f"{table.index}_{dimension}")
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [f"{table.index}_{dimension}"]
            )
            found = cursor.fetchone()
            if found and not found[0]:
                cursor.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(index))
            cursor.execute(
                table.sql(
                    "CREATE INDEX CONCURRENTLY IF NOT EXISTS {index} ON {vectors}"
                    " USING hnsw ((own::halfvec({size})) halfvec_cosine_ops) WHERE dimension = {size}",
                    index=index,
                    size=sql.Literal(dimension),
                )
            )


def _drop_indexes(dimension: int) -> None:
    if dimension in (0, KEPT_DIMENSION) or VectorSpace.objects.filter(dimension=dimension).exists():
        return
    for table in vector_tables():
        name = sql.Identifier(f"{table.index}_{dimension}")
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(name))
