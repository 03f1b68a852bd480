"""Answers to one message are versions of one place: the newest counts, the others can still be read."""

import pytest

from agents.agent.access import visible_to
from agents.models import Agent, Run
from agents.prompts.assembler.assemble import assemble
from agents.runs.executor import execute_run
from agents.runs.lifecycle import regenerate_run, retry_run
from agents.web.run_cards import runs_by_message
from memory.plugins.sessions import messages_for_prompts
from openvibe.base.problems import Conflict
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message, update_message
from openvibe.engines.llm.errors import ModelUnavailable
from openvibe.workspaces.models import Member
from tests.engines.llm.scripted_client import ScriptedAnswer, ScriptedModel, ScriptedReply
from tests.factories import access, say, signed_in

HTMX = {"HX-Request": "true"}


def ask_again(run: Run, by: Member, *answers: ScriptedReply) -> Run:
    """Another answer to the same message; the run as it ended."""
    again = regenerate_run(run=run, by=access(by))
    execute_run(again.pk, client=ScriptedModel(list(answers)))
    again.refresh_from_db()
    return again


@pytest.fixture
def first(ana: Member, vibe: Agent, thread: Thread) -> Run:
    run = Run.objects.get(trigger=say(thread, ana, "@vibe when do I prune the apple tree?"))
    execute_run(run.pk, client=ScriptedModel(["In the first frost."]))
    run.refresh_from_db()
    return run


def states(*runs: Run) -> list[str]:
    return [Message.objects.get(run=run).state for run in runs]


def prompt_bodies(agent: Agent, thread: Thread) -> list[str]:
    messages = messages_for_prompts(visible_to(agent), thread=thread)
    return list(messages.filter(author__kind="agent").order_by("seq").values_list("body", flat=True))


def test_the_newest_answer_counts_in_prompts_and_the_others_stay(ana: Member, vibe: Agent, first: Run) -> None:
    second = ask_again(first, ana, "In late winter.")
    third = ask_again(second, ana, "In March.")
    assert states(first, second, third) == ["replaced", "replaced", "complete"]
    assert prompt_bodies(vibe, first.thread) == ["In March."]
    question = say(first.thread, ana, "@vibe and the pear?")
    prompt = assemble(agent=vibe, thread=first.thread, task="mention", request=question, model="offline")
    words = "\n".join(message.content for message in prompt.messages)
    assert "In March." in words
    assert "In the first frost." not in words
    assert "In late winter." not in words
    assert Message.objects.get(run=first).body == "In the first frost."


def test_an_answer_that_failed_replaces_nothing(ana: Member, vibe: Agent, first: Run) -> None:
    failed = ask_again(first, ana, ScriptedAnswer("In Ma", then=ModelUnavailable("It is gone.")))
    assert states(first, failed) == ["complete", "failed"]
    card = runs_by_message([Message.objects.get(run=first)], access(ana))[first.reply_id or 0]["run"]
    assert (card.version, card.versions) == (0, (first.reply_id,))


def test_deleting_the_newest_brings_the_one_before_it_back(ana: Member, vibe: Agent, first: Run) -> None:
    second = ask_again(first, ana, "In late winter.")
    third = ask_again(second, ana, "In March.")
    delete_message(message=Message.objects.get(run=second), by=access(ana))
    assert states(first, third) == ["replaced", "complete"]
    delete_message(message=Message.objects.get(run=third), by=access(ana))
    assert states(first) == ["complete"]
    assert prompt_bodies(vibe, first.thread) == ["In the first frost."]


def test_what_failed_is_no_answer_again_when_the_one_after_it_is_deleted(ana: Member, vibe: Agent, first: Run) -> None:
    failed = ask_again(first, ana, ScriptedAnswer("In Ma", then=ModelUnavailable("It is gone.")))
    third = ask_again(failed, ana, "In March.")
    assert states(first, failed, third) == ["replaced", "replaced", "complete"]
    delete_message(message=Message.objects.get(run=third), by=access(ana))
    assert states(first, failed) == ["complete", "replaced"]
    delete_message(message=Message.objects.get(run=first), by=access(ana))
    assert states(failed) == ["failed"]
    assert prompt_bodies(vibe, first.thread) == []


