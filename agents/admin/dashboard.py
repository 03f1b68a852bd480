"""The first page of the admin: what needs a look today, and how things went. Counts only, of workspaces the asker
administers; each number leads to the rows it counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from django.contrib import admin
from django.db.models import Count, Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from agents.agent.access import token_rows
from agents.agent.models import Run
from agents.statistics.cache_rates import daily_rates
from agents.statistics.charts import total_rate
from agents.statistics.statistics import period_days, sum_tokens, tokens_per_day
from knowledge.models import Contradiction, Entry
from knowledge.queries import EXPIRING_WITHIN, freshness_condition, review_condition
from memory.models import Episode
from memory.queries import CompactionHealth, compaction_health
from openvibe.base.admin_site import administered_workspace_ids
from openvibe.engines.charts.charts import DayChart, Series, bar_chart, line_chart
from openvibe.workspaces.models import Workspace


class Tile(NamedTuple):
    """A number, what it counts, a word on it, and the list it leads to."""

    title: str
    number: str
    link: str
    note: str = ""


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Adds `cards`, `spend` and `charts` to the index page."""
    user: Any = request.user
    workspaces = Workspace.objects.all()
    if not user.is_superuser:
        workspaces = workspaces.filter(pk__in=administered_workspace_ids(request))
    ids = list(workspaces.order_by("name").values_list("pk", flat=True)[:200])
    days, rates = period_days(), daily_rates(run__workspace__in=ids)
    health = compaction_health(ids, days[0])
    tokens = {bar.day: float(bar.tokens) for bar in tokens_per_day(workspace_ids=ids)}
    cards = [
        *_run_tiles(ids),
        *_knowledge_tiles(ids, user),
        _feedback_tile(request),
        *_memory_tiles(health, rates, days),
    ]
    charts = [_tokens_chart(days, tokens), _compactions_chart(days, health), _cache_chart(days, rates)]
    return context | {"cards": cards, "spend": _token_spend(ids), "charts": charts}


def _list_address(model: str, **filters: object) -> str:
    values = {name: value.isoformat() if isinstance(value, datetime) else str(value) for name, value in filters.items()}
    return f"{reverse(f'admin:{model}_changelist')}?{urlencode(values)}"


def _run_tiles(ids: list[int]) -> tuple[Tile, ...]:
    day_ago = timezone.now() - timedelta(days=1)
    runs = Run.objects.filter(workspace__in=ids).aggregate(
        failed=Count("id", filter=Q(state="failed", queued_at__gte=day_ago)),
        queued=Count("id", filter=Q(state="queued")),
    )
    failed = _list_address("agents_run", state__exact="failed", queued_at__gte=day_ago)
    return (
        Tile("Failed runs, 24 h", f"{runs['failed']:,}", failed),
        Tile("Runs waiting", f"{runs['queued']:,}", _list_address("agents_run", state__exact="queued")),
    )


def _feedback_tile(request: HttpRequest) -> Tile:
    """What the list of open feedback shows this reader."""
    episodes: Any = admin.site._registry[Episode]
    is_open = {"kind": Episode.Kind.FEEDBACK_RECEIVED, "applied_at": None, "archived_at": None}
    count = episodes.visible_rows(request).filter(**is_open).count()
    return Tile("Open thumbs down", f"{count:,}", _list_address("memory_episode", settled="no"))


def _knowledge_tiles(ids: list[int], user: Any) -> tuple[Tile, ...]:
    """Entries and contradictions together where the review page in the app shows both, else each with its list."""
    now = timezone.now()
    counts = Entry.objects.filter(workspace__in=ids).aggregate(
        expiring=Count("pk", filter=freshness_condition("expiring", now)),
        waiting=Count("pk", filter=review_condition(now)),
    )
    pairs = Contradiction.objects.filter(workspace__in=ids, settled_at=None).count()
    expiring = _list_address(
        "knowledge_entry", status__exact="active", expires_at__gt=now, expires_at__lte=now + EXPIRING_WITHIN
    )
    soon = Tile("Knowledge expiring, 14 days", f"{counts['expiring']:,}", expiring)
    own = Workspace.objects.filter(pk__in=ids, members__user=user, members__removed_at=None)
    workspace = own.first() if len(ids) == 1 else None
    if workspace is not None:
        address = reverse("knowledge-review", args=[workspace.slug])
        return soon, Tile("Knowledge to review", f"{counts['waiting'] + pairs:,}", address)
    return (
        soon,
        Tile("Knowledge to review", f"{counts['waiting']:,}", _list_address("knowledge_entry", review="waits")),
        Tile("Contradictions", f"{pairs:,}", _list_address("knowledge_contradiction", settled_at__isnull="True")),
    )


def _memory_tiles(health: CompactionHealth, rates: Sequence[Any], days: Sequence[date]) -> tuple[Tile, ...]:
    shared = total_rate(shared for _, shared, _ in rates).percent
    compactions, failed = "memory_compaction", sum(health.failed.values())
    since = datetime(days[0].year, days[0].month, days[0].day, tzinfo=UTC)
    summarised_share = "–" if health.summarised_percent is None else f"{health.summarised_percent:g} %"
    return (
        Tile("Compactions waiting", f"{health.waiting:,}", _list_address(compactions, state__in="queued,running")),
        Tile(
            "Compactions failed, 30 days",
            f"{failed:,}",
            _list_address(compactions, state__exact="failed", finished_at__gte=since),
            f"The last one: {health.last_error}" if health.last_error else "",
        ),
        Tile(
            "Threads over their trigger",
            f"{health.stuck:,}",
            _list_address("lcm_conversation", stuck="yes"),
            "Nothing is left to summarise there" if health.stuck else "",
        ),
        Tile(
            "Messages in summaries",
            summarised_share,
            _list_address(compactions, state__exact="done"),
            f"{health.summarised:,} of {health.messages:,}" if health.messages else "",
        ),
        Tile(
            "Same beginning, 30 days",
            "–" if shared is None else f"{shared:.0f} %",
            reverse("admin:agents_snapshot_changelist"),
            "What a cache can serve of prompts",
        ),
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


def _token_spend(ids: list[int]) -> list[dict[str, Any]]:
    """Tokens used today against the cap, per workspace; `percent` is at most 100."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    runs, background = token_rows(None, ids)
    in_runs = sum_tokens(runs.filter(queued_at__gte=midnight), "workspace")
    in_background = sum_tokens(background.filter(created_at__gte=midnight), "workspace")
    tokens_by_workspace = in_runs + in_background
    return [
        {
            "workspace": workspace,
            "used": tokens_by_workspace[workspace.pk],
            "background": in_background[workspace.pk],
            "cap": workspace.daily_token_budget,
            "percent": min(
                100, round(100 * tokens_by_workspace[workspace.pk] / max(workspace.daily_token_budget, 1), 1)
            ),
        }
        for workspace in Workspace.objects.filter(pk__in=ids).order_by("name")
    ]
