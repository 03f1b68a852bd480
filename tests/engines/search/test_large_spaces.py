"""Large spaces: where there are more texts than are compared one by one, what a filter leaves is found all the same;
and a small workspace's own beside a large one."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest
from django.db import connection
from django.db.models import Model

from knowledge.models import EntryVector
from knowledge.search import find_entries
from openvibe.chat.models import MessageVector, Thread
from openvibe.chat.queries import search_messages
from openvibe.chat.search.workspace import best_messages
from openvibe.engines.search import candidates
from openvibe.engines.search.query import parse_query
from openvibe.engines.search.values import Floats
from openvibe.workspaces.models import Member, Workspace
from tests.factories import access, make_entry, make_member, say

pytestmark = pytest.mark.django_db
QUESTION = "rosebush"
COPY_ROW = """INSERT INTO {table} ({columns})
SELECT {values} FROM {table}, generate_series(1, %s) copy WHERE id = %s RETURNING id"""


@pytest.fixture(autouse=True)
def own_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted here is of one test alone, and a few thousand are many."""
    monkeypatch.setattr(candidates, "MAX_EXACT_SCAN", 3_000)
    for cache in ("_space_sizes", "_statistics_cache"):
        monkeypatch.setattr(candidates, cache, {})


def copy_row(row: Model, copies: int, **values: str) -> list[int]:
    """The ids of so many rows that say the same, but for `values`, which are SQL. No trigger fires from here on, after
    which a table could not be changed."""
    fields = [field for field in row._meta.concrete_fields if not field.primary_key and not field.generated]
    columns = {str(field.column): connection.ops.quote_name(str(field.column)) for field in fields}
    statement = COPY_ROW.format(
        table=row._meta.db_table,
        columns=", ".join(columns.values()),
        values=", ".join(values.get(name, quoted) for name, quoted in columns.items()),
    )
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement, [copies, row.pk])
        return [pk for (pk,) in cursor.fetchall()]


def near_and_far(workspace: Workspace) -> tuple[int, Floats, Floats]:
    """The workspace's space, the vector that is nearest to the question, and one that is farther from it."""
    embedding = parse_query(workspace.pk, QUESTION).embedding
    assert embedding is not None
    farther = embedding.vector.copy()
    farther[:128] = 0
    return embedding.space_id, embedding.vector, farther / np.float32(np.linalg.norm(farther))


def write_vectors(column: str, ids: Sequence[int], vector: EntryVector | MessageVector, **values: str) -> None:
    """Writes this vector for each of the texts, whose ids go into `column`; `values` as for `copy_row`."""
    first, *others = ids
    setattr(vector, column, first)
    vector.save()
    if others:
        copy_row(vector, len(others), **{column: f"('{{{','.join(map(str, others))}}}'::bigint[])[copy]", **values})


def index_vectors(index: str, texts: str, write: Callable[[], object]) -> None:
    """Makes the index anew of all vectors there are, when more were written."""
    model = EntryVector if texts == "knowledge_entry" else MessageVector
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX {index}")
        write()
        cursor.execute(
            f"CREATE INDEX {index} ON {model._meta.db_table}"
            " USING hnsw ((own::halfvec(256)) halfvec_cosine_ops) WHERE dimension = 256"
        )
        cursor.execute(f"ANALYZE {texts}")


def index_entries(*rows: tuple[int, Iterable[int], Floats]) -> None:
    """Each is a space, entries and their vector."""

    def write() -> None:
        for space, pks, own in rows:
            write_vectors("entry_id", list(pks), EntryVector(space_id=space, dimension=256, own=own.tolist()))

    index_vectors("entry_vector_hnsw_256", "knowledge_entry", write)


def test_a_filter_of_knowledge_is_not_lost_among_thousands_that_are_nearer(ana: Member) -> None:
    space, near, far = near_and_far(ana.workspace)
    common, gap = make_entry(ana, "Opening hours"), make_entry(ana, "Deliveries", kind="gap")
    index_entries((space, copy_row(common, 4_000), near), (space, [gap.pk], far))
    assert [hit.entry.pk for hit in find_entries(access(ana), QUESTION, kind="gap").hits] == [gap.pk]


def test_a_filter_of_messages_is_not_lost_among_thousands_that_are_nearer(ana: Member, thread: Thread) -> None:
    space, near, far = near_and_far(ana.workspace)
    dora = make_member("Dora", ana.workspace)
    common, wanted = say(thread, ana, "Opening hours"), say(thread, dora, "Deliveries")
    copies = copy_row(common, 4_000, seq="seq + 10 + copy")

    def write() -> None:
        for ids, own in ((copies, near), ([wanted.pk], far)):
            vector = MessageVector(space_id=space, thread=thread, seq=len(ids), dimension=256, own=own.tolist())
            write_vectors("message_id", ids, vector, seq="copy - 1")

    index_vectors("message_vector_hnsw_256", "chat_message", write)
    of_dora = search_messages(access(ana), "", author="dora")
    assert best_messages(access(ana), QUESTION, of_dora, are_few=True) == [wanted]
    assert best_messages(access(ana), QUESTION, of_dora) == [], "or this tells nothing of `are_few`"


def test_a_small_workspace_is_searched_among_thousands_of_another_that_are_nearer(
    ana: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "MAX_EXACT_SCAN", 10)
    other = make_member("Otto")
    space, near, far = near_and_far(ana.workspace)
    deliveries = make_entry(ana, "Deliveries")
    of_other = near_and_far(other.workspace)[0], copy_row(make_entry(other, "Hours"), 4_000), near
    index_entries(of_other, (space, [deliveries.pk, *copy_row(deliveries, 20)], far))
    (hit,) = find_entries(access(ana), QUESTION).hits
    assert (hit.entry.topic, len(hit.copies)) == ("Deliveries", 20)
