"""Compaction among failing models, edits, kills and other workers: nothing goes wrong on the way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from threading import Event
from threading import Thread as Strand
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import Agent
from memory.plugins.base import Session
from memory.plugins.compaction import find_pause
from memory.plugins.lcm.assembly import session_stats
from memory.plugins.lcm.compaction import needs_compaction
from memory.plugins.lcm.integrity import find_violations
from memory.plugins.lcm.models import Conversation, EndpointFailures, Summary, SummaryMessage
from memory.plugins.lcm.provider import LcmProvider
from openvibe.base.problems import Problem
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message, update_message
from openvibe.engines.llm.errors import ModelUnavailable
from openvibe.engines.llm.values import ChatMessage
from openvibe.workspaces.models import Member
from tests.engines.llm.scripted_client import ScriptedAnswer
from tests.factories import access, make_thread, say
from tests.memory.plugins.lcm.compactions import BUDGET, GOOD, NOW, TEXT, depths, fold, items, model
from tests.memory.plugins.lcm.factories import session_of, told

# --- the model and the database -------------------------------------------------------------------------------------


def test_the_model_is_never_called_inside_a_transaction(long: Thread, session: Session) -> None:
    model_client = model()
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        fold(session, model_client)
    assert model_client.calls == []


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_the_model_answers(long: Thread, session: Session) -> None:
    open_ones: list[bool] = []

    def answer(_: Sequence[ChatMessage]) -> str:
        open_ones.append(connection.in_atomic_block)
        return GOOD

    fold(session, model(answer), full=True)
    assert open_ones
    assert not any(open_ones)


def rows_of(thread: Thread) -> tuple[Any, ...]:
    return (
        items(thread),
        list(Summary.objects.order_by("pk").values_list("pk", "content")),
        SummaryMessage.objects.count(),
        Conversation.objects.get(thread=thread).version,
    )


def test_a_models_error_writes_nothing_and_says_why(long: Thread, session: Session) -> None:
    needs_compaction(session, BUDGET, {})
    before = rows_of(long)
    with pytest.raises(Problem, match="It is away") as error:
        fold(session, model(ModelUnavailable("It is away.")))
    assert error.value.code == "compaction_failed"
    assert rows_of(long) == before
    assert EndpointFailures.objects.get().failures == 1


class Killed(BaseException):
    pass


class KillsAt:
    """A cursor wrapper that dies at the n-th statement."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "advisory_unlock" not in sql:  # PostgreSQL lets go by itself when a worker dies
            if self.left == 0:
                raise Killed
            self.left -= 1
        return execute(sql, params, many, context)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("full", [False, True])
def test_killed_at_any_statement_everything_is_as_before_or_after(long: Thread, session: Session, full: bool) -> None:
    needs_compaction(session, BUDGET, {})
    statement, finished = 0, False
    while not finished:
        try:
            with connection.execute_wrapper(KillsAt(statement)):
                fold(session, full=full)
            finished = True
        except Killed:
            statement += 1
        assert find_violations(long.pk) == []
    assert statement > 10
    assert depths(long)


def test_a_model_that_is_killed_leaves_everything_as_it_was(long: Thread, session: Session) -> None:
    needs_compaction(session, BUDGET, {})
    before = rows_of(long)

    def die(_: Sequence[ChatMessage]) -> str:
        raise Killed

    with pytest.raises(Killed):
        fold(session, model(die))
    assert rows_of(long) == before
    assert fold(session).created


def test_an_edit_while_the_model_answers_makes_it_read_again(long: Thread, session: Session, ana: Member) -> None:
    secret = Message.objects.get(thread=long, seq=2)

    def edit_then_answer(asked: Sequence[ChatMessage]) -> str:
        if "Harmless" not in asked[-1].content:
            update_message(message=secret, by=access(ana), body="Harmless words.")
        return f"{GOOD} {'Harmless' in asked[-1].content}"

    model_client = model(edit_then_answer)
    fold_result = fold(session, model_client)
    assert len(model_client.calls) == len(fold_result.created) + 1
    assert f"{GOOD} True" in Summary.objects.get(depth=0, first_seq=1).content
    assert find_violations(long.pk) == []


def test_what_is_deleted_while_the_model_answers_is_in_no_summary(long: Thread, session: Session, ana: Member) -> None:
    gone = Message.objects.get(thread=long, seq=2)

    def delete_then_answer(_: Sequence[ChatMessage]) -> str:
        delete_message(message=gone, by=access(ana))
        return GOOD

    fold(session, model(delete_then_answer))
    leaf = Summary.objects.get(depth=0, first_seq=1)
    assert leaf.messages.filter(pk=gone.pk).exists()
    assert find_violations(long.pk) == []


def test_messages_that_keep_changing_are_left_for_the_next_time(long: Thread, session: Session, ana: Member) -> None:
    restless = Message.objects.get(thread=long, seq=2)
    turns = iter(range(100))

    def edit_then_answer(_: Sequence[ChatMessage]) -> str:
        update_message(message=restless, by=access(ana), body=f"Version {next(turns)}.")
        return GOOD

    model_client = model(edit_then_answer)
    assert fold(session, model_client).created == ()
    assert len(model_client.calls) == 2
    assert fold(session).created


