"""Services of approvals: request and decide them, let them lapse; and the signal that tells what came of one."""

from datetime import timedelta

from django.db import transaction
from django.dispatch import Signal
from django.utils import timezone

from memory.plugins.models import Compaction
from memory.work.models import Approval
from memory.work.services import emit_work_changed, lock_thread, send_milestone
from memory.work.validation import clean_text_field
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access

# A person decided an approval:
#   approval: Approval, decided: its state is granted or denied; or lapsed, for nobody decided in time
#   by: Access of whoever decided; None where it lapsed
# What waits for it (a run) goes on, or learns that it may not.
approval_decided = Signal()

State = Approval.State

MAX_PENDING_APPROVALS = 10
"""Approvals of one thread that may wait at the same time."""

APPROVAL_LIFETIME = timedelta(days=7)
"""How long an approval waits for a decision. Then it lapses, and what waited for it ends."""


@transaction.atomic
def request_approval(
    *, thread: Thread, by: Access, what: str, reason: str = "", reuse_pending: bool = True
) -> Approval:
    """Asks whether something may be done. The work pauses there, which is a milestone.

    The same question of the same asker that still waits is returned, not asked twice, unless each asks about something
    of its own (not `reuse_pending`). `what` is one line of at most 300 characters. Raises Missing, Refused (archived),
    Problem (empty, too long, too many that wait).
    """
    question = " ".join(clean_text_field(what, field="what", max_characters=300).split())
    cleaned_reason = clean_text_field(reason, field="reason", max_characters=2_000, required=False)
    locked = lock_thread(thread, by)
    pending = Approval.objects.filter(thread=locked, state=State.REQUESTED)
    same = pending.filter(requested_by=by.participant_id, what=question)
    # Locked, or one that lapses this moment would be waited for in vain.
    duplicate = same.select_for_update(no_key=True).first()
    if duplicate is not None and reuse_pending:
        return duplicate
    if pending.count() >= MAX_PENDING_APPROVALS:
        raise Problem(
            f"{MAX_PENDING_APPROVALS} approvals wait in this thread already. Wait until a person has decided "
            f"some of them.",
            code="too_many",
        )
    approval = Approval.objects.create(
        thread=locked, what=question, reason=cleaned_reason, requested_by_id=by.participant_id, state=State.REQUESTED
    )
    emit_work_changed(locked)
    send_milestone(locked, Compaction.Trigger.APPROVAL, by)
    return approval


@transaction.atomic
def decide_approval(*, approval: Approval, by: Access, is_granted: bool, note: str = "") -> Approval:
    """Grants or denies, once and for all. Rings `approval_decided` in this transaction; the work resumes.

    Raises Refused for agents and guests, Conflict when it was decided before.
    """
    if by.is_agent or by.is_guest:
        raise Refused("Only members of the workspace decide approvals.", code="people_only")
    cleaned_note = clean_text_field(note, field="note", max_characters=300, required=False)
    thread = lock_thread(Thread(pk=approval.thread_id), by, allow_ended=True)
    rows = Approval.objects.select_for_update(no_key=True, of=("self",))
    current = rows.select_related("decided_by").get(pk=approval.pk)
    if current.state != State.REQUESTED:
        decider = current.decided_by.label if current.decided_by else "Somebody"
        raise Conflict(
            f"{decider} has {current.get_state_display().lower()} this already. A decision is final.", code="decided"
        )
    current.state = State.GRANTED if is_granted else State.DENIED
    current.decided_by_id, current.decided_at, current.note = by.participant_id, timezone.now(), cleaned_note
    current.save(update_fields=["state", "decided_by", "decided_at", "note", "updated_at"])
    emit_work_changed(thread)
    approval_decided.send(sender=Approval, approval=current, by=by)
    send_milestone(thread, Compaction.Trigger.RESUME, by)
    return current


def lock_approval(approval_id: int) -> Approval:
    """The approval, held until the transaction ends. Who decides holds its thread before."""
    return Approval.objects.select_for_update(no_key=True, of=("self",)).get(pk=approval_id)


@transaction.atomic
def lapse_approval(*, approval: Approval, note: str) -> bool:
    """Nobody is asked any more; `note` says why (at most 300 characters). False when it was decided before."""
    current = Approval.objects.select_for_update(no_key=True, of=("self",)).select_related("thread").get(pk=approval.pk)
    if current.state != State.REQUESTED:
        return False
    current.state, current.decided_at, current.note = State.LAPSED, timezone.now(), note
    current.save(update_fields=["state", "decided_at", "note", "updated_at"])
    emit_work_changed(current.thread)
    approval_decided.send(sender=Approval, approval=current, by=None)
    return True


def lapse_overdue_approvals() -> int:
    """Lapses approvals that nobody decided within APPROVAL_LIFETIME; returns how many."""
    overdue = Approval.objects.filter(state=State.REQUESTED, created_at__lt=timezone.now() - APPROVAL_LIFETIME)
    note = f"Nobody decided within {APPROVAL_LIFETIME.days} days."
    return sum(lapse_approval(approval=approval, note=note) for approval in overdue.order_by("pk")[:500])
