"""Recovery of runs that a dead worker or a down broker left behind. Those that wait for an approval are left alone."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from agents.models import Run
from agents.runs.lifecycle import MAX_ATTEMPTS
from openvibe.base.locks import LockKind, advisory_lock
from openvibe.chat.models import Message
from openvibe.chat.services import finish_reply

RESEND_AFTER = timedelta(seconds=30)
"""A queued run nobody has begun for this long is sent to a worker again."""

BATCH_SIZE = 200


def recover_runs() -> list[int]:
    """Ids of runs to send to a worker now: those without an owner, and those whose message got lost."""
    return [*_requeue_orphans(), *_mark_resent()]


def _requeue_orphans() -> list[int]:
    requeued = []
    for run_id in Run.objects.active().order_by("pk").values_list("pk", flat=True)[:BATCH_SIZE]:
        with advisory_lock(LockKind.RUN, run_id) as is_orphan:
            if is_orphan and _requeue(run_id):
                requeued.append(run_id)
    return requeued


@transaction.atomic
def _requeue(run_id: int) -> bool:
    """Back into the queue, or failed for good when workers died over it three times."""
    run = Run.objects.select_for_update(of=("self",)).filter(pk=run_id, state__in=Run.ACTIVE).first()
    if run is None:
        return False
    if run.attempt % MAX_ATTEMPTS:
        run.state, run.sent_at = Run.State.QUEUED, timezone.now()
        run.save(update_fields=["state", "sent_at"])
        return True
    run.state, run.finished_at, run.error_code = Run.State.FAILED, timezone.now(), "worker_lost"
    run.error = f"The worker stopped {MAX_ATTEMPTS} times while answering. Try again; if it happens again, see the log."
    run.save()
    if run.reply_id is not None:
        reply = Message.objects.get(pk=run.reply_id)
        finish_reply(reply=reply, body=reply.body, state=Message.State.FAILED)
    return False


def _mark_resent() -> list[int]:
    deadline = timezone.now() - RESEND_AFTER
    with transaction.atomic():
        queued = Run.objects.select_for_update(skip_locked=True).filter(state=Run.State.QUEUED, sent_at__lt=deadline)
        ids = list(queued.order_by("pk").values_list("pk", flat=True)[:BATCH_SIZE])
        Run.objects.filter(pk__in=ids).update(sent_at=timezone.now())
    return ids