# --- failures in a row ----------------------------------------------------------------------------------------------


def test_after_five_failures_in_a_row_compaction_rests_for_30_minutes_and_says_so(
    long: Thread, session: Session
) -> None:
    model_client = model(ModelUnavailable("It is away."))
    for _ in range(5):
        with pytest.raises(Problem, match="could not be made"):
            fold(session, model_client, clock=lambda: NOW)
    with pytest.raises(Problem, match=r"failed 5 times in a row, so it rests until 12:30 UTC") as error:
        fold(session, clock=lambda: NOW + timedelta(minutes=29))
    assert error.value.code == "compaction_paused"
    assert "It is away" in error.value.message
    assert len(model_client.calls) == 5
    assert fold(session, clock=lambda: NOW + timedelta(minutes=31)).created
    row = EndpointFailures.objects.get()
    assert (row.failures, row.paused_until, row.last_error) == (0, None, "")


def test_a_failure_after_the_rest_starts_the_rest_again(long: Thread, session: Session) -> None:
    model_client = model(ModelUnavailable("It is away."))
    for minutes in (0, 0, 0, 0, 0, 31):
        with pytest.raises(Problem, match="could not be made"):
            fold(session, model_client, clock=lambda at=NOW + timedelta(minutes=minutes): at)
    with pytest.raises(Problem, match="rests until 13:01"):
        fold(session, clock=lambda: NOW + timedelta(minutes=40))


def test_a_rest_that_began_while_the_clock_was_ahead_is_over(long: Thread, session: Session) -> None:
    for _ in range(5):
        with pytest.raises(Problem, match="could not be made"):
            fold(session, model(ModelUnavailable("It is away.")), clock=lambda: timezone.now() + timedelta(days=365))
    assert "paused" not in session_stats(session).note
    assert find_pause(long.workspace_id) is None
    assert fold(session).created


def test_a_success_in_between_ends_the_row(long: Thread, session: Session, ana: Member) -> None:
    for _ in range(4):
        with pytest.raises(Problem):
            fold(session, model(ModelUnavailable("It is away.")))
    fold(session)
    told(long, ana.participant, *[TEXT * 4] * 40)
    with pytest.raises(Problem):
        fold(session, model(ModelUnavailable("It is away.")))
    assert EndpointFailures.objects.get().failures == 1


# --- at the same time -----------------------------------------------------------------------------------------------


def compacting_elsewhere(session: Session, said: ScriptedAnswer) -> Strand:
    def work() -> None:
        try:
            fold(session, model(said))
        finally:
            connections.close_all()

    strand = Strand(target=work)
    strand.start()
    return strand


@pytest.mark.django_db(transaction=True)
def test_an_append_during_a_compaction_is_neither_lost_nor_doubled(long: Thread, session: Session, ana: Member) -> None:
    reached, go_on = Event(), Event()
    strand = compacting_elsewhere(session, ScriptedAnswer(GOOD, reached=reached, go_on=go_on))
    assert reached.wait(30)
    message = say(long, ana, "And the apple trees?")
    LcmProvider().bootstrap(session)
    go_on.set()
    strand.join(60)
    assert (message.seq, None) in items(long)
    assert depths(long)
    assert find_violations(long.pk) == []


@pytest.mark.django_db(transaction=True)
def test_a_second_compaction_at_the_same_time_does_nothing_and_another_thread_does_not_wait(
    long: Thread, session: Session, ana: Member, vibe: Agent
) -> None:
    other = make_thread(long.channel, ana, "Mulching")
    told(other, ana.participant, *[TEXT * 4] * 40)
    reached, go_on = Event(), Event()
    strand = compacting_elsewhere(session, ScriptedAnswer(GOOD, reached=reached, go_on=go_on))
    assert reached.wait(30)
    model_client = model()
    fold_result = fold(session, model_client)
    assert (fold_result.created, fold_result.tokens_after, model_client.calls) == ((), fold_result.tokens_before, [])
    assert fold(session_of(other, vibe.participant)).created
    go_on.set()
    strand.join(60)
    assert fold(session).tokens_after <= BUDGET
    assert find_violations(long.pk) == find_violations(other.pk) == []


# --- how much it costs ------------------------------------------------------------------------------------------------


def statements_of_a_step(thread: Thread, session: Session, ana: Member, before: int) -> int:
    told(thread, ana.participant, *[TEXT] * before)
    LcmProvider({"summaries": "deterministic"}).compact(session, BUDGET, full=True)
    told(thread, ana.participant, *[TEXT * 4] * 40)
    with CaptureQueriesContext(connection) as queries:
        assert LcmProvider({"summaries": "deterministic"}).compact(session, BUDGET).created
    return len(queries)


def test_one_incremental_step_takes_as_many_statements_in_a_long_thread(
    thread: Thread, session: Session, ana: Member, vibe: Agent
) -> None:
    other = make_thread(thread.channel, ana, "Mulching")
    short = statements_of_a_step(other, session_of(other, vibe.participant), ana, 60)
    assert statements_of_a_step(thread, session, ana, 3_000) <= short + 2
