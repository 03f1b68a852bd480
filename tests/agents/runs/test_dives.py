"""The answers in a dive: its agent, everything said there, and nobody else."""

import pytest

from agents.agent.services import set_trust_level
from agents.models import Agent, Run
from agents.runs.executor import execute_run
from agents.runs.lifecycle import regenerate_run, retry_run
from openvibe.base.problems import Conflict, Refused
from openvibe.chat.models import Dive, Mention, Message, Thread
from openvibe.chat.queries import newest_agent_draft
from openvibe.chat.services import discard_dive, post_message, publish_dive, request_draft, start_dive
from openvibe.engines.llm.offline.drafts import EXTRACTED_NOTE, OFFLINE_NOTE, ResultDraft
from openvibe.engines.llm.offline.offline import OfflineModel
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import meanwhile
from tests.engines.llm.scripted_client import ScriptedAnswer, ScriptedModel
from tests.factories import access, make_agent, make_paid_endpoint, say

RESULT = ResultDraft("Prune in March", ("Before the buds open", "With clean shears", "Climbers after flowering"))


@pytest.fixture
def dive(ana: Member, vibe: Agent, thread: Thread) -> Dive:
    source = say(thread, ana, "Roses are pruned in March. The hedge comes later. Bare roots need water.")
    return start_dive(source=source, by=access(ana), agent=vibe.participant)


def ask(dive: Dive, by: Member, body: str = "Why then?") -> Run:
    return Run.objects.get(trigger=say(dive.thread, by, body))


def answered(run: Run, *replies: str) -> Message:
    execute_run(run.pk, client=ScriptedModel([ScriptedAnswer(reply) for reply in replies]))
    run.refresh_from_db()
    assert run.reply is not None
    return run.reply


def test_everything_said_in_it_is_answered(ana: Member, vibe: Agent, dive: Dive) -> None:
    runs = [ask(dive, ana), ask(dive, ana, "@vibe, and then?")]
    assert [(run.task, run.agent) for run in runs] == [("dive", vibe)] * 2
    assert Run.objects.count() == 2


def test_another_agent_named_there_says_who_answers(ana: Member, thread: Thread, dive: Dive) -> None:
    fern = make_agent(ana, "fern", channel=thread.channel)
    dive.thread.following_agents.add(fern.participant)  # no door does this
    message = say(dive.thread, ana, "@fern what do you say?")

    assert [run.agent.participant.handle for run in Run.objects.all()] == ["vibe"]
    assert "in this dive only @vibe answers" in Mention.objects.get(message=message).note


def test_an_agent_that_may_not_answer_any_more_says_why(ana: Member, vibe: Agent, dive: Dive) -> None:
    set_trust_level(agent=vibe, by=access(ana), level=1, note="Slow down")
    message = say(dive.thread, ana, "Why then?")

    assert not Run.objects.exists()
    assert "at L1 it takes no part in dives" in Mention.objects.get(message=message).note


def test_a_spent_budget_is_said_too(ana: Member, dive: Dive) -> None:
    make_paid_endpoint(ana)
    Agent.objects.update(daily_token_budget=0)
    message = say(dive.thread, ana, "Why then?")
    assert "budget for today" in Mention.objects.get(message=message).note


def test_a_program_elsewhere_is_waited_for_and_asked_for_the_draft_all_the_same(ana: Member, dive: Dive) -> None:
    Agent.objects.update(answers_itself=True)
    say(dive.thread, ana, "Why then?")
    request_draft(dive=dive, by=access(ana))
    runs = Run.objects.order_by("pk")
    assert [(run.task, run.state, run.is_external) for run in runs] == [
        ("dive", "queued", True),
        ("publish", "queued", True),
    ]


@pytest.mark.django_db(transaction=True)
def test_what_it_drafts_stands_ready_for_the_form(ana: Member, dive: Dive) -> None:
    answered(ask(dive, ana), "Because the buds open in April.")
    assert newest_agent_draft(dive).request_seq is None

    asked = request_draft(dive=dive, by=access(ana))
    run = Run.objects.get(trigger=asked)
    assert (run.task, run.requested_by) == ("publish", ana.participant)
    assert (newest_agent_draft(dive).request_seq, newest_agent_draft(dive).draft) == (asked.seq, None)

    answered(run, "## Headline\nMarch\n## Key points\n- One\n- Two\n- Three")
    assert newest_agent_draft(dive).draft == ResultDraft("March", ("One", "Two", "Three"))


