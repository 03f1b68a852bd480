"""A thread that was closed to an agent says nothing at `/mcp` either: neither itself, nor beside another thread."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mcp import Client, MCPError

from agents.mcp.operations import OPERATIONS, operations
from agents.models import Agent, Run
from knowledge.models import Entry
from openvibe.workspaces.models import Member
from tests.agents.test_closed_afterwards import WORD, ask_elsewhere, close_place, make_garden
from tests.api.access_matrix import Place, write_work

pytestmark = pytest.mark.django_db
Visit = Callable[..., Any]


def calls(place: Place, runs: list[Run]) -> Iterator[tuple[str, dict[str, object]]]:
    """Each tool that only reads, with all that it can be asked for here."""
    entries = Entry.objects.filter(source_thread=place.thread).values_list("pk", flat=True)
    values: dict[str, list[object]] = {
        "thread": [place.thread.pk, runs[0].thread_id],
        "channel": [place.channel.pk, runs[0].thread.channel_id],
        "entry": list(entries),
        "q": ["roses"],
        "query": ["roses"],
        "action": ["search"],
        "task": ["mention", "thread"],
        "request": ["What of the roses?"],
        "label": ["notes"],
        "handle": [place.agent],
    }
    for name in OPERATIONS:
        operation = operations()[name]
        if operation.method != "GET" and name not in ("context_assemble", "memory_call_tool"):
            continue
        wanted = [each for each in operation.arguments if each in values]
        arguments: list[dict[str, object]] = [{}]
        for each in wanted:
            arguments = [one | {each: value} for one in arguments for value in values[each]]
        yield from ((name, one) for one in arguments)


def told_at_mcp(visit: Visit, agent: Agent, place: Place, runs: list[Run]) -> set[str]:
    """Tools and resources whose answers hold the word."""
    asked = list(calls(place, runs))
    uris = [f"openvibe://knowledge/{pk}" for pk in Entry.objects.values_list("pk", flat=True)]
    for thread in (place.thread.pk, runs[0].thread_id):
        uris += [f"openvibe://thread/{thread}", f"openvibe://context/{thread}/thread"]

    async def story(client: Client) -> set[str]:
        found = {f"{name} {json.dumps(one)}" for name, one in asked if WORD in str(await client.call_tool(name, one))}
        for uri in uris:
            try:
                answer = str(await client.read_resource(uri))
            except MCPError:
                continue
            found |= {uri} if WORD in answer else set()
        return found | ({"resources"} if WORD in str(await client.list_resources()) else set())

    return visit(agent.participant, story)  # type: ignore[no-any-return]


@pytest.mark.parametrize("way", ["human_only", "agent_restricted"])
def test_a_closed_thread_says_nothing_at_mcp(visit: Visit, ana: Member, way: str) -> None:
    place = make_garden(ana, 3, knowledge=True)
    write_work(place, ana)
    runs, agent = ask_elsewhere(place, ana), place.run.agent
    before = told_at_mcp(visit, agent, place, runs)
    assert {name.partition(" ")[0] for name in before} >= {"messages_list", "context_assemble", "knowledge_get"}
    assert f"openvibe://context/{runs[0].thread_id}/thread" in before
    close_place(place, ana, way)
    assert told_at_mcp(visit, agent, place, runs) == set()
