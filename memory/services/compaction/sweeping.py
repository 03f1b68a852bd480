"""Finding compactions that a dead worker or a down broker left behind, and summaries that still wait to be rebuilt."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from memory.models import DEFAULT_PLUGIN, Compaction, MemoryPlugin
from memory.providers.base import Rebuilder
from memory.providers.registry import provider_named
from memory.services.compaction.carrying import ATTEMPTS
from memory.services.compaction.requesting import WAITING, request_compaction
from openvibe.base.ownership import Piece, owned
from openvibe.chat.models import Thread

LOST_AFTER = timedelta(seconds=30)
"""A waiting one nobody has begun for this long is sent to a worker again."""

LEFT_ALONE = timedelta(minutes=30)
"""After rebuilding failed, or changed nothing, the sweeper does not ask for it again for this long."""

BATCH = 200


def sweep() -> list[int]:
    """Ids of compactions to send to a worker now."""
    return [*_orphans(), *_unsent(), *_unrebuilt()]


def _orphans() -> list[int]:
    back = []
    running = Compaction.objects.filter(state=Compaction.State.RUNNING).order_by("pk")
    for compaction_id in running.values_list("pk", flat=True)[:BATCH]:
        with owned(Piece.COMPACTION, compaction_id) as free:
            if free and _put_back(compaction_id):
                back.append(compaction_id)
    return back


@transaction.atomic
def _put_back(compaction_id: int) -> bool:
    """Back into the queue, or failed for good when workers died over it three times."""
    running = Compaction.objects.select_for_update().filter(pk=compaction_id, state=Compaction.State.RUNNING)
    compaction = running.first()
    if compaction is None:
        return False
    if compaction.attempt < ATTEMPTS:
        compaction.state, compaction.sent_at = Compaction.State.QUEUED, timezone.now()
        compaction.save(update_fields=["state", "sent_at"])
        return True
    compaction.state, compaction.finished_at = Compaction.State.FAILED, timezone.now()
    compaction.error = (
        f"The worker stopped {ATTEMPTS} times while compacting. Nothing is lost; see the log before trying again."
    )
    compaction.save(update_fields=["state", "finished_at", "error"])
    return False


def _unsent() -> list[int]:
    late = timezone.now() - LOST_AFTER
    with transaction.atomic():
        queued = Compaction.objects.select_for_update(skip_locked=True).filter(
            state=Compaction.State.QUEUED, sent_at__lt=late
        )
        ids = list(queued.order_by("pk").values_list("pk", flat=True)[:BATCH])
        Compaction.objects.filter(pk__in=ids).update(sent_at=timezone.now())
    return ids


def _unrebuilt() -> list[int]:
    """New requests for threads whose summaries wait: a message changed while its thread was being compacted."""
    asked = []
    for name in {DEFAULT_PLUGIN, *MemoryPlugin.objects.filter(enabled=True).values_list("name", flat=True)}:
        provider = provider_named(name, {})
        if not isinstance(provider, Rebuilder):
            continue
        for thread in Thread.objects.filter(pk__in=provider.threads_to_rebuild(BATCH)).exclude(pk__in=_left_alone()):
            compaction = request_compaction(thread=thread, trigger=Compaction.Trigger.CHANGED)
            if compaction is not None:
                asked.append(compaction.pk)
    return asked


def _left_alone() -> set[int]:
    """Threads that have a compaction waiting, and those where rebuilding came to nothing a short while ago."""
    lately = Compaction.objects.filter(
        trigger=Compaction.Trigger.CHANGED,
        state__in=(Compaction.State.FAILED, Compaction.State.NOTHING),
        finished_at__gt=timezone.now() - LEFT_ALONE,
    )
    waiting = Compaction.objects.filter(state__in=WAITING)
    return {*lately.values_list("thread_id", flat=True), *waiting.values_list("thread_id", flat=True)}