@pytest.mark.django_db(transaction=True)
def test_the_offline_model_drafts_it(ana: Member, dive: Dive) -> None:
    for run in (ask(dive, ana, "When are roses pruned?"), None):
        run = run or Run.objects.get(trigger=request_draft(dive=dive, by=access(ana)))
        execute_run(run.pk, client=OfflineModel())

    draft = newest_agent_draft(dive).draft
    assert draft is not None
    assert OFFLINE_NOTE in draft.full
    assert "Roses are pruned in March." in draft.full


@pytest.mark.django_db(transaction=True)
def test_of_a_reply_that_is_no_result_sentences_are_picked(ana: Member, dive: Dive) -> None:
    run = Run.objects.get(trigger=request_draft(dive=dive, by=access(ana)))
    answered(run, "Sure! Roses are pruned in March. Use clean shears. Climbers come later.")

    draft = newest_agent_draft(dive)
    assert draft.is_extracted
    assert draft.draft is not None
    assert draft.draft.full.startswith(EXTRACTED_NOTE)


@pytest.mark.django_db(transaction=True)
def test_a_draft_that_is_changed_on_request_takes_the_first_one_s_place(ana: Member, dive: Dive) -> None:
    form = "## Headline\n{}\n## Key points\n- One\n- Two\n- Three"
    answered(Run.objects.get(trigger=request_draft(dive=dive, by=access(ana))), form.format("First"))
    answered(ask(dive, ana, "Shorter, please"), form.format("Second"))
    answered(ask(dive, ana, "Thanks"), "You are welcome.")

    draft = newest_agent_draft(dive).draft
    assert draft is not None
    assert draft.headline == "Second"


def test_no_second_draft_while_one_is_awaited(ana: Member, dive: Dive) -> None:
    request_draft(dive=dive, by=access(ana))
    with pytest.raises(Conflict, match="@vibe is still busy") as error:
        request_draft(dive=dive, by=access(ana))
    assert error.value.code == "being_written"
    assert Message.objects.filter(thread=dive.thread).count() == 1


@pytest.mark.django_db(transaction=True)
def test_what_waits_is_not_answered_once_the_dive_is_over(ana: Member, dive: Dive) -> None:
    run = ask(dive, ana)
    publish_dive(dive=dive, by=access(ana), result=RESULT)
    execute_run(run.pk, client=ScriptedModel([ScriptedAnswer("Too late")]))

    run.refresh_from_db()
    assert run.state == "stopped"
    assert Message.objects.filter(thread=dive.thread).count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_reply_that_is_being_written_is_stopped_by_discarding(ana: Member, dive: Dive) -> None:
    run = ask(dive, ana)
    discarding = meanwhile(lambda: discard_dive(dive=dive, by=access(ana)), ScriptedAnswer("Because of the fr"))
    execute_run(run.pk, client=ScriptedModel([discarding]))

    run.refresh_from_db()
    assert Dive.objects.get(pk=dive.pk).state == "discarded"
    assert run.stop_requested_at is not None
    assert run.is_over


@pytest.mark.django_db(transaction=True)
def test_it_is_not_published_over_a_reply_that_is_being_written(ana: Member, dive: Dive) -> None:
    refused: list[str] = []

    def publish() -> None:
        try:
            publish_dive(dive=dive, by=access(ana), result=RESULT)
        except Conflict as problem:
            refused.append(problem.code)

    run = ask(dive, ana)
    execute_run(run.pk, client=ScriptedModel([meanwhile(publish, ScriptedAnswer("Because of the frost."))]))

    assert refused == ["being_written"]
    run.refresh_from_db()
    assert (run.state, Dive.objects.get(pk=dive.pk).state) == ("done", "active")


@pytest.mark.django_db(transaction=True)
def test_nothing_is_answered_again_in_a_dive_that_is_over(ana: Member, dive: Dive) -> None:
    run = ask(dive, ana)
    answered(run, "Because the buds open in April.")
    publish_dive(dive=dive, by=access(ana), result=RESULT)
    with pytest.raises(Refused, match="this dive is published"):
        regenerate_run(run=run, by=access(ana))

    Run.objects.filter(pk=run.pk).update(state="failed", error="It fell over.")
    with pytest.raises(Refused, match="this dive is published"):
        retry_run(run=run, by=access(ana))


def test_what_its_agent_posts_itself_starts_nothing(ana: Member, vibe: Agent, dive: Dive) -> None:
    from agents.agent.access import visible_to

    post_message(thread=dive.thread, by=visible_to(vibe), body="In March.")
    assert not Run.objects.exists()
