"""Jobs and lossless memory together: due after append, whole wherever it is killed, nothing deleted left behind."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from agents.models import Agent
from memory.plugins.compaction import (
    execute_compaction,
    recover_compactions,
    request_compaction,
    request_compaction_if_due,
)
from memory.plugins.lcm.integrity import find_violations
from memory.plugins.lcm.models import STALE_CONTENT, Item, Summary, SummaryMessage
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.models import Compaction
from memory.work.models import Handoff
from openvibe.base.problems import Conflict
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message, update_message
from openvibe.engines.llm.errors import ModelUnavailable
from openvibe.engines.llm.values import ChatMessage
from openvibe.workspaces.models import Member, Workspace
from tests.engines.llm.scripted_client import ScriptedModel
from tests.factories import access, say, say_all

BUDGET = 3_000
WORDS = "We looked at the roses in bed {n} and wrote down how far they had come since the week before. " * 3
SECRET = "The gate opens with quetzalcoatl."

pytestmark = pytest.mark.django_db(transaction=True)


class WorkerKilled(BaseException):
    """What no handler catches: the process is gone."""


def summing_up(messages: Sequence[ChatMessage]) -> str:
    """A model that repeats what it is not supposed to keep, if it was shown it."""
    asked = " ".join(message.content for message in messages)
    return "They looked at the roses and wrote down how far they had come." + (f" {SECRET}" if SECRET in asked else "")


@pytest.fixture
def long_thread(ana: Member, vibe: Agent, thread: Thread) -> Thread:
    """Sixty messages, several times what a prompt of this workspace has room for; the fifth holds the secret."""
    Workspace.objects.filter(pk=ana.workspace.pk).update(budgets={"thread": {"ceiling": BUDGET}})
    say_all(thread, ana, (WORDS.format(n=number) + (SECRET if number == 5 else "") for number in range(1, 61)))
    return Thread.objects.get(pk=thread.pk)


def carried_out(compaction: Compaction | None, provider: LcmProvider | None = None) -> Compaction:
    assert compaction is not None
    execute_compaction(compaction.pk, provider=provider or LcmProvider(client=ScriptedModel([summing_up])))
    compaction.refresh_from_db()
    return compaction


def reached(thread: Thread) -> list[int]:
    """Numbers of the messages that the context stands for, each as often as it does."""
    items = Item.objects.filter(conversation__thread=thread)
    seqs = list(items.filter(message__isnull=False).values_list("message__seq", flat=True))
    seqs += SummaryMessage.objects.filter(summary__conversation__thread=thread).values_list("message__seq", flat=True)
    return sorted(seqs)


def everything_remembered(thread: Thread) -> str:
    """All words that summaries and handoffs hold of a thread."""
    summaries = Summary.objects.filter(conversation__thread=thread).values_list("content", flat=True)
    handoffs = Handoff.objects.filter(thread=thread)
    return "\n".join([*summaries, *(f"{handoff.sections}" for handoff in handoffs)])


def test_a_thread_that_outgrew_its_threshold_is_brought_down_and_handed_over(long_thread: Thread) -> None:
    done = carried_out(request_compaction_if_due(thread=long_thread))
    assert (done.state, done.trigger, done.at_seq) == ("done", "threshold", 60)
    assert done.tokens_before is not None
    assert done.tokens_after is not None
    assert done.tokens_after <= BUDGET * 0.75 < done.tokens_before
    assert done.created_count == len(done.summary_ids) == Summary.objects.count() > 0
    assert done.of_messages > 0
    assert find_violations(long_thread.pk) == []
    assert reached(long_thread) == list(range(1, 61))
    assert f"{done.summary_ids[0]}" in f"{Handoff.objects.get(compaction=done).sections}"
    assert request_compaction_if_due(thread=long_thread) is None


def test_a_short_thread_is_not_due(ana: Member, vibe: Agent, thread: Thread) -> None:
    say(thread, ana, "Hello")
    assert request_compaction_if_due(thread=thread) is None
    assert carried_out(request_compaction(thread=thread, trigger="hand", by=access(ana))).state == "nothing"


def test_by_hand_the_same_is_not_done_twice(ana: Member, long_thread: Thread) -> None:
    carried_out(request_compaction(thread=long_thread, trigger="hand"))
    with pytest.raises(Conflict, match="Nothing was said since the last compaction"):
        request_compaction(thread=long_thread, trigger="hand")
    carried_out(request_compaction(thread=long_thread, trigger="hand", full=True))
    for full in (False, True):
        with pytest.raises(Conflict):
            request_compaction(thread=long_thread, trigger="hand", full=full)
    assert Compaction.objects.count() == 2
    say(long_thread, ana, "And the apple trees?")
    assert request_compaction(thread=long_thread, trigger="hand") is not None
    assert request_compaction(thread=long_thread, trigger="hand") is None


def test_what_is_said_while_it_is_compacted_may_be_compacted_by_hand(ana: Member, long_thread: Thread) -> None:
    def interrupted(messages: Sequence[ChatMessage]) -> str:
        say(long_thread, ana, "And the apple trees?")
        return summing_up(messages)

    compaction = request_compaction(thread=long_thread, trigger="hand", full=True)
    carried_out(compaction, LcmProvider(client=ScriptedModel([interrupted])))
    assert request_compaction(thread=long_thread, trigger="hand") is not None


def test_by_hand_is_done_again_after_a_failure_or_a_change(ana: Member, long_thread: Thread) -> None:
    carried_out(request_compaction(thread=long_thread, trigger="hand", full=True))
    Compaction.objects.update(state="failed", error="Lost.")
    carried_out(request_compaction(thread=long_thread, trigger="hand", full=True))
    delete_message(message=Message.objects.get(thread=long_thread, seq=5), by=access(ana))
    carried_out(Compaction.objects.get(trigger="changed"))
    assert request_compaction(thread=long_thread, trigger="hand", full=True) is not None


def test_by_hand_is_done_again_where_prompts_hold_less_now(ana: Member, long_thread: Thread) -> None:
    Workspace.objects.filter(pk=ana.workspace_id).update(budgets={"thread": {"ceiling": 20_000}})
    thread = Thread.objects.get(pk=long_thread.pk)
    carried_out(request_compaction(thread=thread, trigger="hand"))
    with pytest.raises(Conflict):
        request_compaction(thread=thread, trigger="hand")
    Workspace.objects.filter(pk=ana.workspace_id).update(budgets={"thread": {"ceiling": 2_000}})
    thread = Thread.objects.get(pk=long_thread.pk)
    assert request_compaction(thread=thread, trigger="hand") is not None


@pytest.fixture
def cut_thread(long_thread: Thread) -> Thread:
    """The same with results of dives in it, which are never folded: three leaves to be made."""
    Message.objects.filter(thread=long_thread, seq__in=(13, 26)).update(kind=Message.Kind.DIVE_RESULT)
    return long_thread


@pytest.mark.parametrize("survived", [0, 1, 2])
def test_killed_at_any_question_to_the_model_it_is_before_or_after(cut_thread: Thread, survived: int) -> None:
    def killed(messages: Sequence[ChatMessage]) -> str:
        raise WorkerKilled

    replies: list[Callable[[Sequence[ChatMessage]], str]] = [*[summing_up] * survived, killed]
    compaction = request_compaction(thread=cut_thread, trigger="hand", full=True)
    assert compaction is not None
    with pytest.raises(WorkerKilled):
        carried_out(compaction, LcmProvider(client=ScriptedModel(replies)))
    assert find_violations(cut_thread.pk) == []
    assert reached(cut_thread) == list(range(1, 61))
    assert Summary.objects.count() == survived
    assert not Handoff.objects.exists()
    assert recover_compactions() == [compaction.pk]
    assert carried_out(compaction).state == "done"
    assert find_violations(cut_thread.pk) == []
    assert reached(cut_thread) == list(range(1, 61))
    assert (Summary.objects.count(), Handoff.objects.count()) == (3, 1)


def killed_at_write(number: int) -> Any:
    """An execute wrapper: the worker dies instead of writing the statement of this number."""
    written = 0

    def execute(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal written
        if re.match(r"\s*(INSERT|UPDATE|DELETE|WITH)", sql):
            written += 1
            if written == number:
                raise WorkerKilled
        return execute(sql, params, many, context)

    return execute


def test_killed_at_any_write_it_is_before_or_after(cut_thread: Thread) -> None:
    compaction = request_compaction(thread=cut_thread, trigger="hand", full=True)
    assert compaction is not None
    for number in range(1, 100):
        try:
            with connection.execute_wrapper(killed_at_write(number)):
                carried_out(compaction)
            break
        except WorkerKilled:
            assert find_violations(cut_thread.pk) == []
            assert reached(cut_thread) in ([], list(range(1, 61)))
            assert not Handoff.objects.exists()
            recover_compactions()
            Compaction.objects.update(attempt=1)
    assert number > 8
    compaction.refresh_from_db()
    assert compaction.state == "done"
    assert compaction.tokens_before is not None
    assert compaction.tokens_after is not None
    assert compaction.tokens_after <= BUDGET * 0.75 < compaction.tokens_before
    assert (Summary.objects.count(), Handoff.objects.count()) == (3, 1)
    named = f"{Handoff.objects.get().sections}"
    assert all(f"summary:{pk}" in named for pk in Summary.objects.values_list("pk", flat=True))
    assert reached(cut_thread) == list(range(1, 61))


def test_five_failures_in_a_row_are_followed_by_a_rest(long_thread: Thread) -> None:
    away = LcmProvider(client=ScriptedModel([ModelUnavailable("The model is away.")]))
    first = request_compaction(thread=long_thread, trigger="threshold")
    for _ in range(3):
        failed = carried_out(first, away)
    assert (failed.state, failed.attempt) == ("failed", 3)
    assert "The model is away." in failed.error
    assert not Summary.objects.exists()
    second = request_compaction(thread=long_thread, trigger="hand")
    for _ in range(3):
        paused = carried_out(second, away)
    assert (paused.state, paused.attempt) == ("failed", 3)
    assert "failed 5 times in a row, so it rests until" in paused.error
    rested = carried_out(request_compaction(thread=long_thread, trigger="hand"))
    assert (rested.state, rested.attempt) == ("failed", 1)
    assert not Handoff.objects.exists()


@pytest.mark.parametrize("change", ["edit", "delete"])
def test_what_was_taken_back_is_nowhere_afterwards(ana: Member, long_thread: Thread, change: str) -> None:
    carried_out(request_compaction(thread=long_thread, trigger="hand", full=True))
    assert SECRET in everything_remembered(long_thread)
    secret = Message.objects.get(thread=long_thread, seq=5)
    if change == "edit":
        update_message(message=secret, by=access(ana), body="Nothing of note.")
    else:
        delete_message(message=secret, by=access(ana))
    assert "quetzalcoatl" not in everything_remembered(long_thread)
    assert STALE_CONTENT in everything_remembered(long_thread)
    rebuilt = carried_out(Compaction.objects.get(trigger="changed"))
    assert (rebuilt.state, rebuilt.error) == ("done", "")
    assert "quetzalcoatl" not in everything_remembered(long_thread)
    assert STALE_CONTENT not in everything_remembered(long_thread)
    assert not Summary.objects.filter(stale=True).exists()
    assert find_violations(long_thread.pk) == []
    assert reached(long_thread) == list(range(1, 61))
    assert recover_compactions() == []


def test_a_message_deleted_while_its_summary_is_made_is_not_kept(ana: Member, long_thread: Thread) -> None:
    secret = Message.objects.get(thread=long_thread, seq=5)

    def slow(messages: Sequence[ChatMessage]) -> str:
        delete_message(message=secret, by=access(ana))
        return summing_up(messages)

    model = ScriptedModel([slow, summing_up])
    done = carried_out(request_compaction(thread=long_thread, trigger="hand", full=True), LcmProvider(client=model))
    assert done.state == "done"
    assert "quetzalcoatl" not in everything_remembered(long_thread)
    assert find_violations(long_thread.pk) == []


def test_a_change_that_found_no_place_in_the_queue_is_swept_up(ana: Member, long_thread: Thread) -> None:
    carried_out(request_compaction(thread=long_thread, trigger="hand", full=True))
    running = request_compaction(thread=long_thread, trigger="milestone")
    delete_message(message=Message.objects.get(thread=long_thread, seq=5), by=access(ana))
    assert not Compaction.objects.filter(trigger="changed").exists()
    assert running is not None
    Compaction.objects.filter(pk=running.pk).update(state="failed", error="Lost.", finished_at=timezone.now())
    (swept,) = recover_compactions()
    assert carried_out(Compaction.objects.get(pk=swept)).state == "done"
    assert not Summary.objects.filter(stale=True).exists()


def test_summaries_wait_while_no_model_answers_and_are_not_asked_for_at_once_again(
    ana: Member, long_thread: Thread
) -> None:
    carried_out(request_compaction(thread=long_thread, trigger="hand", full=True))
    delete_message(message=Message.objects.get(thread=long_thread, seq=5), by=access(ana))
    away = LcmProvider(client=ScriptedModel([ModelUnavailable("The model is away.")]))
    for _ in range(3):
        failed = carried_out(Compaction.objects.get(trigger="changed"), away)
    assert failed.state == "failed"
    assert STALE_CONTENT in everything_remembered(long_thread)
    assert recover_compactions() == []
    Compaction.objects.filter(pk=failed.pk).update(finished_at=timezone.now() - timedelta(minutes=31))
    (swept,) = recover_compactions()
    assert carried_out(Compaction.objects.get(pk=swept)).state == "done"
    assert STALE_CONTENT not in everything_remembered(long_thread)
