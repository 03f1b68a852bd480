"""Choosing an embedder: vectors are made beside the old ones, and take their place when all are there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone
from psycopg import sql

from knowledge import search as knowledge_embedding
from knowledge.models import Entry
from openvibe.chat import wiring
from openvibe.chat.models import Message, MessageToEmbed, MessageVector, Thread
from openvibe.chat.wiring import MESSAGE_VECTORS
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.search import tasks
from openvibe.engines.search.embedder_choice import EmbedderChange, EmbedderRefused, try_embedder, use_embedder
from openvibe.engines.search.embedders import MultilingualEmbedder
from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.space_lifecycle import (
    ENDPOINT_DELETED,
    READ_GRACE_PERIOD,
    WRITE_GRACE_PERIOD,
    advance_spaces,
    diagnose_search,
    space_statuses,
)
from openvibe.engines.search.spaces import LOCAL_EMBEDDERS, clear_space_cache, embed_query, serving_space
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory
from tests.engines.search.fakes import FakeEmbedder, Trouble
from tests.factories import access, make_channel, make_thread, say

pytestmark = pytest.mark.usefixtures("fake_embedder")


def use(ana: Member, kind: str, endpoint: Endpoint | None = None) -> EmbedderChange:
    return use_embedder(workspace=ana.workspace, kind=kind, endpoint=endpoint, by=access(ana))


def spaces(ana: Member) -> list[tuple[str, str]]:
    rows = VectorSpace.objects.filter(workspace=ana.workspace).exclude(state="retired")
    return list(rows.order_by("-state").values_list("kind", "state"))


def make_all() -> None:
    wiring.embed_pending_messages()
    knowledge_embedding.embed_pending_entries()


def vectors_in(space: VectorSpace) -> list[int]:
    return list(MessageVector.objects.filter(space=space).order_by("seq").values_list("seq", flat=True))


@pytest.fixture
def talk(ana: Member, thread: Thread) -> list[Message]:
    """Three messages, with their vectors, and an entry."""
    said = [say(thread, ana, body) for body in ("When do we prune?", "In March.", "Thanks!")]
    me = ana.participant
    Entry.objects.create(workspace=ana.workspace, topic="Roses", content="March", tokens=1, author=me, owner=me)
    make_all()
    return said


def names_of_indexes() -> list[str]:
    """The indexes made for other embedders than the built-in one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexname FROM pg_indexes WHERE indexname ~ '_hnsw_(64|512)$' ORDER BY indexname")
        return [name for (name,) in cursor.fetchall()]


@pytest.fixture
def no_index_stays(transactional_db: None) -> Iterator[None]:
    """Emptying the tables between tests leaves their indexes; the next test here begins without them."""
    yield
    for name in names_of_indexes():
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))


def age(by: timedelta) -> None:
    """Lets all retired spaces have been so for this long."""
    VectorSpace.objects.filter(state="retired").update(try_again_at=timezone.now() - by)


@pytest.mark.usefixtures("no_index_stays")
def test_old_vectors_serve_until_all_new_ones_stand(
    ana: Member, thread: Thread, talk: list[Message], endpoint: Endpoint
) -> None:
    old = VectorSpace.objects.get(workspace=ana.workspace)

    change = use(ana, "openai", endpoint)

    assert change.message == (
        "small at https://models.example/v1: 4 texts wait for their vectors. The old vectors serve until all are made."
    )
    assert advance_spaces() == 0, "four texts wait"
    later = say(thread, ana, "And the hedge?")
    wiring.embed_pending_messages(limit=5)
    question = embed_query(ana.workspace_id, "When do we prune?")
    assert question is not None
    assert question.space_id == old.pk
    assert later.seq in vectors_in(old), "what is said meanwhile is in both"

    make_all()
    assert advance_spaces() == 1

    assert spaces(ana) == [("openai", "serving")]
    question = embed_query(ana.workspace_id, "When do we prune?")
    assert question is not None
    assert (question.space_id, question.dimension) == (change.space.pk, 64)
    assert vectors_in(change.space) == [1, 2, 3, 4]
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE indexname LIKE '%%_hnsw_64' ORDER BY indexname")
        entries, messages = [definition for (definition,) in cursor.fetchall()]
    assert "((own)::halfvec(64)) halfvec_cosine_ops) WHERE (dimension = 64)" in messages
    assert "knowledge_entryvector" in entries


