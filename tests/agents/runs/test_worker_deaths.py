"""A worker may die between any two commits of a run: each question is answered once, whole and in order."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db import connection

from agents.models import Agent, Run, ToolCall
from agents.runs.executor import execute_run
from agents.runs.lifecycle import stop_run
from agents.runs.recovery import recover_runs
from memory.models import ProgressEntry
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import LOG, WorkerDied, ask, calling
from tests.engines.llm.scripted_client import ScriptedAnswer, ScriptedModel
from tests.factories import access

WRITES = ("INSERT", "UPDATE", "DELETE", "RELEASE")


class DiesAtCommit:
    """Lets so many commits pass, of transactions and of single statements; the worker dies at the next."""

    def __init__(self, commits: int) -> None:
        self.left = commits
        self.depth = len(connection.savepoint_ids)

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        is_within_transaction = len(connection.savepoint_ids) > self.depth
        if sql.lstrip().upper().startswith(WRITES) and not is_within_transaction:
            self.left -= 1
            if self.left < 0:
                raise WorkerDied
        return execute(sql, params, many, context)


def dies_at_commit(number: int, run: Run) -> bool:
    """Whether the worker that carries the run out came so far as to die."""
    with connection.execute_wrapper(DiesAtCommit(number)):
        try:
            execute_run(run.pk, client=scripted())
        except WorkerDied:
            return True
    return False


def scripted() -> ScriptedModel:
    return ScriptedModel([calling(LOG, text="I look."), "In March."])


def test_wherever_a_worker_dies_each_question_is_answered_once(ana: Member, vibe: Agent, thread: Thread) -> None:
    asked = [ask(thread, ana)]
    while dies_at_commit(len(asked) - 1, asked[-1]):
        later = ask(thread, ana, "@vibe and the roses?")
        execute_run(later.pk, client=scripted())  # it waits where an earlier one is not over
        for run_id in recover_runs():
            execute_run(run_id, client=scripted())
        asked.append(later)
    runs = Run.objects.order_by("pk").values_list("state", "reply__state", "reply__body")
    assert list(runs) == [("done", "complete", "I look.\n\nIn March.")] * len(asked)
    replies = Message.objects.filter(author=vibe.participant).order_by("seq")
    assert list(replies.values_list("run", flat=True)) == [run.pk for run in asked]
    assert ProgressEntry.objects.count() == ToolCall.objects.count()
    assert len(asked) > 8


def test_words_of_a_worker_that_died_stay_when_people_stop_the_answer(ana: Member, vibe: Agent, thread: Thread) -> None:
    def die(_: object) -> ScriptedAnswer:
        raise WorkerDied

    run = ask(thread, ana)
    with suppress(WorkerDied):
        execute_run(run.pk, client=ScriptedModel([calling(LOG, text="In March, before"), die]))
    stop_run(run=run, by=access(ana))
    assert recover_runs() == [run.pk]
    model = ScriptedModel(["Never."])
    execute_run(run.pk, client=model)
    reply = Message.objects.get(run=run)
    assert (reply.state, reply.body) == ("stopped", "In March, before")
    assert model.calls == []
