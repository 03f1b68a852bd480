"""Cache rates: which share of a prompt stands in the prefix it has in common with the one before, and which share of
what was sent the provider read from its cache; over time, and before and after each compaction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from agents.agent.models import Agent, Run, Snapshot
from agents.statistics.charts import (
    PromptChart,
    PromptPoint,
    Rate,
    RateChart,
    RatesAround,
    build_prompt_chart,
    build_rate_chart,
    total_rate,
)
from agents.statistics.statistics import PERIOD_DAYS
from memory.models import Compaction
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access

MAX_POINTS = 200
"""Runs of a series, the newest."""

MAX_COMPACTIONS = 60
"""Compactions marked, the newest."""

RUNS_AROUND = 5
"""Runs whose rate is given before a compaction, and after the first one that follows it."""

MAX_THREADS = 10
"""Threads of an agent's page, those answered in last."""


@dataclass(frozen=True)
class CompactionRates:
    """A compaction of a thread, sizes in tokens, and how one agent's prompts there were cached around it."""

    compaction_id: int
    agent: str
    thread_id: int
    at: datetime
    tokens_before: int | None
    tokens_after: int | None
    shared: RatesAround
    cached: RatesAround


@dataclass(frozen=True)
class CacheHistory:
    """Points and compactions, the oldest first."""

    points: tuple[PromptPoint, ...]
    compactions: tuple[CompactionRates, ...]


def cache_history(runs: QuerySet[Run]) -> CacheHistory:
    """The newest MAX_POINTS of these runs that read a prompt, and the compactions of their threads since the first of
    them. Two queries."""
    rows = (
        Snapshot.objects.filter(run__in=runs.order_by(), tokens__gt=0)
        .order_by("-id")
        .values_list(
            "run_id",
            "run__agent__participant__handle",
            "run__thread_id",
            "run__thread__title",
            "created_at",
            "prefix_shared",
            "tokens",
            "run__cached_tokens",
            "run__input_tokens",
            "budget",
            "layers",
            "sections",
        )
    )
    points = tuple(
        PromptPoint(run, agent, thread, title, at, Rate(shared, tokens), Rate(cached, sent_tokens), tokens, *sizes)
        for run, agent, thread, title, at, shared, tokens, cached, sent_tokens, *sizes in reversed(rows[:MAX_POINTS])
    )
    if not points:
        return CacheHistory((), ())
    compactions = Compaction.objects.filter(
        thread__in={point.thread_id for point in points}, state=Compaction.State.DONE, finished_at__gte=points[0].at
    ).order_by("-finished_at", "-id")[:MAX_COMPACTIONS]
    return CacheHistory(points, tuple(_compaction_rates(points, tuple(reversed(compactions)))))


def _compaction_rates(points: Iterable[PromptPoint], compactions: Sequence[Compaction]) -> Iterable[CompactionRates]:
    by_agent = _points_by_thread(points)
    for compaction in compactions:
        for (agent, thread_id), own in by_agent.items():
            at = compaction.finished_at
            if thread_id != compaction.thread_id or at is None:
                continue
            before = [point for point in own if point.at <= at][-RUNS_AROUND:]
            after = [point for point in own if point.at > at][: RUNS_AROUND + 1]
            yield CompactionRates(
                compaction.pk,
                agent,
                thread_id,
                at,
                compaction.tokens_before,
                compaction.tokens_after,
                shared=_rates_around([point.shared for point in before], [point.shared for point in after]),
                cached=_rates_around([point.cached for point in before], [point.cached for point in after]),
            )


def _points_by_thread(points: Iterable[PromptPoint]) -> dict[tuple[str, int], list[PromptPoint]]:
    """Points by agent and thread, each in the order of the points."""
    groups: dict[tuple[str, int], list[PromptPoint]] = {}
    for point in points:
        groups.setdefault((point.agent, point.thread_id), []).append(point)
    return groups


def _rates_around(before: Sequence[Rate], after: Sequence[Rate]) -> RatesAround:
    return RatesAround(total_rate(before), total_rate(after[:1]), total_rate(after[1:]))


