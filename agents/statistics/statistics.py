"""Statistics of agents: tokens per day, the acceptance of their answers, and how they are doing day by day."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from agents.agent.models import Agent
from agents.agent.token_budgets import TOTAL_TOKENS, token_rows
from memory.models import Feedback
from openvibe.engines.charts.charts import DayChart, Series, bar_chart, format_value, line_chart

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
    since = datetime.combine(first, time(), UTC)
    runs, background = token_rows(agent, workspace_ids or [])
    tokens_by_day = sum_tokens(
        runs.filter(queued_at__gte=since).annotate(day=TruncDate("queued_at", tzinfo=UTC)), "day"
    )
    tokens_by_day += sum_tokens(
        background.filter(created_at__gte=since).annotate(day=TruncDate("created_at", tzinfo=UTC)), "day"
    )
    peak = max([*tokens_by_day.values(), 1])
    days = [first + timedelta(days=n) for n in range(PERIOD_DAYS)]
    return tuple(
        DayBar(day, tokens_by_day[day], index * 10, round(100 * tokens_by_day[day] / peak, 1))
        for index, day in enumerate(days)
    )


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
    verdicts = up + down
    if verdicts < MIN_VERDICTS:
        return ""
    numbers = f"{up} of {verdicts} verdicts in {PERIOD_DAYS} days say helpful"
    if 100 * up > PROMOTION_PERCENT * verdicts and level < 4:
        return f"Consider L{level + 1}: {numbers}, which is more than {PROMOTION_PERCENT} %."
    if 100 * up < DEMOTION_PERCENT * verdicts and level > 1:
        return f"Consider L{level - 1}: {numbers}, which is less than {DEMOTION_PERCENT} %."
    return ""


@dataclass(frozen=True)
class DayFigures:
    """What an agent did in one UTC day. Seconds are medians since a run was queued; `cost` is in the unit of prices."""

    day: date
    answers: int
    failures: int
    first_word_seconds: float | None
    total_seconds: float | None
    cost: float | None


_DAY_FIGURES = """
SELECT (queued_at AT TIME ZONE 'UTC')::date,
    count(*) FILTER (WHERE state = 'done'),
    count(*) FILTER (WHERE state = 'failed'),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM first_word_at - queued_at)),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM finished_at - queued_at))
        FILTER (WHERE state = 'done'),
    sum((input_tokens * price_in + output_tokens * price_out) / 1000000 + cost_correction)
FROM agents_run WHERE agent_id = %(agent)s AND queued_at >= %(since)s GROUP BY 1 ORDER BY 1
"""


def period_days() -> list[date]:
    """The last 30 UTC days, oldest first, today included."""
    today = datetime.now(UTC).date()
    return [today - timedelta(days=PERIOD_DAYS - 1 - n) for n in range(PERIOD_DAYS)]


def day_figures(agent: Agent) -> tuple[DayFigures, ...]:
    """The days of the period that have runs, oldest first, of all threads. One query."""
    since = datetime.combine(period_days()[0], time(), UTC)
    with connection.cursor() as cursor:
        cursor.execute(_DAY_FIGURES, {"agent": agent.pk, "since": since})
        return tuple(
            DayFigures(day, answers, failures, _as_float(first), _as_float(total), _as_float(cost))
            for day, answers, failures, first, total, cost in cursor.fetchall()
        )


def _as_float(value: Any) -> float | None:
    return None if value is None else float(value)


def verdicts_per_day(agent: Agent) -> dict[date, tuple[int, int]]:
    """👍 and 👎 of each day of the period that has any. One query."""
    since = datetime.combine(period_days()[0], time(), UTC)
    verdicts = Feedback.objects.filter(message__author_id=agent.participant_id, created_at__gte=since).order_by()
    days = verdicts.annotate(day=TruncDate("created_at", tzinfo=UTC)).values("day")
    counts = days.annotate(up=Count("id", filter=Q(verdict="up")), down=Count("id", filter=Q(verdict="down")))
    return {row["day"]: (row["up"], row["down"]) for row in counts}


def agent_charts(agent: Agent, bars: Sequence[DayBar]) -> tuple[DayChart, ...]:
    """How it is doing: verdicts, time to the first word and in all, answers and failures, tokens, cost. Two queries.

    `bars`: its tokens per day. What there is nothing of is left out.
    """
    days, figures, verdicts = period_days(), day_figures(agent), verdicts_per_day(agent)
    up, down = ({day: float(pair[n]) for day, pair in verdicts.items()} for n in (0, 1))
    charts = []
    if verdicts:
        thumbs = (Series("helpful", up, _sum_words(up)), Series("not helpful", down, _sum_words(down)))
        charts.append(bar_chart("Verdicts per day", days, thumbs))
    if figures:
        first = {row.day: row.first_word_seconds for row in figures}
        total = {row.day: row.total_seconds for row in figures}
        lines = (Series("first word", first, _median_words(first)), Series("whole answer", total, _median_words(total)))
        charts.append(line_chart("Seconds to an answer, median of each day", days, lines, "s"))
        answers = {row.day: float(row.answers) for row in figures}
        failures = {row.day: float(row.failures) for row in figures}
        runs = (Series("answers", answers, _sum_words(answers)), Series("failed", failures, _sum_words(failures)))
        charts.append(bar_chart("Runs per day", days, runs))
    tokens = {bar.day: float(bar.tokens) for bar in bars}
    if any(tokens.values()):
        charts.append(bar_chart("Tokens per day", days, [Series("in and out", tokens, _sum_words(tokens))]))
    cost = {row.day: row.cost for row in figures if row.cost}
    if cost:
        charts.append(
            bar_chart("Cost per day", days, [Series("by the prices of its model", cost, _sum_words(cost))], "money")
        )
    return tuple(charts)


def _sum_words(values: Mapping[date, float | None]) -> str:
    return f"{format_value(sum(value or 0 for value in values.values()))} in {PERIOD_DAYS} days"


def _median_words(values: Mapping[date, float | None]) -> str:
    sorted_values = sorted(value for value in values.values() if value is not None)
    return (
        f"{format_value(sorted_values[len(sorted_values) // 2], 's')} on a usual day"
        if sorted_values
        else "not measured"
    )
