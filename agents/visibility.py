"""What an agent may see, and whether it may answer: the one place every path asks.

`visible_to(agent)` is the access that every queryset's own `visible_to` takes, so prompts, tools, API, search and
"View as this agent" cannot differ. The table behind it is `agents.trust`.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import cast

from django.db.models import F, Sum

from agents.models import Agent, Run
from agents.trust import Occasion, knowledge_scope, may_respond, reads_dive_results, reads_public_channels
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


def visible_to(agent: Agent) -> Access:
    """What the agent may see at this moment, by its trust level and memberships."""
    return Access(
        workspace_id=agent.workspace_id,
        participant_id=agent.participant_id,
        is_agent=True,
        level=agent.level,
        reads_public_channels=reads_public_channels(agent.level),
        reads_dive_results=reads_dive_results(agent.level),
        knowledge=knowledge_scope(agent.level),
    )


def access_of_agent(participant: Participant) -> Access | None:
    """The access of a participant that is an agent; None once it is deactivated."""
    agent = Agent.objects.filter(participant=participant, deactivated_at=None).first()
    return visible_to(agent) if agent else None


def accesses_of_agents(participants: Iterable[Participant]) -> dict[int, Access]:
    """The access of each of these agents that is active, by participant id. No query where `agent` is loaded."""
    agents = [participant.agent for participant in participants]
    return {agent.participant_id: visible_to(agent) for agent in agents if agent.is_active}


def tokens_used_today(*, agent: Agent | None = None, workspace_id: int = 0) -> int:
    """Tokens (input and output) of the runs begun since midnight UTC, of one agent or of a whole workspace."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    runs = Run.objects.filter(queued_at__gte=midnight)
    runs = runs.filter(agent=agent) if agent is not None else runs.filter(workspace_id=workspace_id)
    return runs.aggregate(total=Sum(F("input_tokens") + F("output_tokens")))["total"] or 0


def why_silent(agent: Agent, thread: Thread, task: str) -> str | None:
    """Why the agent may not answer in this thread, as a sentence for people; None when it may."""
    name = f"@{agent.participant.handle}"
    if agent.deactivated_at is not None:
        return f"{name} did not answer: it is deactivated."
    if agent.soul_id is None:
        return f"{name} did not answer: it has no SOUL yet. An admin can write one."
    if thread.access == Thread.Access.HUMAN_ONLY:
        return f"{name} was not told: this thread is for people only."
    if not Thread.objects.visible_to(visible_to(agent)).filter(pk=thread.pk).exists():
        if thread.access == Thread.Access.AGENT_RESTRICTED and not thread.allowed_agents.contains(agent.participant):
            return f"{name} was not told: this thread is open only to the agents it lists."
        return f"{name} was not told: it is not in this channel. Somebody who runs the channel can add it."
    if not may_respond(agent.level, cast(Occasion, task)):
        return f"{name} did not answer: at L{agent.level} it answers mentions only."
    if tokens_used_today(agent=agent) >= agent.daily_token_budget:
        return f"{name} did not answer: its token budget for today is used up. It starts afresh at midnight UTC."
    if tokens_used_today(workspace_id=agent.workspace_id) >= agent.workspace.daily_token_budget:
        return f"{name} did not answer: the workspace's token budget for today is used up, until midnight UTC."
    return None
