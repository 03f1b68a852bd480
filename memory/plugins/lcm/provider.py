"""Lossless memory as a plugin: every capability, over the modules beside it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from memory.plugins.base import (
    FRESH_TAIL,
    CompactionPause,
    CompactionProgress,
    CompactionResult,
    ContextEntry,
    MemoryHit,
    NewMessage,
    Session,
    SessionStats,
    SummaryDescription,
    SummaryExpansion,
    SummarySpan,
)
from memory.plugins.lcm import assembly, compaction, correction, items, pause, retrieval
from memory.plugins.lcm.models import Conversation, Summary, SummaryMessage
from memory.plugins.lcm.retrieval import ReviewMixin
from memory.plugins.message_search import SearchMixin
from memory.plugins.sessions import ProfileMixin, SessionMixin, store_messages
from openvibe.chat.models import Thread
from openvibe.engines.llm.protocol import ModelClient


class LcmProvider(SearchMixin, ProfileMixin, SessionMixin, ReviewMixin):
    """Summaries over the messages, which stay as they are. Stateless; safe to use from several threads.

    Config: `fresh_tail_tokens` (a number, or "none" for the plain count of messages; default 25 % of the budget),
    `summaries` ("model", or "deterministic" to cut them from their source without asking a model). `client` stands
    in for the workspace's model.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, *, client: ModelClient | None = None) -> None:
        self.config = dict(config or {})
        self.client = client

    def bootstrap(self, session: Session) -> None:
        items.ingest_messages(session.thread_id)

    def append(self, session: Session, messages: Sequence[NewMessage]) -> list[int]:
        with transaction.atomic():
            seqs = store_messages(session, messages)
            items.ingest_messages(session.thread_id)
        return seqs

    def assemble(self, session: Session, budget: int, fresh_tail: int = FRESH_TAIL) -> list[ContextEntry]:
        return assembly.assemble_entries(session, budget, fresh_tail, self.config)

    def stats(self, session: Session) -> SessionStats:
        return assembly.session_stats(session)

    def close(self) -> None:
        """Nothing is held between calls."""

    def needs_compaction(self, session: Session, budget: int) -> bool:
        return compaction.needs_compaction(session, budget, self.config)

    def compact(
        self,
        session: Session,
        budget: int,
        *,
        full: bool = False,
        progress: CompactionProgress | None = None,
        focus: str = "",
    ) -> CompactionResult:
        return compaction.compact_conversation(
            session, budget, full=full, progress=progress, focus=focus, config=self.config, client=self.client
        )

    def covers_message(self, message_id: int) -> bool:
        return SummaryMessage.objects.filter(message=message_id).exists()

    def rebuild(self, session: Session) -> CompactionResult:
        return compaction.rebuild_conversation(session, config=self.config, client=self.client)

    def threads_to_rebuild(self, limit: int = 200) -> list[int]:
        stale = Summary.objects.filter(stale=True).values("conversation")
        conversations = Conversation.objects.filter(pk__in=stale).exclude(thread__access=Thread.Access.HUMAN_ONLY)
        return list(conversations.order_by("pk").values_list("thread", flat=True)[:limit])

    def compaction_pause(self, workspace_id: int) -> CompactionPause | None:
        return pause.find_pause(workspace_id)

    def resume_compaction(self, workspace_id: int, endpoint_id: int | None) -> bool:
        return pause.resume_endpoints(workspace_id, endpoint_id)

    def search(self, session: Session, query: str, limit: int = 20) -> list[MemoryHit]:
        return retrieval.search_conversation(session, query, limit)

    def describe(self, session: Session, summary_id: int) -> SummaryDescription:
        return retrieval.describe_summary(session, summary_id)

    def correct(self, session: Session, summary_id: int, *, content: str, version: int) -> SummaryDescription:
        summary = retrieval.access_summary(session, summary_id)
        correction.correct_summary(session, summary, content=content, version=version)
        return retrieval.describe_summary(session, summary_id)

    def summaries_at(self, session: Session, at: datetime) -> list[SummarySpan]:
        return retrieval.summaries_at(session, at)

    def expand(self, session: Session, summary_id: int, cursor: int | None = None) -> SummaryExpansion:
        return retrieval.expand_summary(session, summary_id, cursor)
