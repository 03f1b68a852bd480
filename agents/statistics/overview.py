"""How some workspaces are doing: what waits or failed, and 30 days drawn. Counts only, no texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Count, Q
from django.utils import timezone

from agents.agent.models import Run
from agents.statistics.cache_rates import daily_rates
from agents.statistics.charts import total_rate
from agents.statistics.statistics import period_days, tokens_per_day
from knowledge.models import Contradiction, Entry
from knowledge.queries import freshness_condition, review_condition
from memory.queries import CompactionHealth, compaction_health
from openvibe.engines.charts.charts import DayChart, Series, bar_chart, line_chart


class Tile(NamedTuple):
    """A number, what it counts, the address of the rows it counts ("" where there is none), and a word on it."""

    title: str
    number: str
    link: str = ""
    note: str = ""


class Overview(NamedTuple):
    """Counts of now; runs failed since `day_ago`. `shared_percent`: of prompts, what began as the one before; None
    where nothing is known."""

    now: datetime
    day_ago: datetime
    first_day: date
    failed_runs: int
    waiting_runs: int
    expiring_entries: int
    entries_to_review: int
    contradictions: int
    health: CompactionHealth
    shared_percent: float | None
    charts: list[DayChart]

    def run_tiles(self, *, failed: str, waiting: str) -> tuple[Tile, ...]:
        """Tiles of runs; the arguments are the addresses of the rows that each counts."""
        return (
            Tile("Failed runs, 24 h", f"{self.failed_runs:,}", failed),
            Tile("Runs waiting", f"{self.waiting_runs:,}", waiting),
        )

    def expiring_tile(self, link: str) -> Tile:
        return Tile("Knowledge expiring, 14 days", f"{self.expiring_entries:,}", link)

    def memory_tiles(self, *, waiting: str, failed: str, stuck: str, summarised: str, prompts: str) -> tuple[Tile, ...]:
        """Tiles of compaction and cache; the arguments are the addresses of the rows that each counts."""
        health, shared = self.health, self.shared_percent
        last_error = f"The last one: {health.last_error}" if health.last_error else ""
        share = "–" if health.summarised_percent is None else f"{health.summarised_percent:g} %"
        return (
            Tile("Compactions waiting", f"{health.waiting:,}", waiting),
            Tile("Compactions failed, 30 days", f"{sum(health.failed.values()):,}", failed, last_error),
            Tile(
                "Threads over their trigger",
                f"{health.stuck:,}",
                stuck,
                "Nothing is left to summarise there" if health.stuck else "",
            ),
            Tile(
                "Messages in summaries",
                share,
                summarised,
                f"{health.summarised:,} of {health.messages:,}" if health.messages else "",
            ),
            Tile(
                "Same beginning, 30 days",
                "–" if shared is None else f"{shared:.0f} %",
                prompts,
                "What a cache can serve of prompts",
            ),
        )


def read_overview(workspace_ids: list[int]) -> Overview:
    """The overview of these workspaces together."""
    now = timezone.now()
    day_ago, days = now - timedelta(days=1), period_days()
    runs = Run.objects.filter(workspace__in=workspace_ids).aggregate(
        failed=Count("id", filter=Q(state="failed", queued_at__gte=day_ago)),
        queued=Count("id", filter=Q(state="queued")),
    )
    entries = Entry.objects.filter(workspace__in=workspace_ids).aggregate(
        expiring=Count("pk", filter=freshness_condition("expiring", now)),
        waiting=Count("pk", filter=review_condition(now)),
    )
    health, rates = compaction_health(workspace_ids, days[0]), daily_rates(run__workspace__in=workspace_ids)
    tokens = {bar.day: float(bar.tokens) for bar in tokens_per_day(workspace_ids=workspace_ids)}
    return Overview(
        now=now,
        day_ago=day_ago,
        first_day=days[0],
        failed_runs=runs["failed"],
        waiting_runs=runs["queued"],
        expiring_entries=entries["expiring"],
        entries_to_review=entries["waiting"],
        contradictions=Contradiction.objects.filter(workspace__in=workspace_ids, settled_at=None).count(),
        health=health,
        shared_percent=total_rate(shared for _, shared, _ in rates).percent,
        charts=[_tokens_chart(days, tokens), _compactions_chart(days, health), _cache_chart(days, rates)],
    )


def _tokens_chart(days: Sequence[date], tokens: Mapping[date, float]) -> DayChart:
    return bar_chart("Tokens per day", days, [Series("in and out", tokens, f"{sum(tokens.values()):,.0f}")])


def _compactions_chart(days: Sequence[date], health: CompactionHealth) -> DayChart:
    series = [
        Series(name, {day: float(count) for day, count in counts.items()}, f"{sum(counts.values()):,}")
        for name, counts in (("done", health.done), ("failed", health.failed))
    ]
    return bar_chart("Compactions per day", days, series)


def _cache_chart(days: Sequence[date], rates: Sequence[Any]) -> DayChart:
    series = []
    for name, at in (("same beginning", 1), ("read from the provider's cache", 2)):
        percent = total_rate(row[at] for row in rates).percent
        words = "unknown" if percent is None else f"{percent:g} % in all"
        series.append(Series(name, {row[0].date(): row[at].percent for row in rates}, words))
    return line_chart("Cache rate per day", days, series, "%", top=100)
