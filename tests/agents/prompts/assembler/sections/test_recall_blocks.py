"""What was recalled for one request keeps its place and its bytes in the next prompt, as far as it may be shown."""

from datetime import UTC, datetime, timedelta
from itertools import takewhile

import pytest

from agents.models import Agent, Run, Snapshot
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.prompts.assembler.items import Item
from agents.prompts.assembler.sections.recall_blocks import day_note
from agents.prompts.snapshots.store import store_snapshot
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message
from openvibe.engines.llm.tokens import count_prompt_tokens
from openvibe.workspaces.models import Member
from tests.factories import access, say, say_all

FACTS = {
    2: "The spare key of the Harbour roof hangs behind the pump.",
    9: "The Harbour roof is opened by the spare key only on Mondays.",
    17: "Willow & Co deliver the mulch to the Harbour gate at seven.",
}
TALK = "roses want water and mulch, hedges time and ponds rest; "
DAY = timedelta(days=1)
KEY = "where is the spare key of the Harbour roof?"
MULCH = "who delivers the mulch to the Harbour gate?"


@pytest.fixture
def long_thread(ana: Member, thread: Thread) -> Thread:
    say_all(thread, ana, (FACTS.get(n) or f"Row {n}: {TALK * 15}" for n in range(110)))
    return thread


def ask(vibe: Agent, ana: Member, thread: Thread, body: str) -> Prompt:
    """The prompt of a request, stored as its run stores it."""
    request = say(thread, ana, body)
    prompt = assemble(agent=vibe, thread=thread, task="thread", request=request)
    run = Run.objects.create(
        workspace=vibe.workspace,
        agent=vibe,
        thread=thread,
        trigger=request,
        requested_by=ana.participant,
        task="thread",
        state=Run.State.DONE,
    )
    store_snapshot(run, prompt)
    assert count_prompt_tokens(prompt.messages, prompt.tools, prompt.counter) == prompt.tokens <= prompt.ceiling
    return prompt


def recalled(prompt: Prompt) -> list[Item]:
    return [item for item in prompt.included if item.section == "recall"]


def first_blocks(prompt: Prompt, *, before: int) -> list[Item]:
    """What a prompt shows again of what was recalled for the request of this number."""
    return [item for item in recalled(prompt) if item.order == before]


def text_of(prompt: Prompt) -> str:
    return "\n".join(message.content for message in prompt.messages)


def test_the_next_prompt_begins_with_what_was_recalled(vibe: Agent, ana: Member, long_thread: Thread) -> None:
    first = ask(vibe, ana, long_thread, KEY)
    second = ask(vibe, ana, long_thread, f"And once more: {KEY}")
    assert "behind the pump" in text_of(first)
    shared = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first.messages, second.messages, strict=False))
    )
    in_block = next(n for n, message in enumerate(first.messages) if "behind the pump" in message.content)
    assert shared > in_block, "the block stands where it stood, byte for byte"
    assert text_of(second).count("behind the pump") == 1, "and nowhere else"


def test_what_bears_on_a_new_request_stands_whatever_was_recalled_before(
    vibe: Agent, ana: Member, long_thread: Thread
) -> None:
    ask(vibe, ana, long_thread, KEY)
    second = ask(vibe, ana, long_thread, MULCH)
    assert "at seven" in text_of(second)
    assert second.tokens >= 0.97 * second.ceiling


def test_asking_again_recalls_the_same_bytes(vibe: Agent, ana: Member, long_thread: Thread) -> None:
    ask(vibe, ana, long_thread, KEY)
    second = ask(vibe, ana, long_thread, MULCH)
    request = Message.objects.select_related("author").get(thread=long_thread, body=MULCH)
    second_prompt = assemble(agent=vibe, thread=long_thread, task="thread", request=request)
    assert second_prompt.messages == second.messages


def test_what_was_deleted_or_edited_since_is_not_shown_again(vibe: Agent, ana: Member, long_thread: Thread) -> None:
    ask(vibe, ana, long_thread, KEY)
    behind, mondays = (Message.objects.get(thread=long_thread, body=FACTS[n]) for n in (2, 9))
    delete_message(message=behind, by=access(ana))
    Message.objects.filter(pk=mondays.pk).update(body="The Harbour roof stays shut; ask Dora for the spare key.")
    second = ask(vibe, ana, long_thread, f"Again, {KEY}")
    assert "behind the pump" not in text_of(second)
    assert "only on Mondays" not in text_of(second)
    assert "ask Dora for the spare key" in text_of(second)


