"""Recovery of compactions that a dead worker or a down broker left behind, and of summaries that still wait to be
rebuilt."""

from datetime import timedelta

from django.utils import timezone

from memory.plugins.base import Rebuilder
from memory.plugins.compaction.requests import request_compaction
from memory.plugins.models import COMPACTIONS, DEFAULT_PLUGIN, Compaction, MemoryPlugin
from memory.plugins.registry import provider_named
from openvibe.base.jobs import BATCH_SIZE
from openvibe.chat.models import Thread

WORKER_LOST = (
    f"The worker stopped {COMPACTIONS.max_attempts} times while compacting. "
    "Nothing is lost; see the log before trying again."
)

REBUILD_COOLDOWN = timedelta(minutes=30)
"""After rebuilding failed, or changed nothing, the sweeper does not ask for it again for this long."""


def recover_compactions() -> list[int]:
    """Ids of compactions to send to a worker now."""
    return [*COMPACTIONS.recover(_fail_orphan), *_request_rebuilds()]


def _fail_orphan(compaction: Compaction) -> None:
    COMPACTIONS.fail(compaction, WORKER_LOST)


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
    unfinished = Compaction.objects.filter(state__in=COMPACTIONS.unfinished)
    return {*recent.values_list("thread_id", flat=True), *unfinished.values_list("thread_id", flat=True)}
