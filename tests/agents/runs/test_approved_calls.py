"""Calls that must ask first: they wait, and are executed once after people approved them, whatever dies in between."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Thread as Strand
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

from agents.agent.trust import Effect
from agents.models import Agent, Run, ToolCall
from agents.runs.executor import execute_run
from agents.runs.lifecycle import retry_run, stop_run
from agents.runs.recovery import recover_runs
from agents.runs.tool_calls import STOPPED_CALL_MESSAGE
from agents.tools.toolbox import EXTRA_TOOLS, UNKNOWN_OUTCOME
from agents.tools.values import Tool, ToolContext, ToolRegistration, thread_source
from agents.wiring import approval_calls
from memory.tasks import lapse_approvals
from memory.work.approvals import decide_approval
from memory.work.models import Approval
from openvibe.chat.models import Thread
from openvibe.engines.llm.values import ToolSpec
from openvibe.workspaces.models import Member, Participant
from tests.agents.runs.scripted_runs import WorkerDied, ask, calling, reply_of, results, told
from tests.engines.llm.scripted_client import ScriptedModel
from tests.factories import access
from tests.locks import wait_until_blocked
from tests.registers import replaced

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
SEND = ("send_letter", {"to": "the mill"})


@dataclass
class Postbox:
    """A tool of somebody else, and what was sent with it. `dies`: the worker does, once the letter is sent;
    `lowers_level`: an admin lowers the agent's then."""

    effect: Effect = "external"
    is_remote: bool = True
    dies: bool = False
    lowers_level: bool = False
    sent: list[str] = field(default_factory=list)

    def registrations(self, agent: Agent, thread: Thread) -> list[ToolRegistration]:
        return [ToolRegistration("send_letter", self.tool, self.effect, is_approved=True)]

    def tool(self, context: ToolContext) -> Tool:
        spec = ToolSpec("send_letter", "Send a letter.", SCHEMA)
        return Tool(spec, self.send, sources=thread_source(context.thread), is_remote=self.is_remote)

    def send(self, arguments: dict[str, Any]) -> str:
        self.sent.append(arguments["to"])
        if self.dies:
            raise WorkerDied
        if self.lowers_level:
            Agent.objects.update(level=1)
        return f"Sent to {arguments['to']}."


@pytest.fixture
def postbox(vibe: Agent) -> Iterator[Postbox]:
    Agent.objects.filter(pk=vibe.pk).update(level=4)
    box = Postbox()
    with replaced(EXTRA_TOOLS, box.registrations):
        yield box


@pytest.fixture
def waiting(ana: Member, thread: Thread, postbox: Postbox) -> Run:
    run = ask(thread, ana, "@vibe order seeds")
    told(run, calling(SEND, text="The mill has the seeds."))
    return run


def decided(run: Run, by: Member, *, granted: bool, note: str = "") -> None:
    assert run.approval is not None
    decide_approval(approval=run.approval, by=access(by), is_granted=granted, note=note)
    run.refresh_from_db()


def test_an_approved_call_is_executed_once_and_the_model_goes_on(ana: Member, waiting: Run, postbox: Postbox) -> None:
    assert (waiting.state, postbox.sent) == ("waiting_approval", [])
    approval = waiting.approval
    assert approval is not None
    assert (approval.what, approval.reason) == ("Use send_letter", "The mill has the seeds.")
    decided(waiting, ana, granted=True)
    model = told(waiting, "It is ordered.")
    assert (waiting.state, postbox.sent) == ("done", ["the mill"])
    assert reply_of(waiting).body == "The mill has the seeds.\n\nIt is ordered.", "what people decided about stands"
    assert "The mill has the seeds." in [message.content for message in model.calls[0].messages]
    assert ["Sent to the mill." in result for result in results(model.calls[0])] == [True]
    rows = waiting.tool_calls.values_list("decision", "effect", "approval", "attempt")
    assert list(rows) == [("waits", "external", approval.pk, 1), ("allowed", "external", approval.pk, waiting.attempt)]


def test_people_see_characters_that_turn_what_they_read(ana: Member, thread: Thread, postbox: Postbox) -> None:
    run = ask(thread, ana, "@vibe order seeds")
    told(run, calling(("send_letter", {"to": "\u202e001\u202c \U000e0041"})))
    assert run.approval is not None
    (call,) = approval_calls([run.approval.pk], access(ana)).values()
    assert call.arguments == '{\n  "to": "\\u202e001\\u202c \\U000e0041"\n}'


