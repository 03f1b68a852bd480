"""Lossless memory as a plugin: every capability, over the modules beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory.providers.base import (
    FRESH_TAIL,
    Compacted,
    Description,
    Entry,
    Expanded,
    Found,
    NewMessage,
    Progress,
    Session,
    Stats,
    Unreviewed,
)
from memory.providers.lcm import appending, assembling, compacting, exploring, reviewing, searching
from memory.providers.lcm.models import Conversation, Summary, SummaryMessage
from memory.providers.shared import Profiles, Sessions
from openvibe.chat.models import Thread
from openvibe.llm.protocol import ModelClient
from openvibe.workspaces.access import Access


class LcmProvider(Profiles, Sessions):
    """Summaries over the messages, which stay as they are. Stateless; safe to use from several threads.

    Config: `fresh_tail_tokens` (a number, or "none" for the plain count of messages; default 25 % of the budget),
    `summaries` ("model", or "deterministic" to cut them from their source without asking a model). `client` stands
    in for the workspace's model.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, *, client: ModelClient | None = None) -> None:
        self.config = dict(config or {})
        self.client = client

    def bootstrap(self, session: Session) -> None:
        appending.take_in(session.thread_id)

    def append(self, session: Session, messages: Sequence[NewMessage]) -> list[int]:
        return appending.append(session, messages)

    def assemble(self, session: Session, budget: int, fresh_tail: int = FRESH_TAIL) -> list[Entry]:
        return assembling.assemble(session, budget, fresh_tail, self.config)

    def stats(self, session: Session) -> Stats:
        return assembling.stats(session)

    def close(self) -> None:
        """Nothing is held between calls."""

    def needs_compaction(self, session: Session, budget: int) -> bool:
        return compacting.needs_compaction(session, budget, self.config)

    def compact(
        self, session: Session, budget: int, *, full: bool = False, progress: Progress | None = None
    ) -> Compacted:
        return compacting.compact(session, budget, full=full, progress=progress, config=self.config, client=self.client)

    def holds(self, message_id: int) -> bool:
        return SummaryMessage.objects.filter(message=message_id).exists()

    def rebuild(self, session: Session) -> Compacted:
        return compacting.rebuild(session, config=self.config, client=self.client)

    def threads_to_rebuild(self, limit: int = 200) -> list[int]:
        stale = Summary.objects.filter(stale=True).values("conversation")
        conversations = Conversation.objects.filter(pk__in=stale).exclude(thread__access=Thread.Access.HUMAN_ONLY)
        return list(conversations.order_by("pk").values_list("thread", flat=True)[:limit])

    def search(self, session: Session, query: str, limit: int = 20) -> list[Found]:
        return searching.search(session, query, limit)

    def describe(self, session: Session, summary_id: int) -> Description:
        return exploring.describe(session, summary_id)

    def expand(self, session: Session, summary_id: int, cursor: int | None = None) -> Expanded:
        return exploring.expand(session, summary_id, cursor)

    def list_unreviewed(self, access: Access) -> list[Unreviewed]:
        return reviewing.list_unreviewed(access)

    def build_review_context(self, session: Session, since: int, upto: int) -> list[Entry]:
        return reviewing.build_review_context(session, since, upto)

    def mark_reviewed(self, session: Session, upto: int) -> None:
        reviewing.mark_reviewed(session, upto)
