"""Where a workspace has more entries than are compared one by one, what a filter leaves is found all the same; and a
small workspace's own beside a large one."""

from collections.abc import Sequence

import numpy as np
import pytest
from django.db import connection

from knowledge.models import Entry, EntryVector
from knowledge.search import find_entries
from openvibe.search import candidates
from openvibe.search.query import parse_query
from openvibe.search.values import Floats
from openvibe.workspaces.models import Member, Workspace
from tests.factories import access, make_entry, make_member

COPY_ENTRIES = """
INSERT INTO knowledge_entry ({columns})
SELECT {columns} FROM knowledge_entry, generate_series(1, %(copies)s) WHERE id = %(entry)s RETURNING id
"""
QUESTION = "rosebush"


def copy_entry(entry: Entry, copies: int) -> list[int]:
    """So many entries that say the same; no trigger fires from here on, after which a table could not be changed."""
    fields = [field for field in Entry._meta.concrete_fields if not field.primary_key and not field.generated]
    columns = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(COPY_ENTRIES.format(columns=columns), {"copies": copies, "entry": entry.pk})
        return [pk for (pk,) in cursor.fetchall()]


@pytest.fixture(autouse=True)
def own_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted here is of one test alone."""
    for cache in ("_space_sizes", "_statistics_cache"):
        monkeypatch.setattr(candidates, cache, {})


def near_and_far(workspace: Workspace) -> tuple[int, Floats, Floats]:
    """The workspace's space, the vector that is nearest to the question, and one that is farther from it."""
    embedding = parse_query(workspace.pk, QUESTION).embedding
    assert embedding is not None
    farther = embedding.vector.copy()
    farther[:128] = 0
    return embedding.space_id, embedding.vector, farther / np.float32(np.linalg.norm(farther))


def index_vectors(rows: Sequence[tuple[int, int, Floats]]) -> None:
    """Make these vectors, of spaces and entries, and the index anew of all of them."""
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX entry_vector_hnsw_256")
        EntryVector.objects.bulk_create(
            EntryVector(space_id=space, entry_id=pk, dimension=256, own=own.tolist()) for space, pk, own in rows
        )
        cursor.execute(
            "CREATE INDEX entry_vector_hnsw_256 ON knowledge_entryvector"
            " USING hnsw ((own::halfvec(256)) halfvec_cosine_ops) WHERE dimension = 256"
        )
        cursor.execute("ANALYZE knowledge_entry, knowledge_entryvector")


@pytest.mark.django_db
def test_what_a_filter_leaves_is_found_among_thousands_that_are_nearer(
    ana: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "MAX_EXACT_SCAN", 3_000)
    space, near, far = near_and_far(ana.workspace)
    common, gap = make_entry(ana, "Opening hours"), make_entry(ana, "Deliveries", kind="gap")
    index_vectors([*((space, pk, near) for pk in copy_entry(common, 4_000)), (space, gap.pk, far)])
    assert [hit.entry.pk for hit in find_entries(access(ana), QUESTION, kind="gap").hits] == [gap.pk]


@pytest.mark.django_db
def test_a_small_workspace_is_searched_among_thousands_of_another_that_are_nearer(
    ana: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "MAX_EXACT_SCAN", 10)
    other = make_member("Otto")
    space, near, far = near_and_far(ana.workspace)
    of_other = [(near_and_far(other.workspace)[0], pk, near) for pk in copy_entry(make_entry(other, "Hours"), 4_000)]
    deliveries = make_entry(ana, "Deliveries")
    index_vectors([*of_other, *((space, pk, far) for pk in [deliveries.pk, *copy_entry(deliveries, 20)])])
    (hit,) = find_entries(access(ana), QUESTION).hits
    assert (hit.entry.topic, len(hit.copies)) == ("Deliveries", 20)
