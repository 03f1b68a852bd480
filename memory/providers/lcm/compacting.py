"""Compaction: which items are folded and when, one compaction at a time per conversation, and a rest after failures.

Each pass reads, asks the model outside any transaction, and then writes under locks if nothing changed meanwhile.
Killed at any point, a pass has happened or it has not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from django.db import DatabaseError, connection, transaction
from django.db.models import Q
from django.utils import timezone

from memory.providers.base import FRESH_TAIL, LONGEST, Compacted, Progress, Session
from memory.providers.lcm import folding, rebuilding
from memory.providers.lcm.appending import take_in
from memory.providers.lcm.groups import (
    CHUNK,
    PAIR_REACH,
    Place,
    condensed_groups,
    leaf_groups,
    newest_request,
    tail_start,
    tail_tokens,
)
from memory.providers.lcm.models import Conversation
from memory.providers.lcm.summarising import cost, summarise
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Thread
from openvibe.llm.errors import ModelError
from openvibe.llm.models import Endpoint
from openvibe.llm.protocol import ModelClient
from openvibe.llm.registry import client_for

THRESHOLD, GOAL = 0.75, 0.5
"""Of the budget: above the one a conversation is due, down to the other it is brought."""

ROUNDS = 10
"""Of a full compaction; leaves of an incremental one."""

LEAF_SHARE, CONDENSED_SHARE = 3, 2
"""A summary is to take this part of its source: a third, a half."""

SUMMARY_SHARE, SHORTEST_LIMIT = 30, 64
"""One summary takes at most this part of the budget, so that those of a dozen depths fit beside the tail."""

LOOKED_AT = 4_000
"""Items whose size is summed first: mostly they are more than any threshold."""

MEASURED = 20_000
"""Items whose size is told before and after an incremental compaction; all of them for a full one."""

EVERY = 2**40

TAIL_WINDOW, WINDOW = 1_000, 1_200
"""Items read to find the tail, and messages read to find a group."""

SUMMARIES, ALL_SUMMARIES = 1_000, 100_000
"""Summaries among the items that an incremental and a full compaction look at."""

MOST_FAILURES, REST = 5, timedelta(minutes=30)

LOCKS = 7003 << 40
"""Keeps these locks apart from others in PostgreSQL's one space of 64-bit keys."""


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
    threshold = THRESHOLD * budget
    if folding.total(conversation.pk, LOOKED_AT) <= threshold:
        many = conversation.items.all()[LOOKED_AT : LOOKED_AT + 1].exists()
        if not many or folding.total(conversation.pk, EVERY) <= threshold:
            return False
    work = _Work(conversation.pk, budget, config, None, CHUNK)
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
    """Rebuild what is stale, then fold: leaves until the context is down to GOAL, and one condensed pass; `full`
    repeats both until nothing is left to fold, at most ROUNDS times. While another compaction of the same
    conversation is at work this one does nothing.

    Raises Missing (no thread for this asker, or one for people only) and Problem: `compaction_failed` when the model
    failed, `compaction_paused` while it rests after MOST_FAILURES in a row.
    """
    thread = _thread(session)
    if thread is None:
        raise Missing
    with transaction.atomic(durable=True):  # refuses to run inside a transaction: a model is about to be asked
        take_in(session.thread_id)
    conversation = Conversation.objects.filter(thread=session.thread_id).first()
    if conversation is None:
        return Compacted(0, 0)
    with _alone(conversation.pk) as is_alone:
        if not is_alone:
            size = folding.total(conversation.pk, MEASURED)
            return Compacted(size, size)
        conversation.refresh_from_db()
        _refuse_while_paused(conversation, clock())
        if config.get("summaries") == "deterministic":
            work = _Work(conversation.pk, budget, config, None, CHUNK, progress)
        else:
            work = _Work(conversation.pk, budget, config, *_writer(thread, client), progress)
        try:
            done = work.run(full)
        except ModelError as error:
            raise _noted(conversation, error, clock()) from error
        if conversation.failures and done.rounds:
            Conversation.objects.filter(pk=conversation.pk).update(failures=0, paused_until=None, last_error="")
        return done


class Outcome(Enum):
    """What became of one group: NOTHING where no summary would be shorter, CHANGED where its messages kept changing."""

    CREATED = "created"
    NOTHING = "nothing"
    CHANGED = "changed"


