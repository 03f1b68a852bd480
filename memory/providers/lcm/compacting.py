"""Compaction: whether it is due, one at a time per conversation, and a rest after failures.

Killed at any point, a pass has happened or it has not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from memory.providers.base import Compacted, Progress, Session
from memory.providers.budgets import THRESHOLD, context_budget
from memory.providers.lcm import folding
from memory.providers.lcm.appending import take_in
from memory.providers.lcm.groups import CHUNK
from memory.providers.lcm.models import Conversation, Summary
from memory.providers.lcm.passes import EVERY, MEASURED, SUMMARIES, Work, summary_limit
from memory.providers.lcm.rebuilding import rebuild_stale
from openvibe.base.ownership import Piece, owned
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Thread
from openvibe.llm.errors import ModelError
from openvibe.llm.models import Endpoint
from openvibe.llm.protocol import ModelClient
from openvibe.llm.registry import client_for
from openvibe.workspaces.metering import metered
from openvibe.workspaces.models import Spending

LOOKED_AT = 4_000
"""Items whose size is summed first: mostly they are more than any threshold."""

MOST_FAILURES, REST = 5, timedelta(minutes=30)


class Writer(NamedTuple):
    """Who writes summaries, and how many tokens it is shown at once. Without a client they are cut from the source."""

    client: ModelClient | None
    chunk: int = CHUNK


def needs_compaction(session: Session, budget: int, config: Mapping[str, Any]) -> bool:
    """Whether the items need more than THRESHOLD of the budget and something can be folded.

    When nothing can, that is remembered until the items change.
    """
    if _thread(session) is None:
        return False
    take_in(session.thread_id)
    conversation = Conversation.objects.filter(thread=session.thread_id).first()
    if conversation is None or conversation.exhausted_version == conversation.version:
        return False
    if not _is_over(conversation, THRESHOLD * budget):
        return False
    work = Work(conversation.pk, budget, config, None, CHUNK)
    if next(work.leaf_places(), None) or work.condensed_places(SUMMARIES):
        return True
    Conversation.objects.filter(pk=conversation.pk, version=conversation.version).update(
        exhausted_version=conversation.version
    )
    return False


def compact(
    session: Session,
    budget: int,
    *,
    full: bool,
    config: Mapping[str, Any],
    progress: Progress | None = None,
    client: ModelClient | None = None,
    clock: Callable[[], datetime] = timezone.now,
) -> Compacted:
    """Rebuild what is stale, then fold: leaves until the context is down to half of the budget, and one condensed
    pass; `full` repeats both until nothing is left to fold. While another compaction of the same conversation is at
    work this one does nothing.

    Raises Missing (no thread for this asker, or one for people only) and Problem: `compaction_failed` when the model
    failed, `compaction_paused` while it rests after MOST_FAILURES in a row. Raises RuntimeError inside a transaction.
    """

    def fold(conversation: Conversation, writer: Writer) -> Compacted:
        limit = summary_limit(conversation.pk, budget)
        rebuild_stale(conversation.pk, client=writer.client, chunk=writer.chunk, limit=limit)
        return Work(conversation.pk, budget, config, writer.client, writer.chunk, progress).run(full)

    return _alone_with(session, config, client, clock, fold)


def rebuild(
    session: Session,
    *,
    config: Mapping[str, Any],
    client: ModelClient | None = None,
    clock: Callable[[], datetime] = timezone.now,
) -> Compacted:
    """Write anew what is stale; sizes before and after. Raises like `compact`."""
    if not Summary.objects.filter(conversation__thread=session.thread_id, stale=True).exists():
        return Compacted(0, 0)

    def renew(conversation: Conversation, writer: Writer) -> Compacted:
        before = folding.total(conversation.pk, MEASURED)
        limit = summary_limit(conversation.pk, context_budget(conversation.thread))
        renewed = rebuild_stale(conversation.pk, client=writer.client, chunk=writer.chunk, limit=limit)
        return Compacted(before, folding.total(conversation.pk, MEASURED), rounds=int(renewed > 0))

    return _alone_with(session, config, client, clock, renew)


def _alone_with(
    session: Session,
    config: Mapping[str, Any],
    client: ModelClient | None,
    clock: Callable[[], datetime],
    work: Callable[[Conversation, Writer], Compacted],
) -> Compacted:
    """Do the work while nobody else compacts the conversation, and keep count of failures in a row."""
    thread = _thread(session)
    if thread is None:
        raise Missing
    with transaction.atomic(durable=True):  # refuses to run inside a transaction: a model is about to be asked
        take_in(session.thread_id)
    conversation = Conversation.objects.filter(thread=session.thread_id).first()
    if conversation is None:
        return Compacted(0, 0)
    with owned(Piece.FOLDING, conversation.pk) as is_alone:
        if not is_alone:
            size = folding.total(conversation.pk, MEASURED)
            return Compacted(size, size)
        conversation.refresh_from_db()
        _refuse_while_paused(conversation, clock())
        writer = Writer(None) if config.get("summaries") == "deterministic" else _writer(thread, client)
        try:
            done = work(conversation, writer)
        except ModelError as error:
            raise _noted(conversation, error, clock()) from error
        if conversation.failures and done.rounds:
            Conversation.objects.filter(pk=conversation.pk).update(failures=0, paused_until=None, last_error="")
        return done


def _is_over(conversation: Conversation, threshold: float) -> bool:
    if folding.total(conversation.pk, LOOKED_AT) > threshold:
        return True
    are_more = conversation.items.all()[LOOKED_AT : LOOKED_AT + 1].exists()
    return are_more and folding.total(conversation.pk, EVERY) > threshold


def _thread(session: Session) -> Thread | None:
    threads = Thread.objects.exclude(access=Thread.Access.HUMAN_ONLY)
    return threads.filter(pk=session.thread_id, workspace_id=session.access.workspace_id).first()


def _writer(thread: Thread, client: ModelClient | None) -> Writer:
    """Who writes the summaries of this workspace, and how many tokens it is shown at once."""
    if client is not None:
        return Writer(_metered(client, thread))
    endpoints = Endpoint.objects.filter(Q(is_for_summaries=True) | Q(is_default=True), workspace=thread.workspace_id)
    endpoint = endpoints.order_by("-is_for_summaries").first()
    chunk = CHUNK if endpoint is None else min(CHUNK, endpoint.context_window // 2)
    return Writer(_metered(client_for(endpoint), thread), chunk)


def _metered(client: ModelClient, thread: Thread) -> ModelClient:
    """Summaries are everybody's: they count against the workspace's budget."""
    return metered(client, workspace_id=thread.workspace_id, purpose=Spending.Purpose.SUMMARIES)


def _refuse_while_paused(conversation: Conversation, now: datetime) -> None:
    if conversation.paused_until is not None and conversation.paused_until > now:
        raise Problem(
            f"Making summaries failed {conversation.failures} times in a row, so it rests until"
            f" {conversation.paused_until:%H:%M} UTC. The last reason: {conversation.last_error}",
            code="compaction_paused",
        )


def _noted(conversation: Conversation, error: ModelError, now: datetime) -> Problem:
    """Count the failure; what to tell the caller."""
    conversation.failures += 1
    conversation.last_error = f"{error} {error.advice}"
    if conversation.failures >= MOST_FAILURES:
        conversation.paused_until = now + REST
    conversation.save(update_fields=["failures", "last_error", "paused_until"])
    return Problem(f"The summary could not be made. {conversation.last_error}", code="compaction_failed")