def test_a_denied_call_is_not_executed_and_not_asked_about_again(ana: Member, waiting: Run, postbox: Postbox) -> None:
    decided(waiting, ana, granted=False, note="Too dear.")
    model = told(waiting, calling(SEND), "Then not.")
    assert (waiting.state, postbox.sent, Approval.objects.count()) == ("done", [], 1)
    assert "Ana denied this call. Note: Too dear." in results(model.calls[0])[0]
    assert "denied this very call" in results(model.calls[1])[1]


def test_a_call_whose_worker_died_is_said_to_be_unknown_and_not_repeated(
    ana: Member, waiting: Run, postbox: Postbox
) -> None:
    decided(waiting, ana, granted=True)
    postbox.dies = True
    with pytest.raises(WorkerDied):
        execute_run(waiting.pk, client=ScriptedModel([]))
    assert recover_runs() == [waiting.pk]
    model = told(waiting, "I cannot say whether it was ordered.")
    assert (waiting.state, postbox.sent) == ("done", ["the mill"])
    assert UNKNOWN_OUTCOME in results(model.calls[0])[0]


def test_what_was_done_is_not_done_again_by_the_next_attempt(ana: Member, waiting: Run, postbox: Postbox) -> None:
    decided(waiting, ana, granted=True)

    def dies(_: object) -> str:
        raise WorkerDied

    with pytest.raises(WorkerDied):
        execute_run(waiting.pk, client=ScriptedModel([dies]))
    assert recover_runs() == [waiting.pk]
    model = told(waiting, "It is ordered.")
    assert (waiting.state, postbox.sent) == ("done", ["the mill"])
    assert "Sent to the mill." in results(model.calls[0])[0]


def test_a_level_that_was_lowered_meanwhile_outweighs_the_approval(ana: Member, waiting: Run, postbox: Postbox) -> None:
    Agent.objects.update(level=3)
    decided(waiting, ana, granted=True)
    model = told(waiting, "I may not.")
    assert (waiting.state, postbox.sent) == ("done", [])
    refused = waiting.tool_calls.get(decision="refused")
    assert "send_letter, which acts outside the workspace: agents may from L4 on" in refused.why
    assert refused.why[:40] in results(model.calls[0])[0]


def test_a_level_that_is_lowered_during_a_call_holds_for_the_next_one_of_the_round(
    ana: Member, thread: Thread, postbox: Postbox
) -> None:
    postbox.effect, postbox.lowers_level = "acts", True
    run = ask(thread, ana, "@vibe order seeds")
    told(run, calling(SEND, ("send_letter", {"to": "the bank"})))
    assert (postbox.sent, run.error_code) == (["the mill"], "level_lowered")


def test_words_of_a_deleted_message_are_not_sent(ana: Member, waiting: Run, postbox: Postbox) -> None:
    waiting.tool_calls.update(arguments="", why="", result="")  # as deleting a message of the thread does
    decided(waiting, ana, granted=True)
    told(waiting, "I look again.")
    assert postbox.sent == []
    assert "which this call may quote" in waiting.tool_calls.get(decision="refused").why


def test_nobody_decides_about_a_call_of_a_stopped_run(ana: Member, waiting: Run) -> None:
    stop_run(run=waiting, by=access(ana))
    assert Approval.objects.get().state == "lapsed"


def test_who_stops_the_run_takes_the_approval_back(ana: Member, waiting: Run, postbox: Postbox) -> None:
    decided(waiting, ana, granted=True)
    stop_run(run=waiting, by=access(ana))
    retry_run(run=waiting, by=access(ana))
    model = told(waiting, calling(SEND))
    assert postbox.sent == []
    assert STOPPED_CALL_MESSAGE in results(model.calls[0])[0]
    assert waiting.tool_calls.get(decision="refused").why == STOPPED_CALL_MESSAGE
    assert (waiting.state, Approval.objects.filter(state="requested").count()) == ("waiting_approval", 1)
    decided(waiting, ana, granted=True)
    told(waiting, "It is ordered.")
    assert (waiting.state, postbox.sent) == ("done", ["the mill"])


def test_an_approval_lapses_after_a_week_and_the_run_says_so(ana: Member, waiting: Run, postbox: Postbox) -> None:
    lapse_approvals()
    waiting.refresh_from_db()
    assert waiting.state == "waiting_approval"
    Approval.objects.update(created_at="2020-01-01T00:00Z")
    lapse_approvals()
    waiting.refresh_from_db()
    assert (waiting.state, waiting.error_code) == ("failed", "approval_lapsed")
    assert "Nobody decided within 7 days." in waiting.error
    retry_run(run=waiting, by=access(ana))
    told(waiting, calling(SEND))
    assert (waiting.state, Approval.objects.filter(state="requested").count()) == ("waiting_approval", 1)


