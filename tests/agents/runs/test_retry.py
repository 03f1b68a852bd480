"""What Retry may not do: write into a deleted message, or spend outside today's budget."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from agents.agent.token_budgets import tokens_used_today
from agents.models import Agent, Run
from agents.runs.executor import execute_run
from agents.runs.lifecycle import regenerate_run, retry_run
from openvibe.base.problems import Conflict, Refused
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import archive_channel, delete_message
from openvibe.engines.llm.errors import ModelUnavailable
from openvibe.workspaces.models import Member
from tests.engines.llm.scripted_client import ScriptedAnswer, ScriptedModel
from tests.factories import access, say


@pytest.fixture
def failed(ana: Member, vibe: Agent, thread: Thread) -> Run:
    run = Run.objects.get(trigger=say(thread, ana, "@vibe when do I prune?"))
    execute_run(run.pk, client=ScriptedModel([ScriptedAnswer("In Ma", then=ModelUnavailable("It is gone."))]))
    run.refresh_from_db()
    assert run.state == "failed"
    assert run.reply is not None
    return run


def test_a_deleted_reply_is_not_written_again(ana: Member, failed: Run) -> None:
    reply = Message.objects.get(run=failed)
    delete_message(message=reply, by=access(ana))
    with pytest.raises(Conflict, match="deleted"):
        retry_run(run=failed, by=access(ana))
    failed.refresh_from_db()
    assert failed.state == "failed"


def test_a_deleted_question_is_not_answered_again(ana: Member, failed: Run) -> None:
    delete_message(message=failed.trigger, by=access(ana))
    with pytest.raises(Conflict, match="deleted"):
        retry_run(run=failed, by=access(ana))


@pytest.mark.parametrize("verb", [retry_run, regenerate_run])
def test_nothing_is_answered_anew_in_what_is_archived(
    verb: Callable[..., Run], ana: Member, thread: Thread, failed: Run
) -> None:
    archive_channel(channel=thread.channel, by=access(ana))
    with pytest.raises(Refused, match="Bring it back") as error:
        verb(run=failed, by=access(ana))
    assert error.value.code == "archived"
    archive_channel(channel=thread.channel, by=access(ana), archived=False)
    assert verb(run=failed, by=access(ana)).state == "queued"


def test_what_a_retry_of_yesterdays_run_uses_counts_today(ana: Member, vibe: Agent, failed: Run) -> None:
    Run.objects.filter(pk=failed.pk).update(queued_at=timezone.now() - timedelta(days=2))
    assert tokens_used_today(agent=vibe) == 0
    execute_run(retry_run(run=failed, by=access(ana)).pk, client=ScriptedModel(["In March."]))
    assert tokens_used_today(agent=vibe) > 0


@pytest.mark.parametrize("state", ["queued", "reading", "writing", "waiting_approval"])
def test_a_run_that_is_not_over_is_neither_tried_again_nor_answered_again(ana: Member, failed: Run, state: str) -> None:
    Run.objects.filter(pk=failed.pk).update(state=state, error="")
    for verb in (retry_run, regenerate_run):
        with pytest.raises(Conflict):
            verb(run=failed, by=access(ana))
    assert list(Run.objects.values_list("state", flat=True)) == [state]


def test_a_reply_deleted_while_its_run_waits_is_not_written_into(ana: Member, failed: Run) -> None:
    run = retry_run(run=failed, by=access(ana))
    delete_message(message=Message.objects.get(run=run), by=access(ana))
    model = ScriptedModel(["In March."])
    execute_run(run.pk, client=model)
    run.refresh_from_db()
    assert (run.state, run.error_code) == ("failed", "deleted")
    assert run.error == "The answer was deleted before it was written again. Ask anew."
    assert model.calls == []
    reply = Message.objects.get(run=run)
    assert (reply.is_deleted, reply.body, reply.state) == (True, "", "failed")
