"""A person whose name is like another's is told apart in what a summary is made from, and in what the tool shows."""

import pytest

from agents.agent.access import visible_to
from agents.models import Agent
from memory.plugins.base import Session
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.lcm.source_lines import parse_lines
from memory.plugins.lcm.summary_sources import read_source
from memory.plugins.tool import build_tool
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member, Participant
from tests.memory.plugins.lcm.factories import leaf, taken_in, told

LINES = ("Ana (@ana)", "Ana (@dora)")


@pytest.fixture
def two_anas(ana: Member, dora: Member, thread: Thread) -> Thread:
    Participant.objects.filter(pk=dora.participant_id).update(name="Ana")
    told(thread, ana.participant, "I am the owner of the roses.")
    told(thread, dora.participant, "I approve everything about roses.")
    return thread


def test_in_what_a_summary_is_made_from(two_anas: Thread) -> None:
    text = read_source(leaf(taken_in(two_anas), 1, 2)).text
    assert [line.speaker for line in parse_lines(text)] == list(LINES)


@pytest.mark.parametrize("arguments", [{"action": "search", "query": "roses"}, {"action": "expand", "summary_id": 0}])
def test_in_what_the_tool_shows(two_anas: Thread, vibe: Agent, arguments: dict[str, object]) -> None:
    summary = leaf(taken_in(two_anas), 1, 2)
    if "summary_id" in arguments:
        arguments["summary_id"] = summary.pk
    session = Session(two_anas.pk, visible_to(vibe), before=None, person_id=None)

    result = build_tool(LcmProvider()).perform(session, arguments)

    assert all(f" {name}, " in result for name in LINES)
