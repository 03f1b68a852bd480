"""What lower floors ask of agents, each named as a string in the settings."""

from collections.abc import Iterator

from agents.assembler.assemble import endpoint_of
from agents.models import Agent
from agents.usage import EntryUse, uses_shown
from agents.visibility import obstacle, tokens_used_today, visible_to
from knowledge.models import Entry
from openvibe.chat.models import Thread
from openvibe.llm.protocol import ModelClient
from openvibe.llm.registry import client_for
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace


def client_of_agent(participant: Participant) -> ModelClient:
    """The model an agent answers with; the offline one where it has none."""
    agent = Agent.objects.select_related("endpoint", "workspace").get(participant=participant)
    return client_for(endpoint_of(agent))


def why_silent_in(participant: Participant, thread: Thread, task: str) -> str | None:
    """Why the agent may not take part in a dive (`task` dive or publish), as a sentence; None when it may."""
    agent = Agent.objects.select_related("participant", "workspace").filter(participant=participant).first()
    if agent is None:
        return "There is no such agent any more."
    found = obstacle(agent, thread, task)
    return f"@{participant.handle} cannot do this: {found.reason}" if found else None


def agents_that_review() -> Iterator[tuple[Participant, Access]]:
    """Agents that may look back at their conversations now, with their access, in another order each time.

    Active, with a SOUL, answering through OpenVibe, and with room left in their own token budget of the day and in the
    workspace's.
    """
    agents = Agent.objects.filter(deactivated_at=None, answers_itself=False, soul__isnull=False)
    for agent in agents.select_related("participant", "workspace").order_by("?"):
        if tokens_left(agent.workspace_id, agent.participant_id) > 0:
            yield agent.participant, visible_to(agent)


def tokens_left(workspace_id: int, participant_id: int | None = None) -> int:
    """Tokens that may still be used today: of the workspace's budget, and of the agent's where one is named."""
    cap = Workspace.objects.values_list("daily_token_budget", flat=True).get(pk=workspace_id)
    left = cap - tokens_used_today(workspace_id=workspace_id)
    agent = Agent.objects.filter(participant=participant_id).first() if participant_id is not None else None
    if agent is not None:
        left = min(left, agent.daily_token_budget - tokens_used_today(agent=agent))
    return max(left, 0)


def uses_of_entry(entry: Entry, access: Access) -> tuple[EntryUse, ...]:
    """Which runs had this entry before them, in the threads the asker sees: the newest first."""
    return uses_shown(entry, access)
