"""The bulk build of an index: after an import the HNSW index is built of all vectors at once; searches are answered
meanwhile, and a killed worker leaves nothing that the next round does not mend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from openvibe.chat.models import Message, MessageVector, Thread
from openvibe.chat.search.workspace import best_messages
from openvibe.chat.services import ImportedLine, ImportedThread, import_thread
from openvibe.chat.wiring import MESSAGE_VECTORS, embed_pending_messages
from openvibe.engines.search import candidates, indexing
from openvibe.engines.search.space_lifecycle import advance_spaces
from openvibe.workspaces.models import Member
from tests.factories import access, say

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def small_numbers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Numbers so small that as many as a test can write are many; the index stands again for whoever comes next."""
    monkeypatch.setattr(indexing, "MAX_INSERTED_VECTORS", 5)
    monkeypatch.setattr(candidates, "MAX_EXACT_SCAN", 3)
    yield
    if not MESSAGE_VECTORS.corpus.has_index(256):
        MESSAGE_VECTORS.build_index(256)


@pytest.fixture
def imported(thread: Thread) -> Thread:
    lines = [ImportedLine("Mara", f"The roses on roof {n} are pruned in March") for n in range(12)]
    return import_thread(channel=thread.channel, imported=ImportedThread("talk", "A talk", lines)).thread


def found_by_meaning(ana: Member) -> int:
    visible = Message.objects.visible_to(access(ana)).select_related("thread__channel", "author")
    return len(best_messages(access(ana), "rosebush", visible))


def test_many_that_wait_are_indexed_together(ana: Member, imported: Thread) -> None:
    assert MESSAGE_VECTORS.corpus.has_index(256)
    embed_pending_messages(limit=8)
    assert not MESSAGE_VECTORS.corpus.has_index(256), "most vectors were still to be made"
    assert found_by_meaning(ana) == 8, "what has its vector is found without the index"

    advance_spaces()
    assert MESSAGE_VECTORS.corpus.has_index(256)
    embed_pending_messages()
    assert found_by_meaning(ana) == 12


def test_it_is_not_built_while_many_wait(ana: Member, imported: Thread) -> None:
    embed_pending_messages(limit=1)
    advance_spaces()
    assert not MESSAGE_VECTORS.corpus.has_index(256)
    assert found_by_meaning(ana) == 1


def test_few_that_wait_go_into_the_index_that_stands(ana: Member, thread: Thread, imported: Thread) -> None:
    embed_pending_messages()
    advance_spaces()
    for number in range(8):
        say(thread, ana, f"Tulips {number}")
    embed_pending_messages()
    assert MESSAGE_VECTORS.corpus.has_index(256), "more vectors stand than waited"
    assert MessageVector.objects.count() == 20


def test_an_index_left_half_made_is_built_again(ana: Member, imported: Thread) -> None:
    embed_pending_messages()
    advance_spaces()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'message_vector_hnsw_256'::regclass")
    assert not MESSAGE_VECTORS.corpus.has_index(256)
    advance_spaces()
    assert MESSAGE_VECTORS.corpus.has_index(256)
    assert found_by_meaning(ana) == 12
