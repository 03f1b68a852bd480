"""Executing a compaction: claim it, let the plugin work, store its result and ring `compaction_finished`; recovering
those that a dead worker or a down broker left behind.

The plugin writes in steps of its own, each whole in itself; the row's last state and the signal are one transaction.
So a worker killed at any moment leaves a conversation as it was before or after a step, and a row that recovery
finds without an owner. Every write is fenced by the row's attempt."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import structlog
from django.db import InterfaceError, OperationalError, transaction
from django.dispatch import Signal
from django.utils import timezone

from memory.plugins.base import FRESH_TAIL, CompactionResult, Compactor, MemoryProvider, Rebuilder, read_stats
from memory.plugins.compaction.requests import request_compaction
from memory.plugins.models import COMPACTIONS, DEFAULT_PLUGIN, Compaction, MemoryPlugin
from memory.plugins.registry import active_plugin_name, provider_by_name, provider_for
from memory.plugins.sessions import context_budget, session_for_thread
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.engines.jobs.jobs import BATCH_SIZE, JobLost
from openvibe.engines.llm.errors import EndpointRests, ModelError

log = structlog.get_logger(__name__)
RETRY_DELAYS = (10, 60)
"""Seconds before the second and the third attempt."""

MAX_REST_SECONDS = 300
"""The longest time that a compaction waits for an endpoint that a circuit breaker leaves alone."""

PROGRESS_INTERVAL = 1.0
"""Seconds between two saves of how far it is."""

# A compaction is done, or found nothing to do. Sent inside the transaction that stores its result, as the last thing
# in it; what a listener raises undoes that:
#   compaction: Compaction, locked
#   summary_ids: tuple[int, ...], the summaries it made and those that prompts show now
compaction_finished = Signal()


WORKER_LOST = (
    f"The worker stopped {COMPACTIONS.max_attempts} times while compacting. "
    "Nothing is lost; see the log before trying again."
)
REBUILD_COOLDOWN = timedelta(minutes=30)
"""The pause after a rebuild that failed, or changed nothing, before recovery asks for it again."""


def execute_compaction(
    compaction_id: int, *, provider: MemoryProvider | None = None, clock: Callable[[], float] = time.monotonic
) -> int | None:
    """Executes the compaction if nobody else does. Returns, where a model failed, the seconds after which a worker is
    to try again.

    Safe to call any number of times. `provider` stands in for the workspace's own plugin. Raises only when the
    database is out of reach; recovery then finds the row without an owner.
    """
    log_context = structlog.contextvars.bound_contextvars(compaction_id=compaction_id)
    rows = Compaction.objects.select_related("thread__channel", "thread__workspace", "requested_by")
    with log_context, COMPACTIONS.claim(compaction_id, rows, prepare=_set_plugin) as compaction:
        if compaction is None:
            return None
        try:
            result, summary_ids = _run_provider(
                compaction, provider or provider_for(compaction.thread.workspace_id), clock
            )
            _store_result(compaction, result, summary_ids)
        except JobLost:
            log.warning("compaction_lost")
        except EndpointRests as error:  # nobody was asked: no failure of the thread, whatever its attempt
            delay = min(error.seconds + 1, MAX_REST_SECONDS)
            return delay if COMPACTIONS.requeue(compaction, delay=delay, error=f"{error}") else None
        except ModelError as error:
            return _retry_or_fail(compaction, f"{error} {error.advice}")
        except Problem as problem:
            if problem.code != "compaction_paused" and not isinstance(problem, Missing | Refused):
                return _retry_or_fail(compaction, problem.message)
            COMPACTIONS.fail(compaction, problem.message)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("compaction_failed")
            COMPACTIONS.fail(
                compaction,
                f"Something went wrong in OpenVibe itself; the log has it under compaction {compaction.pk}. Try again.",
            )
    return None


def _set_plugin(compaction: Compaction) -> bool:
    """Names the plugin that executes it. It is always its turn: a thread has one unfinished compaction at most."""
    compaction.plugin = active_plugin_name(compaction.thread.workspace_id)
    return True


def _run_provider(
    compaction: Compaction, provider: MemoryProvider, clock: Callable[[], float]
) -> tuple[CompactionResult, tuple[int, ...]]:
    """What was made, and the ids of the summaries that the handoff names. Summaries of changed messages come first, so
    that no new one is made from an old one that waits to be rewritten."""
    if not isinstance(provider, Compactor):
        raise Refused(f"The memory plugin {compaction.plugin} makes no summaries, so there is nothing to compact.")
    session = session_for_thread(compaction.thread, compaction.requested_by)
    if session is None:
        raise Refused("No agent and no person reads this thread any more, or it is for people only now.")
    provider.bootstrap(session)
    if compaction.tokens_before is None:
        compaction.tokens_before = read_stats(provider, session).tokens
        COMPACTIONS.owned_row(compaction).update(tokens_before=compaction.tokens_before)
    budget = context_budget(compaction.thread)
    result = provider.rebuild(session) if isinstance(provider, Rebuilder) else CompactionResult(0, 0)
    if compaction.trigger != Compaction.Trigger.CHANGED:
        focus = {"focus": compaction.focus} if compaction.focus else {}  # plugins of before take none
        progress = _throttled_progress(compaction, clock)
        result = provider.compact(session, budget, full=compaction.full, progress=progress, **focus)
    entries = provider.assemble(session, budget, FRESH_TAIL)
    entry_summary_ids = (entry.summary_id for entry in entries if entry.summary_id is not None)
    handoff_summary_ids = tuple(dict.fromkeys([*result.created, *entry_summary_ids]))
    if compaction.attempt > 1:  # attempts that were cut short left whole summaries, and nobody to count them
        after = read_stats(provider, session).tokens
        result = replace(result, tokens_before=max(compaction.tokens_before, after), tokens_after=after)
    return result, handoff_summary_ids


def _throttled_progress(compaction: Compaction, clock: Callable[[], float]) -> Callable[[int, int], None]:
    """Progress that is saved, and so shown, at most every second, and finds out when the work was lost."""
    saved_at: float | None = None

    def save_progress(done_messages: int, of_messages: int) -> None:
        nonlocal saved_at
        now = clock()
        if saved_at is not None and now - saved_at < PROGRESS_INTERVAL:
            return
        saved_at = now
        COMPACTIONS.update_owned(compaction, done_messages=done_messages, of_messages=of_messages)

    return save_progress


def _store_result(compaction: Compaction, result: CompactionResult, summary_ids: tuple[int, ...]) -> None:
    """What came of it, and whatever listens to `compaction_finished`, in one transaction."""
    with transaction.atomic():
        current = COMPACTIONS.lock_owned(compaction)
        has_effect = result.created or result.rounds or result.tokens_after != result.tokens_before
        current.state = Compaction.State.DONE if has_effect else Compaction.State.NOTHING
        current.tokens_before, current.tokens_after = result.tokens_before, result.tokens_after
        current.created_count, current.summary_ids = len(result.created), list(result.created)
        current.at_seq = Thread.objects.values_list("last_seq", flat=True).get(pk=current.thread_id)
        current.done_messages = current.of_messages
        current.finished_at, current.error, current.note = timezone.now(), "", result.note
        current.save()
        compaction_finished.send(sender=Compaction, compaction=current, summary_ids=summary_ids)


def _retry_or_fail(compaction: Compaction, reason: str) -> int | None:
    """Back into the queue for a later attempt, or failed for good after the third."""
    if not COMPACTIONS.has_attempts_left(compaction):
        COMPACTIONS.fail(compaction, reason)
        return None
    delay = RETRY_DELAYS[compaction.attempt - 1]
    return delay if COMPACTIONS.requeue(compaction, delay=delay, error=reason) else None


def recover_compactions() -> list[int]:
    """Ids of compactions to send to a worker now."""
    return [*COMPACTIONS.recover(lambda orphan: COMPACTIONS.fail(orphan, WORKER_LOST)), *_request_rebuilds()]


def _request_rebuilds() -> list[int]:
    """New requests for threads whose summaries wait: a message changed while its thread was being compacted."""
    compaction_ids = []
    for name in {DEFAULT_PLUGIN, *MemoryPlugin.objects.filter(enabled=True).values_list("name", flat=True)}:
        provider = provider_by_name(name, {})
        if not isinstance(provider, Rebuilder):
            continue
        threads = Thread.objects.filter(pk__in=provider.threads_to_rebuild(BATCH_SIZE))
        for thread in threads.exclude(pk__in=_threads_to_skip()):
            compaction = request_compaction(thread=thread, trigger=Compaction.Trigger.CHANGED)
            if compaction is not None:
                compaction_ids.append(compaction.pk)
    return compaction_ids


def _threads_to_skip() -> set[int]:
    """Threads that have a compaction waiting, and those where rebuilding came to nothing a short while ago."""
    recent = Compaction.objects.filter(
        trigger=Compaction.Trigger.CHANGED,
        state__in=(Compaction.State.FAILED, Compaction.State.NOTHING),
        finished_at__gt=timezone.now() - REBUILD_COOLDOWN,
    )
    unfinished = Compaction.objects.filter(state__in=COMPACTIONS.unfinished)
    return {*recent.values_list("thread_id", flat=True), *unfinished.values_list("thread_id", flat=True)}
