"""The one way a trust level changes."""

from django.db import transaction

from agents.models import Agent, TrustChange
from openvibe.base.models import emit
from openvibe.base.problems import Problem, Refused
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


@transaction.atomic
def set_trust_level(*, agent: Agent, by: Access, level: int, note: str) -> TrustChange | None:
    """Set the level (1 to 4), with a note, into the audit trail. Holds from the very next prompt on.

    The level it has already changes nothing and returns None.
    """
    if not by.administers or by.workspace_id != agent.workspace_id:
        raise Refused("Only owners and admins may set a trust level.")
    if level not in Agent.Level.values:
        raise Problem("A trust level is 1, 2, 3 or 4.", code="bad_level", field="level")
    cleaned = note.replace("\x00", "").strip()
    if not cleaned or len(cleaned) > 300:
        raise Problem("Say in a few words (at most 300 characters) why.", code="no_note", field="note")
    current = Agent.objects.select_for_update().get(pk=agent.pk)
    if current.level == level:
        return None
    before = current.level
    current.level = agent.level = level
    current.save(update_fields=["level", "updated_at"])
    who = Participant.objects.get(pk=by.participant_id)
    change = TrustChange.objects.create(
        agent=current, level_before=before, level_after=level, note=cleaned, by=who, by_name=who.name
    )
    emit("agent_changed", workspace_id=agent.workspace_id)
    emit("access_changed", workspace_id=agent.workspace_id, participant_id=agent.participant_id)
    return change
