"""Verbs of approvals: anybody who sees the thread asks, people decide, and a decision is final."""

from django.db import transaction
from django.utils import timezone

from memory.models import Approval, Compaction
from memory.services.worded import locked_thread, milestone, told, worded
from memory.signals import approval_decided
from memory.work import PENDING
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access

State = Approval.State


@transaction.atomic
def request_approval(*, thread: Thread, by: Access, what: str, reason: str = "") -> Approval:
    """Ask whether something may be done. The work pauses there, which is a milestone.

    The same question of the same asker that still waits is returned, not asked twice. `what` is one line of at most
    300 characters. Raises Missing, Refused (archived), Problem (empty, too long, too many that wait).
    """
    asked = " ".join(worded(what, field="what", most=300).split())
    because = worded(reason, field="reason", most=2_000, required=False)
    locked = locked_thread(thread, by)
    waiting = Approval.objects.filter(thread=locked, state=State.REQUESTED)
    same = waiting.filter(requested_by=by.participant_id, what=asked).first()
    if same is not None:
        return same
    if waiting.count() >= PENDING:
        raise Problem(
            f"{PENDING} approvals wait in this thread already. Wait until a person has decided some of them.",
            code="too_many",
        )
    approval = Approval.objects.create(
        thread=locked, what=asked, reason=because, requested_by_id=by.participant_id, state=State.REQUESTED
    )
    told(locked)
    milestone(locked, Compaction.Trigger.APPROVAL, by)
    return approval


@transaction.atomic
def decide_approval(*, approval: Approval, by: Access, granted: bool, note: str = "") -> Approval:
    """Grant or deny, once and for all. Rings `approval_decided` in this transaction; the work resumes.

    Raises Refused for agents and guests, Conflict when it was decided before.
    """
    if by.is_agent or by.is_guest:
        raise Refused("Only members of the workspace decide approvals.", code="people_only")
    said = worded(note, field="note", most=300, required=False)
    thread = locked_thread(Thread(pk=approval.thread_id), by, even_over=True)
    found = Approval.objects.select_for_update(of=("self",)).select_related("decided_by").get(pk=approval.pk)
    if found.state != State.REQUESTED:
        who = found.decided_by.name if found.decided_by else "Somebody"
        raise Conflict(f"{who} has {found.get_state_display().lower()} this already. A decision is final.",
                       code="decided")  # fmt: skip
    found.state = State.GRANTED if granted else State.DENIED
    found.decided_by_id, found.decided_at, found.note = by.participant_id, timezone.now(), said
    found.save(update_fields=["state", "decided_by", "decided_at", "note", "updated_at"])
    told(thread)
    approval_decided.send(sender=Approval, approval=found, by=by)
    milestone(thread, Compaction.Trigger.RESUME, by)
    return found