@dataclass
class _Work:
    """One compaction of one conversation."""

    conversation_id: int
    budget: int
    config: Mapping[str, Any]
    client: ModelClient | None
    chunk: int
    progress: Progress | None = None
    created: list[int] = field(default_factory=list)
    saved: int = 0
    folded: int = 0
    to_fold: int = 0

    @property
    def limit(self) -> int:
        """Tokens that one summary may take."""
        return min(LONGEST, max(SHORTEST_LIMIT, self.budget // SUMMARY_SHARE))

    def run(self, full: bool) -> Compacted:
        rebuilt = rebuilding.rebuild_stale(self.conversation_id, client=self.client, chunk=self.chunk, limit=self.limit)
        before = folding.total(self.conversation_id, EVERY if full else MEASURED)
        if self.progress is not None:
            self.to_fold = self._messages_to_fold()
        rounds = self._fully() if full else self._incrementally(before)
        return Compacted(before, before - self.saved, tuple(self.created), rounds or int(rebuilt > 0))

    def _fully(self) -> int:
        for done in range(ROUNDS):
            made = len(self.created)
            for places in self.leaf_places():
                if self._fold(places, is_leaf=True) is Outcome.CHANGED:
                    break
            for places in self.condensed_places(ALL_SUMMARIES):
                self._fold(places, is_leaf=False)
            if len(self.created) == made:
                return done
        return ROUNDS

    def _incrementally(self, before: int) -> int:
        for _ in range(ROUNDS):
            outcomes = (self._fold(places, is_leaf=True) for places in self.leaf_places())
            outcome = next((found for found in outcomes if found is not Outcome.NOTHING), None)
            if outcome is not Outcome.CREATED or before - self.saved <= GOAL * self.budget:
                break
        summaries = self.condensed_places(SUMMARIES)
        if summaries:
            self._fold(max(summaries, key=lambda places: sum(place.cost for place in places)), is_leaf=False)
        return int(bool(self.created))

    def leaf_places(self) -> Iterator[list[Place]]:
        """Messages that a leaf may stand for, oldest first: everything between the newest summary and the tail."""
        newest = folding.newest_places(self.conversation_id, TAIL_WINDOW)
        start = tail_start(newest, FRESH_TAIL, tail_tokens(self.budget, self.config))
        if not newest or start == 0:
            return
        tail = newest[start].ordinal if start < len(newest) else newest[-1].ordinal + 1
        request = newest_request(newest)
        kept = () if request is None else (newest[request].ordinal,)
        after = folding.last_folded(self.conversation_id)
        while places := folding.places_after(self.conversation_id, after, WINDOW):
            end = next((at for at, place in enumerate(places) if place.ordinal >= tail), len(places))
            is_cut = end == len(places) == WINDOW  # what belongs to its last messages may stand after the window
            end -= PAIR_REACH if is_cut else 0
            groups = leaf_groups(places, end, chunk=self.chunk, newest=newest[-1].ordinal, kept=kept)
            yield from (places[first:behind] for first, behind in groups)
            if not is_cut or any(place.is_writing for place in places):
                return
            after = places[(groups[-1][1] if groups else end - PAIR_REACH) - 1].ordinal

    def condensed_places(self, most: int) -> list[list[Place]]:
        """Neighbouring summaries that one of the next depth may stand for, oldest first."""
        places = folding.summary_places(self.conversation_id, most)
        return [places[first:behind] for first, behind in condensed_groups(places, chunk=self.chunk)]

    def _fold(self, places: Sequence[Place], *, is_leaf: bool) -> Outcome:
        """Make one summary. What was changed while it was made is read and tried once again."""
        for _ in range(2):
            if is_leaf:
                plan = folding.plan_leaf(self.conversation_id, places, chunk=self.chunk)
            else:
                plan = folding.plan_condensed(self.conversation_id, places, chunk=self.chunk)
            share = LEAF_SHARE if is_leaf else CONDENSED_SHARE
            made = summarise(plan.source, share=share, limit=self.limit, earlier=plan.earlier, client=self.client)
            if made is None or cost(made.tokens) >= plan.cost:
                return Outcome.NOTHING
            summary_id = folding.write(plan, made)
            if summary_id is not None:
                self._count(summary_id, plan.cost - cost(made.tokens), plan.messages)
                return Outcome.CREATED
        return Outcome.CHANGED

    def _count(self, summary_id: int, saved: int, messages: int) -> None:
        self.created.append(summary_id)
        self.saved += saved
        self.folded += messages
        if self.progress is not None and messages:
            self.progress(self.folded, max(self.to_fold, self.folded))

    def _messages_to_fold(self) -> int:
        newest = folding.newest_places(self.conversation_id, TAIL_WINDOW)
        start = tail_start(newest, FRESH_TAIL, tail_tokens(self.budget, self.config))
        if start == len(newest):
            return 0
        after = folding.last_folded(self.conversation_id)
        return Conversation(pk=self.conversation_id).items.filter(
            ordinal__gt=after, ordinal__lt=newest[start].ordinal
        ).count()  # fmt: skip


def _thread(session: Session) -> Thread | None:
    threads = Thread.objects.exclude(access=Thread.Access.HUMAN_ONLY)
    return threads.filter(pk=session.thread_id, workspace_id=session.access.workspace_id).first()


def _writer(thread: Thread, client: ModelClient | None) -> tuple[ModelClient, int]:
    """Who writes the summaries of this workspace, and how many tokens it is shown at once."""
    if client is not None:
        return client, CHUNK
    endpoints = Endpoint.objects.filter(Q(is_for_summaries=True) | Q(is_default=True), workspace=thread.workspace_id)
    endpoint = endpoints.order_by("-is_for_summaries").first()
    chunk = CHUNK if endpoint is None else min(CHUNK, endpoint.context_window // 2)
    return client_for(endpoint), chunk


@contextmanager
def _alone(conversation_id: int) -> Iterator[bool]:
    """True while this database session is the one that compacts the conversation; False when another does.

    PostgreSQL drops the lock the moment the worker dies, however it dies.
    """
    ((got,),) = folding.rows("SELECT pg_try_advisory_lock(%s)", [LOCKS + conversation_id])
    try:
        yield bool(got)
    finally:
        if got:
            with suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCKS + conversation_id])


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
