"""Compaction of a conversation: whether it is due, one at a time, leaf and condensed passes, a pause after failures.

Each pass reads, asks the model outside any transaction, and then writes under locks if nothing changed meanwhile.
Killed at any point, a pass has happened or it has not."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any

from django.db import transaction
from django.db.models import F, Max, Sum
from django.utils import timezone

from memory.plugins.base import (
    ENVELOPE_TOKENS,
    FRESH_TAIL,
    MAX_ENTRY_TOKENS,
    MAX_PAIR_DISTANCE,
    CompactionProgress,
    CompactionResult,
    Session,
)
from memory.plugins.lcm.chunking import MAX_CHUNK_TOKENS, ContextItem, condensed_chunks, leaf_chunks
from memory.plugins.lcm.fresh_tail import fresh_tail_tokens, newest_request_index, tail_index
from memory.plugins.lcm.items import (
    ingest_messages,
    items_after,
    last_summarized_seq,
    newest_items,
    summary_items,
    total_cost,
)
from memory.plugins.lcm.models import Conversation, Item, Summary
from memory.plugins.lcm.pause import Writer, forget_failures, record_endpoint_failure, summary_endpoints, usable_writers
from memory.plugins.lcm.stale_summaries import rebuild_stale_summaries
from memory.plugins.lcm.summarizer import entry_cost, summarize
from memory.plugins.lcm.summary_plan import CONDENSED_SHARE, LEAF_SHARE, SummaryWriter, plan_summary, write_summary
from memory.plugins.lcm.summary_prompt import SummaryWishes
from memory.plugins.sessions import COMPACTION_TARGET, COMPACTION_THRESHOLD, context_budget
from memory.plugins.summary_instructions import OF_AGENT
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Thread
from openvibe.engines.database.locks import LockKind, advisory_lock
from openvibe.engines.llm.endpoints.endpoints import client_for
from openvibe.engines.llm.errors import EndpointRests, ModelError
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.protocol import ModelClient
from openvibe.engines.text.masking import mask_secrets
from openvibe.workspaces.models import Spending
from openvibe.workspaces.services import meter_client

SIZE_CHECK_ITEMS = 4_000
"""Items whose size is summed first: mostly they are more than any threshold."""


def needs_compaction(session: Session, budget: int, config: Mapping[str, Any]) -> bool:
    """Whether the items need more than COMPACTION_THRESHOLD of the budget and something can be summarised.

    When nothing can, that is remembered until the items change.
    """
    if _access_thread(session) is None:
        return False
    ingest_messages(session.thread_id)
    conversation = Conversation.objects.filter(thread=session.thread_id).first()
    if conversation is None or conversation.exhausted_version == conversation.version:
        return False
    if not _exceeds(conversation, COMPACTION_THRESHOLD * budget):
        return False
    passes = CompactionPasses(conversation.pk, budget, config, SummaryWriter(None))
    if next(passes.leaf_items(), None) or passes.condensed_items(RECENT_SUMMARIES):
        return True
    Conversation.objects.filter(pk=conversation.pk, version=conversation.version).update(
        exhausted_version=conversation.version
    )
    return False


def compact_conversation(
    session: Session,
    budget: int,
    *,
    full: bool,
    config: Mapping[str, Any],
    progress: CompactionProgress | None = None,
    focus: str = "",
    client: ModelClient | None = None,
    clock: Callable[[], datetime] = timezone.now,
) -> CompactionResult:
    """Rebuilds what is stale, then summarises: leaves until the context is down to half of the budget, and one
    condensed pass; `full` repeats both until nothing is left to summarise. While another compaction of the same
    conversation is at work this one does nothing.

    Raises Missing (no thread for this asker, or one for people only) and Problem: `compaction_failed` when the model
    failed, `compaction_paused` while it rests after MAX_FAILURES in a row. Raises RuntimeError inside a transaction.
    """

    def run_passes(conversation: Conversation, writer: SummaryWriter) -> CompactionResult:
        rebuild_stale_summaries(conversation.pk, writer, summary_limit(conversation.pk, budget))
        focused_writer = writer._replace(wishes=writer.wishes._replace(focus=focus))
        return CompactionPasses(conversation.pk, budget, config, focused_writer, full, progress).run()

    return _run_exclusively(session, config, client, clock, run_passes)


def rebuild_conversation(
    session: Session, *, config: Mapping[str, Any], client: ModelClient | None = None
) -> CompactionResult:
    """Writes anew what is stale; returns the sizes before and after. Raises like `compact_conversation`."""
    if not Summary.objects.filter(conversation__thread=session.thread_id, stale=True).exists():
        return CompactionResult(0, 0)

    def run_rebuild(conversation: Conversation, writer: SummaryWriter) -> CompactionResult:
        before = total_cost(conversation.pk, MEASURED_ITEMS)
        limit = summary_limit(conversation.pk, context_budget(conversation.thread))
        rebuilt = rebuild_stale_summaries(conversation.pk, writer, limit)
        return CompactionResult(before, total_cost(conversation.pk, MEASURED_ITEMS), rounds=int(rebuilt > 0))

    return _run_exclusively(session, config, client, timezone.now, run_rebuild)


def _run_exclusively(
    session: Session,
    config: Mapping[str, Any],
    client: ModelClient | None,
    clock: Callable[[], datetime],
    action: Callable[[Conversation, SummaryWriter], CompactionResult],
) -> CompactionResult:
    """Does the work while nobody else compacts the conversation, and keeps count of failures in a row."""
    thread = _access_thread(session)
    if thread is None:
        raise Missing
    with transaction.atomic(durable=True):  # refuses to run inside a transaction: a model is about to be asked
        ingest_messages(session.thread_id)
    conversation = Conversation.objects.filter(thread=session.thread_id).first()
    if conversation is None:
        return CompactionResult(0, 0)
    with advisory_lock(LockKind.SUMMARY_TREE, conversation.pk) as is_owner:
        if not is_owner:
            size = total_cost(conversation.pk, MEASURED_ITEMS)
            return CompactionResult(size, size)
        if config.get("summaries") == "deterministic":
            return action(conversation, SummaryWriter(None))
        endpoints: list[Endpoint | None] = [*summary_endpoints(thread.workspace_id)] if client is None else []
        writers = usable_writers(thread.workspace_id, endpoints or [None], clock())
        return _ask_in_turn(thread, conversation, writers, client, clock, config, action)


def _ask_in_turn(
    thread: Thread,
    conversation: Conversation,
    writers: Sequence[Writer],
    client: ModelClient | None,
    clock: Callable[[], datetime],
    config: Mapping[str, Any],
    action: Callable[[Conversation, SummaryWriter], CompactionResult],
) -> CompactionResult:
    """Does the work with the first endpoint that can: what one has written stands, the next goes on with the rest.

    Raises the failure of the first that failed; EndpointRests where a circuit breaker kept all of them from being
    asked.
    """
    size = total_cost(conversation.pk, MEASURED_ITEMS) if len(writers) > 1 else None
    failure: Problem | None = None
    rest: EndpointRests | None = None
    for writer in writers:
        try:
            result = action(conversation, _summary_writer(thread, client, writer.endpoint, config))
        except EndpointRests as error:
            rest = rest or error
            continue
        except ModelError as error:
            problem = record_endpoint_failure(thread.workspace_id, writer.endpoint, error, clock())
            problem.__cause__ = error
            failure = failure or problem
            continue
        if writer.has_failed and result.rounds:
            forget_failures(thread.workspace_id, writer.endpoint.pk if writer.endpoint is not None else None)
        is_first = failure is None and rest is None
        return result if is_first or size is None else replace(result, tokens_before=max(size, result.tokens_before))
    if failure is not None:
        raise failure
    assert rest is not None
    raise rest


def _exceeds(conversation: Conversation, threshold: float) -> bool:
    if total_cost(conversation.pk, SIZE_CHECK_ITEMS) > threshold:
        return True
    has_more = conversation.items.all()[SIZE_CHECK_ITEMS : SIZE_CHECK_ITEMS + 1].exists()
    return has_more and total_cost(conversation.pk, ALL_ITEMS) > threshold


def _access_thread(session: Session) -> Thread | None:
    threads = Thread.objects.exclude(access=Thread.Access.HUMAN_ONLY)
    return threads.filter(pk=session.thread_id, workspace_id=session.access.workspace_id).first()


def _summary_writer(
    thread: Thread, client: ModelClient | None, endpoint: Endpoint | None, config: Mapping[str, Any]
) -> SummaryWriter:
    """The writer of the summaries of this workspace. They are everybody's: they count against its budget and the
    channel's."""
    chunk_tokens = min(MAX_CHUNK_TOKENS, endpoint.usable_window // 2) if endpoint is not None else MAX_CHUNK_TOKENS
    client = meter_client(
        client or client_for(endpoint),
        workspace_id=thread.workspace_id,
        purpose=Spending.Purpose.SUMMARIES,
        channel_id=thread.channel_id,
    )
    return SummaryWriter(client, chunk_tokens, SummaryWishes(standing=standing_instructions(config, thread)))


def standing_instructions(config: Mapping[str, Any], thread: Thread) -> tuple[str, ...]:
    """Those of the workspace, then those of each agent that has spoken in the thread. One query, none without any of
    agents."""
    general, of_agents = [], list[tuple[str, str]]()
    for line in str(config.get("summary_instructions") or "").splitlines():
        match = OF_AGENT.fullmatch(line.strip())
        if match:
            of_agents.append((match["handle"].lower(), mask_secrets(match["text"].strip())))
        elif line.strip():
            general.append(mask_secrets(line.strip()))
    texts = ["\n".join(general)] if general else []
    if of_agents:
        speakers = thread.messages.filter(author__kind="agent").order_by()
        handles = set(speakers.values_list("author__handle", flat=True).distinct())
        texts += [text for handle, text in of_agents if handle in handles]
    return tuple(texts)


MAX_ROUNDS = 10
"""The most rounds of a full compaction; leaves of an incremental one."""

SUMMARIES_SHARE, TARGET_SUMMARIES, MIN_SUMMARY_LIMIT = 6, 10, 64
"""All summaries together are to fit into this part of the budget, about TARGET_SUMMARIES of them. Only when another
would not fit are the newest of equal depth condensed, all of them at once: what changes rarely is read anew rarely."""

FIRST_ROOM_DIVISOR, LATER_ROOM_DIVISOR = 2, 6
"""The parts of the room left by others that a summary takes: while there is room for long ones, and afterwards."""

MEASURED_ITEMS, ALL_ITEMS = 20_000, 2**40
"""Items whose size is told before and after: of an incremental compaction, of a full one."""

TAIL_WINDOW, CHUNK_WINDOW = 1_000, 1_200
"""Items read to find the tail, and messages read to find a group."""

RECENT_SUMMARIES, ALL_SUMMARIES = 1_000, 100_000
"""Summaries among the items that an incremental and a full compaction look at."""


def summary_limit(conversation_id: int, budget: int) -> int:
    """Tokens that the next leaf may take: half of the room that is left, until something is condensed; then one
    TARGET_SUMMARIES-th of all the room. An entry of more than MAX_ENTRY_TOKENS would not be shown whole."""
    summaries = Item.objects.filter(conversation=conversation_id, summary__isnull=False)
    totals = summaries.aggregate(
        deepest=Max("summary__depth"), tokens=Sum(F("summary__token_count") + ENVELOPE_TOKENS, default=0)
    )
    if totals["deepest"]:
        return _clamp_limit(budget, 0)
    return _clamp_limit(budget, (budget // SUMMARIES_SHARE - totals["tokens"]) // FIRST_ROOM_DIVISOR)


def _clamp_limit(budget: int, tokens: int) -> int:
    return min(MAX_ENTRY_TOKENS, max(MIN_SUMMARY_LIMIT, budget // SUMMARIES_SHARE // TARGET_SUMMARIES, tokens))


BUDGET_SPENT_NOTE = (
    "The channel's or the workspace's token budget for today is used up, so summaries were cut from the messages "
    "without asking a model."
)


class PassOutcome(Enum):
    """What became of one chunk: NOTHING where no summary would be shorter, CHANGED where its messages kept changing."""

    CREATED = "created"
    NOTHING = "nothing"
    CHANGED = "changed"


@dataclass
class CompactionPasses:
    """One compaction of one conversation."""

    conversation_id: int
    budget: int
    config: Mapping[str, Any]
    writer: SummaryWriter
    is_full: bool = False
    progress: CompactionProgress | None = None
    created: list[int] = field(default_factory=list)
    saved_tokens: int = 0
    summarized_messages: int = 0
    pending_messages: int = 0
    is_budget_spent: bool = False

    def run(self) -> CompactionResult:
        before = total_cost(self.conversation_id, ALL_ITEMS if self.is_full else MEASURED_ITEMS)
        if self.progress is not None:
            self.pending_messages = self._pending_message_count()
            if self.pending_messages:
                self.progress(0, self.pending_messages)  # the first summary may take a minute
        rounds = self._run_full() if self.is_full else self._run_incremental(before)
        note = BUDGET_SPENT_NOTE if self.is_budget_spent else ""
        return CompactionResult(before, before - self.saved_tokens, tuple(self.created), rounds, note)

    def _run_full(self) -> int:
        for rounds in range(MAX_ROUNDS):
            created_before = len(self.created)
            for items in self.leaf_items():
                if self._summarize(items, is_leaf=True) is PassOutcome.CHANGED:
                    break
            for items in self.condensed_items(ALL_SUMMARIES):
                self._summarize(items, is_leaf=False)
            if len(self.created) == created_before:
                return rounds
        return MAX_ROUNDS

    def _run_incremental(self, before: int) -> int:
        for _ in range(MAX_ROUNDS):
            outcomes = (self._summarize(items, is_leaf=True) for items in self.leaf_items())
            outcome = next((candidate for candidate in outcomes if candidate is not PassOutcome.NOTHING), None)
            if outcome is not PassOutcome.CREATED or before - self.saved_tokens <= COMPACTION_TARGET * self.budget:
                break
        if not self.created or before - self.saved_tokens > COMPACTION_TARGET * self.budget or not self._has_room():
            for items in self.condensed_items(RECENT_SUMMARIES)[-1:]:
                self._summarize(items, is_leaf=False)
        return int(bool(self.created))

    def _has_room(self) -> bool:
        """Whether one more summary would fit among those that stand."""
        room = self.budget // SUMMARIES_SHARE
        return self._summaries_cost() + room // TARGET_SUMMARIES <= room

    def _summaries_cost(self) -> int:
        return sum(item.cost for item in summary_items(self.conversation_id, ALL_SUMMARIES))

    def _summary_limit(self, items: Sequence[ContextItem], *, is_leaf: bool) -> int:
        """Tokens that the summary of these items may take. In a full compaction leaves do not stand for long."""
        room = self.budget // SUMMARIES_SHARE
        if is_leaf and self.is_full:
            return _clamp_limit(self.budget, room // FIRST_ROOM_DIVISOR)
        if is_leaf:
            return summary_limit(self.conversation_id, self.budget)
        others = self._summaries_cost() - sum(item.cost for item in items)
        return _clamp_limit(self.budget, (room - others) // (LATER_ROOM_DIVISOR if others else FIRST_ROOM_DIVISOR))

    def _newest_items(self) -> tuple[list[ContextItem], int]:
        """The newest items, oldest first, and the index among them at which the fresh tail begins."""
        newest = newest_items(self.conversation_id, TAIL_WINDOW)
        return newest, tail_index(newest, FRESH_TAIL, fresh_tail_tokens(self.budget, self.config))

    def leaf_items(self) -> Iterator[list[ContextItem]]:
        """Messages that a leaf may stand for, oldest first: everything between the newest summary and the tail."""
        newest, start = self._newest_items()
        if not newest or start == 0:
            return
        tail = newest[start].ordinal if start < len(newest) else newest[-1].ordinal + 1
        request = newest_request_index(newest)
        excluded = () if request is None else (newest[request].ordinal,)
        after = last_summarized_seq(self.conversation_id)
        while items := items_after(self.conversation_id, after, CHUNK_WINDOW):
            end = next((index for index, item in enumerate(items) if item.ordinal >= tail), len(items))
            is_cut = end == len(items) == CHUNK_WINDOW  # what belongs to its last messages may stand after the window
            end -= MAX_PAIR_DISTANCE if is_cut else 0
            chunks = leaf_chunks(
                items, end, chunk_tokens=self.writer.chunk_tokens, newest=newest[-1].ordinal, excluded=excluded
            )
            yield from (items[first:stop] for first, stop in chunks)
            if not is_cut or any(item.is_writing for item in items):
                return
            after = items[(chunks[-1][1] if chunks else end - MAX_PAIR_DISTANCE) - 1].ordinal

    def condensed_items(self, limit: int) -> list[list[ContextItem]]:
        """Neighbouring summaries that one of the next depth may stand for, oldest first."""
        items = summary_items(self.conversation_id, limit)
        return [items[first:stop] for first, stop in condensed_chunks(items, chunk_tokens=self.writer.chunk_tokens)]

    def _summarize(self, items: Sequence[ContextItem], *, is_leaf: bool) -> PassOutcome:
        """Makes one summary. What was changed while it was made is read and tried once again."""
        share = LEAF_SHARE if is_leaf else CONDENSED_SHARE
        for _ in range(2):
            plan = plan_summary(self.conversation_id, items, is_leaf=is_leaf, chunk_tokens=self.writer.chunk_tokens)
            limit = self._summary_limit(items, is_leaf=is_leaf)
            draft = summarize(
                plan.source,
                share=share,
                limit=limit,
                earlier=plan.earlier,
                client=self.writer.client,
                wishes=self.writer.wishes,
            )
            saved_tokens = plan.cost - entry_cost(draft.tokens) if draft is not None else 0
            if draft is None or saved_tokens <= 0:
                return PassOutcome.NOTHING
            summary_id = write_summary(plan, draft)
            if summary_id is None:
                continue
            self.is_budget_spent = self.is_budget_spent or draft.is_budget_spent
            self.created.append(summary_id)
            self.saved_tokens += saved_tokens
            self.summarized_messages += plan.messages
            if self.progress is not None and plan.messages:
                self.progress(self.summarized_messages, max(self.pending_messages, self.summarized_messages))
            return PassOutcome.CREATED
        return PassOutcome.CHANGED

    def _pending_message_count(self) -> int:
        newest, start = self._newest_items()
        if start == len(newest):
            return 0
        after = last_summarized_seq(self.conversation_id)
        pending_items = Item.objects.filter(conversation=self.conversation_id, ordinal__gt=after)
        return pending_items.filter(ordinal__lt=newest[start].ordinal).count()
