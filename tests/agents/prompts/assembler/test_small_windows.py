"""Prompts for models that read little: what was asked and what bears on it first, nothing that they could not use."""

from dataclasses import replace

import pytest

from agents.agent.access import visible_to
from agents.agent.services import set_trust_level
from agents.models import Agent
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.prompts.assembler.stack import BUDGETS, SMALL_WINDOW, is_small_window, scale_caps
from agents.tools.toolbox import Toolbox
from memory.services import create_work_item, request_approval
from openvibe.chat.models import Thread
from openvibe.engines.llm.tokens import count_prompt_tokens, count_tokens
from openvibe.engines.llm.values import ToolSpec
from openvibe.workspaces.models import Member
from tests.agents.conftest import WriteFile
from tests.engines.llm.factories import EndpointFactory
from tests.factories import access, make_entry, say, say_all

QUESTION = "@vibe where is the spare key of the Harbour roof?"
LEFT_OUT = {"workspace", "channel", "topics", "skills", "reminders", "episodes", "dives"}


def read_by(ana: Member, *, window: int, reserve: int = 500) -> None:
    EndpointFactory.create(
        workspace=ana.workspace,
        name="Local",
        kind="offline",
        model="somebodys-own-model",
        is_default=True,
        context_window=window,
        output_reserve=reserve,
    )


def ask(agent: Agent, thread: Thread, ana: Member, *, task: str = "mention", budget: int | None = None) -> Prompt:
    agent = Agent.objects.select_related("participant", "workspace", "soul", "endpoint").get(pk=agent.pk)
    tools = Toolbox.for_agent(agent, thread).offered_specs
    request = say(thread, ana, QUESTION)
    prompt = assemble(agent=agent, thread=thread, task=task, request=request, tools=tools, budget=budget)
    assert prompt.tokens == count_prompt_tokens(prompt.messages, prompt.tools, prompt.counter) <= prompt.ceiling
    return prompt


@pytest.fixture
def furnished(ana: Member, vibe: Agent, thread: Thread, skill: WriteFile) -> Thread:
    """A thread with something of every kind, and a fact that went out of view long ago."""
    say(thread, ana, "The spare key of the Harbour roof hangs behind the pump.")
    say_all(thread, ana, (f"Row {n}: " + "roses want water and mulch " * 12 for n in range(150)))
    skill("shears", "# Shears\nSharpen before use.")
    make_entry(ana, "Mulch", "Bark mulch costs 4 € a sack.")
    set_trust_level(agent=vibe, by=access(ana), level=3, note="Trusted")
    create_work_item(thread=thread, by=access(ana), kind="constraint", text="Never lend the key.")
    create_work_item(thread=thread, by=access(ana), kind="goal", text="Spring", data={"done_condition": "Pruned"})
    request_approval(thread=thread, by=visible_to(vibe), what="Order gloves")
    return thread


@pytest.mark.parametrize("window", [2_500, 4_096, 8_192])
@pytest.mark.parametrize("task", ["mention", "thread"])
def test_a_small_window_leaves_out_what_its_model_cannot_use(
    window: int, task: str, ana: Member, vibe: Agent, furnished: Thread
) -> None:
    read_by(ana, window=window)
    prompt = ask(vibe, furnished, ana, task=task)
    assert not {item.section for item in prompt.included} & LEFT_OUT
    assert [tool.name for tool in prompt.tools] == ["memory"]
    assert {"topics", "skills", "reminders", "tools"} <= {left.section for left in prompt.dropped}
    policy = "".join(item.text for item in prompt.included if item.key == "policy")
    assert count_tokens(policy) <= 60
    text = "\n".join(message.content for message in prompt.messages)
    assert "Never lend the key." in text, "what binds, binds every model"
    assert "<binding>, a constraint set by members of this workspace" in prompt.messages[0].content
    assert prompt.messages[-1].content == QUESTION


@pytest.mark.parametrize("window", [2_500, 4_096, 8_192])
@pytest.mark.parametrize("task", ["mention", "thread"])
def test_a_small_window_has_room_for_what_bears_on_the_question(
    window: int, task: str, ana: Member, vibe: Agent, furnished: Thread
) -> None:
    read_by(ana, window=window)
    prompt = ask(vibe, furnished, ana, task=task)
    assert "behind the pump" in "\n".join(message.content for message in prompt.messages)
    assert prompt.tokens >= 0.9 * prompt.ceiling


def test_a_limit_of_the_caller_makes_no_window_small(ana: Member, vibe: Agent, furnished: Thread) -> None:
    """A run that makes room for its rounds keeps the prompt that it began with."""
    read_by(ana, window=32_000)
    prompt = ask(vibe, furnished, ana, budget=4_000)
    assert {"topics", "reminders"} <= {item.section for item in prompt.included}
    assert len(prompt.tools) > 3


def test_calls_under_way_keep_their_tools(ana: Member, vibe: Agent, furnished: Thread) -> None:
    read_by(ana, window=4_096)
    tool = ToolSpec("log_progress", "Notes.", {"type": "object", "properties": {}})
    agent = Agent.objects.select_related("participant", "workspace", "soul", "endpoint").get(pk=vibe.pk)
    prompt = assemble(
        agent=agent, thread=furnished, task="mention", request=QUESTION, tools=[tool], may_drop_tools=False
    )
    assert prompt.tools == (tool,)


def test_caps_shrink_with_the_ceiling() -> None:
    budget = scale_caps(replace(BUDGETS["mention"], ceiling=2_000))
    assert {name: budget.caps[name] for name in ("P1", "P3", "P5", "P6")} == {
        "P1": 800,
        "P3": 250,
        "P5": 125,
        "P6": None,
    }
    assert scale_caps(replace(BUDGETS["mention"], ceiling=500)).caps["P1"] == 500


def test_which_windows_are_small() -> None:
    assert [is_small_window(window, 1_000) for window in (4_096, 8_192, SMALL_WINDOW + 1_001)] == [True, True, False]
