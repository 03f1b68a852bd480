"""The tools a prompt offers at once: those for which there is something. The others are a call away."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.agent.access import visible_to
from agents.models import Agent, Run, ToolCall
from agents.prompts.assembler.stack import MORE_TOOLS
from agents.tools import toolbox
from agents.tools.needs import NEEDS, SHORT_THREAD_MESSAGES, SHORT_THREAD_TOKENS
from agents.tools.offers import MAX_DIRECT_EXTRA_TOKENS
from agents.tools.toolbox import TOOLS, Toolbox
from agents.tools.values import Tool, ToolContext, ToolRegistration
from memory.services import create_work_item, log_progress, request_approval
from openvibe.chat.models import Thread
from openvibe.engines.llm.tokens import count_tool, counter_for
from openvibe.engines.llm.values import ToolSpec
from openvibe.workspaces.models import Member
from tests.agents.conftest import WriteFile
from tests.agents.factories import LoadedSkillFactory
from tests.agents.runs.scripted_runs import LOG, WorkerDied, ask, calling, reply_of, results, told
from tests.agents.tools.tool_calls import call
from tests.engines.llm.factories import EndpointFactory
from tests.factories import access, attach, make_agent, make_entry, say, say_all
from tests.memory.factories import BlockFactory

EXACT = counter_for("offline")


def offered(agent: Agent, thread: Thread) -> list[str]:
    return [spec.name for spec in Toolbox.for_agent(agent, thread).offered_specs]


def test_to_say_hello_hardly_any_tokens_are_spent_on_tools(ana: Member, vibe: Agent, thread: Thread) -> None:
    say(thread, ana, "@vibe say hello")
    box = Toolbox.for_agent(vibe, thread)
    assert [spec.name for spec in box.offered_specs] == [MORE_TOOLS]
    assert sum(count_tool(spec, EXACT) for spec in box.offered_specs) <= 120
    assert sum(count_tool(spec, EXACT) for spec in box.specs) > 600


def test_every_other_tool_is_named_by_the_one_that_offers_it(ana: Member, vibe: Agent, thread: Thread) -> None:
    box = Toolbox.for_agent(vibe, thread)
    (spec,) = box.offered_specs
    assert spec.parameters["properties"]["tool"]["enum"] == [each.name for each in box.specs]
    assert set(NEEDS) <= {registration.name for registration in TOOLS}


Furnish = Callable[[Member, Agent, Thread], object]


def _approval(ana: Member, vibe: Agent, thread: Thread) -> None:
    request_approval(thread=thread, by=visible_to(vibe), what="Order gloves")


WORK_TOOLS = ["log_progress", "work_update", "request_approval"]
FURNITURE: dict[str, tuple[Furnish, list[str]]] = {
    "many messages": (
        lambda ana, vibe, thread: say_all(thread, ana, ["Roses."] * (SHORT_THREAD_MESSAGES + 1)),
        ["memory"],
    ),
    "a long message": (lambda ana, vibe, thread: say(thread, ana, "roses and mulch " * 1_200), ["memory"]),
    "a file": (lambda ana, vibe, thread: attach(thread, ana, plan_md="Prune."), ["read_file"]),
    "a block": (
        lambda ana, vibe, thread: BlockFactory.create(
            agent=vibe.participant, label="team", content="Ana prunes.", tokens=4
        ),
        ["update_context_block"],
    ),
    "work": (
        lambda ana, vibe, thread: create_work_item(thread=thread, by=access(ana), kind="todo", text="Prune"),
        WORK_TOOLS,
    ),
    "a constraint": (
        lambda ana, vibe, thread: create_work_item(thread=thread, by=access(ana), kind="constraint", text="No peat."),
        [],
    ),
    "progress": (
        lambda ana, vibe, thread: log_progress(thread=thread, by=visible_to(vibe), checkpoint="Half of it"),
        ["log_progress"],
    ),
    "an approval": (_approval, ["request_approval"]),
    "knowledge": (lambda ana, vibe, thread: make_entry(ana), ["knowledge_search", "knowledge_suggest"]),
}


@pytest.mark.parametrize("what", FURNITURE)
def test_a_tool_is_offered_once_there_is_something_for_it(what: str, ana: Member, thread: Thread) -> None:
    furnish, names = FURNITURE[what]
    agent = make_agent(ana, "sage", level=3, channel=thread.channel)
    assert offered(agent, thread) == [MORE_TOOLS]
    furnish(ana, agent, thread)
    assert offered(agent, thread) == [MORE_TOOLS, *names]


def test_a_thread_too_short_to_look_things_up_stands_whole_in_a_small_window(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    EndpointFactory.create(
        workspace=ana.workspace,
        name="Local",
        kind="offline",
        model="somebodys-own-model",
        is_default=True,
        context_window=8_192,
        output_reserve=512,
    )
    words = "roses and mulch " * (SHORT_THREAD_TOKENS // SHORT_THREAD_MESSAGES // 3)
    say_all(thread, ana, [words] * (SHORT_THREAD_MESSAGES - 1 - thread.last_seq))
    model = told(ask(thread, ana), "In March.")
    assert "memory" not in [tool.name for tool in model.calls[0].tools]
    prompt = "\n".join(message.content for message in model.calls[0].messages)
    assert f"You see all {SHORT_THREAD_MESSAGES - 1} messages before the request." in prompt


def test_a_skill_is_put_down_only_where_one_is_taken_up(vibe: Agent, thread: Thread, skill: WriteFile) -> None:
    skill("shears", "# Shears\nSharpen before use.")
    assert offered(vibe, thread) == [MORE_TOOLS, "load_skill"]
    LoadedSkillFactory.create(agent=vibe, thread=thread, name="shears")
    assert offered(vibe, thread) == [MORE_TOOLS, "load_skill", "unload_skill"]


def test_what_was_called_here_before_stays_offered(ana: Member, vibe: Agent, thread: Thread) -> None:
    told(ask(thread, ana), calling(("memory", {"action": "status"})), "In March.")
    assert "memory" in offered(vibe, thread)


def test_a_tool_that_is_not_offered_is_carried_out_all_the_same(vibe: Agent, thread: Thread) -> None:
    """A model may know of it from an earlier answer."""
    outcome = Toolbox.for_agent(vibe, thread).execute(call("log_progress", checkpoint="Half of it"))
    assert outcome.result.startswith("Logged as progress:")


def test_a_tool_that_is_asked_for_is_offered_from_the_next_step_on(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    more = calling((MORE_TOOLS, {"tool": "log_progress"}))
    model = told(run, more, calling(LOG), "In March.")
    assert [[tool.name for tool in each.tools] for each in model.calls] == [
        [MORE_TOOLS],
        [MORE_TOOLS, "log_progress"],
        [MORE_TOOLS, "log_progress"],
    ]
    assert "You have log_progress from your next step on." in results(model.calls[1])[0]
    assert (run.state, reply_of(run).body) == ("done", "In March.")
    run.snapshot.refresh_from_db()
    assert run.snapshot.sections["tools"] == sum(count_tool(tool, EXACT) for tool in model.calls[1].tools)


@pytest.mark.parametrize("name", ["spade", "", 7])
def test_nothing_else_can_be_asked_for(name: object, ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    model = told(run, calling((MORE_TOOLS, {"tool": name})), "In March.")
    assert ToolCall.objects.get(run=run).decision == "refused"
    assert [tool.name for tool in model.calls[1].tools] == [MORE_TOOLS]


def test_the_next_attempt_has_what_the_last_one_asked_for(ana: Member, vibe: Agent, thread: Thread) -> None:
    def die(_: object) -> None:
        raise WorkerDied

    run = ask(thread, ana)
    with pytest.raises(WorkerDied):
        told(run, calling((MORE_TOOLS, {"tool": "log_progress"})), die)  # type: ignore[arg-type]
    Run.objects.filter(pk=run.pk).update(attempt=2)
    run.refresh_from_db()
    names = [spec.name for spec in Toolbox.for_agent(run.agent, thread, run=run).offered_specs]
    assert names == [MORE_TOOLS, "log_progress"]


def test_an_answer_says_nothing_of_tools_that_are_only_a_call_away(ana: Member, vibe: Agent, thread: Thread) -> None:
    """The tools that an agent has are those it could ask for, too."""
    told(ask(thread, ana), "In March.")
    create_work_item(thread=thread, by=access(ana), kind="todo", text="Prune")
    model = told(ask(thread, ana, "@vibe and now?"), "In March.")
    assert "log_progress" in [tool.name for tool in model.calls[0].tools]
    assert "tools have changed" not in "".join(message.content for message in model.calls[0].messages)


@pytest.fixture
def many_tools(monkeypatch: pytest.MonkeyPatch) -> list[ToolRegistration]:
    """Tools of a server elsewhere, of about 100 tokens each."""

    def registration(number: int) -> ToolRegistration:
        spec = ToolSpec(f"shop__{number}", "Sells roses, bulbs and mulch. " * 14, {"type": "object", "properties": {}})

        def make(_: ToolContext) -> Tool:
            return Tool(spec, lambda arguments: "Sold.", is_remote=True)

        return ToolRegistration(spec.name, make, "reads", is_approved=True)

    tools = [registration(number) for number in range(12)]
    monkeypatch.setattr(toolbox, "EXTRA_TOOLS", [lambda agent, thread: tools])
    return tools


def test_of_many_tools_of_others_the_first_are_offered_and_the_rest_named(
    many_tools: list[ToolRegistration], vibe: Agent, thread: Thread
) -> None:
    box = Toolbox.for_agent(vibe, thread)
    extra = [spec for spec in box.offered_specs if spec.name.startswith("shop__")]
    assert 3 <= len(extra) < len(many_tools)
    assert sum(count_tool(spec, EXACT) for spec in extra) <= MAX_DIRECT_EXTRA_TOKENS
    named = box.offered_specs[0].parameters["properties"]["tool"]["enum"]
    assert {spec.name for spec in extra} | set(named) == {spec.name for spec in box.specs}


def test_needs_take_the_same_queries_whatever_there_is(ana: Member, vibe: Agent, thread: Thread) -> None:
    counts = []
    for _ in range(3):
        with CaptureQueriesContext(connection) as queries:
            Toolbox.for_agent(vibe, thread)
        counts.append(len(queries))
        say_all(thread, ana, ["Roses."] * 30)
        create_work_item(thread=thread, by=access(ana), kind="todo", text="Prune")
    assert counts[1] == counts[2]