@dataclass(frozen=True)
class ThreadCache:
    """How one agent's prompts in one thread were cached: the newest RUNS_AROUND runs, and around each compaction."""

    agent: str
    thread_id: int
    thread_title: str
    runs: int
    shared: Rate
    cached: Rate
    chart: RateChart
    compactions: tuple[CompactionRates, ...]
    prompts: PromptChart | None


def thread_caches(thread: Thread, access: Access) -> tuple[ThreadCache, ...]:
    """The caches for a thread's memory page: each agent that answered there, by handle. Two queries."""
    return _thread_caches(cache_history(visible_runs(access).filter(thread=thread)))


def _thread_caches(history: CacheHistory) -> tuple[ThreadCache, ...]:
    caches = []
    for (agent, thread_id), points in sorted(_points_by_thread(history.points).items()):
        own = tuple(one for one in history.compactions if (one.agent, one.thread_id) == (agent, thread_id))
        first, last = points[0].at, points[-1].at
        chart = build_rate_chart(
            [(point.at, point.shared, point.cached) for point in points],
            [(one.at, one.shared) for one in own],
            starts_at=first,
            ends_at=max(last, *(one.at for one in own)) if own else last,
        )
        newest = points[-RUNS_AROUND:]
        shared, cached = (total_rate(rates) for rates in zip(*((p.shared, p.cached) for p in newest), strict=True))
        title, prompts = points[-1].thread_title, build_prompt_chart(points, [one.at for one in own])
        caches.append(ThreadCache(agent, thread_id, title, len(points), shared, cached, chart, own, prompts))
    return tuple(caches)


@dataclass(frozen=True)
class AgentCache:
    """How an agent's prompts were cached: a point for each of the last 30 UTC days with runs, and the threads it
    answered in last, as far as the asker sees them."""

    chart: RateChart | None
    shared: Rate
    cached: Rate
    threads: tuple[ThreadCache, ...]


def agent_cache(agent: Agent, access: Access) -> AgentCache:
    """The caches for the agent's page. Three queries."""
    history = cache_history(visible_runs(access).filter(agent=agent))
    days = daily_rates(run__agent=agent)
    chart = None
    if days:
        now = datetime.now(UTC)
        starts_at = now - timedelta(days=PERIOD_DAYS)
        marks = [(one.at, one.shared) for one in history.compactions if one.at >= starts_at]
        chart = build_rate_chart(days, marks, starts_at=starts_at, ends_at=now)
    last_answers = {point.thread_id: point.at for point in history.points}
    threads = sorted(_thread_caches(history), key=lambda one: last_answers[one.thread_id], reverse=True)
    shared, cached = total_rate(shared for _, shared, _ in days), total_rate(cached for *_, cached in days)
    return AgentCache(chart, shared, cached, tuple(threads[:MAX_THREADS]))


def daily_rates(**scope: object) -> list[tuple[datetime, Rate, Rate]]:
    """Noon of each of the last 30 UTC days with runs, and its rates: of the prompts that `scope` filters. Counts of all
    threads, as in the token chart. One query."""
    since = datetime.combine(datetime.now(UTC).date() - timedelta(days=PERIOD_DAYS - 1), time(), UTC)
    has_prefix, has_cached = Q(prefix_shared__isnull=False), Q(run__cached_tokens__isnull=False)
    rows = (
        Snapshot.objects.filter(created_at__gte=since, tokens__gt=0, **scope)
        .annotate(day=TruncDate("created_at", tzinfo=UTC))
        .values("day")
        .annotate(
            shared=Sum("prefix_shared"),
            compared=Sum("tokens", filter=has_prefix),
            cached=Sum("run__cached_tokens"),
            sent=Sum("run__input_tokens", filter=has_cached),
        )
        .order_by("day")
    )
    return [
        (
            datetime.combine(row["day"], time(12), UTC),
            Rate(row["shared"], row["compared"]),
            Rate(row["cached"], row["sent"]),
        )
        for row in rows
    ]


def visible_runs(access: Access) -> QuerySet[Run]:
    """Runs in threads the asker sees; an agent knows only its own."""
    runs: QuerySet[Run] = Run.objects.visible_to(access)
    return runs.filter(agent__participant_id=access.participant_id) if access.is_agent else runs
