"""How compaction is doing in some workspaces: what waits and what failed, over 30 days, how much is summarised, and the
rows of one workspace."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from django.db.models import BooleanField, Case, Count, F, Q, QuerySet, When
from django.db.models.functions import TruncDate

from memory.plugins.lcm.models import Conversation
from memory.plugins.models import COMPACTIONS, Compaction
from openvibe.engines.database.prepared_statements import fetch_unprepared
from openvibe.workspaces.access import Access


@dataclass(frozen=True)
class CompactionHealth:
    """`stuck`: threads over their trigger in which nothing is left to summarise. `done` and `failed` by UTC day since
    `since`. `summarised` of `messages` stand in summaries. `last_error` is that of the newest that failed since then.
    """

    waiting: int
    stuck: int
    done: Mapping[date, int]
    failed: Mapping[date, int]
    messages: int
    summarised: int
    last_error: str

    @property
    def summarised_percent(self) -> float | None:
        return round(100 * min(self.summarised / self.messages, 1), 1) if self.messages else None


_SELECT_STATE = """
SELECT memory.stuck, memory.messages, summaries.messages, failure.error
FROM (SELECT count(*) FILTER (WHERE c.exhausted_version = c.version) AS stuck, sum(t.last_seq)::bigint AS messages
      FROM lcm_conversation c JOIN chat_thread t ON t.id = c.thread_id WHERE t.workspace_id = ANY(%(ids)s)) memory,
     (SELECT sum(s.message_count)::bigint AS messages
      FROM lcm_summary s JOIN lcm_conversation c ON c.id = s.conversation_id JOIN chat_thread t ON t.id = c.thread_id
      WHERE s.kind = 'leaf' AND t.workspace_id = ANY(%(ids)s)) summaries
LEFT JOIN LATERAL (SELECT c.error FROM memory_compaction c JOIN chat_thread t ON t.id = c.thread_id
      WHERE c.state = 'failed' AND c.finished_at >= %(since)s AND t.workspace_id = ANY(%(ids)s)
      ORDER BY c.finished_at DESC LIMIT 1) failure ON true
"""


def workspace_compactions(access: Access) -> QuerySet[Compaction]:
    """Compactions of the workspace's threads, newest first; none for who does not administer it. No texts of threads:
    their titles and messages are for who sees them."""
    if not access.administers:
        return Compaction.objects.none()
    return Compaction.objects.filter(thread__workspace=access.workspace_id).order_by("-id")


def workspace_memories(access: Access) -> QuerySet[Conversation]:
    """Threads that lossless memory has taken in, the newest first, each with `is_stuck`: over its trigger, with nothing
    left to summarise. None for who does not administer the workspace."""
    if not access.administers:
        return Conversation.objects.none()
    rows = Conversation.objects.filter(thread__workspace=access.workspace_id).select_related("thread")
    is_stuck = Case(When(exhausted_version=F("version"), then=True), default=False, output_field=BooleanField())
    return rows.annotate(is_stuck=is_stuck).order_by("-id")


def compaction_health(workspace_ids: Collection[int], since: date) -> CompactionHealth:
    """Two statements, neither of which reads messages: how many a thread has stands in its row."""
    starts_at = datetime.combine(since, time(), UTC)
    rows = Compaction.objects.filter(thread__workspace__in=workspace_ids)
    recent = Q(finished_at__gte=starts_at) | Q(state__in=COMPACTIONS.unfinished)
    counts = rows.filter(recent).order_by().annotate(day=TruncDate("finished_at", tzinfo=UTC)).values("day", "state")
    by_state: dict[str, dict[date | None, int]] = {}
    for row in counts.annotate(count=Count("pk")):
        by_state.setdefault(row["state"], {})[row["day"]] = row["count"]
    ((stuck, messages, summarised_messages, error),) = fetch_unprepared(
        _SELECT_STATE, {"ids": list(workspace_ids), "since": starts_at}
    )
    return CompactionHealth(
        sum(sum(by_state.get(state, {}).values()) for state in COMPACTIONS.unfinished),
        stuck,
        {day: count for day, count in by_state.get("done", {}).items() if day},
        {day: count for day, count in by_state.get("failed", {}).items() if day},
        messages or 0,
        summarised_messages or 0,
        error or "",
    )
