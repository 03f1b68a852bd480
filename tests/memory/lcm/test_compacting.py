"""Compaction: what is folded, when, and that nothing goes wrong on the way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from threading import Event
from threading import Thread as Strand
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from agents.models import Agent
from memory.providers.base import Compacted, Session
from memory.providers.lcm import folding
from memory.providers.lcm.checking import check
from memory.providers.lcm.compacting import compact, needs_compaction
from memory.providers.lcm.models import Conversation, Item, Summary, SummaryMessage
from memory.providers.lcm.provider import LcmProvider
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message, edit_message
from openvibe.llm.errors import ModelUnavailable
from openvibe.llm.fences import read_fences
from openvibe.llm.models import Endpoint
from openvibe.llm.scripted import Reply, Say, ScriptedModel
from openvibe.llm.values import ChatMessage
from openvibe.workspaces.models import Member
from tests.factories import access, make_thread, say
from tests.memory.lcm.rows import session_of, told

BUDGET = 4_000
TEXT = "Prune the roses in March, before the buds open, and burn what was ill. "
GOOD = "Ana said to prune the roses in March, before the buds open."
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def model(*replies: Reply) -> ScriptedModel:
    return ScriptedModel(replies or (GOOD,))


def fold(session: Session, client: ScriptedModel | None = None, **more: Any) -> Compacted:
    options = {"full": False, "config": {}, "client": client or model(), **more}
    return compact(session, options.pop("budget", BUDGET), **options)


def items(thread: Thread) -> list[tuple[int, int | None]]:
    """Ordinal and depth of each item; None for a message."""
    found = Item.objects.filter(conversation__thread=thread).order_by("ordinal")
    return list(found.values_list("ordinal", "summary__depth"))


def depths(thread: Thread) -> list[int]:
    return [depth for _, depth in items(thread) if depth is not None]


@pytest.fixture
def session(thread: Thread, vibe: Agent) -> Session:
    return session_of(thread, vibe.participant)


@pytest.fixture
def long(thread: Thread, ana: Member, vibe: Agent) -> Thread:
    """Sixty messages, well over the budget."""
    for at in range(60):
        told(thread, ana.participant if at % 2 else vibe.participant, f"{at}. {TEXT * 4}")
    return thread


# --- when ---------------------------------------------------------------------------------------------------------


def test_the_threshold_is_a_fraction_of_the_budget_and_not_a_number_of_tokens(
    thread: Thread, session: Session, ana: Member
) -> None:
    told(thread, ana.participant, *[TEXT] * 30)
    size = sum(message.token_count + 44 for message in Message.objects.filter(thread=thread))
    assert not needs_compaction(session, int(size / 0.75) + 2, {})
    assert needs_compaction(session, int(size / 0.75) - 2, {})


def test_a_short_conversation_needs_none_and_compacting_it_does_nothing(
    thread: Thread, session: Session, ana: Member
) -> None:
    told(thread, ana.participant, "Hello.", "How are you?")
    asked = model()
    assert not needs_compaction(session, BUDGET, {})
    done = fold(session, asked)
    assert (done.created, done.tokens_before, asked.calls) == ((), done.tokens_after, [])


def test_compaction_that_can_shorten_nothing_does_not_fire_every_turn(
    thread: Thread, session: Session, ana: Member
) -> None:
    told(thread, ana.participant, *[TEXT * 30] * 9)
    assert not needs_compaction(session, BUDGET, {})
    conversation = Conversation.objects.get(thread=thread)
    assert conversation.exhausted_version == conversation.version
    with CaptureQueriesContext(connection) as queries:
        assert not needs_compaction(session, BUDGET, {})
    assert len(queries) <= 3
    told(thread, ana.participant, *[TEXT * 30] * 12)
    assert needs_compaction(session, BUDGET, {})


def test_a_condensed_summary_alone_does_not_fire_when_nothing_gets_shorter(long: Thread, session: Session) -> None:
    fold(session, full=True)
    asked = model()
    assert fold(session, asked, full=True).created == ()
    assert asked.calls == []


# --- what ---------------------------------------------------------------------------------------------------------


def test_an_incremental_compaction_brings_the_context_down_to_half_of_the_budget(
    long: Thread, session: Session
) -> None:
    assert needs_compaction(session, BUDGET, {})
    done = fold(session)
    assert done.tokens_after <= BUDGET / 2 < BUDGET < done.tokens_before
    assert done.tokens_after == folding.total(Conversation.objects.get(thread=long).pk, 10_000)
    assert not needs_compaction(session, BUDGET, {})
    assert check(long.pk) == []


def test_a_summary_stands_in_the_place_of_its_sources_which_leave_the_context(long: Thread, session: Session) -> None:
    (first, *_) = fold(session).created
    leaf = Summary.objects.get(pk=first)
    assert (leaf.kind, leaf.first_seq, leaf.message_count) == ("leaf", 1, leaf.last_seq)
    assert leaf.source_tokens == sum(leaf.messages.values_list("token_count", flat=True))
    assert not Item.objects.filter(message__in=leaf.messages.all()).exists()


def test_the_tail_and_the_newest_request_are_not_touched(long: Thread, session: Session, ana: Member) -> None:
    request = say(long, ana, "@vibe and now the apple trees?")
    before = [ordinal for ordinal, _ in items(long)]
    fold(session, full=True)
    assert (request.seq, None) in items(long)
    kept = [ordinal for ordinal, depth in items(long) if depth is None]
    assert kept == list(range(kept[0], request.seq + 1))
    assert len(kept) >= 5
    assert before == [] or set(kept) <= set(before)


def test_neighbouring_leaves_are_condensed(long: Thread, session: Session, ana: Member) -> None:
    fold(session)
    for _ in range(4):
        told(long, ana.participant, *[TEXT * 4] * 20)
        fold(session)
    assert max(depths(long)) >= 1
    assert check(long.pk) == []


def test_a_full_compaction_goes_on_until_nothing_can_be_folded(long: Thread, session: Session, ana: Member) -> None:
    told(long, ana.participant, *[TEXT * 30] * 100)
    seen: list[tuple[int, int]] = []
    done = fold(session, full=True, progress=lambda so_far, of: seen.append((so_far, of)))
    assert done.rounds >= 1
    assert len(depths(long)) == len(set(depths(long)))
    assert seen[-1][0] == seen[-1][1] == sum(1 for ordinal in range(1, 161) if (ordinal, None) not in items(long))
    assert check(long.pk) == []


def test_dive_results_are_never_folded(thread: Thread, session: Session, ana: Member) -> None:
    told(thread, ana.participant, *[TEXT] * 15)
    told(thread, ana.participant, "The dive found mildew.", kind="dive_result")
    told(thread, ana.participant, *[TEXT] * 50)
    fold(session, full=True, budget=1_000)
    assert [depth for ordinal, depth in items(thread) if ordinal in (1, 16)] == [0, None]
    assert not any("mildew" in content for content in Summary.objects.values_list("content", flat=True))


def test_a_reply_being_written_is_not_folded_and_nothing_after_it(
    thread: Thread, session: Session, ana: Member
) -> None:
    told(thread, ana.participant, *[TEXT] * 12)
    told(thread, ana.participant, "", state="writing")
    told(thread, ana.participant, *[TEXT] * 40)
    fold(session, full=True, budget=1_000)
    assert [ordinal for ordinal, depth in items(thread) if depth is not None] == [1]
    assert Summary.objects.get().last_seq == 12


def test_the_same_goes_on_at_a_fixpoint_without_asking_the_model(long: Thread, session: Session) -> None:
    fold(session, full=True)
    version, asked = Conversation.objects.get(thread=long).version, model()
    done = fold(session, asked, full=True)
    assert (done.created, done.tokens_before - done.tokens_after, asked.calls) == ((), 0, [])
    assert Conversation.objects.get(thread=long).version == version


def test_nothing_said_means_no_summary_without_words(long: Thread, session: Session) -> None:
    done = fold(session, model(""), full=True)
    assert done.created
    assert all(content.strip() for content in Summary.objects.values_list("content", flat=True))
    assert set(Summary.objects.values_list("level", flat=True)) == {"fallback"}


def test_without_a_model_the_workspace_still_gets_summaries(long: Thread, session: Session) -> None:
    done = LcmProvider({}).compact(session, BUDGET)
    assert done.created
    assert set(Summary.objects.values_list("model", flat=True)) == {"offline"}


def test_deterministic_summaries_ask_no_model(long: Thread, session: Session) -> None:
    asked = model()
    done = LcmProvider({"summaries": "deterministic"}, client=asked).compact(session, BUDGET, full=True)
    assert done.created
    assert asked.calls == []


def test_the_endpoint_for_summaries_writes_them_and_else_the_default_one(
    long: Thread, session: Session, ana: Member
) -> None:
    unreachable = {"workspace": ana.workspace, "kind": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    Endpoint.objects.create(name="Talk", is_default=True, **unreachable)
    Endpoint.objects.create(name="Gist", is_for_summaries=True, kind="offline", workspace=ana.workspace)
    assert LcmProvider().compact(session, BUDGET).created
    assert set(Summary.objects.values_list("model", flat=True)) == {"offline"}


def test_a_leaf_is_given_the_two_summaries_before_it(long: Thread, session: Session, ana: Member) -> None:
    fold(session, model("The first gist."))
    told(long, ana.participant, *[TEXT * 4] * 30)
    asked = model()
    fold(session, asked)
    tags = [found for found in read_fences(asked.calls[0].messages[-1].content) if found.tag == "earlier"]
    assert [found.text for found in tags] == ["The first gist."]


def test_memory_of_people_only_threads_is_never_compacted(long: Thread, session: Session) -> None:
    Thread.objects.filter(pk=long.pk).update(access=Thread.Access.HUMAN_ONLY)
    assert not needs_compaction(session, BUDGET, {})
    with pytest.raises(Missing):
        fold(session)


# --- the model and the database -------------------------------------------------------------------------------------


def test_the_model_is_never_called_inside_a_transaction(long: Thread, session: Session) -> None:
    asked = model()
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        fold(session, asked)
    assert asked.calls == []


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
        items(thread), list(Summary.objects.order_by("pk").values_list("pk", "content")),
        SummaryMessage.objects.count(), Conversation.objects.get(thread=thread).version,
    )  # fmt: skip


def test_a_models_error_writes_nothing_and_says_why(long: Thread, session: Session) -> None:
    needs_compaction(session, BUDGET, {})
    before = rows_of(long)
    with pytest.raises(Problem, match="It is away") as raised:
        fold(session, model(ModelUnavailable("It is away.")))
    assert raised.value.code == "compaction_failed"
    assert rows_of(long) == before
    assert Conversation.objects.get(thread=long).failures == 1


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
        assert check(long.pk) == []
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
            edit_message(message=secret, by=access(ana), body="Harmless words.")
        return f"{GOOD} {'Harmless' in asked[-1].content}"

    asked = model(edit_then_answer)
    done = fold(session, asked)
    assert len(asked.calls) == len(done.created) + 1
    assert all(content.endswith("True") for content in Summary.objects.filter(depth=0, first_seq=1)
               .values_list("content", flat=True))  # fmt: skip
    assert check(long.pk) == []


def test_what_is_deleted_while_the_model_answers_is_in_no_summary(long: Thread, session: Session, ana: Member) -> None:
    gone = Message.objects.get(thread=long, seq=2)

    def delete_then_answer(_: Sequence[ChatMessage]) -> str:
        delete_message(message=gone, by=access(ana))
        return GOOD

    fold(session, model(delete_then_answer))
    leaf = Summary.objects.get(depth=0, first_seq=1)
    assert leaf.messages.filter(pk=gone.pk).exists()
    assert check(long.pk) == []


def test_messages_that_keep_changing_are_left_for_the_next_time(long: Thread, session: Session, ana: Member) -> None:
    restless = Message.objects.get(thread=long, seq=2)
    turns = iter(range(100))

    def edit_then_answer(_: Sequence[ChatMessage]) -> str:
        edit_message(message=restless, by=access(ana), body=f"Version {next(turns)}.")
        return GOOD

    asked = model(edit_then_answer)
    assert fold(session, asked).created == ()
    assert len(asked.calls) == 2
    assert fold(session).created


# --- failures in a row ----------------------------------------------------------------------------------------------


def test_after_five_failures_in_a_row_compaction_rests_for_30_minutes_and_says_so(
    long: Thread, session: Session
) -> None:
    broken = model(ModelUnavailable("It is away."))
    for _ in range(5):
        with pytest.raises(Problem, match="could not be made"):
            fold(session, broken, clock=lambda: NOW)
    with pytest.raises(Problem, match=r"failed 5 times in a row, so it rests until 12:30 UTC") as raised:
        fold(session, clock=lambda: NOW + timedelta(minutes=29))
    assert raised.value.code == "compaction_paused"
    assert "It is away" in raised.value.message
    assert len(broken.calls) == 5
    assert fold(session, clock=lambda: NOW + timedelta(minutes=31)).created
    conversation = Conversation.objects.get(thread=long)
    assert (conversation.failures, conversation.paused_until, conversation.last_error) == (0, None, "")


def test_a_failure_after_the_rest_starts_the_rest_again(long: Thread, session: Session) -> None:
    broken = model(ModelUnavailable("It is away."))
    for minutes in (0, 0, 0, 0, 0, 31):
        with pytest.raises(Problem, match="could not be made"):
            fold(session, broken, clock=lambda at=NOW + timedelta(minutes=minutes): at)
    with pytest.raises(Problem, match="rests until 13:01"):
        fold(session, clock=lambda: NOW + timedelta(minutes=40))


def test_a_success_in_between_ends_the_row(long: Thread, session: Session, ana: Member) -> None:
    for _ in range(4):
        with pytest.raises(Problem):
            fold(session, model(ModelUnavailable("It is away.")))
    fold(session)
    told(long, ana.participant, *[TEXT * 4] * 40)
    with pytest.raises(Problem):
        fold(session, model(ModelUnavailable("It is away.")))
    assert Conversation.objects.get(thread=long).failures == 1


# --- at the same time -----------------------------------------------------------------------------------------------


def compacting_elsewhere(session: Session, said: Say) -> Strand:
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
    strand = compacting_elsewhere(session, Say(GOOD, reached=reached, go_on=go_on))
    assert reached.wait(30)
    said = say(long, ana, "And the apple trees?")
    LcmProvider().bootstrap(session)
    go_on.set()
    strand.join(60)
    assert (said.seq, None) in items(long)
    assert depths(long)
    assert check(long.pk) == []


@pytest.mark.django_db(transaction=True)
def test_a_second_compaction_at_the_same_time_does_nothing_and_another_thread_does_not_wait(
    long: Thread, session: Session, ana: Member, vibe: Agent
) -> None:
    other = make_thread(long.channel, ana, "Mulching")
    told(other, ana.participant, *[TEXT * 4] * 40)
    reached, go_on = Event(), Event()
    strand = compacting_elsewhere(session, Say(GOOD, reached=reached, go_on=go_on))
    assert reached.wait(30)
    asked = model()
    done = fold(session, asked)
    assert (done.created, done.tokens_after, asked.calls) == ((), done.tokens_before, [])
    assert fold(session_of(other, vibe.participant)).created
    go_on.set()
    strand.join(60)
    assert fold(session).tokens_after <= BUDGET
    assert check(long.pk) == check(other.pk) == []


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
