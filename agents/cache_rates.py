"""Cache rates: which share of a prompt stands in the prefix it has in common with the one before, and which share of
what was sent the provider read from its cache; over time, and before and after each compaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import NamedTuple

from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from agents.charts import CHART_HEIGHT, CHART_WIDTH
from agents.models import Agent, Run, Snapshot
from agents.prompt_chart import CompactionMark, PromptChart, PromptSize, build_prompt_chart
from agents.statistics import PERIOD_DAYS
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
class Rate:
    """`part` of `whole` tokens, both None where nobody measured it."""

    part: int | None = None
    whole: int | None = None

    @property
    def percent(self) -> float | None:
        return round(100 * min(self.part / self.whole, 1), 1) if self.part is not None and self.whole else None


@dataclass(frozen=True)
class CachePoint:
    """One run. `shared`: of its first prompt, the prefix in common with the run before; `cached`: of all it sent. The
    others are its prompt's ceiling and tokens by layer and by section."""

    run_id: int
    agent: str
    thread_id: int
    thread_title: str
    at: datetime
    shared: Rate
    cached: Rate
    budget: int
    layers: Mapping[str, int]
    sections: Mapping[str, int]


@dataclass(frozen=True)
class RatesAround:
    """Rates of the runs before a compaction (up to RUNS_AROUND), of the first after it, and of those that follow (so
    many again)."""

    before: Rate
    first: Rate
    after: Rate


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

    points: tuple[CachePoint, ...]
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
        CachePoint(run, agent, thread, title, at, Rate(shared, tokens), Rate(cached, sent), *sizes)
        for run, agent, thread, title, at, shared, tokens, cached, sent, *sizes in reversed(rows[:MAX_POINTS])
    )
    if not points:
        return CacheHistory((), ())
    compactions = Compaction.objects.filter(
        thread__in={point.thread_id for point in points}, state=Compaction.State.DONE, finished_at__gte=points[0].at
    ).order_by("-finished_at", "-id")[:MAX_COMPACTIONS]
    return CacheHistory(points, tuple(_compaction_rates(points, tuple(reversed(compactions)))))


def _compaction_rates(points: Iterable[CachePoint], compactions: Sequence[Compaction]) -> Iterable[CompactionRates]:
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


def _points_by_thread(points: Iterable[CachePoint]) -> dict[tuple[str, int], list[CachePoint]]:
    """By agent and thread, each in the order of the points."""
    groups: dict[tuple[str, int], list[CachePoint]] = {}
    for point in points:
        groups.setdefault((point.agent, point.thread_id), []).append(point)
    return groups


def _rates_around(before: Sequence[Rate], after: Sequence[Rate]) -> RatesAround:
    return RatesAround(total_rate(before), total_rate(after[:1]), total_rate(after[1:]))


def total_rate(rates: Iterable[Rate]) -> Rate:
    """All of them together, weighted by their tokens; what was not measured does not count."""
    measured = [(rate.part, rate.whole) for rate in rates if rate.part is not None and rate.whole]
    if not measured:
        return Rate()
    return Rate(sum(part for part, _ in measured), sum(whole for _, whole in measured))


class RateMark(NamedTuple):
    """A compaction's place in a drawing."""

    x: float
    at: datetime
    shared: RatesAround | None = None


class RateChart(NamedTuple):
    """Two lines over CHART_WIDTH × CHART_HEIGHT units, the height being 100 %; a line without points is empty."""

    shared: str
    cached: str
    marks: tuple[RateMark, ...]
    starts_at: datetime
    ends_at: datetime
    width: int = CHART_WIDTH
    height: int = CHART_HEIGHT


def build_rate_chart(
    rates: Sequence[tuple[datetime, Rate, Rate]],
    marks: Sequence[tuple[datetime, RatesAround | None]],
    *,
    starts_at: datetime,
    ends_at: datetime,
) -> RateChart:
    """Shared and cached rates, and compactions, at their times. A single rate is drawn as a level line."""
    seconds = max((ends_at - starts_at).total_seconds(), 1.0)

    def x(at: datetime) -> float:
        return round(CHART_WIDTH * min(max((at - starts_at).total_seconds() / seconds, 0.0), 1.0), 1)

    def line(heights: Sequence[tuple[datetime, float | None]]) -> str:
        points = [(x(at), round(CHART_HEIGHT - percent, 1)) for at, percent in heights if percent is not None]
        if len(points) == 1:
            points = [(0.0, points[0][1]), (float(CHART_WIDTH), points[0][1])]
        return " ".join(f"{across},{down}" for across, down in points)

    return RateChart(
        line([(at, shared.percent) for at, shared, _ in rates]),
        line([(at, cached.percent) for at, _, cached in rates]),
        tuple(RateMark(x(at), at, around) for at, around in marks),
        starts_at,
        ends_at,
    )


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
    """For a thread's memory page: each agent that answered there, by handle. Two queries."""
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
        title, prompts = points[-1].thread_title, _prompt_chart(points, own)
        caches.append(ThreadCache(agent, thread_id, title, len(points), shared, cached, chart, own, prompts))
    return tuple(caches)


def _prompt_chart(points: Sequence[CachePoint], compactions: Iterable[CompactionRates]) -> PromptChart | None:
    marks = [CompactionMark(0, one.at, one.tokens_before, one.tokens_after) for one in compactions]
    sizes = [
        PromptSize(
            point.run_id,
            point.at,
            point.shared.whole or 0,
            point.budget,
            point.layers,
            point.sections,
            point.shared.percent,
            point.cached.percent,
        )
        for point in points
    ]
    return build_prompt_chart(sizes, marks)


@dataclass(frozen=True)
class AgentCache:
    """How an agent's prompts were cached: a point for each of the last 30 UTC days with runs, and the threads it
    answered in last, as far as the asker sees them."""

    chart: RateChart | None
    shared: Rate
    cached: Rate
    threads: tuple[ThreadCache, ...]


def agent_cache(agent: Agent, access: Access) -> AgentCache:
    """For the agent's page. Three queries."""
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