def test_an_earlier_version_is_not_tried_again(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = Run.objects.get(trigger=say(thread, ana, "@vibe when do I prune the apple tree?"))
    execute_run(run.pk, client=ScriptedModel([ScriptedAnswer("In Ma", then=ModelUnavailable("It is gone."))]))
    run.refresh_from_db()
    assert runs_by_message([Message.objects.get(run=run)], access(ana))[run.reply_id or 0]["run"].may_retry
    again = ask_again(run, ana, "In March.")
    assert not runs_by_message([Message.objects.get(run=run)], access(ana))[run.reply_id or 0]["run"].may_retry
    with pytest.raises(Conflict, match="later answer"):
        retry_run(run=run, by=access(ana))
    assert states(run, again) == ["replaced", "complete"]


def test_of_two_that_are_written_at_once_the_later_one_counts(ana: Member, vibe: Agent, first: Run) -> None:
    again = ask_again(first, ana, "In March.")
    Run.objects.filter(pk=first.pk).update(state="queued", finished_at=None, started_at=None)
    execute_run(first.pk, client=ScriptedModel(["In the second frost."]))
    assert Message.objects.get(run=first).body == "In the second frost."
    assert states(first, again) == ["replaced", "complete"]


def test_the_page_shows_one_place_and_each_version_in_it(ana: Member, vibe: Agent, first: Run) -> None:
    second = ask_again(first, ana, "In March.")
    client, home = signed_in(ana), f"/w/{ana.workspace.slug}"
    page = client.get(f"{home}/t/{first.thread_id}/").content.decode()
    assert page.count("is-replaced") == 1
    assert f'href="{home}/m/{first.reply_id}/" aria-label="Earlier answer"' in page
    earlier = client.get(f"{home}/m/{first.reply_id}/", headers=HTMX).content.decode()
    assert "In the first frost." in earlier
    assert f'href="{home}/m/{second.reply_id}/" aria-label="Later answer"' in earlier
    assert "1 / 2" in " ".join(earlier.split())


def test_an_edited_question_offers_to_ask_again_until_it_was(ana: Member, vibe: Agent, first: Run) -> None:
    def page_of_question() -> str:
        url = f"/w/{ana.workspace.slug}/m/{first.trigger_id}/"
        return signed_in(ana).get(url, headers=HTMX).content.decode()

    assert "Ask again" not in page_of_question()
    update_message(message=first.trigger, by=access(ana), body="@vibe when do I prune the pear tree?")
    assert "Edited since <bdi>Vibe</bdi> answered." in page_of_question()
    url = f"/w/{ana.workspace.slug}/runs/{first.pk}/regenerate/"
    fragment = signed_in(ana).post(url, {"on_question": "1"}, headers=HTMX).content.decode()
    assert f'id="runs-{first.trigger_id}"' in fragment
    again = Run.objects.get(regenerates=first)
    assert "Ask again" not in page_of_question()
    model = ScriptedModel(["The pear in March."])
    execute_run(again.pk, client=model)
    assert "pear tree?" in model.calls[0].messages[-1].content
    assert "Ask again" not in page_of_question()
    assert states(first) == ["replaced"]


def test_what_agents_read_offers_them_no_asking_again(ana: Member, vibe: Agent, first: Run) -> None:
    update_message(message=first.trigger, by=access(ana), body="@vibe when do I prune the pear tree?")
    question = Message.objects.select_related("author").get(pk=first.trigger_id)
    assert "ask_again" in runs_by_message([question], access(ana))[question.pk]
    assert "ask_again" not in runs_by_message([question], visible_to(vibe)).get(question.pk, {})
