"""Recovery of compactions that a dead worker or a down broker left behind, and of summaries that still wait to be
rebuilt."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from memory.plugins.base import Rebuilder
from memory.plugins.compaction.executor import MAX_ATTEMPTS
from memory.plugins.compaction.requests import UNFINISHED_STATES, request_compaction
from memory.plugins.models import DEFAULT_PLUGIN, Compaction, MemoryPlugin
from memory.plugins.registry import provider_named
from openvibe.base.locks import LockKind, advisory_lock
from openvibe.chat.models import Thread

RESEND_AFTER = timedelta(seconds=30)
"""A waiting one nobody has begun for this long is sent to a worker again."""

REBUILD_COOLDOWN = timedelta(minutes=30)
"""After rebuilding failed, or changed nothing, the sweeper does not ask for it again for this long."""

BATCH_SIZE = 200


def recover_compactions() -> list[int]:
    """Ids of compactions to send to a worker now."""
    return [*_requeue_orphans(), *_claim_unsent(), *_request_rebuilds()]


def _requeue_orphans() -> list[int]:
    requeued = []
    running = Compaction.objects.filter(state=Compaction.State.RUNNING).order_by("pk")
    for compaction_id in running.values_list("pk", flat=True)[:BATCH_SIZE]:
        with advisory_lock(LockKind.COMPACTION, compaction_id) as is_free:
            if is_free and _requeue(compaction_id):
                requeued.append(compaction_id)
    return requeued


@transaction.atomic
def _requeue(compaction_id: int) -> bool:
    """Back into the queue, or failed for good when workers died over it three times."""
    running = Compaction.objects.select_for_update().filter(pk=compaction_id, state=Compaction.State.RUNNING)
    compaction = running.first()
    if compaction is None:
        return False
    if compaction.attempt < MAX_ATTEMPTS:
        compaction.state, compaction.sent_at = Compaction.State.QUEUED, timezone.now()
        compaction.save(update_fields=["state", "sent_at"])
        return True
    compaction.state, compaction.finished_at = Compaction.State.FAILED, timezone.now()
    compaction.error = (
        f"The worker stopped {MAX_ATTEMPTS} times while compacting. Nothing is lost; see the log before trying again."
    )
    compaction.save(update_fields=["state", "finished_at", "error"])
    return False


def _claim_unsent() -> list[int]:
    cutoff = timezone.now() - RESEND_AFTER
    with transaction.atomic():
        queued = Compaction.objects.select_for_update(skip_locked=True).filter(
            state=Compaction.State.QUEUED, sent_at__lt=cutoff
        )
        ids = list(queued.order_by("pk").values_list("pk", flat=True)[:BATCH_SIZE])
        Compaction.objects.filter(pk__in=ids).update(sent_at=timezone.now())
    return ids


def _request_rebuilds() -> list[int]:
    """New requests for threads whose summaries wait: a message changed while its thread was being compacted."""
    requested = []
    for name in {DEFAULT_PLUGIN, *MemoryPlugin.objects.filter(enabled=True).values_list("name", flat=True)}:
        provider = provider_named(name, {})
        if not isinstance(provider, Rebuilder):
            continue
        for thread in Thread.objects.filter(pk__in=provider.threads_to_rebuild(BATCH_SIZE)).exclude(
            pk__in=_threads_to_skip()
        ):
            compaction = request_compaction(thread=thread, trigger=Compaction.Trigger.CHANGED)
            if compaction is not None:
                requested.append(compaction.pk)
    return requested


def _threads_to_skip() -> set[int]:
    """Threads that have a compaction waiting, and those where rebuilding came to nothing a short while ago."""
    recent = Compaction.objects.filter(
        trigger=Compaction.Trigger.CHANGED,
        state__in=(Compaction.State.FAILED, Compaction.State.NOTHING),
        finished_at__gt=timezone.now() - REBUILD_COOLDOWN,
    )
    unfinished = Compaction.objects.filter(state__in=UNFINISHED_STATES)
    return {*recent.values_list("thread_id", flat=True), *unfinished.values_list("thread_id", flat=True)}