def test_a_lower_level_takes_recalled_dive_results_out(vibe: Agent, ana: Member, long_thread: Thread) -> None:
    result = Message.objects.get(thread=long_thread, body=FACTS[2])
    Message.objects.filter(pk=result.pk).update(kind=Message.Kind.DIVE_RESULT)
    assert "behind the pump" in text_of(ask(vibe, ana, long_thread, KEY))
    Agent.objects.filter(pk=vibe.pk).update(level=1)
    observer = Agent.objects.get(pk=vibe.pk)
    assert "behind the pump" not in text_of(ask(observer, ana, long_thread, f"Again, {KEY}"))


def test_no_block_is_shown_after_another_history(vibe: Agent, ana: Member, long_thread: Thread) -> None:
    asked_at = ask(vibe, ana, long_thread, KEY).included
    first_seq = max(item.order for item in asked_at if item.section == "recall")
    say_all(
        long_thread, ana, (f"Bed {n}: " + "tulips want sun, ferns want shade; " * 20 for n in range(40))
    )  # it steps on
    second = ask(vibe, ana, long_thread, f"Again, {KEY}")
    assert not first_blocks(second, before=first_seq)
    assert "behind the pump" in text_of(second)


def test_blocks_are_stored_by_number_without_words(vibe: Agent, ana: Member, long_thread: Thread) -> None:
    ask(vibe, ana, long_thread, KEY)
    stored = Snapshot.objects.latest("pk").recall
    seqs = {seq for _, _, _, messages in stored for seq, _ in messages}
    assert {3, 10} <= seqs, "the messages that hold the facts, by number"
    assert "Harbour" not in str(stored)


def test_excerpts_of_long_messages_keep_their_passages(vibe: Agent, ana: Member, thread: Thread) -> None:
    padding = "The pond was cleaned, the hedge was cut and the path was swept by everybody who came. " * 60
    say(thread, ana, f"{padding}\n\n{FACTS[2]}\n\n{padding}")
    say_all(thread, ana, (f"Row {n}: {TALK * 15}" for n in range(90)))
    first = ask(vibe, ana, thread, KEY)
    second = ask(vibe, ana, thread, MULCH)
    lines = [[item.text for item in recalled(prompt) if "behind the pump" in item.text] for prompt in (first, second)]
    assert lines[0]
    assert lines[0] == lines[1]
    assert "[…" in lines[0][0]


@pytest.mark.parametrize(
    ("at", "note"),
    [
        (datetime(2025, 12, 30, 9, 40, tzinfo=UTC), ""),
        (datetime(2025, 12, 30, 17, 5, tzinfo=UTC), "17:05"),
        (datetime(2025, 12, 31, 0, 5, tzinfo=UTC), "2025-12-31"),
        (datetime(2026, 1, 3, 9, 30, tzinfo=UTC), "2026-01-03"),
    ],
)
def test_a_recalled_line_says_when_as_far_as_that_jumps(at: datetime, note: str) -> None:
    assert day_note(at, datetime(2025, 12, 30, 9, 30, tzinfo=UTC)) == note


def test_recalled_lines_of_other_days_say_the_day(vibe: Agent, ana: Member, long_thread: Thread) -> None:
    for message in Message.objects.filter(thread=long_thread):
        Message.objects.filter(pk=message.pk).update(created_at=datetime(2026, 1, 1, 9, tzinfo=UTC) + DAY * message.seq)
    lines = [item.text for item in recalled(ask(vibe, ana, long_thread, KEY))]
    assert "[2026-01-" in lines[0], "a block begins with day and minute"
    assert any(line.startswith("10 Ana [2026-01-11]:") for line in lines)


def test_a_dialogue_stays_under_its_ceiling(vibe: Agent, ana: Member, long_thread: Thread) -> None:
    prompts = [ask(vibe, ana, long_thread, f"{question} ({n})") for n, question in enumerate([KEY, MULCH, "OK."] * 3)]
    assert all(prompt.tokens >= 0.97 * prompt.ceiling for prompt in prompts)
    for prompt in prompts:
        keys = [item.key for item in prompt.included]
        assert len(keys) == len(set(keys)), "each message once"
