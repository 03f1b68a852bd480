"""Celery tasks of compaction, and what enqueues them. Ids in, one call each."""

from functools import partial

import structlog
from celery import shared_task
from django.db import transaction

from memory.plugins.base import Session
from memory.plugins.compaction import (
    execute_compaction,
    recover_compactions,
    request_compaction,
    request_compaction_if_due,
)
from memory.plugins.models import Compaction
from openvibe.chat.models import Thread

log = structlog.get_logger(__name__)

COMPACTION_MESSAGE_TTL = 3600  # seconds; the sweeper asks again for compactions whose message expired


def enqueue_compaction(compaction_id: int, delay_seconds: int = 0) -> None:
    """Asks a worker to execute it, after so many seconds. A broker that is down is only logged: the sweeper asks."""
    try:
        run_compaction.apply_async(
            (compaction_id,), countdown=delay_seconds, expires=COMPACTION_MESSAGE_TTL + delay_seconds, retry=False
        )
    except Exception as error:  # every transport has errors of its own
        log.warning("compaction_not_sent", compaction_id=compaction_id, error=type(error).__name__)


def enqueue_compaction_on_commit(compaction_id: int) -> None:
    transaction.on_commit(partial(enqueue_compaction, compaction_id))


def ask_compaction(session: Session, focus: str) -> str:
    """An agent asks: what came of it, as a sentence. Raises like `request_compaction`."""
    thread = Thread.objects.select_related("channel", "workspace").get(pk=session.thread_id)
    trigger = Compaction.Trigger.AGENT
    compaction = request_compaction(thread=thread, trigger=trigger, by=session.access, focus=focus)
    if compaction is None:
        return "A compaction of this conversation is under way already."
    enqueue_compaction_on_commit(compaction.pk)
    return "Older messages will be summarised in the background; your next prompt shows what came of it."


def enqueue_compaction_check_on_commit(thread_id: int, *, had_bulky_result: bool = False) -> None:
    """Lets a worker look, once this transaction is committed, whether the thread has grown past its threshold."""
    transaction.on_commit(partial(_enqueue_compaction_check, thread_id, had_bulky_result))


def _enqueue_compaction_check(thread_id: int, had_bulky_result: bool) -> None:
    try:
        check_compaction_due.apply_async((thread_id, had_bulky_result), expires=COMPACTION_MESSAGE_TTL, retry=False)
    except Exception as error:  # the next run in the thread, or a later message, looks again
        log.warning("consideration_not_sent", thread_id=thread_id, error=type(error).__name__)


@shared_task(name="memory.compact", acks_late=True, ignore_result=True)
def run_compaction(compaction_id: int) -> None:
    delay_seconds = execute_compaction(compaction_id)
    if delay_seconds is not None:
        enqueue_compaction(compaction_id, delay_seconds)


@shared_task(name="memory.consider_compaction", acks_late=True, ignore_result=True)
def check_compaction_due(thread_id: int, had_bulky_result: bool = False) -> None:
    """A thread in which something was said: compacted when it is due."""
    thread = Thread.objects.select_related("channel", "workspace").filter(pk=thread_id).first()
    if thread is None:
        return
    compaction = request_compaction_if_due(thread=thread, had_bulky_result=had_bulky_result)
    if compaction is not None:
        enqueue_compaction(compaction.pk)


@shared_task(name="memory.sweep_compactions", ignore_result=True, expires=30)
def sweep_compactions() -> dict[str, int]:
    compaction_ids = recover_compactions()
    for compaction_id in compaction_ids:
        enqueue_compaction(compaction_id)
    return {"compactions sent again": len(compaction_ids)}
