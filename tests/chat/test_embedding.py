"""Messages get their vectors in the background, and lose them with their text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from django.db import connection, connections, transaction

from openvibe.chat import tasks
from openvibe.chat.models import Message, MessageToEmbed, MessageVector, Thread
from openvibe.chat.services import delete_message, update_message
from openvibe.chat.wiring import MESSAGE_VECTORS, embed_pending_messages
from openvibe.engines.database.locks import LockKind, lock_key
from openvibe.engines.search.embedders import StaticEmbedder
from openvibe.engines.search.indexing import BATCH_SIZE
from openvibe.engines.search.models import VectorSpace
from openvibe.workspaces.models import Member
from tests.engines.search.fakes import FakeEmbedder
from tests.factories import access, say

EMBEDDER = StaticEmbedder()


def vector_of(message: Message) -> MessageVector:
    return MessageVector.objects.get(message=message)


def alike(vector: Sequence[float] | None, text: str) -> bool:
    assert vector is not None
    return bool(np.allclose(vector, EMBEDDER.embed([text])[0], atol=2e-3))


def test_a_message_is_embedded_with_its_author_and_with_the_one_before(
    ana: Member, dora: Member, thread: Thread
) -> None:
    question, answered = say(thread, ana, "When do we prune?"), say(thread, dora, "In March.")

    assert embed_pending_messages() == 2

    first, second = vector_of(question), vector_of(answered)
    assert alike(first.own, "Ana: When do we prune?")
    assert first.pair is None
    assert alike(second.own, "Dora: In March.")
    assert alike(second.pair, "Ana: When do we prune?\nDora: In March.")
    assert (second.thread_id, second.seq, second.dimension) == (thread.pk, 2, 256)
    assert not MessageToEmbed.objects.exists()
    assert embed_pending_messages() == 0


def test_only_what_was_said_has_a_vector(ana: Member, thread: Thread) -> None:
    author = {"thread": thread, "author": ana.participant}
    Message.objects.create(**author, kind="system", body="Ana archived this")
    Message.objects.create(**author, kind="tool_result", body="42")
    writing = Message.objects.create(**author, state="writing", body="In")
    after = say(thread, ana, "And the hedge?")
    assert embed_pending_messages() == 1
    assert vector_of(after).pair is None

    Message.objects.filter(pk=writing.pk).update(body="In March.", state="complete")
    assert embed_pending_messages() == 2
    assert alike(vector_of(after).pair, "Ana: In March.\nAna: And the hedge?")


def test_an_edited_text_is_embedded_anew_in_its_own_vector_and_the_next_pair(ana: Member, thread: Thread) -> None:
    first, second, third = (say(thread, ana, body) for body in ("Prune in May", "Noted", "Thanks"))
    embed_pending_messages()

    update_message(message=first, by=access(ana), body="Prune in March")

    assert set(MessageVector.objects.values_list("message_id", flat=True)) == {third.pk}, "the old text is gone at once"
    assert embed_pending_messages() == 2
    assert alike(vector_of(first).own, "Ana: Prune in March")
    assert alike(vector_of(second).pair, "Ana: Prune in March\nAna: Noted")


def test_a_deleted_text_is_in_no_vector(ana: Member, thread: Thread) -> None:
    first, second = say(thread, ana, "The code is 1234"), say(thread, ana, "Noted")
    embed_pending_messages()

    delete_message(message=first, by=access(ana))
    embed_pending_messages()

    assert not MessageVector.objects.filter(message=first).exists()
    assert vector_of(second).pair is None


def test_what_is_deleted_while_it_waits_is_not_waited_for(ana: Member, thread: Thread) -> None:
    delete_message(message=say(thread, ana, "Never mind"), by=access(ana))

    assert embed_pending_messages() == 0
    assert not MessageToEmbed.objects.exists()


def test_secrets_are_not_in_vectors(ana: Member, thread: Thread) -> None:
    message = say(thread, ana, "The key is sk-0123456789abcdef0123456789")
    embed_pending_messages()
    assert alike(vector_of(message).own, "Ana: The key is [secret removed]")


@pytest.mark.parametrize("body", ["🌹", "a" * 100_000, "Roses " * 10_000, "%s {vectors} '; --", "修剪玫瑰"])
def test_any_text_can_be_embedded(ana: Member, thread: Thread, body: str) -> None:
    message = say(thread, ana, body)
    assert embed_pending_messages() == 1
    assert np.isfinite(vector_of(message).own).all()


def test_an_edit_while_the_embedder_thinks_is_not_lost(
    ana: Member, thread: Thread, fake_embedder: FakeEmbedder
) -> None:
    VectorSpace.objects.update(kind="openai", dimension=0)
    message = say(thread, ana, "Prune in May")
    fake_embedder.meanwhile = partial(update_message, message=message, by=access(ana), body="Prune in March")

    assert embed_pending_messages() == 1

    assert fake_embedder.asked == [["Ana: Prune in May"], ["Ana: Prune in March"]]
    assert vector_of(message).dimension == 64
    assert not MessageToEmbed.objects.exists()


def test_a_delete_while_the_embedder_thinks_leaves_no_vector(
    ana: Member, thread: Thread, fake_embedder: FakeEmbedder
) -> None:
    VectorSpace.objects.update(kind="openai", dimension=0)
    message, _ = say(thread, ana, "The code is 1234"), say(thread, ana, "Noted")
    fake_embedder.meanwhile = partial(delete_message, message=message, by=access(ana))

    assert embed_pending_messages() == 1

    assert MessageVector.objects.get().pair is None
    assert not MessageToEmbed.objects.exists()


def test_a_limit_is_kept_and_the_rest_waits(ana: Member, thread: Thread) -> None:
    for number in range(5):
        say(thread, ana, f"Row {number}")
    space = VectorSpace.objects.get(workspace=ana.workspace)

    assert embed_pending_messages(limit=2) == 2
    assert MESSAGE_VECTORS.count_pending(space.pk) == 3
    assert embed_pending_messages(seconds=0) == 0
    tasks.embed_messages()
    assert MESSAGE_VECTORS.count_pending(space.pk) == 0
    assert MESSAGE_VECTORS.count_vectors(space.pk) == 5


def test_more_than_a_batch_is_worked_off_in_order(ana: Member, thread: Thread) -> None:
    said = [Message(thread=thread, author=ana.participant, seq=at, body=f"Row {at}") for at in range(1, BATCH_SIZE + 4)]
    Message.objects.bulk_create(said)
    Thread.objects.filter(pk=thread.pk).update(last_seq=len(said))

    assert embed_pending_messages(limit=BATCH_SIZE) == BATCH_SIZE
    assert set(MessageToEmbed.objects.values_list("message__seq", flat=True)) == {
        BATCH_SIZE + 1,
        BATCH_SIZE + 2,
        BATCH_SIZE + 3,
    }
    assert embed_pending_messages() == 3
    assert MessageVector.objects.filter(pair=None).count() == 1


@pytest.mark.django_db(transaction=True)
def test_what_another_worker_is_at_is_left_to_it(ana: Member, thread: Thread) -> None:
    say(thread, ana, "Prune in March")
    space = VectorSpace.objects.get(workspace=ana.workspace)
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [lock_key(LockKind.MESSAGE_VECTORS, space.pk)])
            assert embed_pending_messages() == 0
            cursor.execute("SELECT pg_advisory_unlock_all()")  # a closed connection may hold it a moment longer
    finally:
        other.close()
    assert embed_pending_messages() == 1


@pytest.mark.django_db(transaction=True)
def test_a_worker_killed_before_it_stores_loses_nothing(ana: Member, thread: Thread) -> None:
    say(thread, ana, "Prune in March")
    with transaction.atomic():
        assert embed_pending_messages() == 1
        transaction.set_rollback(True)

    assert not MessageVector.objects.exists()
    assert embed_pending_messages() == 1


def test_the_index_of_the_tables_serves_vectors_of_messages(ana: Member, thread: Thread) -> None:
    say(thread, ana, "Prune in March")
    embed_pending_messages()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT id FROM chat_messagevector WHERE dimension = 256"
            " ORDER BY own::halfvec(256) <=> (SELECT own FROM chat_messagevector LIMIT 1)::halfvec(256) LIMIT 5"
        )
        assert "message_vector_hnsw_256" in str(cursor.fetchall())
