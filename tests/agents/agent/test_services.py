"""Agents that are put aside and brought back, by several people at the same moment."""

from agents.agent.services import deactivate_agent, reactivate_agent
from agents.models import Agent
from memory.episodes.models import Episode
from memory.services import record_failure
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.factories import access


def test_deactivated_by_two_who_saw_it_active_it_comes_back_with_its_episodes(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    record_failure(agent=vibe.participant, thread=thread, summary="The model did not answer.")
    for as_seen in [Agent.objects.get(pk=vibe.pk), Agent.objects.get(pk=vibe.pk)]:
        deactivate_agent(agent=as_seen, by=access(ana))
    assert not Episode.objects.filter(archived_at=None).exists()

    reactivate_agent(agent=Agent.objects.get(pk=vibe.pk), by=access(ana))

    assert Episode.objects.filter(archived_at=None).count() == 1
