"""The memory tool finds what was said elsewhere, for everybody who reads the answer and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agents.agent.access import visible_to
from agents.agent.audience import reusable_calls
from agents.models import Agent, ToolCall, ToolSource
from agents.tools.memory import memory
from agents.tools.values import ToolContext, ToolOutcome
from memory.plugins.services import configure_plugin
from openvibe.base.problems import Missing
from openvibe.chat.models import Channel, ChannelMembership, Message, Thread
from openvibe.chat.services import add_to_channel, delete_message, start_dive
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask, calling, told
from tests.factories import access, make_agent, make_channel, make_member, make_thread, say

SECRET = "The gate code is QUOKKA-7731."


@pytest.fixture
def sage(ana: Member, thread: Thread) -> Agent:
    return make_agent(ana, "sage", level=3, channel=thread.channel)


def den(ana: Member, *others: Member | Agent, private: bool = True, name: str = "den") -> Thread:
    channel = make_channel(ana, name, private=private)
    for other in others:
        add_to_channel(channel=channel, participant=other.participant, by=access(ana))
    return make_thread(channel, ana, "Keys")


def used(agent: Agent, thread: Thread, **arguments: Any) -> ToolOutcome:
    tool = memory(ToolContext(agent=agent, access=visible_to(agent), thread=thread, run=None))
    assert tool is not None
    outcome = tool.run(arguments)
    assert isinstance(outcome, ToolOutcome)
    return outcome


def found(agent: Agent, thread: Thread, query: str = "QUOKKA-7731") -> str:
    return used(agent, thread, action="search_everywhere", query=query).result


def private_thread(channel: Channel, *readers: Member | Agent) -> None:
    """Makes the channel one that these alone read."""
    Channel.objects.filter(pk=channel.pk).update(is_private=True)
    ids = [reader.participant_id for reader in readers]
    ChannelMembership.objects.filter(channel=channel).exclude(participant__in=ids).delete()


def test_a_hit_elsewhere_leads_there_and_is_a_source_of_the_call(ana: Member, sage: Agent, thread: Thread) -> None:
    say(thread, ana, "About QUOKKA-7731 here.")
    other = den(ana, private=False, name="office")
    message = say(other, ana, SECRET)
    outcome = used(sage, thread, action="search_everywhere", query="QUOKKA-7731")
    assert f"#1 in thread {other.pk} (" in outcome.result
    assert f"/w/{ana.workspace.slug}/m/{message.pk}/" in outcome.result
    assert "#1 Ana, " in outcome.result, "this thread is looked through as well"
    assert [source.ref for source in outcome.sources] == [other.pk]


def test_a_long_message_elsewhere_is_read_whole(ana: Member, sage: Agent, thread: Thread) -> None:
    other = den(ana, private=False, name="office")
    body = "\n".join(f"Line {n} of the plan." for n in range(2_000))
    say(other, ana, body)
    read: list[str] = []
    offset: int | None = 0
    while offset is not None:
        outcome = used(sage, thread, action="read_message", number=1, thread_id=other.pk, offset=offset)
        text, _, place = outcome.result.rpartition("\nCharacters ")
        assert [source.ref for source in outcome.sources] == [other.pk]
        read.append(text)
        offset = int(place.rpartition("offset ")[2].rstrip(".")) if "Go on" in place else None
    assert len(read) > 3
    assert all(f"Line {n} of the plan." in "".join(read) for n in range(0, 2_000, 37))


def test_readers_who_see_all_of_it_let_it_pass(ana: Member, sage: Agent, thread: Thread) -> None:
    private_thread(thread.channel, ana, sage)
    other = den(ana, sage)
    say(other, ana, SECRET)
    assert SECRET in found(sage, thread)


def by_public(ana: Member, thread: Thread, sage: Agent) -> Thread:
    make_member("Ben", ana.workspace)
    return den(ana, sage)


def by_member(ana: Member, thread: Thread, sage: Agent) -> Thread:
    private_thread(thread.channel, ana, sage)
    ben = make_member("Ben", ana.workspace)
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    return den(ana, sage)


def by_guest(ana: Member, thread: Thread, sage: Agent) -> Thread:
    guest = make_member("Gus", ana.workspace, "guest")
    add_to_channel(channel=thread.channel, participant=guest.participant, by=access(ana))
    return den(ana, sage, private=False, name="office")


def by_agent(ana: Member, thread: Thread, sage: Agent) -> Thread:
    fern = make_agent(ana, "fern", level=3, channel=thread.channel)
    private_thread(thread.channel, ana, sage, fern)
    return den(ana, sage)


def by_list(ana: Member, thread: Thread, sage: Agent) -> Thread:
    make_agent(ana, "fern", level=3, channel=thread.channel)
    other = make_thread(thread.channel, ana, "Listed")
    Thread.objects.filter(pk=other.pk).update(access="agent_restricted")
    other.allowed_agents.add(sage.participant)
    return other


def by_human_only(ana: Member, thread: Thread, sage: Agent) -> Thread:
    other = make_thread(thread.channel, ana, "People")
    Thread.objects.filter(pk=other.pk).update(access="human_only")
    return other


def by_ignored_number(ana: Member, thread: Thread, sage: Agent) -> Thread:
    other = make_thread(thread.channel, ana, "Left alone")
    config = {"ignored_threads": str(other.pk)}
    configure_plugin(workspace=ana.workspace, name="memory/lcm", config=config, by=access(ana))
    return other


def by_ignored_channel(ana: Member, thread: Thread, sage: Agent) -> Thread:
    other = den(ana, private=False, name="office")
    config = {"ignored_threads": "#office"}
    configure_plugin(workspace=ana.workspace, name="memory/lcm", config=config, by=access(ana))
    return other


def by_not_seeing_it(ana: Member, thread: Thread, sage: Agent) -> Thread:
    return den(ana)


@pytest.mark.parametrize(
    "close",
    [
        by_public,
        by_member,
        by_guest,
        by_agent,
        by_list,
        by_human_only,
        by_ignored_number,
        by_ignored_channel,
        by_not_seeing_it,
    ],
)
def test_what_one_of_the_readers_may_not_see_is_not_found_and_not_read(
    ana: Member, sage: Agent, thread: Thread, close: Callable[[Member, Thread, Agent], Thread]
) -> None:
    other = close(ana, thread, sage)
    say(other, ana, SECRET)
    assert found(sage, thread).startswith("Nothing was found")
    assert found(sage, thread, "from:ana") == "Nothing was found. Try fewer or other words."
    for number in (1, 2):
        with pytest.raises(Missing):
            used(sage, thread, action="read_message", number=number, thread_id=other.pk)


def test_a_dive_in_an_ignored_thread_is_ignored(ana: Member, vibe: Agent, sage: Agent, thread: Thread) -> None:
    other = make_thread(thread.channel, ana, "Left alone")
    vibe.level = sage.level
    vibe.save()
    dive = start_dive(source=say(other, ana, "Hm?"), by=access(ana), agent=vibe.participant)
    say(dive.thread, ana, SECRET)
    assert SECRET in found(sage, thread)
    config = {"ignored_threads": str(other.pk)}
    configure_plugin(workspace=ana.workspace, name="memory/lcm", config=config, by=access(ana))
    assert SECRET not in found(sage, thread)


def test_what_is_deleted_is_not_found(ana: Member, sage: Agent, thread: Thread) -> None:
    other = den(ana, private=False, name="office")
    delete_message(message=say(other, ana, SECRET), by=access(ana))
    assert "QUOKKA" not in found(sage, thread)


def test_a_call_that_read_elsewhere_stands_in_no_later_prompt(ana: Member, vibe: Agent, thread: Thread) -> None:
    other = den(ana, vibe, private=False, name="office")
    say(other, ana, SECRET)
    run = ask(thread, ana)
    look = ("memory", {"action": "search_everywhere", "query": "QUOKKA-7731"})
    here = ("memory", {"action": "search", "query": "roses"})
    told(run, calling(look, here), "Done.")
    calls = ToolCall.objects.filter(run=run)
    assert SECRET in calls.get(arguments__contains="everywhere").result
    assert ToolSource.objects.filter(call__in=calls, ref=other.pk).count() == 1
    reusable = reusable_calls(visible_to(vibe), ana.participant_id).filter(run=run)
    assert [call.arguments for call in reusable] == [calls.exclude(arguments__contains="everywhere").get().arguments]
    later = told(ask(thread, ana), "Yes.")
    assert "QUOKKA" not in "\n".join(message.content for message in later.calls[0].messages)


def test_a_result_of_an_earlier_run_is_read_until_a_message_changes(ana: Member, vibe: Agent, thread: Thread) -> None:
    first = say(thread, ana, "The pump needs a valve.")
    run = ask(thread, ana)
    told(run, calling(("memory", {"action": "search", "query": "valve"})), "Done.")
    call = ToolCall.objects.get(run=run)
    answer = used(vibe, thread, action="read_result", number=call.pk)
    assert "The pump needs a valve." in answer.result
    assert used(vibe, thread, action="read_result", number=call.pk, offset=3).result.count("Characters 3 to ") == 1
    with pytest.raises(Missing, match="observation"):
        used(vibe, make_thread(thread.channel, ana, "Other"), action="read_result", number=call.pk)
    with pytest.raises(Missing):
        used(vibe, thread, action="read_result", number=call.pk + 1_000)
    delete_message(message=Message.objects.get(pk=first.pk), by=access(ana))
    with pytest.raises(Missing):
        used(vibe, thread, action="read_result", number=call.pk)
