"""Statistics of agents: tokens per day, the acceptance of their answers, and where knowledge entries were used."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

from django.db import connection
from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from agents.access import TOTAL_TOKENS, token_rows
from agents.models import Agent, KnowledgeUse, Run
from knowledge.models import Entry
from memory.models import Feedback
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

PERIOD_DAYS = 30
MIN_VERDICTS = 5
"""Fewer verdicts than this suggest nothing."""
PROMOTION_PERCENT, DEMOTION_PERCENT = 80, 50
"""Shares of 👍, in percent, above and below which a change of level is suggested (spec: agents.md)."""


@dataclass(frozen=True)
class DayBar:
    """One day of a chart of height 100: `x` and `height` in drawing units."""

    day: date
    tokens: int
    x: int
    height: float

    @property
    def y(self) -> float:
        return 100 - self.height


@dataclass(frozen=True)
class Acceptance:
    """Verdicts of 30 days. `percent` is None without any; `suggestion` is empty where there is none."""

    up: int
    down: int
    percent: int | None
    suggestion: str


def tokens_per_day(*, agent: Agent | None = None, workspace_ids: list[int] | None = None) -> tuple[DayBar, ...]:
    """Input and output tokens of each of the last 30 UTC days, oldest first, days without any included.

    Those of runs, and of what models were asked in the background.
    """
    today = datetime.now(UTC).date()
    first = today - timedelta(days=PERIOD_DAYS - 1)
    runs, background = token_rows(agent, workspace_ids or [])
    used = sum_tokens(runs.filter(queued_at__date__gte=first).annotate(day=TruncDate("queued_at")), "day")
    used += sum_tokens(background.filter(created_at__date__gte=first).annotate(day=TruncDate("created_at")), "day")
    peak = max([*used.values(), 1])
    days = [first + timedelta(days=n) for n in range(PERIOD_DAYS)]
    return tuple(DayBar(day, used[day], index * 10, round(100 * used[day] / peak, 1)) for index, day in enumerate(days))


def sum_tokens(rows: QuerySet[Any, Any], key: str) -> Counter[Any]:
    """Input and output tokens of runs or background calls by `key`, one of their columns or annotations. One query."""
    sums = rows.order_by().values(key).annotate(tokens=Sum(TOTAL_TOKENS))
    return Counter(dict(sums.values_list(key, "tokens")))


def agent_acceptance(agent: Agent) -> Acceptance:
    """The share of 👍 among verdicts of the last 30 days, and what it suggests."""
    since = datetime.now(UTC) - timedelta(days=PERIOD_DAYS)
    counts = Feedback.objects.filter(message__author_id=agent.participant_id, created_at__gte=since).aggregate(
        up=Count("id", filter=Q(verdict="up")), down=Count("id", filter=Q(verdict="down"))
    )
    up, down = counts["up"], counts["down"]
    percent = round(100 * up / (up + down)) if up + down else None
    return Acceptance(up, down, percent, level_suggestion(level=agent.level, up=up, down=down))


def level_suggestion(*, level: int, up: int, down: int) -> str:
    """A sentence for admins; empty between the thresholds, with few verdicts, and at the ends of the scale."""
    if up + down < MIN_VERDICTS:
        return ""
    if 100 * up > PROMOTION_PERCENT * (up + down) and level < 4:
        return f"Consider promotion to L{level + 1}: more than {PROMOTION_PERCENT} % of the verdicts say helpful."
    if 100 * up < DEMOTION_PERCENT * (up + down) and level > 1:
        return f"Consider demotion to L{level - 1}: fewer than {DEMOTION_PERCENT} % of the verdicts say helpful."
    return ""


MAX_USES_SHOWN = 50
"""Uses that an entry's page lists."""

# The entries are locked in one order, so that two runs that use the same ones wait for each other instead of for ever.
_RECORD_USES = """
WITH held AS (
    SELECT id FROM knowledge_entry WHERE id = ANY(%(entries)s) AND workspace_id = %(workspace)s
    ORDER BY id FOR NO KEY UPDATE
), used AS (
    INSERT INTO agents_knowledgeuse (run_id, entry_id, how) SELECT %(run)s, id, %(how)s FROM held
    ON CONFLICT DO NOTHING RETURNING entry_id
)
UPDATE knowledge_entry SET use_count = use_count + 1, last_used_at = now() FROM used WHERE id = used.entry_id
"""


@dataclass(frozen=True)
class EntryUse:
    """One run that had an entry before it."""

    run_id: int
    task: str
    agent: Participant
    thread_title: str
    message_id: int
    how: str
    at: datetime


def record_uses(*, run: Run, entry_ids: Collection[int], how: Literal["prompt", "tool"]) -> int:
    """Count these entries as used by the run, in the caller's transaction. Returns how many were new to the run.

    However often a run meets an entry, it counts once; entries of other workspaces do not count.
    """
    if not entry_ids:
        return 0
    entries = sorted(set(entry_ids))
    with connection.cursor() as cursor:
        cursor.execute(_RECORD_USES, {"entries": entries, "workspace": run.workspace_id, "run": run.pk, "how": how})
        return int(cursor.rowcount)


def entry_uses(entry: Entry, access: Access) -> QuerySet[KnowledgeUse]:
    """Uses of an entry in the threads the asker sees, newest first; an agent knows only its own runs.

    The caller has checked that the entry itself is visible.
    """
    runs: QuerySet[Run] = Run.objects.visible_to(access)
    if access.is_agent:
        runs = runs.filter(agent__participant_id=access.participant_id)
    uses = KnowledgeUse.objects.filter(entry=entry, run__in=runs)
    return uses.select_related("run__agent__participant", "run__thread").order_by("-id")


def recent_entry_uses(entry: Entry, access: Access) -> tuple[EntryUse, ...]:
    """The newest uses for the entry's page, at most `MAX_USES_SHOWN`. One query."""
    return tuple(
        EntryUse(
            run_id=use.run_id,
            task=use.run.get_task_display(),
            agent=use.run.agent.participant,
            thread_title=use.run.thread.title,
            message_id=use.run.trigger_id,
            how=use.how,
            at=use.created_at,
        )
        for use in entry_uses(entry, access)[:MAX_USES_SHOWN]
    )
