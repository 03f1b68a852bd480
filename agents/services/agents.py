"""Verbs of agents themselves."""

from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.models import Agent
from agents.services.soul import save_soul
from memory.models import Episode
from openvibe.base.models import emit
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace
from openvibe.workspaces.services import check_handle


@transaction.atomic
def create_agent(*, by: Access, workspace: Workspace, handle: str, name: str, soul: str) -> Agent:
    """A new agent at L1 with the first version of its SOUL. It is in no channel yet."""
    if not by.administers or by.workspace_id != workspace.pk:
        raise Refused("Only owners and admins may make agents.")
    cleaned = name.replace("\x00", "").strip()
    if not cleaned or len(cleaned) > 80:
        raise Problem("Give the agent a name of 1 to 80 characters.", code="bad_name", field="name")
    handle = check_handle(handle.strip().lstrip("@").lower())
    try:
        with transaction.atomic():
            participant = Participant.objects.create(
                workspace=workspace, kind=Participant.Kind.AGENT, handle=handle, name=cleaned
            )
    except IntegrityError:
        raise Conflict(f"@{handle} is taken in this workspace. Choose another handle.", field="handle") from None
    agent = Agent.objects.create(participant=participant, workspace=workspace)
    save_soul(agent=agent, by=by, text=soul, note="First version", based_on=0)
    return agent


def _may_retire(agent: Agent, by: Access) -> None:
    if not by.administers or by.workspace_id != agent.workspace_id:
        raise Refused("Only owners and admins may deactivate agents or bring them back.")


@transaction.atomic
def deactivate_agent(*, agent: Agent, by: Access) -> Agent:
    """It answers no more and its episodes are archived; what it said stays."""
    _may_retire(agent, by)
    now = timezone.now()
    agent.deactivated_at = agent.deactivated_at or now
    agent.save(update_fields=["deactivated_at", "updated_at"])
    Participant.objects.filter(pk=agent.participant_id).update(is_active=False)
    Episode.objects.filter(agent_id=agent.participant_id, archived_at=None).update(archived_at=agent.deactivated_at)
    emit("agent_changed", workspace_id=agent.workspace_id)
    emit("access_changed", workspace_id=agent.workspace_id, participant_id=agent.participant_id)
    return agent


@transaction.atomic
def reactivate_agent(*, agent: Agent, by: Access) -> Agent:
    """It answers again, with the episodes that were archived when it was deactivated."""
    _may_retire(agent, by)
    Episode.objects.filter(agent_id=agent.participant_id, archived_at=agent.deactivated_at).update(archived_at=None)
    agent.deactivated_at = None
    agent.save(update_fields=["deactivated_at", "updated_at"])
    Participant.objects.filter(pk=agent.participant_id).update(is_active=True)
    emit("agent_changed", workspace_id=agent.workspace_id)
    return agent
