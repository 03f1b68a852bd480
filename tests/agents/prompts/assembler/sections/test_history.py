"""What prompts hold of a conversation that was summarised."""

from datetime import timedelta

import pytest

from agents.models import Agent
from agents.prompts.assembler.assemble import assemble
from memory.plugins.base import MAX_ENTRY_TOKENS
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.services import enable_plugin
from memory.plugins.sessions import context_budget
from openvibe.chat.models import Thread
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, say, say_all
from tests.memory.plugins.lcm.factories import NOON, condensed, leaf, session_of, taken_in, told


@pytest.mark.parametrize("model", ["gpt-4o", "somebodys-own-model"])
def test_the_summary_of_most_messages_stands_before_newer_ones_of_few(
    ana: Member, vibe: Agent, thread: Thread, model: str
) -> None:
    say_all(thread, ana, (f"Roses number {n}." for n in range(20)))
    thread.refresh_from_db()
    conversation = taken_in(thread)
    longest = "Roses want mulch in March. " * 198 + "The shears lie in the shed."
    assert MAX_ENTRY_TOKENS - 10 < count_tokens(longest) <= MAX_ENTRY_TOKENS
    condensed(conversation, [leaf(conversation, 1, 4), leaf(conversation, 5, 12)], longest)
    leaf(conversation, 13, 14, "The apples wait. " * 20)

    prompt = assemble(agent=vibe, thread=thread, task="mention", request=say(thread, ana, "@vibe when?"), model=model)

    assert [item.ref for item in prompt.included if item.key.startswith("summary:")] == ["1-12"]
    assert prompt.tokens <= prompt.ceiling


def test_no_summary_leaves_a_followed_thread_before_compaction_is_due(ana: Member, vibe: Agent, thread: Thread) -> None:
    """What stands around a request of another day is more than memory reckons with: there is room for it."""
    answer = "The roses want mulch in March, and the apples wait for a dry day. " * 8

    def talk(turns: int) -> None:
        for _ in range(turns):
            at = NOON + timedelta(days=thread.last_seq)
            told(thread, ana.participant, "And the next bed?", created_at=at)
            told(thread, vibe.participant, answer, created_at=at)

    talk(10)
    leaf(taken_in(thread), 1, 20, "They spoke of roses and apples. " * 150)
    talk(56)
    provider, session, turns = LcmProvider(), session_of(thread, vibe.participant), 0
    while not provider.needs_compaction(session, context_budget(thread)):
        prompt = assemble(agent=vibe, thread=thread, task="thread", request="And the next bed?")
        assert "1-20" in [item.ref for item in prompt.included if item.section == "history"]
        talk(2)
        turns += 1
    assert turns, "the thread was short enough at first"


@pytest.mark.parametrize("plugin", ["memory/lcm", "memory/simple"])
def test_an_answer_that_was_stopped_does_not_stand_as_if_it_were_whole(
    ana: Member, vibe: Agent, thread: Thread, plugin: str
) -> None:
    """The answer may be its own, or another agent's."""
    enable_plugin(workspace=thread.workspace, name=plugin, by=access(ana))
    sage = make_agent(ana, "sage", channel=thread.channel)
    for agent, state in ((vibe, "stopped"), (sage, "stopped"), (vibe, "complete"), (sage, "complete")):
        told(thread, agent.participant, "Mulch the roses and", state=state)
    prompt = assemble(agent=vibe, thread=thread, task="thread", request="Go on.")
    items = sorted((item for item in prompt.included if item.section == "history"), key=lambda item: item.order)
    lines = [item.text for item in items]
    assert lines[0] == "Mulch the roses and\n\n[This answer is unfinished.]"
    assert lines[1].startswith("2 Sage [unfinished]: ")
    assert [line.count("unfinished") for line in lines] == [1, 1, 0, 0]
