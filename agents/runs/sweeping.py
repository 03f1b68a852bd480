"""Finding runs that a dead worker or a down broker left behind. Those that wait for an approval are left alone."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from agents.models import Run
from agents.runs.queue import ATTEMPTS
from openvibe.base.ownership import Piece, owned
from openvibe.chat.models import Message
from openvibe.chat.services import finish_reply

LOST_AFTER = timedelta(seconds=30)
"""A queued run nobody has begun for this long is sent to a worker again."""

BATCH = 200


def sweep() -> list[int]:
    """Ids of runs to send to a worker now: those without an owner, and those whose message got lost."""
    return [*_orphans(), *_unsent()]


def _orphans() -> list[int]:
    back = []
    for run_id in Run.objects.active().order_by("pk").values_list("pk", flat=True)[:BATCH]:
        with owned(Piece.RUN, run_id) as free:
            if free and _put_back(run_id):
                back.append(run_id)
    return back


@transaction.atomic
def _put_back(run_id: int) -> bool:
    """Back into the queue, or failed for good when workers died over it three times."""
    run = Run.objects.select_for_update(of=("self",)).filter(pk=run_id, state__in=Run.ACTIVE).first()
    if run is None:
        return False
    if run.attempt % ATTEMPTS:
        run.state, run.sent_at = Run.State.QUEUED, timezone.now()
        run.save(update_fields=["state", "sent_at"])
        return True
    run.state, run.finished_at, run.error_code = Run.State.FAILED, timezone.now(), "worker_lost"
    run.error = f"The worker stopped {ATTEMPTS} times while answering. Try again; if it happens again, see the log."
    run.save()
    if run.reply_id is not None:
        reply = Message.objects.get(pk=run.reply_id)
        finish_reply(reply=reply, body=reply.body, state=Message.State.FAILED)
    return False


def _unsent() -> list[int]:
    late = timezone.now() - LOST_AFTER
    with transaction.atomic():
        queued = Run.objects.select_for_update(skip_locked=True).filter(state=Run.State.QUEUED, sent_at__lt=late)
        ids = list(queued.order_by("pk").values_list("pk", flat=True)[:BATCH])
        Run.objects.filter(pk__in=ids).update(sent_at=timezone.now())
    return ids
