"""Dives in prompts: a dive reads its source and itself, a thread the headlines of what its dives brought."""

from dataclasses import replace

import pytest

from agents.models import Agent
from agents.prompts.assembler.assemble import Prompt, assemble
from openvibe.chat.models import Dive, Message, Thread
from openvibe.chat.services import delete_message, publish_dive, start_dive
from openvibe.engines.llm.offline.drafts import DRAFT_FORMAT, ResultDraft
from openvibe.workspaces.models import Member, Workspace
from tests.factories import access, say, say_all

RESULT = ResultDraft(
    headline="Prune in the last week of March",
    bullets=("Frost took a third of the buds.", "Harbour had no damage.", "All roofs alike."),
    full="The frost of 14 March decided it: cyanotype tables show every roof.",
)


def text_of(prompt: Prompt) -> str:
    return "\n".join(m.content for m in prompt.messages)


@pytest.fixture
def dive(ana: Member, vibe: Agent, thread: Thread) -> Dive:
    say(thread, ana, "The neighbours complained about the pump.")
    source = say(thread, ana, "Last year the frost took a third of the buds.")
    say(thread, ana, "And the van is at the garage.")
    return start_dive(source=source, by=access(ana), agent=vibe.participant)


def published(dive: Dive, by: Member, result: ResultDraft = RESULT) -> Message:
    return publish_dive(dive=dive, by=access(by), result=result)


def test_a_dive_reads_its_source_and_itself_and_nothing_around_it(ana: Member, vibe: Agent, dive: Dive) -> None:
    say(dive.thread, ana, "Compare the Harbour roof.")
    question = say(dive.thread, ana, "What follows from the frost?")
    prompt = assemble(agent=vibe, thread=dive.thread, task="dive", request=question)
    said = text_of(prompt)
    assert "Last year the frost took a third" in said
    assert 'source="the message this dive started from"' in said
    assert "Compare the Harbour roof." in said
    assert "neighbours" not in said
    assert "garage" not in said
    assert prompt.ceiling == 30_000


def test_a_source_reads_as_it_was_written(ana: Member, vibe: Agent, thread: Thread) -> None:
    """Code stands in it as in every message, without signs in place of its own."""
    source = say(thread, ana, 'What is wrong?\n\n```c\nif (a < b && c > d) return "&amp;";\n```\n</messages>')
    dive = start_dive(source=source, by=access(ana), agent=vibe.participant)
    question = say(dive.thread, ana, "Well?")
    reference = assemble(agent=vibe, thread=dive.thread, task="dive", request=question).messages[1].content
    opening = '<messages trust="semi_trusted" source="the message this dive started from">\nsource:1 Ana ['
    assert opening in reference
    assert '  if (a < b && c > d) return "&amp;";\n' in reference
    assert "  &lt;/messages>\n</messages>\n" in reference


def test_a_deleted_source_leaves_the_prompt(ana: Member, vibe: Agent, dive: Dive) -> None:
    delete_message(message=dive.source, by=access(ana))
    question = say(dive.thread, ana, "What follows?")
    assert "third of the buds" not in text_of(assemble(agent=vibe, thread=dive.thread, task="dive", request=question))


def test_a_dive_knows_no_other_dive(ana: Member, vibe: Agent, thread: Thread, dive: Dive) -> None:
    published(dive, ana)
    other = start_dive(source=thread.messages.get(seq=1), by=access(ana), agent=vibe.participant)
    question = say(other.thread, ana, "What about the pump?")
    assert "last week of March" not in text_of(assemble(agent=vibe, thread=other.thread, task="dive", request=question))


def test_a_deeper_dive_reads_the_full_text_of_the_result(ana: Member, vibe: Agent, dive: Dive) -> None:
    deeper = start_dive(source=published(dive, ana), by=access(ana), agent=vibe.participant)
    question = say(deeper.thread, ana, "Which roofs?")
    said = text_of(assemble(agent=vibe, thread=deeper.thread, task="dive", request=question))
    assert "Prune in the last week of March" in said
    assert "cyanotype tables" in said


def test_a_deeper_dive_reads_what_the_result_left_open(ana: Member, vibe: Agent, dive: Dive) -> None:
    """Points are shown as the card of the result shows it."""
    result = replace(RESULT, deferred=("Drip hoses, until autumn.",), questions=("Who tells the neighbours?",))
    deeper = start_dive(source=published(dive, ana, result), by=access(ana), agent=vibe.participant)
    question = say(deeper.thread, ana, "What is open?")
    text = text_of(assemble(agent=vibe, thread=deeper.thread, task="dive", request=question))
    assert "  ## Deferred\n  - Drip hoses, until autumn.\n" in text
    assert "  ## Open questions\n  - Who tells the neighbours?\n" in text
    for said in (RESULT.headline, *RESULT.bullets, RESULT.full):
        assert text.count(said) == 1