def test_a_tool_in_the_database_and_its_record_stand_together(ana: Member, vibe: Agent, thread: Thread) -> None:
    """The call waits like any other, and what it wrote goes with a worker that dies before the record is committed."""
    Agent.objects.filter(pk=vibe.pk).update(level=4)
    box = Postbox(is_remote=False)
    with replaced(EXTRA_TOOLS, box.registrations):
        run = ask(thread, ana, "@vibe order seeds")
        told(run, calling(SEND))
        decided(run, ana, granted=True)
        box.dies = True
        with pytest.raises(WorkerDied):
            execute_run(run.pk, client=ScriptedModel([]))
        assert not ToolCall.objects.filter(run=run, decision="allowed").exists()
        box.dies = False
        recover_runs()
        told(run, "Done.")
    assert (run.state, box.sent) == ("done", ["the mill", "the mill"]), "the first was rolled back"


@pytest.mark.parametrize(("level", "effect", "rule"), [(3, "external", "from L4 on"), (2, "acts", "from L3 on")])
def test_a_call_outside_the_gate_is_refused_and_on_record(
    ana: Member, vibe: Agent, thread: Thread, level: int, effect: Effect, rule: str
) -> None:
    Agent.objects.filter(pk=vibe.pk).update(level=level)
    box = Postbox(effect)
    with replaced(EXTRA_TOOLS, box.registrations):
        run = ask(thread, ana, "@vibe order seeds")
        model = told(run, calling(SEND), "I may not.")
    assert "send_letter" not in [tool.name for tool in model.calls[0].tools]
    assert (run.tool_calls.get().decision, box.sent) == ("refused", [])
    assert rule in run.tool_calls.get().why
    assert Participant.objects.filter(episodes__kind="trust_check").exists()


def test_the_card_shows_the_call_and_is_found_from_the_thread(ana: Member, waiting: Run) -> None:
    client, reply = Client(), reply_of(waiting)
    client.force_login(ana.user)
    (row,) = client.get(f"/api/v1/approvals/?thread={waiting.thread_id}").json()["results"]
    assert row["call"] == {
        "tool": "send_letter",
        "arguments": '{\n  "to": "the mill"\n}',
        "hidden": "",
        "permission": None,
    }
    place = f"/w/{ana.workspace.slug}/t/{waiting.thread_id}"
    card = client.get(f"{place}/work/").content.decode()
    for part in (
        "<bdi>Vibe</bdi> asks",
        "send_letter",
        "&quot;to&quot;: &quot;the mill&quot;",
        "The mill has the seeds.",
    ):
        assert part in card
    page = client.get(f"{place}/").content.decode()
    card = page[page.index(f'id="decision-{waiting.approval_id}"') :]
    for part in (
        "<bdi>Vibe</bdi> asks",
        "send_letter",
        "&quot;to&quot;: &quot;the mill&quot;",
        "The mill has the seeds.",
        "Grant<",
    ):
        assert part in card
    assert '<b class="dive-count">1<span class="visually-hidden"> to decide</span></b>' in page
    inbox = client.get(f"/w/{ana.workspace.slug}/").text
    assert "Vibe waits for a decision in" in inbox
    assert f'href="{place}/?panel=t%2F{waiting.thread_id}%2Fwork%2F"' in inbox
    decided(waiting, ana, granted=False)
    page = client.get(f"{place}/").content.decode()
    assert "to decide" not in page
    assert "#approval-" not in page
    assert reply.body


@pytest.mark.django_db(transaction=True)
def test_stop_and_a_decision_at_once_do_not_wait_for_each_other(ana: Member, waiting: Run) -> None:
    """The person who decides holds the approval and then takes the run: who stops the run does not hold it
    meanwhile."""

    def stop() -> None:
        stop_run(run=waiting, by=access(ana))
        connection.close()

    stopping = Strand(target=stop)
    with transaction.atomic():
        Approval.objects.select_for_update().get()
        stopping.start()
        wait_until_blocked(stopping)
        assert Run.objects.select_for_update(nowait=True).get() == waiting
    stopping.join(30)
    waiting.refresh_from_db()
    assert (waiting.state, Approval.objects.get().state) == ("stopped", "lapsed")
