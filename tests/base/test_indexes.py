"""Each index costs every row that is written: what the models want is there, and none that another one begins with."""

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import Model

OURS = ("openvibe.", "agents.", "memory.", "knowledge.")

# Plain b-trees of columns whose columns are the first ones of another whole index, in the same order of values. Nothing
# is lost without them: the other one is searched by its first columns alike.
COVERED_INDEXES = """
WITH btree AS (
    SELECT indrelid AS tbl, indexrelid AS id, indkey::text AS columns, indclass::text AS classes, indisunique,
        indpred IS NULL AND indexprs IS NULL AS is_whole
    FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE relam = (SELECT oid FROM pg_am WHERE amname = 'btree') AND indrelid = ANY(%s::regclass[])
)
SELECT one.id::regclass::text, other.id::regclass::text FROM btree one
JOIN btree other ON other.tbl = one.tbl AND other.id <> one.id AND other.is_whole
    AND starts_with(other.columns || ' ', one.columns || ' ') AND starts_with(other.classes || ' ', one.classes || ' ')
WHERE one.is_whole AND NOT one.indisunique AND (other.columns <> one.columns OR other.indisunique OR other.id < one.id)
"""


def our_models() -> list[type[Model]]:
    return [model for model in apps.get_models() if model.__module__.startswith(OURS)]


@pytest.mark.django_db
def test_no_index_is_covered_by_another() -> None:
    tables = [model._meta.db_table for model in our_models()]
    with connection.cursor() as cursor:
        cursor.execute(COVERED_INDEXES, [tables])
        covered = cursor.fetchall()
    assert covered == [], "a foreign key that begins another index wants db_index=False"


@pytest.mark.django_db
def test_every_constraint_and_index_of_the_models_stands_in_the_database() -> None:
    """A migration can drop one that the models still have: `AlterField` with `db_index=False` does, without a word."""
    with connection.cursor() as cursor:
        for model in our_models():
            wanted = {each.name for each in (*model._meta.constraints, *model._meta.indexes)}
            assert wanted <= set(connection.introspection.get_constraints(cursor, model._meta.db_table)), model
