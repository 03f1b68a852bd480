"""Numbers on an agent's page: tokens per day and how its answers were taken."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from agents.models import Agent, Run
from agents.visibility import TOKENS
from memory.models import Feedback
from openvibe.workspaces.models import Spending

DAYS = 30
FEW = 5
"""Fewer verdicts than this suggest nothing."""
PROMOTION, DEMOTION = 80, 50
"""Shares of 👍, in percent, above and below which a change of level is suggested (spec: agents.md)."""


@dataclass(frozen=True)
class Bar:
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


def tokens_per_day(*, agent: Agent | None = None, workspace_ids: list[int] | None = None) -> tuple[Bar, ...]:
    """Input and output tokens of each of the last 30 UTC days, oldest first, days without any included: of runs, and of
    what models were asked in the background."""
    today = datetime.now(UTC).date()
    first = today - timedelta(days=DAYS - 1)
    runs = Run.objects.filter(queued_at__date__gte=first)
    asked = Spending.objects.filter(created_at__date__gte=first)
    if agent is not None:
        runs, asked = runs.filter(agent=agent), asked.filter(agent=agent.participant_id)
    else:
        runs, asked = runs.filter(workspace__in=workspace_ids or []), asked.filter(workspace__in=workspace_ids or [])
    used = Counter(_by_day(runs, "queued_at")) + Counter(_by_day(asked, "created_at"))
    most = max([*used.values(), 1])
    days = [first + timedelta(days=n) for n in range(DAYS)]
    return tuple(
        Bar(day, used.get(day, 0), place * 10, round(100 * used.get(day, 0) / most, 1))
        for place, day in enumerate(days)
    )


def _by_day(rows: QuerySet[Any, Any], at: str) -> dict[date, int]:
    days = rows.annotate(day=TruncDate(at)).order_by().values("day").annotate(tokens=Sum(TOKENS))
    return dict(days.values_list("day", "tokens"))


def acceptance_of(agent: Agent) -> Acceptance:
    """The share of 👍 among verdicts of the last 30 days, and what it suggests."""
    since = datetime.now(UTC) - timedelta(days=DAYS)
    counts = Feedback.objects.filter(message__author_id=agent.participant_id, created_at__gte=since).aggregate(
        up=Count("id", filter=Q(verdict="up")), down=Count("id", filter=Q(verdict="down"))
    )
    up, down = counts["up"], counts["down"]
    percent = round(100 * up / (up + down)) if up + down else None
    return Acceptance(up, down, percent, suggestion_for(level=agent.level, up=up, down=down))


def suggestion_for(*, level: int, up: int, down: int) -> str:
    """A sentence for admins; empty between the thresholds, with few verdicts, and at the ends of the scale."""
    if up + down < FEW:
        return ""
    if 100 * up > PROMOTION * (up + down) and level < 4:
        return f"Consider promotion to L{level + 1}: more than {PROMOTION} % of the verdicts say helpful."
    if 100 * up < DEMOTION * (up + down) and level > 1:
        return f"Consider demotion to L{level - 1}: fewer than {DEMOTION} % of the verdicts say helpful."
    return ""
