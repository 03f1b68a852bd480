"""What a model thinks is kept beside its reply: shown, counted, masked, erased with what it may quote; in no prompt."""

from datetime import timedelta
from threading import Event

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from agents.models import Agent, KnowledgeUse, Run, RunStep
from agents.prompts.snapshots.store import erase_calls_about, expire_records
from agents.runs.lifecycle import regenerate_run, retry_run, stop_run
from agents.runs.steps import read_reasoning
from agents.runs.thoughts import MAX_THOUGHT_CHARACTERS, ThoughtWriter, bounded_thought
from knowledge.services import erase_entry
from memory.work.approvals import decide_approval
from openvibe.base.models import Event as StoredEvent
from openvibe.chat.models import Thread
from openvibe.chat.services import delete_message, erase_texts, update_message
from openvibe.engines.jobs.jobs import JobLost
from openvibe.engines.llm.errors import ModelTimeout
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import LOG, ask, calling, meanwhile, reply_of, told
from tests.agents.runs.test_executor import in_background, wait_for
from tests.engines.llm.scripted_client import ScriptedAnswer, ScriptedModel
from tests.factories import access, make_entry, make_member, say

THOUGHTS = ("The question is ", "about pruning. ", "Ana prunes the climbers in July.")


def thinking(text: str = "In March.", *thoughts: str, tokens: int | None = None) -> ScriptedAnswer:
    return ScriptedAnswer(text, thoughts=thoughts or THOUGHTS, reasoning_tokens=tokens)


def texts() -> list[str]:
    return list(RunStep.objects.order_by("pk").values_list("text", flat=True))


