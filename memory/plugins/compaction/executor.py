"""Executing a compaction: claim it, let the plugin work, store its result and ring `compaction_finished`.

The plugin writes in steps of its own, each whole in itself; the row's last state and the signal are one transaction.
So a worker killed at any moment leaves a conversation as it was before or after a step, and a row that recovery
finds without an owner. Every write is fenced by the row's attempt."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog
from django.db import InterfaceError, OperationalError, models, transaction
from django.dispatch import Signal
from django.utils import timezone

from memory.plugins.base import FRESH_TAIL, CompactionResult, Compactor, MemoryProvider, Rebuilder, Session
from memory.plugins.models import Compaction
from memory.plugins.records import context_budget
from memory.plugins.registry import active_plugin_name, provider_for
from memory.plugins.sessions import session_for_thread
from openvibe.base.locks import LockKind, advisory_lock
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.llm.errors import ModelError

log = structlog.get_logger(__name__)
MAX_ATTEMPTS = 3
RETRY_DELAYS = (10, 60)
"""Seconds before the second and the third attempt."""

PROGRESS_INTERVAL = 1.0
"""Seconds between two saves of how far it is."""

# A compaction is done, or found nothing to do. Sent inside the transaction that stores its result, as the last thing
# in it; what a listener raises undoes that:
#   compaction: Compaction, locked
#   summary_ids: tuple[int, ...], the summaries it made and those that prompts show now
compaction_finished = Signal()


class CompactionLost(Exception):
    """Somebody else carries it out by now."""


@dataclass(frozen=True)
class CompactionRetry:
    """Send this compaction to a worker again, after so many seconds."""

    compaction_id: int
    seconds: int


@dataclass(frozen=True)
class CompactionOutcome:
    """What was made, and the summaries that the handoff names."""

    made: CompactionResult
    summary_ids: tuple[int, ...]


def execute_compaction(
    compaction_id: int, *, provider: MemoryProvider | None = None, clock: Callable[[], float] = time.monotonic
) -> CompactionRetry | None:
    """Carry it out if nobody else does. What comes back is to be tried again later: a model failed.

    Safe to call any number of times. `provider` stands in for the workspace's own plugin. Raises only when the
    database is out of reach; the sweeper then finds the row without an owner.
    """
    log_context = structlog.contextvars.bound_contextvars(compaction_id=compaction_id)
    with log_context, advisory_lock(LockKind.COMPACTION, compaction_id) as is_owner:
        compaction = claim_compaction(compaction_id) if is_owner else None
        if compaction is None:
            return None
        try:
            _store_result(
                compaction, _run_provider(compaction, provider or provider_for(compaction.thread.workspace_id), clock)
            )
        except CompactionLost:
            log.warning("compaction_lost")
        except ModelError as error:
            return _retry_or_fail(compaction, f"{error} {error.advice}")
        except Problem as problem:
            if problem.code == "compaction_paused" or isinstance(problem, Missing | Refused):
                _fail(compaction, problem.message)
            else:
                return _retry_or_fail(compaction, problem.message)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("compaction_failed")
            reference = f"compaction {compaction.pk}"
            _fail(compaction, f"Something went wrong in OpenVibe itself; the log has it under {reference}. Try again.")
    return None


def claim_compaction(compaction_id: int) -> Compaction | None:
    """Take a waiting one: `running`, one attempt more. None when there is nothing to do."""
    with transaction.atomic():
        compaction = (
            Compaction.objects.select_for_update(of=("self",), skip_locked=True)
            .select_related("thread__channel", "thread__workspace", "requested_by")
            .filter(pk=compaction_id, state=Compaction.State.QUEUED)
            .first()
        )
        if compaction is None:
            return None
        compaction.state, compaction.started_at = Compaction.State.RUNNING, timezone.now()
        compaction.attempt += 1
        compaction.plugin = active_plugin_name(compaction.thread.workspace_id)
        compaction.save(update_fields=["state", "started_at", "attempt", "plugin"])
    return compaction


def _run_provider(compaction: Compaction, provider: MemoryProvider, clock: Callable[[], float]) -> CompactionOutcome:
    """Summaries of changed messages first, so that no new one is made from an old one that waits to be rewritten."""
    if not isinstance(provider, Compactor):
        raise Refused(f"The memory plugin {compaction.plugin} makes no summaries, so there is nothing to compact.")
    session = session_for_thread(compaction.thread, compaction.requested_by)
    if session is None:
        raise Refused("No agent and no person reads this thread any more, or it is for people only now.")
    provider.bootstrap(session)
    if compaction.tokens_before is None:
        compaction.tokens_before = provider.stats(session).tokens
        _owned_row(compaction).update(tokens_before=compaction.tokens_before)
    budget = context_budget(compaction.thread)
    result = provider.rebuild(session) if isinstance(provider, Rebuilder) else CompactionResult(0, 0)
    if compaction.trigger != Compaction.Trigger.CHANGED:
        result = provider.compact(
            session, budget, full=compaction.full, progress=_throttled_progress(compaction, clock)
        )
    entries = provider.assemble(session, budget, FRESH_TAIL)
    entry_summary_ids = (entry.summary_id for entry in entries if entry.summary_id is not None)
    handoff_summary_ids = tuple(dict.fromkeys([*result.created, *entry_summary_ids]))
    if compaction.attempt > 1:
        result = _include_earlier_attempts(compaction, provider, session, result)
    return CompactionOutcome(result, handoff_summary_ids)


def _include_earlier_attempts(
    compaction: Compaction, provider: MemoryProvider, session: Session, result: CompactionResult
) -> CompactionResult:
    """What all attempts came to: those that were cut short left whole summaries, and nobody to tell of them."""
    assert compaction.tokens_before is not None
    after = provider.stats(session).tokens
    return replace(result, tokens_before=max(compaction.tokens_before, after), tokens_after=after)


def _throttled_progress(compaction: Compaction, clock: Callable[[], float]) -> Callable[[int, int], None]:
    """Progress that is saved, and so shown, at most every second, and finds out when the work was lost."""
    saved_at: float | None = None

    def save_progress(done: int, total: int) -> None:
        nonlocal saved_at
        now = clock()
        if saved_at is not None and now - saved_at < PROGRESS_INTERVAL:
            return
        saved_at = now
        if not _owned_row(compaction).update(done_messages=done, of_messages=total):
            raise CompactionLost

    return save_progress


def _owned_row(compaction: Compaction) -> models.QuerySet[Compaction]:
    return Compaction.objects.filter(pk=compaction.pk, attempt=compaction.attempt, state=Compaction.State.RUNNING)


def _lock_owned_compaction(compaction: Compaction) -> Compaction:
    current = _owned_row(compaction).select_for_update(of=("self",)).select_related("thread").first()
    if current is None:
        raise CompactionLost
    return current


def _store_result(compaction: Compaction, outcome: CompactionOutcome) -> None:
    """What came of it, and whatever listens to `compaction_finished`, in one transaction."""
    result = outcome.made
    with transaction.atomic():
        current = _lock_owned_compaction(compaction)
        has_effect = result.created or result.rounds or result.tokens_after != result.tokens_before
        current.state = Compaction.State.DONE if has_effect else Compaction.State.NOTHING
        current.tokens_before, current.tokens_after = result.tokens_before, result.tokens_after
        current.created_count, current.summary_ids = len(result.created), list(result.created)
        current.at_seq = Thread.objects.values_list("last_seq", flat=True).get(pk=current.thread_id)
        current.done_messages = current.of_messages
        current.finished_at, current.error, current.note = timezone.now(), "", result.note
        current.save()
        compaction_finished.send(sender=Compaction, compaction=current, summary_ids=outcome.summary_ids)


def _retry_or_fail(compaction: Compaction, reason: str) -> CompactionRetry | None:
    """Back into the queue for a later attempt, or failed for good after the third."""
    if compaction.attempt >= MAX_ATTEMPTS:
        _fail(compaction, reason)
        return None
    delay = RETRY_DELAYS[compaction.attempt - 1]
    retry_at = timezone.now() + timedelta(seconds=delay)
    is_queued = _owned_row(compaction).update(state=Compaction.State.QUEUED, sent_at=retry_at, error=reason)
    return CompactionRetry(compaction.pk, delay) if is_queued else None


def _fail(compaction: Compaction, reason: str) -> None:
    _owned_row(compaction).update(state=Compaction.State.FAILED, finished_at=timezone.now(), error=reason)
