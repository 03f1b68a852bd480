"""A run that asks people, waits, and goes on or is stopped."""

import pytest
from django.test import Client

from agents.models import Agent, Run, ToolCall
from agents.runs.executor import execute_run
from agents.runs.lifecycle import stop_run
from agents.runs.recovery import recover_runs
from agents.web.run_cards import RunCard, runs_by_message
from memory.work.approvals import decide_approval
from memory.work.models import Approval, ProgressEntry
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import open_direct_messages
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import LOG, ask, calling, is_whole, reply_of, told
from tests.engines.llm.scripted_client import ScriptedModel
from tests.factories import access, signed_in

ORDER = ("request_approval", {"what": "Order  500 tulip bulbs", "reason": "They are gone by May."})


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Runs that were handed to a worker."""
    runs: list[int] = []
    monkeypatch.setattr("agents.receivers.enqueue_run_on_commit", runs.append)
    return runs


@pytest.fixture
def waiting(ana: Member, vibe: Agent, thread: Thread, sent: list[int]) -> Run:
    run = ask(thread, ana, "@vibe order the bulbs")
    told(run, calling(ORDER, LOG, text="I would order them today."))
    sent.clear()
    return run


def asked_for(run: Run) -> Approval:
    assert run.approval is not None
    return run.approval


def test_the_run_waits_and_keeps_what_it_said(vibe: Agent, waiting: Run) -> None:
    assert waiting.state == "waiting_approval"
    assert (reply_of(waiting).body, reply_of(waiting).state) == ("I would order them today.", "stopped")
    approval = asked_for(waiting)
    assert (approval.what, approval.state) == ("Order 500 tulip bulbs", "requested")
    assert approval.requested_by == vibe.participant
    assert ToolCall.objects.get(run=waiting).decision == "waits"
    assert not ProgressEntry.objects.exists(), "what was called after it was carried out"


def test_the_page_says_what_it_waits_for(ana: Member, waiting: Run) -> None:
    card = runs_by_message([reply_of(waiting)], access(ana))[reply_of(waiting).pk]["run"]
    assert isinstance(card, RunCard)
    assert card.label == "Vibe is waiting for Ana or another member to decide: Order 500 tulip bulbs"
    assert (card.is_under_way, card.may_stop, card.may_retry) == (True, True, False)


def test_a_guest_does_not_decide_and_is_not_waited_for(ana: Member, waiting: Run) -> None:
    Member.objects.filter(pk=ana.pk).update(role="guest")
    card = runs_by_message([reply_of(waiting)], access(ana))[reply_of(waiting).pk]["run"]
    assert card.label == "Vibe is waiting for a member to decide: Order 500 tulip bulbs"


def test_in_direct_messages_it_waits_for_nobody_else(ana: Member, vibe: Agent, sent: list[int]) -> None:
    run = ask(open_direct_messages(by=access(ana), recipient=vibe.participant)[0], ana)
    told(run, calling(ORDER))
    card = runs_by_message([reply_of(run)], access(ana))[reply_of(run).pk]["run"]
    assert card.label == "Vibe is waiting for Ana to decide: Order 500 tulip bulbs"


def test_a_run_that_said_nothing_waits_with_an_empty_reply(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    told(run, calling(ORDER))
    assert (run.state, reply_of(run).body, reply_of(run).state) == ("waiting_approval", "", "stopped")


def test_the_sweeper_and_workers_leave_it_alone(waiting: Run) -> None:
    Run.objects.update(sent_at="2020-01-01T00:00Z")
    assert recover_runs() == []
    assert execute_run(waiting.pk, client=ScriptedModel(["Now!"])) is None
    waiting.refresh_from_db()
    assert waiting.state == "waiting_approval"


def test_later_runs_do_not_wait_for_it(ana: Member, thread: Thread, waiting: Run) -> None:
    later = ask(thread, ana, "@vibe and the roses?")
    told(later, "In March.")
    assert later.state == "done"


@pytest.mark.parametrize("granted", [True, False], ids=["granted", "denied"])
def test_a_decision_either_way_lets_it_go_on(ana: Member, waiting: Run, sent: list[int], granted: bool) -> None:
    decide_approval(approval=asked_for(waiting), by=access(ana), is_granted=granted, note="Ask for a discount.")
    waiting.refresh_from_db()
    assert (waiting.state, sent) == ("queued", [waiting.pk])
    model = told(waiting, "Understood.")
    assert (waiting.state, reply_of(waiting).state) == ("done", "complete")
    assert reply_of(waiting).body == "I would order them today.\n\nUnderstood."
    assert Message.objects.filter(author=waiting.agent.participant).count() == 1
    prompt = "".join(message.content for message in model.calls[0].messages)
    assert f'state="{"granted" if granted else "denied"}"' in prompt
    assert 'decided_by="Ana"' in prompt
    assert is_whole(model.calls[0].messages)


def test_what_was_decided_is_not_asked_again(ana: Member, waiting: Run) -> None:
    decide_approval(approval=asked_for(waiting), by=access(ana), is_granted=True)
    told(waiting, calling(ORDER), "Ordered.")
    assert (waiting.state, Approval.objects.count()) == ("done", 1)
    assert "state: granted, decided by: Ana" in waiting.tool_calls.get(decision="allowed").result


def test_an_earlier_question_in_the_thread_says_nothing_about_todays(ana: Member, thread: Thread, waiting: Run) -> None:
    decide_approval(approval=asked_for(waiting), by=access(ana), is_granted=True)
    told(waiting, "Ordered.")
    again = ask(thread, ana, "@vibe order the bulbs")
    told(again, calling(ORDER))
    assert (again.state, Approval.objects.count()) == ("waiting_approval", 2)


def test_two_runs_that_ask_the_same_wait_for_one_decision(
    ana: Member, thread: Thread, waiting: Run, sent: list[int]
) -> None:
    other = ask(thread, ana, "@vibe what about the bulbs?")
    told(other, calling(ORDER))
    assert other.approval == waiting.approval
    sent.clear()
    decide_approval(approval=asked_for(waiting), by=access(ana), is_granted=False)
    assert sent == [waiting.pk, other.pk]


def test_stop_ends_the_waiting_and_a_later_decision_changes_nothing(ana: Member, waiting: Run, sent: list[int]) -> None:
    stop_run(run=waiting, by=access(ana))
    waiting.refresh_from_db()
    assert (waiting.state, reply_of(waiting).body) == ("stopped", "I would order them today.")
    decide_approval(approval=asked_for(waiting), by=access(ana), is_granted=True)
    waiting.refresh_from_db()
    assert (waiting.state, sent) == ("stopped", [])


def test_workers_may_die_three_times_again_after_each_decision(ana: Member, waiting: Run) -> None:
    decide_approval(approval=asked_for(waiting), by=access(ana), is_granted=True)
    waiting.refresh_from_db()
    first = waiting.attempt + 1
    for attempt in (first, first + 1):
        Run.objects.filter(pk=waiting.pk).update(state="reading", attempt=attempt)
        assert recover_runs() == [waiting.pk]
    Run.objects.filter(pk=waiting.pk).update(state="reading", attempt=first + 2)
    assert recover_runs() == []
    waiting.refresh_from_db()
    assert waiting.error_code == "worker_lost"


def test_the_message_does_not_say_it_was_stopped(ana: Member, waiting: Run) -> None:
    client = Client()
    client.force_login(ana.user)
    address = f"/w/{ana.workspace.slug}/m/{reply_of(waiting).pk}/"
    page = client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "Vibe is waiting for Ana or another member to decide: Order 500 tulip bulbs" in page
    assert "Stop Vibe" in page
    assert "Stopped." not in page
    stop_run(run=waiting, by=access(ana))
    assert "Stopped." in client.get(address, headers={"HX-Request": "true"}).content.decode()


def test_it_is_granted_and_denied_in_the_message_that_waits(ana: Member, waiting: Run, sent: list[int]) -> None:
    client, slug = signed_in(ana), waiting.workspace.slug
    approval = asked_for(waiting)
    page = client.get(f"/w/{slug}/m/{waiting.reply_id}/", headers={"HX-Request": "true"}).content.decode()
    card = page[page.index(f'id="decision-{approval.pk}"') :]
    assert "<bdi>Vibe</bdi> asks:" in card
    assert "Order 500 tulip bulbs" in card
    assert "They are gone by May." in card
    assert f'hx-target="#decision-{approval.pk}"' in card
    assert ("Grant</button>" in card, "Deny</button>" in card) == (True, True)
    answer = client.post(
        f"/w/{slug}/approvals/{approval.pk}/",
        {"granted": "no", "note": "Too many.", "from": "card"},
        headers={"HX-Request": "true"},
    )
    assert "You denied it." in answer.content.decode()
    approval.refresh_from_db()
    assert (approval.state, approval.note, sent) == ("denied", "Too many.", [waiting.pk])


def test_a_guest_reads_what_it_waits_for_without_buttons(ana: Member, waiting: Run) -> None:
    Member.objects.filter(pk=ana.pk).update(role="guest")
    page = (
        signed_in(ana)
        .get(f"/w/{waiting.workspace.slug}/m/{waiting.reply_id}/", headers={"HX-Request": "true"})
        .content.decode()
    )
    assert "<bdi>Vibe</bdi> asks:" in page
    assert "Grant</button>" not in page
