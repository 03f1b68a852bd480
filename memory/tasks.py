"""Jobs of memory: ids in, one call each."""

from functools import partial

import structlog
from celery import shared_task
from django.db import transaction
from django.utils import timezone

from memory.models import Episode

log = structlog.get_logger(__name__)
COMPACTION_EXPIRES = 3600  # seconds; the sweeper asks again for compactions whose message expired


@shared_task(name="memory.forget_episodes")
def forget_episodes() -> None:
    """Episodes past their 90 days. Feedback has no such day: it stays until a person settles or deletes it."""
    Episode.objects.filter(expires_at__lte=timezone.now()).delete()


def send_compaction(compaction_id: int, seconds: int = 0) -> None:
    """Ask a worker to carry it out, after so many seconds. A broker that is down is only logged: the sweeper asks."""
    try:
        compact.apply_async((compaction_id,), countdown=seconds, expires=COMPACTION_EXPIRES + seconds, retry=False)
    except Exception as error:  # every transport has errors of its own
        log.warning("compaction_not_sent", compaction_id=compaction_id, error=type(error).__name__)


def send_compaction_after_commit(compaction_id: int) -> None:
    transaction.on_commit(partial(send_compaction, compaction_id))


def consider_compaction_after_commit(thread_id: int) -> None:
    """Let a worker look, once this transaction is committed, whether the thread has grown past its threshold."""
    transaction.on_commit(partial(_send_consideration, thread_id))


def _send_consideration(thread_id: int) -> None:
    try:
        consider_compaction.apply_async((thread_id,), expires=COMPACTION_EXPIRES, retry=False)
    except Exception as error:  # the next run in the thread, or a later message, looks again
        log.warning("consideration_not_sent", thread_id=thread_id, error=type(error).__name__)


@shared_task(name="memory.compact", acks_late=True, ignore_result=True)
def compact(compaction_id: int) -> None:
    from memory.services.compaction import carry_out_compaction

    again = carry_out_compaction(compaction_id)
    if again is not None:
        send_compaction(again.compaction_id, again.seconds)


@shared_task(name="memory.consider_compaction", acks_late=True, ignore_result=True)
def consider_compaction(thread_id: int) -> None:
    """A thread's append: compacted when it is due."""
    from memory.services.compaction import request_if_due
    from openvibe.chat.models import Thread

    thread = Thread.objects.select_related("channel").filter(pk=thread_id).first()
    compaction = request_if_due(thread=thread) if thread is not None else None
    if compaction is not None:
        send_compaction(compaction.pk)


@shared_task(name="memory.sweep_compactions", ignore_result=True, expires=30)
def sweep_compactions() -> None:
    from memory.services.compaction import sweep

    for compaction_id in sweep():
        send_compaction(compaction_id)


@shared_task(name="memory.review_sessions", ignore_result=True, expires=3_000)
def review_sessions() -> None:
    """Agents look back at what was said and propose what they would learn; a bounded number of threads each hour."""
    from memory.services.review import review_due_sessions

    review_due_sessions()
