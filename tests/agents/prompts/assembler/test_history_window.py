"""The history of a followed thread begins at the same message from prompt to prompt, and moves in large steps."""

from itertools import pairwise

import pytest

from agents.models import Agent
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.prompts.assembler.history_window import MENTION_SHARE, STEP_SHARE
from agents.prompts.assembler.sections.history import WINDOW_SHARE
from agents.prompts.snapshots.store import shared_prefix_with
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import post_message
from openvibe.workspaces.models import Member
from tests.bench.dialogue import store_prompt
from tests.factories import access, say_all


@pytest.fixture
def long_thread(ana: Member, thread: Thread) -> Thread:
    """A thread that no prompt holds whole, and in which nothing is summarised."""
    say_all(thread, ana, (f"Row {n}: " + "roses want water and mulch " * 12 for n in range(260)))
    return thread


def ask(agent: Agent, thread: Thread, ana: Member, task: str = "thread") -> Prompt:
    """One turn: a question, its prompt, stored as a run stores it."""
    message = post_message(thread=thread, by=access(ana), body="What of the hedge? " + "It was dry all week. " * 8)
    request = Message.objects.select_related("author", "thread").get(pk=message.pk)
    prompt = assemble(agent=agent, thread=thread, task=task, request=request, model="gpt-4o")
    store_prompt(agent, request, prompt)
    return prompt


def history_tokens(prompt: Prompt) -> int:
    return sum(item.tokens for item in prompt.included if item.section == "history")


def test_the_beginning_stays_until_the_room_is_full_and_then_moves_far(
    ana: Member, vibe: Agent, long_thread: Thread
) -> None:
    prompts = [ask(vibe, long_thread, ana) for _ in range(60)]
    starts = [prompt.history_start for prompt in prompts]
    moves = [n for n in range(1, len(starts)) if starts[n] != starts[n - 1]]
    assert 1 <= len(moves) <= 3, starts
    room = prompts[0].ceiling * WINDOW_SHARE
    for n in moves:
        assert history_tokens(prompts[n - 1]) > room * 0.9
        assert history_tokens(prompts[n]) < room * (1 - STEP_SHARE + 0.05)
    shared = [
        shared_prefix_with([item for item in before.included if item.section == "tools"], before.messages, prompt)
        / prompt.tokens
        for n, (before, prompt) in enumerate(pairwise(prompts), 1)
        if n not in moves
    ]
    assert sum(shared) / len(shared) > 0.8


def test_the_first_prompt_leaves_room_to_grow(ana: Member, vibe: Agent, long_thread: Thread) -> None:
    prompt = ask(vibe, long_thread, ana)
    assert history_tokens(prompt) <= prompt.ceiling * WINDOW_SHARE * (1 - STEP_SHARE)
    assert prompt.tokens >= 0.97 * prompt.ceiling  # the rest is for what is recalled


def test_a_mention_goes_on_where_the_one_before_began(ana: Member, vibe: Agent, long_thread: Thread) -> None:
    first, second = ask(vibe, long_thread, ana, "mention"), ask(vibe, long_thread, ana, "mention")
    assert first.history_start == second.history_start
    for _ in range(20):
        last = ask(vibe, long_thread, ana, "mention")
    assert (last.history_start or 0) > (first.history_start or 0) > 0
    assert history_tokens(last) <= last.ceiling * MENTION_SHARE + 200
