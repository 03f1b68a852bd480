"""Permissions: who may see an agent's pages, and who may change an agent."""

from agents.agent.models import Agent
from openvibe.base.problems import Missing, Refused
from openvibe.chat.queries import participants_known_to
from openvibe.workspaces.decorators import WorkspaceRequest


def access_agent(request: WorkspaceRequest, handle: str) -> Agent:
    """An agent that the asker knows of. Raises Missing."""
    agents = Agent.objects.select_related("participant", "workspace", "soul", "endpoint")
    agent = agents.filter(workspace=request.workspace, participant__handle=handle).first()
    if agent is None or (request.access.is_guest and agent.participant not in participants_known_to(request.access)):
        raise Missing
    return agent


def check_may(request: WorkspaceRequest, action: str) -> None:
    if not request.access.administers:
        raise Refused(f"Only owners and admins may {action}. Ask one of them.")
