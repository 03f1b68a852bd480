"""Carrying a compaction out: claim it, let the plugin work, write down what came of it together with the handoff.

The plugin writes in steps of its own, each whole in itself; the row's last state and the handoff are one transaction.
So a worker killed at any moment leaves a conversation as it was before or after a step, and a row that the sweeper
finds without an owner. Every write is fenced by the row's attempt.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog
from django.db import InterfaceError, OperationalError, models, transaction
from django.utils import timezone

from memory.handoff import write_handoff
from memory.models import Compaction
from memory.providers.base import FRESH_TAIL, Compacted, Compactor, MemoryProvider, Rebuilder, Session
from memory.providers.budgets import context_budget
from memory.providers.registry import enabled_name, provider_for
from memory.services.compaction.viewpoint import session_on
from openvibe.base.ownership import Piece, owned
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.llm.errors import ModelError

log = structlog.get_logger(__name__)
ATTEMPTS = 3
PAUSES = (10, 60)
"""Seconds before the second and the third attempt."""

PROGRESS_EVERY = 1.0
"""Seconds between two saves of how far it is."""


class CompactionLost(Exception):
    """Somebody else carries it out by now."""


@dataclass(frozen=True)
class Again:
    """Send this compaction to a worker again, after so many seconds."""

    compaction_id: int
    seconds: int


@dataclass(frozen=True)
class Work:
    """What was made, and the summaries that the handoff names."""

    made: Compacted
    summary_ids: tuple[int, ...]


def carry_out_compaction(
    compaction_id: int, *, provider: MemoryProvider | None = None, clock: Callable[[], float] = time.monotonic
) -> Again | None:
    """Carry it out if nobody else does. What comes back is to be tried again later: a model failed.

    Safe to call any number of times. `provider` stands in for the workspace's own plugin. Raises only when the
    database is out of reach; the sweeper then finds the row without an owner.
    """
    logged = structlog.contextvars.bound_contextvars(compaction_id=compaction_id)
    with logged, owned(Piece.COMPACTION, compaction_id) as mine:
        compaction = claim(compaction_id) if mine else None
        if compaction is None:
            return None
        try:
            _finish(compaction, _work(compaction, provider or provider_for(compaction.thread.workspace_id), clock))
        except CompactionLost:
            log.warning("compaction_lost")
        except ModelError as error:
            return _tried(compaction, f"{error} {error.advice}")
        except Problem as problem:
            if problem.code == "compaction_paused" or isinstance(problem, Missing | Refused):
                _fail(compaction, problem.message)
            else:
                return _tried(compaction, problem.message)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("compaction_failed")
            number = f"compaction {compaction.pk}"
            _fail(compaction, f"Something went wrong in OpenVibe itself; the log has it under {number}. Try again.")
    return None


def claim(compaction_id: int) -> Compaction | None:
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
        compaction.plugin = enabled_name(compaction.thread.workspace_id)
        compaction.save(update_fields=["state", "started_at", "attempt", "plugin"])
    return compaction


def _work(compaction: Compaction, provider: MemoryProvider, clock: Callable[[], float]) -> Work:
    """Summaries of changed messages first, so that no new one is made from an old one that waits to be rewritten."""
    if not isinstance(provider, Compactor):
        raise Refused(f"The memory plugin {compaction.plugin} makes no summaries, so there is nothing to compact.")
    session = session_on(compaction.thread, compaction.requested_by)
    if session is None:
        raise Refused("No agent and no person reads this thread any more, or it is for people only now.")
    provider.bootstrap(session)
    if compaction.tokens_before is None:
        compaction.tokens_before = provider.stats(session).tokens
        _row_of(compaction).update(tokens_before=compaction.tokens_before)
    budget = context_budget(compaction.thread)
    made = provider.rebuild(session) if isinstance(provider, Rebuilder) else Compacted(0, 0)
    if compaction.trigger != Compaction.Trigger.CHANGED:
        made = provider.compact(session, budget, full=compaction.full, progress=_saved_now_and_then(compaction, clock))
    entries = provider.assemble(session, budget, FRESH_TAIL)
    standing = (entry.summary_id for entry in entries if entry.summary_id is not None)
    handed_over = tuple(dict.fromkeys([*made.created, *standing]))
    if compaction.attempt > 1:
        made = _with_earlier_attempts(compaction, provider, session, made)
    return Work(made, handed_over)


def _with_earlier_attempts(
    compaction: Compaction, provider: MemoryProvider, session: Session, made: Compacted
) -> Compacted:
    """What all attempts came to: those that were cut short left whole summaries, and nobody to tell of them."""
    assert compaction.tokens_before is not None
    after = provider.stats(session).tokens
    return replace(made, tokens_before=max(compaction.tokens_before, after), tokens_after=after)


def _saved_now_and_then(compaction: Compaction, clock: Callable[[], float]) -> Callable[[int, int], None]:
    """Progress that is saved, and so shown, at most every second, and finds out when the work was lost."""
    saved_at: float | None = None

    def tell(done: int, of: int) -> None:
        nonlocal saved_at
        now = clock()
        if saved_at is not None and now - saved_at < PROGRESS_EVERY:
            return
        saved_at = now
        if not _row_of(compaction).update(done_messages=done, of_messages=of):
            raise CompactionLost

    return tell


def _row_of(compaction: Compaction) -> models.QuerySet[Compaction]:
    return Compaction.objects.filter(pk=compaction.pk, attempt=compaction.attempt, state=Compaction.State.RUNNING)


def _still_mine(compaction: Compaction) -> Compaction:
    current = _row_of(compaction).select_for_update(of=("self",)).select_related("thread").first()
    if current is None:
        raise CompactionLost
    return current


def _finish(compaction: Compaction, work: Work) -> None:
    """What came of it, and the handoff at its boundary, in one transaction."""
    made = work.made
    with transaction.atomic():
        current = _still_mine(compaction)
        was_due = made.created or made.rounds or made.tokens_after != made.tokens_before
        current.state = Compaction.State.DONE if was_due else Compaction.State.NOTHING
        current.tokens_before, current.tokens_after = made.tokens_before, made.tokens_after
        current.created_count, current.summary_ids = len(made.created), list(made.created)
        current.at_seq = Thread.objects.values_list("last_seq", flat=True).get(pk=current.thread_id)
        current.done_messages = current.of_messages
        current.finished_at, current.error, current.note = timezone.now(), "", made.note
        current.save()
        if current.trigger != Compaction.Trigger.CHANGED:  # words were rewritten, the work stands where it stood
            write_handoff(
                thread=current.thread, trigger=current.trigger, compaction=current, summary_ids=work.summary_ids
            )


def _tried(compaction: Compaction, reason: str) -> Again | None:
    """Back into the queue for a later attempt, or failed for good after the third."""
    if compaction.attempt >= ATTEMPTS:
        _fail(compaction, reason)
        return None
    pause = PAUSES[compaction.attempt - 1]
    begins = timezone.now() + timedelta(seconds=pause)
    waits = _row_of(compaction).update(state=Compaction.State.QUEUED, sent_at=begins, error=reason)
    return Again(compaction.pk, pause) if waits else None


def _fail(compaction: Compaction, reason: str) -> None:
    _row_of(compaction).update(state=Compaction.State.FAILED, finished_at=timezone.now(), error=reason)
