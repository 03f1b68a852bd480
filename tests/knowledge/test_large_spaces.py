"""Where a workspace has more entries than are compared one by one, what a filter leaves is found all the same."""

import pytest
from django.db import connection

from knowledge.models import Entry, EntryVector
from knowledge.search import find_entries
from openvibe.search import candidates
from openvibe.search.query import parse_query
from openvibe.workspaces.models import Member
from tests.factories import access, make_entry

COPY_ENTRIES = """
INSERT INTO knowledge_entry ({columns})
SELECT {columns} FROM knowledge_entry, generate_series(1, %(copies)s) WHERE id = %(entry)s RETURNING id
"""
QUESTION = "rosebush"


def copy_entry(entry: Entry, copies: int) -> list[int]:
    """So many entries that say the same."""
    fields = [field for field in Entry._meta.concrete_fields if not field.primary_key and not field.generated]
    columns = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    with connection.cursor() as cursor:
        cursor.execute(COPY_ENTRIES.format(columns=columns), {"copies": copies, "entry": entry.pk})
        return [pk for (pk,) in cursor.fetchall()]


@pytest.mark.django_db
def test_what_a_filter_leaves_is_found_among_thousands_that_are_nearer(
    ana: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "MAX_EXACT_SCAN", 3_000)
    for cache in ("_space_sizes", "_statistics_cache"):  # what is counted here is of this test alone
        monkeypatch.setattr(candidates, cache, {})
    embedding = parse_query(ana.workspace_id, QUESTION).embedding
    assert embedding is not None
    nearest = embedding.vector
    farther = nearest.copy()
    farther[:128] = 0
    common, gap = make_entry(ana, "Opening hours"), make_entry(ana, "Deliveries", kind="gap")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # no triggers: tables with pending ones stay
        cursor.execute("DROP INDEX entry_vector_hnsw_256")
        rows = [*((pk, nearest) for pk in copy_entry(common, 4_000)), (gap.pk, farther / (farther @ farther) ** 0.5)]
        EntryVector.objects.bulk_create(
            EntryVector(space_id=embedding.space_id, entry_id=pk, dimension=256, own=own.tolist()) for pk, own in rows
        )
        cursor.execute(
            "CREATE INDEX entry_vector_hnsw_256 ON knowledge_entryvector"
            " USING hnsw ((own::halfvec(256)) halfvec_cosine_ops) WHERE dimension = 256"
        )
        cursor.execute("ANALYZE knowledge_entry, knowledge_entryvector")
    assert [hit.entry.pk for hit in find_entries(access(ana), QUESTION, kind="gap").hits] == [gap.pk]
