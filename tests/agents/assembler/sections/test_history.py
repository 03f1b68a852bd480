"""What a mention's prompt holds of a conversation that was summarised."""

import pytest

from agents.assembler.assemble import assemble
from agents.models import Agent
from memory.plugins.base import MAX_ENTRY_TOKENS
from openvibe.chat.models import Thread
from openvibe.llm.tokens import count_tokens
from openvibe.workspaces.models import Member
from tests.factories import say
from tests.memory.plugins.lcm.factories import condensed, leaf, taken_in


@pytest.mark.parametrize("model", ["gpt-4o", "somebodys-own-model"])
def test_the_summary_of_most_messages_stands_before_newer_ones_of_few(
    ana: Member, vibe: Agent, thread: Thread, model: str
) -> None:
    for n in range(20):
        say(thread, ana, f"Roses number {n}.")
    thread.refresh_from_db()
    conversation = taken_in(thread)
    longest = "Roses want mulch in March. " * 198 + "The shears lie in the shed."
    assert MAX_ENTRY_TOKENS - 10 < count_tokens(longest) <= MAX_ENTRY_TOKENS
    condensed(conversation, [leaf(conversation, 1, 4), leaf(conversation, 5, 12)], longest)
    leaf(conversation, 13, 14, "The apples wait. " * 20)

    prompt = assemble(agent=vibe, thread=thread, task="mention", request=say(thread, ana, "@vibe when?"), model=model)

    assert [item.ref for item in prompt.included if item.key.startswith("summary:")] == ["1-12"]
    assert prompt.tokens <= prompt.ceiling
