"""The repair of summaries when messages change: the words go at once, and come back from what there is now."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from threading import Thread as Strand
from time import monotonic

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from memory.plugins.base import Rebuilder, Session
from memory.plugins.lcm.compaction import compact_conversation, rebuild_conversation
from memory.plugins.lcm.integrity import find_violations
from memory.plugins.lcm.models import STALE_CONTENT, Conversation, Summary
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.lcm.source_lines import strip_details
from memory.plugins.lcm.summary_sources import DELETED_CONTENT
from openvibe.base.problems import Problem
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message, replace_replies, update_message
from openvibe.engines.llm.errors import ModelUnavailable
from openvibe.engines.llm.values import ChatMessage
from openvibe.workspaces.models import Member
from tests.engines.llm.scripted_client import ScriptedAnswer, ScriptedModel, ScriptedReply
from tests.factories import access
from tests.memory.plugins.lcm.factories import condensed, leaf, taken_in, told

SECRET = "The gate code is four-seven-one-one."
ROSES = "Ana said to prune the roses in March, and to burn what was ill. " * 11 + "Ana said no more."
TEXT = "Prune the roses in March, before the buds open, and burn what was ill. " * 2


@pytest.fixture
def folded(thread: Thread, ana: Member) -> list[Summary]:
    """Two leaves and the condensed summary above them; message 3 holds the secret, and so do two summaries."""
    told(thread, ana.participant, TEXT, TEXT, f"{SECRET} {TEXT}", *[TEXT] * 27)
    conversation = taken_in(thread)
    below = [leaf(conversation, 1, 10, f"Ana told: {SECRET}"), leaf(conversation, 11, 20, ROSES)]
    return [*below, condensed(conversation, below, f"In short: {SECRET}")]


def contents() -> list[str]:
    texts = Summary.objects.order_by("first_seq", "depth").values_list("content", flat=True)
    return [strip_details(text) for text in texts]


def message(thread: Thread, seq: int) -> Message:
    return Message.objects.get(thread=thread, seq=seq)


def renew(session: Session, *replies: ScriptedReply) -> ScriptedModel:
    scripted_model = ScriptedModel(replies or ("They spoke of roses.",))
    rebuild_conversation(session, config={}, client=scripted_model)
    return scripted_model


def test_an_answer_that_was_replaced_is_in_no_summary(thread: Thread, folded: list[Summary], session: Session) -> None:
    replace_replies([message(thread, 3).pk])
    assert [content == STALE_CONTENT for content in contents()] == [True, True, False]
    scripted_model = renew(session)
    assert SECRET not in scripted_model.calls[0].messages[-1].content
    assert find_violations(thread.pk) == []


def test_deleted_text_is_in_no_summary_from_the_moment_it_is_deleted(
    thread: Thread, folded: list[Summary], ana: Member
) -> None:
    delete_message(message=message(thread, 3), by=access(ana))
    assert contents() == [STALE_CONTENT, STALE_CONTENT, ROSES]


def test_stale_summaries_are_rebuilt_from_the_leaves_upwards(
    thread: Thread, folded: list[Summary], session: Session, ana: Member
) -> None:
    update_message(message=message(thread, 3), by=access(ana), body="The gate has a new code.")
    new, short = "Ana has a new code for March.", "In March Ana has a new code and spoke of 10, 11 and 12 roses."
    asked = renew(session, new, short)
    assert contents() == [new, short, ROSES]
    shown = [call.messages[-1].content for call in asked.calls]
    assert "The gate has a new code." in shown[0]
    assert new in shown[1]
    assert not any(SECRET in text for text in shown)
    assert not Summary.objects.filter(stale=True).exists()
    assert find_violations(thread.pk) == []


def test_a_leaf_of_which_everything_was_deleted_says_so(
    thread: Thread, folded: list[Summary], session: Session, ana: Member
) -> None:
    for seq in range(1, 21):
        delete_message(message=message(thread, seq), by=access(ana))
    asked = renew(session)
    assert contents() == [DELETED_CONTENT] * 3
    assert asked.calls == []
    assert find_violations(thread.pk) == []


def test_what_little_is_left_stands_as_it_is(
    thread: Thread, folded: list[Summary], session: Session, ana: Member
) -> None:
    for seq in range(1, 10):
        delete_message(message=message(thread, seq), by=access(ana))
    update_message(message=message(thread, 10), by=access(ana), body="ok")
    renew(session)
    assert Summary.objects.get(pk=folded[0].pk).content == "ok"
    assert find_violations(thread.pk) == []


def test_nothing_stale_costs_one_query_and_asks_no_model(folded: list[Summary], session: Session) -> None:
    with CaptureQueriesContext(connection) as queries:
        asked = renew(session)
    assert len(queries) == 1
    assert asked.calls == []


def test_a_models_error_leaves_it_without_words_and_the_next_time_brings_them(
    thread: Thread, folded: list[Summary], session: Session, ana: Member
) -> None:
    delete_message(message=message(thread, 3), by=access(ana))
    with pytest.raises(Problem, match="It is away"):
        renew(session, ModelUnavailable("It is away."))
    assert contents()[:2] == [STALE_CONTENT, STALE_CONTENT]
    renew(session)
    assert STALE_CONTENT not in contents()


def test_an_edit_while_the_model_answers_is_read_again(
    thread: Thread, folded: list[Summary], session: Session, ana: Member
) -> None:
    delete_message(message=message(thread, 3), by=access(ana))

    def edit_then_answer(asked: Sequence[ChatMessage]) -> str:
        if "Harmless" not in asked[-1].content:
            update_message(message=message(thread, 4), by=access(ana), body="Harmless.")
        return f"Ana on roses in March: {'Harmless' in asked[-1].content}".lower()

    short = "In March Ana will prune the roses before the buds open."
    renew(session, edit_then_answer, edit_then_answer, short)
    assert contents() == ["ana on roses in march: true", short, ROSES]
    assert find_violations(thread.pk) == []


def test_compacting_rebuilds_first(thread: Thread, folded: list[Summary], session: Session, ana: Member) -> None:
    delete_message(message=message(thread, 3), by=access(ana))
    compact_conversation(session, 4_000, full=False, config={}, client=ScriptedModel(["They spoke of roses."]))
    assert STALE_CONTENT not in contents()
    assert find_violations(thread.pk) == []


def test_a_stale_summary_is_not_condensed_before_it_is_rebuilt(thread: Thread, session: Session, ana: Member) -> None:
    told(thread, ana.participant, *[TEXT] * 40)
    conversation = taken_in(thread)
    leaf(conversation, 1, 10)
    leaf(conversation, 11, 20)
    delete_message(message=message(thread, 3), by=access(ana))
    with pytest.raises(Problem):
        compact_conversation(session, 900, full=True, config={}, client=ScriptedModel([ModelUnavailable("Away.")]))
    assert not Summary.objects.filter(depth=1).exists()


def test_the_provider_knows_what_it_holds_and_what_waits(
    thread: Thread, folded: list[Summary], session: Session, ana: Member
) -> None:
    provider = LcmProvider({"summaries": "deterministic"})
    assert isinstance(provider, Rebuilder)
    assert provider.covers_message(message(thread, 3).pk)
    assert not provider.covers_message(message(thread, 25).pk)
    assert provider.threads_to_rebuild() == []
    delete_message(message=message(thread, 3), by=access(ana))
    assert provider.threads_to_rebuild() == [thread.pk]
    done = provider.rebuild(session)
    assert done.tokens_after != done.tokens_before
    assert provider.threads_to_rebuild() == []


@pytest.mark.django_db(transaction=True)
def test_a_deletion_while_a_condensed_summary_is_being_written_wipes_that_one_too(thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, f"{SECRET} {TEXT}", *[TEXT] * 29)
    conversation = taken_in(thread)
    below = [leaf(conversation, 1, 10, f"Ana told: {SECRET}"), leaf(conversation, 11, 20)]
    started = Event()

    def delete() -> None:
        started.set()
        delete_message(message=message(thread, 1), by=access(ana))
        connections.close_all()

    strand = Strand(target=delete)
    with transaction.atomic():
        Conversation.objects.select_for_update().get(pk=conversation.pk)
        strand.start()
        started.wait(10)
        given_up = monotonic() + 30
        while not waits_for_us():
            assert monotonic() < given_up, "the deletion does not wait"
        condensed(conversation, below, f"In short: {SECRET}")
    strand.join(30)
    assert not any(SECRET in content for content in contents())


def waits_for_us() -> bool:
    blocked = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid)))"
    with connection.cursor() as cursor:
        cursor.execute(blocked)
        return bool(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_a_deletion_during_a_rebuild_does_not_deadlock(
    thread: Thread, folded: list[Summary], session: Session, ana: Member
) -> None:
    delete_message(message=message(thread, 3), by=access(ana))
    reached, go_on = Event(), Event()

    def work() -> None:
        renew(session, ScriptedAnswer("They spoke of roses.", reached=reached, go_on=go_on), "They spoke of roses.")
        connections.close_all()

    strand = Strand(target=work)
    strand.start()
    assert reached.wait(30)
    delete_message(message=message(thread, 4), by=access(ana))
    go_on.set()
    strand.join(60)
    assert STALE_CONTENT not in contents()
    assert find_violations(thread.pk) == []
