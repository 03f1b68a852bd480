"""Settings that cannot be assembled: what is stored already assembles, with fewer tools and a reason."""

import pytest

from agents.agent.services import save_soul
from agents.models import Agent
from agents.prompts.assembler.assemble import assemble
from agents.prompts.assembler.render import overhead_tokens
from agents.prompts.assembler.stack import MIN_REQUEST_TOKENS
from openvibe.chat.models import Thread
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.tokens import count_prompt_tokens
from openvibe.engines.llm.values import ToolSpec
from openvibe.workspaces.models import Member, Workspace
from tests.engines.llm.factories import EndpointFactory
from tests.factories import SOUL, access, say

TOOLS = tuple(
    ToolSpec(name, "Looks things up. " * 20, {"type": "object", "properties": {}})
    for name in ("first", "second", "third")
)


def full_soul(agent: Agent, by: Member) -> None:
    """A SOUL of nearly 2,000 tokens."""
    text = SOUL.format(name="Vibe").replace("Invent facts", "Invent facts " + "or figures " * 920)
    save_soul(agent=agent, by=access(by), text=text, note="Long", based_on=1)


def small_endpoint(by: Member, window: int, *, model: str = "somebodys-own-model") -> Endpoint:
    return EndpointFactory.create(
        workspace=by.workspace,
        name="Small",
        kind="offline",
        model=model,
        is_default=True,
        context_window=window,
        output_reserve=500,
    )


@pytest.mark.parametrize("task", ["mention", "thread"])
def test_a_model_of_an_unknown_tokenizer_keeps_the_tools_that_fit(
    task: str, ana: Member, vibe: Agent, thread: Thread
) -> None:
    full_soul(vibe, ana)
    Workspace.objects.filter(pk=ana.workspace_id).update(instructions="be kind " * 990)
    endpoint = small_endpoint(ana, 12_000)
    vibe.refresh_from_db()
    asker = ana.participant
    whole = assemble(agent=vibe, thread=thread, task=task, request="go", asked_by=asker, tools=TOOLS)
    needed = {item.key: item.tokens for item in whole.included if item.layer == "P0" or item.section == "situation"}
    room = sum(needed.values()) - needed["tool:third"] + overhead_tokens(whole.counter) + MIN_REQUEST_TOKENS + 50
    Endpoint.objects.filter(pk=endpoint.pk).update(context_window=room + 500)
    prompt = assemble(agent=vibe, thread=thread, task=task, request=say(thread, ana, "go " * 5_000), tools=TOOLS)
    assert [tool.name for tool in prompt.tools] == ["first", "second"]
    assert prompt.tokens == count_prompt_tokens(prompt.messages, prompt.tools, prompt.counter)
    assert prompt.tokens <= prompt.ceiling == room
    left = [(item.key, item.section, item.reason) for item in prompt.dropped if item.section == "tools"]
    assert left == [("tool:third", "tools", "over budget")]


def test_calls_under_way_keep_their_tools(ana: Member, vibe: Agent, thread: Thread) -> None:
    question = say(thread, ana, "@vibe go on")
    free = assemble(agent=vibe, thread=thread, task="thread", request=question, tools=TOOLS, budget=1_100)
    assert len(free.tools) < 3
    prompt = assemble(
        agent=vibe, thread=thread, task="thread", request=question, tools=TOOLS, budget=1_500, may_drop_tools=False
    )
    assert prompt.tools == TOOLS


@pytest.mark.parametrize(
    "stored", [{"mention": {"ceiling": 300}}, {"mention": {"ceiling": "many", "P9": 1}}, {"mention": 7}, [1]]
)
def test_budgets_stored_before_there_was_a_rule_assemble(
    stored: object, ana: Member, vibe: Agent, thread: Thread
) -> None:
    full_soul(vibe, ana)
    Workspace.objects.filter(pk=ana.workspace_id).update(budgets=stored)
    vibe.refresh_from_db()
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=say(thread, ana, "@vibe go"), tools=TOOLS)
    assert prompt.tokens <= prompt.ceiling
    assert "or figures or figures" in prompt.messages[0].content