def test_a_draft_is_asked_for_with_its_format_in_the_system_message(ana: Member, vibe: Agent, dive: Dive) -> None:
    question = say(dive.thread, ana, "Draft it.")
    prompt = assemble(agent=vibe, thread=dive.thread, task="publish", request=question)
    assert DRAFT_FORMAT in prompt.messages[0].content
    assert "third of the buds" in text_of(prompt)
    assert DRAFT_FORMAT not in text_of(assemble(agent=vibe, thread=dive.thread, task="dive", request=question))


def test_headlines_of_results_out_of_view_stand_in_the_thread(
    ana: Member, vibe: Agent, thread: Thread, dive: Dive
) -> None:
    """The result bears on the request less than all else, and is longer than what that leaves of the prompt."""
    bullets = tuple(f"Roof {n} lost buds, leaves and twigs to the frost of that night. " * 5 for n in range(3))
    published(dive, ana, replace(RESULT, bullets=bullets))
    say_all(thread, ana, (f"Day {n}: the van is not back from the garage." for n in range(600)))
    question = say(thread, ana, "@vibe when is the van back?")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=question)
    (headline,) = [entry for entry in prompt.included if entry.section == "dives"]
    assert "Prune in the last week of March" in headline.text
    assert headline.author == "Ana"


def test_a_result_in_view_is_not_named_twice(ana: Member, vibe: Agent, thread: Thread, dive: Dive) -> None:
    published(dive, ana)
    question = say(thread, ana, "@vibe and now?")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=question)
    assert text_of(prompt).count("Prune in the last week of March") == 1


def test_a_result_in_a_thread_that_stands_whole_is_read_whole(
    ana: Member, vibe: Agent, thread: Thread, dive: Dive
) -> None:
    result = published(dive, ana)
    say_all(thread, ana, [f"And another thing about bed {n}." for n in range(9)])
    question = say(thread, ana, "@vibe when do I prune?")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=question)
    assert "Harbour had no damage." in text_of(prompt)
    assert text_of(prompt).count(RESULT.headline) == 1
    assert f"You see all {question.seq - 1} messages before the request." in text_of(prompt)
    assert not any(item.key == f"message:{result.pk}" for item in prompt.dropped)


@pytest.mark.parametrize("task", ["mention", "thread"])
def test_a_result_that_bears_on_the_request_is_recalled_in_place_of_its_headline(
    task: str, ana: Member, vibe: Agent, thread: Thread, dive: Dive
) -> None:
    result = published(dive, ana)
    say_all(thread, ana, (f"Row {n}: " + "water and mulch for every bed " * 20 for n in range(180)))
    question = say(thread, ana, "@vibe which roof had no damage from the frost, Harbour?")
    prompt = assemble(agent=vibe, thread=thread, task=task, request=question)
    items = {item.key: item.section for item in prompt.included}
    assert items[f"message:{result.pk}"] == "recall"
    assert "Harbour had no damage." in text_of(prompt)
    assert text_of(prompt).count(RESULT.headline) == 1
    recalled_seqs = [seq for block in prompt.recall for seq, _ in block.messages]
    assert len(recalled_seqs) == sum(section == "recall" for section in items.values())


def test_a_long_request_leaves_no_result_out_of_the_history_while_there_is_room(
    ana: Member, vibe: Agent, thread: Thread, dive: Dive
) -> None:
    """The request fills P1; what was said before it comes after the headlines of P5."""
    say_all(thread, ana, (f"Row {n}: " + "water and mulch for every bed " * 20 for n in range(180)))
    result = published(dive, ana)
    Workspace.objects.filter(pk=vibe.workspace_id).update(budgets={"thread": {"ceiling": 30_000}})
    question = say(thread, ana, "When do I prune? " + "The roses of every roof and bed want water. " * 1_200)
    prompt = assemble(agent=vibe, thread=thread, task="thread", request=question)
    assert [item.section for item in prompt.included if item.key == f"message:{result.pk}"] == ["history"]
    assert "Harbour had no damage." in text_of(prompt)


def test_an_agent_at_l1_reads_no_headline(ana: Member, vibe: Agent, thread: Thread, dive: Dive) -> None:
    published(dive, ana)
    Agent.objects.filter(pk=vibe.pk).update(level=1)
    vibe.refresh_from_db()
    question = say(thread, ana, "@vibe and now?")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=question)
    assert "last week of March" not in text_of(prompt)
    assert any(item.reason == "trust L1" for item in prompt.dropped)


def test_a_result_that_bears_on_a_request_is_recalled_whole_in_place_of_its_headline(
    ana: Member, vibe: Agent, thread: Thread, dive: Dive
) -> None:
    result = published(dive, ana)
    say_all(thread, ana, (f"Row {n}: " + "roses want water and mulch " * 6 for n in range(300)))
    question = say(thread, ana, "@vibe how many buds did the frost of Harbour take, and which roofs were alike?")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=question)
    assert "Harbour had no damage." in text_of(prompt)
    assert [item.section for item in prompt.included if item.key == f"message:{result.pk}"] == ["recall"]
    assert prompt.tokens >= 0.99 * prompt.ceiling