@pytest.mark.usefixtures("no_index_stays")
def test_the_multilingual_embedder_takes_over_beside_the_old_vectors(ana: Member, talk: list[Message]) -> None:
    change = use(ana, "multilingual")
    assert change.space.dimension == 512
    make_all()
    assert spaces(ana) == [("static", "serving"), ("multilingual", "building")]
    assert advance_spaces() == 1

    found = knowledge_embedding.find_entries(access(ana), "Wann schneiden wir die Rosen?")
    assert [hit.entry.topic for hit in found.hits] == ["Roses"]
    assert names_of_indexes() == ["entry_vector_hnsw_512", "message_vector_hnsw_512"]
    assert use(ana, "static").changed
    make_all()
    advance_spaces()
    assert spaces(ana) == [("static", "serving")]


def test_an_embedder_that_is_not_installed_cannot_be_chosen_and_the_doctor_says_so(
    ana: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert diagnose_search() == ("search", "every text has its vector.", "")
    monkeypatch.setitem(LOCAL_EMBEDDERS, "multilingual", MultilingualEmbedder(package="not_there"))
    with pytest.raises(EmbedderRefused, match="Run `make multilingual` there"):
        use(ana, "multilingual")
    assert "not installed" in try_embedder(kind="multilingual").message
    assert diagnose_search()[2] == "", "nobody chose it"

    VectorSpace.objects.update(kind="multilingual", dimension=512)
    assert "Run `make multilingual` there" in diagnose_search()[2]
    clear_space_cache()
    assert embed_query(ana.workspace_id, "When do we prune?") is None


@pytest.mark.usefixtures("no_index_stays")
def test_vectors_of_a_retired_space_are_removed_then_its_index_then_it(
    ana: Member, talk: list[Message], endpoint: Endpoint
) -> None:
    change = use(ana, "openai", endpoint)
    make_all()
    advance_spaces()
    use(ana, "static")
    make_all()
    advance_spaces()

    assert vectors_in(change.space) == [1, 2, 3], "searches that began before still use them"
    age(READ_GRACE_PERIOD)
    advance_spaces()
    assert vectors_in(change.space) == []
    age(WRITE_GRACE_PERIOD)
    advance_spaces()

    assert [space.kind for space in VectorSpace.objects.all()] == ["static"]
    assert names_of_indexes() == []
    assert len(vectors_in(VectorSpace.objects.get())) == 3


@pytest.mark.usefixtures("no_index_stays")
def test_an_index_that_a_killed_worker_left_half_made_is_made_anew(
    ana: Member, talk: list[Message], endpoint: Endpoint
) -> None:
    use(ana, "openai", endpoint)
    make_all()
    with connection.cursor() as cursor:
        cursor.execute("CREATE INDEX message_vector_hnsw_64 ON chat_messagevector (id)")
        cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'message_vector_hnsw_64'::regclass")
        advance_spaces()
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'message_vector_hnsw_64'")
        assert "hnsw" in str(cursor.fetchone())


def test_the_same_embedder_again_changes_nothing(ana: Member, endpoint: Endpoint) -> None:
    assert use(ana, "static") == EmbedderChange(
        VectorSpace.objects.get(), False, "Built in (no network) is in use already. Nothing changed."
    )
    first = use(ana, "openai", endpoint)
    second_change = use(ana, "openai", endpoint)
    assert not second_change.changed
    assert second_change.space == first.space
    assert spaces(ana) == [("static", "serving"), ("openai", "building")]


def test_a_second_choice_takes_the_place_of_the_first(ana: Member, talk: list[Message], endpoint: Endpoint) -> None:
    first = use(ana, "openai", endpoint)
    other = EndpointFactory.create(workspace=ana.workspace, name="Large", base_url=endpoint.base_url, model="large")

    use(ana, "openai", other)

    assert spaces(ana) == [("static", "serving"), ("openai", "building")]
    first.space.refresh_from_db()
    assert first.space.state == "retired"
    assert wiring.embed_pending_messages(first.space.pk) == 0

    back = use(ana, "static")
    assert back.changed
    assert "stays in use" in back.message
    assert spaces(ana) == [("static", "serving")]


def test_none_serves_at_once_and_the_way_back_is_built(ana: Member, thread: Thread, talk: list[Message]) -> None:
    assert "by words alone" in use(ana, "none").message
    assert spaces(ana) == [("none", "serving")]
    assert embed_query(ana.workspace_id, "When do we prune?") is None
    say(thread, ana, "Anybody?")
    assert not MessageToEmbed.objects.filter(space__state="serving").exists()

    use(ana, "static")
    assert spaces(ana) == [("none", "serving"), ("static", "building")]
    make_all()
    tasks.advance_spaces_task()
    assert spaces(ana) == [("static", "serving")]
    assert vectors_in(VectorSpace.objects.get(state="serving")) == [1, 2, 3, 4]


def test_what_was_overlooked_is_found_before_a_space_serves(ana: Member, talk: list[Message]) -> None:
    use(ana, "none")
    change = use(ana, "static")
    MessageToEmbed.objects.all().delete()  # as if their transactions had begun before the space did

    knowledge_embedding.embed_pending_entries()
    assert advance_spaces() == 0
    assert MESSAGE_VECTORS.count_pending(change.space.pk) == 3
    make_all()
    assert advance_spaces() == 1


def test_only_admins_choose_and_only_what_can_be_chosen(
    ana: Member, dora: Member, cleo: Member, endpoint: Endpoint
) -> None:
    for stranger in (dora, cleo):
        with pytest.raises(EmbedderRefused):
            use_embedder(workspace=ana.workspace, kind="none", by=access(stranger))
    with pytest.raises(EmbedderRefused, match="no such embedder"):
        use(ana, "magic")
    with pytest.raises(EmbedderRefused, match="of this workspace"):
        use(ana, "openai")
    with pytest.raises(EmbedderRefused, match="of this workspace"):
        use(cleo, "openai", endpoint)
    endpoint.kind = "offline"
    with pytest.raises(EmbedderRefused, match="has no embeddings"):
        use(ana, "openai", endpoint)
    assert spaces(ana) == [("static", "serving")]
    assert use_embedder(workspace=ana.workspace, kind="none", by=None).changed


def building(ana: Member) -> VectorSpace:
    return VectorSpace.objects.get(workspace=ana.workspace, state="building")


def test_an_embedder_that_is_down_is_left_alone_for_longer_and_longer(
    ana: Member, talk: list[Message], endpoint: Endpoint, fake_embedder: FakeEmbedder
) -> None:
    use(ana, "openai", endpoint)
    fake_embedder.trouble = Trouble("It is on fire.")
    pauses = []
    for _ in range(3):
        assert wiring.embed_pending_messages() == 0
        assert wiring.embed_pending_messages() == 0, "not before it is time"
        space = building(ana)
        assert space.try_again_at is not None
        pauses.append((space.try_again_at - timezone.now()).total_seconds())
        VectorSpace.objects.filter(pk=space.pk).update(try_again_at=timezone.now())
    assert len(fake_embedder.asked) == 3
    assert pauses == sorted(pauses)
    assert 3 < pauses[0] < 7
    assert building(ana).problem == "It is on fire. Look at the endpoint."
    assert embed_query(ana.workspace_id, "When do we prune?") is not None, "the built-in one serves meanwhile"

    fake_embedder.trouble = None
    assert wiring.embed_pending_messages() == 3
    assert (building(ana).problem, building(ana).failures, building(ana).try_again_at) == ("", 0, None)


def test_what_failed_while_the_clock_was_ahead_is_tried_again(
    ana: Member, talk: list[Message], endpoint: Endpoint, fake_embedder: FakeEmbedder
) -> None:
    ahead = timezone.now() + timedelta(days=365)
    use(ana, "openai", endpoint)
    VectorSpace.objects.filter(state="building").update(try_again_at=ahead, failures=1, problem="It is on fire.")
    MessageToEmbed.objects.update(try_again_at=ahead)
    assert [(status.pending, status.set_aside) for status in space_statuses(ana.workspace_id)] == [(0, 0), (4, 0)]
    assert wiring.embed_pending_messages() == 3


def test_an_embedder_without_texts_that_failed_while_the_clock_was_ahead_is_asked_for_its_dimension(
    ana: Member, endpoint: Endpoint, fake_embedder: FakeEmbedder
) -> None:
    fake_embedder.dimension = 256
    use(ana, "openai", endpoint)
    VectorSpace.objects.filter(state="building").update(try_again_at=timezone.now() + timedelta(days=365))
    assert advance_spaces() == 1


def test_an_endpoint_that_asks_for_patience_gets_it(
    ana: Member, talk: list[Message], endpoint: Endpoint, fake_embedder: FakeEmbedder
) -> None:
    use(ana, "openai", endpoint)
    trouble = Trouble("Too often.")
    trouble.retry_after = 300.0
    fake_embedder.trouble = trouble
    wiring.embed_pending_messages()
    space = building(ana)
    assert space.try_again_at is not None
    assert (space.try_again_at - timezone.now()).total_seconds() > 290


def serve_by(ana: Member, endpoint: Endpoint, fake: FakeEmbedder) -> VectorSpace:
    """The endpoint's vectors in use, of the dimension whose index every installation has."""
    fake.dimension = 256
    use(ana, "openai", endpoint)
    make_all()
    assert advance_spaces() == 1
    return VectorSpace.objects.get(workspace=ana.workspace, state="serving")


def test_an_embedder_that_changes_its_dimension_mixes_nothing_up(
    ana: Member, thread: Thread, talk: list[Message], endpoint: Endpoint, fake_embedder: FakeEmbedder
) -> None:
    space = serve_by(ana, endpoint, fake_embedder)
    fake_embedder.dimension = 128
    say(thread, ana, "And the hedge?")

    assert wiring.embed_pending_messages() == 0

    space.refresh_from_db()
    assert "answers with 128 numbers a vector now, and these vectors have 256" in space.problem
    assert set(MessageVector.objects.filter(space=space).values_list("dimension", flat=True)) == {256}
    assert MESSAGE_VECTORS.count_pending(space.pk) == 1
    assert embed_query(ana.workspace_id, "Roses?") is None
    assert use(ana, "static").changed, "people can switch"


def test_an_embedder_with_more_numbers_than_can_be_searched_is_refused(
    ana: Member, talk: list[Message], endpoint: Endpoint, fake_embedder: FakeEmbedder
) -> None:
    fake_embedder.repeated = 100
    use(ana, "openai", endpoint)
    assert wiring.embed_pending_messages() == 0
    assert "have 6,400 numbers; at most 4,000 can be searched" in building(ana).problem


@pytest.mark.parametrize("change", [{"model": "large"}, {"base_url": "https://elsewhere.example/v1"}])
def test_an_endpoint_that_was_changed_is_another_embedder(
    ana: Member, talk: list[Message], endpoint: Endpoint, fake_embedder: FakeEmbedder, change: dict[str, str]
) -> None:
    old = serve_by(ana, endpoint, fake_embedder)
    Endpoint.objects.filter(pk=endpoint.pk).update(**change)

    advance_spaces()
    advance_spaces()

    assert spaces(ana) == [("openai", "serving"), ("openai", "building")]
    new = building(ana)
    assert MESSAGE_VECTORS.count_pending(new.pk) == 3
    make_all()
    assert advance_spaces() == 1
    old.refresh_from_db()
    assert old.state == "retired"
    assert {new.model, new.address} & set(change.values())


def test_an_endpoint_that_was_deleted_is_said(
    ana: Member, talk: list[Message], endpoint: Endpoint, fake_embedder: FakeEmbedder
) -> None:
    space = serve_by(ana, endpoint, fake_embedder)
    endpoint.delete()

    advance_spaces()

    space.refresh_from_db()
    assert space.problem == ENDPOINT_DELETED
    assert space.state == "serving"


def test_a_workspace_without_texts_changes_too(ana: Member, endpoint: Endpoint, fake_embedder: FakeEmbedder) -> None:
    use(ana, "openai", endpoint)
    fake_embedder.dimension = 256
    fake_embedder.trouble = Trouble("It is on fire.")
    assert advance_spaces() == 0
    assert advance_spaces() == 0
    assert len(fake_embedder.asked) == 1, "left alone"

    VectorSpace.objects.update(try_again_at=None)
    fake_embedder.trouble = None
    assert advance_spaces() == 1
    space = serving_space(ana.workspace_id)
    assert space is not None
    assert (space.kind, space.dimension, space.problem) == ("openai", 256, "")


def test_workspaces_do_not_touch_each_other(ana: Member, cleo: Member, talk: list[Message]) -> None:
    say(make_thread(make_channel(cleo), cleo), cleo, "Tulips")
    change = use(cleo, "none")
    back = use(cleo, "static")
    assert MESSAGE_VECTORS.count_pending(back.space.pk) == 1
    assert change.space.workspace_id == cleo.workspace_id
    assert spaces(ana) == [("static", "serving")]


def test_an_embedder_can_be_tried_before_it_is_chosen(
    ana: Member, endpoint: Endpoint, fake_embedder: FakeEmbedder
) -> None:
    good = try_embedder(kind="openai", endpoint=endpoint)
    assert good.ok
    assert "64 numbers a text" in good.message
    fake_embedder.trouble = Trouble("It is on fire.")
    bad = try_embedder(kind="openai", endpoint=endpoint)
    assert (bad.ok, bad.message) == (
        False,
        "small at https://models.example/v1 does not work: It is on fire. Look at the endpoint.",
    )
    assert not try_embedder(kind="magic").ok
    assert try_embedder(kind="none").ok
    assert try_embedder(kind="static").ok