def test_thoughts_stand_beside_the_reply_with_their_tokens(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    told(run, thinking(tokens=40))
    reasoning = read_reasoning(run)
    assert reasoning is not None
    assert (reasoning.text, reasoning.tokens, reasoning.is_thinking) == ("".join(THOUGHTS), 40, False)
    assert reply_of(run).body == "In March."
    assert StoredEvent.objects.filter(kind="run_step", message_id=run.reply_id).count() == 2


def test_thoughts_that_nobody_shows_are_counted_and_said(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    told(run, ScriptedAnswer("In March.", reasoning_tokens=900))
    reasoning = read_reasoning(run)
    assert reasoning is not None
    assert (reasoning.text, reasoning.tokens) == ("", 900)


def test_every_turn_that_thinks_has_its_own(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    first = ScriptedAnswer("", calling(LOG).tool_calls, thoughts=("I note it.",))
    told(run, first, thinking("Done.", "Now I say so."))
    assert texts() == ["I note it.", "Now I say so."]
    reasoning = read_reasoning(run)
    assert reasoning is not None
    assert reasoning.text == "I note it.\n\nNow I say so."


def test_thoughts_are_in_no_prompt_and_no_message(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    model = told(run, ScriptedAnswer("", calling(LOG).tool_calls, thoughts=("Zinnias first.",)), "Noted.")
    later = told(ask(thread, ana), "Again.")
    draft = regenerate_run(run=run, by=access(ana))
    again = told(draft, "Once more.")
    for call in (*model.calls, *later.calls, *again.calls):
        assert "Zinnias" not in "".join(message.content for message in call.messages)
    assert "Zinnias" not in reply_of(run).body


def test_a_run_without_thoughts_costs_no_statement(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    with CaptureQueriesContext(connection) as statements:
        told(run, "In March.")
    assert not [each for each in statements if "agents_runstep" in each["sql"]]


def test_secrets_are_masked_also_while_they_come(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    told(run, thinking("Done.", "The key is sk-", "abcdefghij0123456789", "ABCDEF and it works."))
    assert texts() == ["The key is [secret removed] and it works."]


def test_half_a_secret_is_never_written(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    Run.objects.filter(pk=run.pk).update(state="writing", attempt=1)
    run.attempt = 1
    writer = ThoughtWriter(run, 1)
    writer.add("The password: hun")
    assert texts() == ["The password: "]
    writer.add("ter2secret is it")
    writer.answer_begins()
    assert texts() == ["The password: [secret removed] is "]
    writer.end()
    assert texts() == ["The password: [secret removed] is it"]


@pytest.mark.django_db(transaction=True)
def test_what_came_before_a_pause_can_be_read_in_it(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    reached, go_on = Event(), Event()
    answer = ScriptedAnswer("In March.", thoughts=THOUGHTS, reached=reached, go_on=go_on, hold_before=0)
    worker = in_background(run, ScriptedModel([answer]))
    assert reached.wait(10)
    wait_for(lambda: texts() == ["The question is about pruning. Ana prunes the climbers in "])
    go_on.set()
    worker.join(10)
    assert texts() == ["".join(THOUGHTS)]


def test_a_model_thinks_until_it_answers_also_without_a_word(
    ana: Member, vibe: Agent, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ask(thread, ana)
    Run.objects.filter(pk=run.pk).update(state="writing", attempt=1)
    run.attempt, now = 1, 100.0
    monkeypatch.setattr("agents.runs.thoughts.monotonic", lambda: now)
    writer = ThoughtWriter(run, 1)
    writer.add("Roses, then. ")
    now = 108.0
    writer.answer_begins()
    now = 120.0
    writer.end()
    assert RunStep.objects.get().milliseconds == 8_000

    hidden = ThoughtWriter(run, 2, _begun_at=120.0)
    now = 129.0
    hidden.answer_begins()
    now = 150.0
    hidden.end(900)
    assert RunStep.objects.latest("pk").milliseconds == 9_000


def test_long_thoughts_keep_their_beginning_and_end() -> None:
    text = bounded_thought("a" * MAX_THOUGHT_CHARACTERS + "b" * MAX_THOUGHT_CHARACTERS)
    assert (len(text) <= MAX_THOUGHT_CHARACTERS, text[0], text[-1]) == (True, "a", "b")


def test_endless_thoughts_are_bounded_while_they_come(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    told(run, thinking("Done.", "First. ", *["word " * 2_000] * 100, "Last."))
    (text,) = texts()
    assert len(text) <= MAX_THOUGHT_CHARACTERS
    assert (text[:6], text[-5:]) == ("First.", "Last.")


def test_a_lost_attempt_writes_no_thoughts(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    Run.objects.filter(pk=run.pk).update(state="writing", attempt=2)
    run.attempt = 1
    with pytest.raises(JobLost):
        ThoughtWriter(run, 1).add("I am late. ")
    assert texts() == []


def test_another_attempt_replaces_them(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    told(run, ScriptedAnswer("In", thoughts=("The first try. ",), then=ModelTimeout("Too slow.")))
    assert run.state == "failed"
    retry_run(run=run, by=access(ana))
    told(run, thinking("In March.", "The second try."))
    assert texts() == ["The second try."]


@pytest.mark.django_db(transaction=True)
def test_a_stopped_run_keeps_and_counts_what_it_thought(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    reached, go_on = Event(), Event()
    answer = ScriptedAnswer("In March or April", thoughts=THOUGHTS, reached=reached, go_on=go_on, hold_before=0)
    worker = in_background(run, ScriptedModel([answer]))
    assert reached.wait(10)
    wait_for(lambda: texts() != [])
    stop_run(run=run, by=access(ana))
    worker.join(10)
    go_on.set()
    run.refresh_from_db()
    reasoning = read_reasoning(run)
    assert reasoning is not None
    assert (run.state, reasoning.is_thinking) == ("stopped", False)
    assert reasoning.text == "The question is about pruning. Ana prunes the climbers in"
    assert run.output_tokens > 5


@pytest.mark.parametrize("what", ["question", "reply", "other"])
def test_a_deleted_message_takes_the_thoughts_with_it(ana: Member, vibe: Agent, thread: Thread, what: str) -> None:
    other = say(thread, ana, "The vault code is tulip.")
    run = ask(thread, ana)
    told(run, thinking())
    message = {"question": run.trigger, "reply": reply_of(run), "other": other}[what]
    delete_message(message=message, by=access(ana))
    assert texts() == [""]
    reasoning = read_reasoning(Run.objects.get(pk=run.pk))
    assert reasoning is not None
    assert (reasoning.text, reasoning.tokens is not None) == ("", True)


@pytest.mark.django_db(transaction=True)
def test_what_is_deleted_while_it_thinks_is_not_kept(ana: Member, vibe: Agent, thread: Thread) -> None:
    secret = say(thread, ana, "The vault code is tulip, the fourth drawer holds the key.")
    run = ask(thread, ana)
    told(run, meanwhile(lambda: delete_message(message=secret, by=access(ana)), thinking("Done.", "Tulip, then.")))
    assert texts() == [""]


def test_what_an_edit_took_back_leaves_the_thoughts_that_repeat_it(ana: Member, vibe: Agent, thread: Thread) -> None:
    message = say(thread, ana, "The vault code is tulip, the fourth drawer holds the key to it.")
    told(
        ask(thread, ana), thinking("Done.", "She says the vault code is tulip, the fourth drawer holds the key to it.")
    )
    told(ask(thread, ana), thinking("Done.", "Nothing to look up."))
    update_message(message=message, by=access(ana), body="The code is secret.")
    erase_texts()
    erase_texts(now=timezone.now() + timedelta(minutes=1))
    assert texts() == ["", "Nothing to look up."]


def test_they_are_kept_as_long_as_results_of_tools(
    ana: Member, vibe: Agent, thread: Thread, settings: Settings
) -> None:
    told(ask(thread, ana), thinking())
    settings.PROMPT_RETENTION_DAYS = 30
    expire_records()
    assert texts() == ["".join(THOUGHTS)]
    RunStep.objects.update(created_at=timezone.now() - timedelta(days=31))
    expire_records()
    assert texts() == [""]


def test_erased_knowledge_takes_the_thoughts_of_runs_that_had_it(ana: Member, vibe: Agent, thread: Thread) -> None:
    entry = make_entry(ana, "The vault", "Its code is tulip.")
    run, other = ask(thread, ana), ask(thread, ana)
    told(run, thinking("Done.", "Tulip, then."))
    told(other, thinking("Done.", "Something else."))
    KnowledgeUse.objects.all().delete()
    KnowledgeUse.objects.create(run=run, entry=entry)
    erase_entry(entry=entry, by=access(ana))
    assert texts() == ["", "Something else."]


def test_cleared_notes_take_the_thoughts_about_that_person(ana: Member, vibe: Agent, thread: Thread) -> None:
    ben = make_member("Ben", workspace=ana.workspace)
    told(ask(thread, ana), thinking("Done.", "Ana likes it short."))
    told(ask(thread, ben), thinking("Done.", "Ben likes it long."))
    erase_calls_about(agent_id=vibe.participant_id, person_id=ana.participant_id)
    assert texts() == ["", "Ben likes it long."]


def test_a_run_that_people_let_go_on_keeps_what_it_thought(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    question = calling(("request_approval", {"what": "Order mulch"}))
    told(run, ScriptedAnswer("", question.tool_calls, thoughts=("Mulch costs money.",)))
    assert run.state == "waiting_approval"
    assert run.approval is not None
    decide_approval(approval=run.approval, by=access(ana), is_granted=True)
    told(run, thinking("Ordered.", "They said yes."))
    assert texts() == ["Mulch costs money.", "They said yes."]
