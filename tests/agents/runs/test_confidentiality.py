"""What an agent reads where not everybody may read does not travel by what it carries everywhere."""

from collections.abc import Callable

import pytest

from agents.agent.services import set_trust_level
from agents.models import Agent, Run, ToolCall
from agents.prompts.assembler.items import reachable_tools
from memory.blocks.models import Block, ProfileNote
from memory.blocks.services import access_blocks_for_update
from openvibe.chat.models import Thread
from openvibe.chat.services import add_to_channel, set_thread_access
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask, calling, meanwhile, told
from tests.factories import access, make_agent, make_channel, make_thread

LEARNED = ("update_context_block", {"label": "learned", "content": "The merger is in May."})
NOTED = ("memory", {"action": "profile_update", "text": "Ana plans a merger."})
CLEARED = ("memory", {"action": "profile_update", "text": ""})
Place = Callable[[Member, Agent, Thread], Thread]


def in_private(ana: Member, vibe: Agent, thread: Thread) -> Thread:
    channel = make_channel(ana, "board", private=True)
    add_to_channel(channel=channel, participant=vibe.participant, by=access(ana))
    return make_thread(channel, ana, "Merger")


def among_few(ana: Member, vibe: Agent, thread: Thread) -> Thread:
    return set_thread_access(
        thread=thread, by=access(ana), access="agent_restricted", allowed_agents=[vibe.participant]
    )


@pytest.mark.parametrize("place", [in_private, among_few])
def test_nothing_is_carried_out_of_a_closed_place(ana: Member, vibe: Agent, thread: Thread, place: Place) -> None:
    run = ask(place(ana, vibe, thread), ana)
    model = told(run, calling(LEARNED, NOTED), "In May.")
    assert run.state == "done"
    assert "update_context_block" not in reachable_tools(model.calls[0].tools)
    assert not Block.objects.exists()
    assert not ProfileNote.objects.exists()
    whys = list(ToolCall.objects.order_by("id").values_list("decision", "why"))
    assert [decision for decision, _ in whys] == ["refused", "refused"]
    assert "not open to everybody" in whys[1][1]


def test_what_everybody_may_read_is_carried(ana: Member, vibe: Agent, thread: Thread) -> None:
    told(ask(thread, ana), calling(LEARNED, NOTED), "In May.")
    assert Block.objects.get().content == "The merger is in May."
    assert ProfileNote.objects.get().content == "Ana plans a merger."


def test_notes_may_be_cleared_anywhere(ana: Member, vibe: Agent, thread: Thread) -> None:
    told(ask(thread, ana), calling(NOTED), "Noted.")
    told(ask(in_private(ana, vibe, thread), ana), calling(CLEARED), "Forgotten.")
    assert ProfileNote.objects.get().content == ""


@pytest.mark.django_db(transaction=True)
def test_a_thread_closed_while_the_agent_thinks_is_closed(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    model = told(run, meanwhile(lambda: among_few(ana, vibe, thread), calling(LEARNED)), "In May.")
    assert "update_context_block" in reachable_tools(model.calls[0].tools)
    assert not Block.objects.exists()


def test_people_write_what_they_like(ana: Member, vibe: Agent, thread: Thread) -> None:
    in_private(ana, vibe, thread)
    access_blocks_for_update(vibe.participant, access(ana), "page").set("learned", "The merger is in May.")
    assert Block.objects.get().content == "The merger is in May."


SEARCHED = ("memory", {"action": "search", "query": "tulips"})


def prompt_of(run: Run) -> str:
    return "\n".join(message.content for message in told(run, "Yes.").calls[0].messages)


def test_a_lowered_agent_is_not_shown_what_its_tools_answered_before(ana: Member, vibe: Agent, thread: Thread) -> None:
    told(ask(thread, ana, "@vibe which bulbs?"), calling(SEARCHED), "These.")
    ToolCall.objects.update(result="#7 Dora, dive result: tulips at four euros")
    assert "four euros" in prompt_of(ask(thread, ana))
    set_trust_level(agent=vibe, by=access(ana), level=1, note="Too eager.")
    assert "four euros" not in prompt_of(ask(thread, ana))
    set_trust_level(agent=vibe, by=access(ana), level=3, note="Better.")
    assert "four euros" not in prompt_of(ask(thread, ana))


@pytest.mark.django_db(transaction=True)
def test_an_agent_lowered_while_it_answers_does_not_go_on(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)

    def lowered() -> object:
        return set_trust_level(agent=Agent.objects.get(), by=access(ana), level=1, note="Too eager.")

    model = told(run, meanwhile(lowered, calling(SEARCHED, text="Let me look.")), "Four euros.")
    assert (run.state, run.error_code) == ("failed", "level_lowered")
    assert len(model.calls) == 1


@pytest.mark.django_db(transaction=True)
def test_an_agent_raised_while_it_answers_goes_on(ana: Member, thread: Thread) -> None:
    sage = make_agent(ana, "sage", level=2, channel=thread.channel)
    run = ask(thread, ana, "@sage which bulbs?")

    def raised() -> object:
        return set_trust_level(agent=Agent.objects.get(pk=sage.pk), by=access(ana), level=3, note="Good.")

    told(run, meanwhile(raised, calling(SEARCHED)), "Tulips.")
    assert run.state == "done"
