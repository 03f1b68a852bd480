"""What prompts are made of, as segments of one bar; the prompts of an agent in a thread as one chart of such bars; and
their cache rates as lines, with the compactions between them. Pure: what is known of each prompt, and plain values for
an SVG."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from openvibe.engines.charts.charts import CHART_HEIGHT, CHART_WIDTH, even_ticks, time_scale
from openvibe.engines.text.cleaning import pluralize


@dataclass(frozen=True)
class Rate:
    """`part` of `whole` tokens, both None where nobody measured it."""

    part: int | None = None
    whole: int | None = None

    @property
    def percent(self) -> float | None:
        return round(100 * min(self.part / self.whole, 1), 1) if self.part is not None and self.whole else None


@dataclass(frozen=True)
class PromptPoint:
    """The first prompt of a run. `shared`: the prefix in common with the run before, of its tokens; `cached`: of all
    the run sent. `budget`: its ceiling, in tokens; `layers` and `sections`: its tokens by each, as its snapshot has
    them."""

    run_id: int
    agent: str
    thread_id: int
    thread_title: str
    at: datetime
    shared: Rate
    cached: Rate
    tokens: int
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


def total_rate(rates: Iterable[Rate]) -> Rate:
    """All of them together, weighted by their tokens; what was not measured does not count."""
    counts = [(rate.part, rate.whole) for rate in rates if rate.part is not None and rate.whole]
    if not counts:
        return Rate()
    return Rate(sum(part for part, _ in counts), sum(whole for _, whole in counts))


BARS_HEIGHT, STRIP_HEIGHT, GAP = 140, 20, 6
"""Units: the bars, and under them a strip that says how much of each prompt began as the one before."""

MAX_BARS = 60
"""Prompts drawn, the newest."""
MAX_STEP, BAR_SHARE = 75.0, 0.8

SEGMENT_TITLES: Mapping[str, str] = {
    "P0": "P0 SOUL and policy",
    "P1": "P1 Current task",
    "P2": "P2 Feedback",
    "P3": "P3 Knowledge",
    "P4": "P4 Channel",
    "P5": "P5 Dives",
    "P6": "P6 Recall",
    "tools": "Tools",
    "frame": "Wrappers",
    "free": "Free",
}


def segment_tokens(layers: Mapping[str, int], *, tools: int, free: int) -> dict[str, int]:
    """Tokens by key of SEGMENT_TITLES, in its order. Of `layers`, P0 holds the tools, too."""
    sums = Counter({key: int(value) for key, value in layers.items()})
    sums["P0"] -= tools
    sums["tools"], sums["free"] = tools, free
    return {key: sums[key] for key in SEGMENT_TITLES}


class Box(NamedTuple):
    """A piece of a bar: what it is, its tokens, its top edge and its height in drawing units."""

    key: str
    tokens: int
    y: float
    height: float

    @property
    def title(self) -> str:
        return f"{SEGMENT_TITLES[self.key]}: {self.tokens:,} tokens"


@dataclass(frozen=True)
class PromptBar:
    """A prompt in the chart, with its tokens by key of SEGMENT_TITLES. `budget_y` is the height of its ceiling,
    `shared_height` that of its part of the strip."""

    prompt: PromptPoint
    segments: Mapping[str, int]
    x: float
    width: float
    boxes: tuple[Box, ...]
    budget_y: float
    shared_y: float
    shared_height: float

    @property
    def end(self) -> float:
        return round(self.x + self.width, 2)

    @property
    def words(self) -> str:
        prompt, shared, cached = self.prompt, self.prompt.shared.percent, self.prompt.cached.percent
        beginning = "" if shared is None else f", {shared:.0f} % the same beginning as the one before"
        from_cache = "" if cached is None else f", {cached:.0f} % read from the provider's cache"
        return f"{prompt.tokens:,} of {prompt.budget:,} tokens{beginning}{from_cache}"

    @property
    def columns(self) -> list[int]:
        """The columns of the table: tokens by segment, without what is free."""
        return [tokens for key, tokens in self.segments.items() if key != "free"]


class Tick(NamedTuple):
    """Tokens on the axis, and their height in the drawing."""

    tokens: int
    y: float


class CompactionMark(NamedTuple):
    """The place at which a compaction stands between the prompts."""

    x: float
    at: datetime


@dataclass(frozen=True)
class PromptChart:
    """`ticks`: of the axis, the highest first, the last at 0. `keys` are the segments there are, with their titles.
    `has_older`: there were prompts before them, which are not drawn."""

    bars: tuple[PromptBar, ...]
    marks: tuple[CompactionMark, ...]
    ticks: tuple[Tick, ...]
    keys: tuple[tuple[str, str], ...]
    has_older: bool
    width: int = CHART_WIDTH
    strip_y: int = BARS_HEIGHT + GAP
    strip_height: int = STRIP_HEIGHT
    height: int = BARS_HEIGHT + GAP + STRIP_HEIGHT

    @property
    def is_filled(self) -> bool:
        """Whether the bars reach the right edge, where the time of the last one may stand."""
        return self.bars[-1].end > 0.9 * self.width

    @property
    def columns(self) -> list[str]:
        return [title for key, title in SEGMENT_TITLES.items() if key != "free"]

    @property
    def summary(self) -> str:
        """All of it in a sentence."""
        sizes = [bar.prompt.tokens for bar in self.bars]
        least, most = min(sizes), max(sizes)
        tokens = f"{least:,} to {most:,} tokens" if least < most else f"{most:,} tokens"
        fullest = max(bar.prompt.tokens / max(bar.prompt.budget, 1) for bar in self.bars)
        share = f"{'at most ' if len(sizes) > 1 else ''}{100 * fullest:.0f} % of the budget"
        count = pluralize(len(sizes), "prompt")
        return f"{'The newest ' if self.has_older else ''}{count} of {tokens}, {share}"


def build_prompt_chart(prompts: Sequence[PromptPoint], compactions: Iterable[datetime]) -> PromptChart | None:
    """The newest MAX_BARS of these prompts, given the oldest first; None without any. Compactions before the first one
    drawn are left out."""
    has_older, prompts = len(prompts) > MAX_BARS, prompts[-MAX_BARS:]
    if not prompts:
        return None
    ticks = even_ticks(max(max(prompt.budget, prompt.tokens) for prompt in prompts))
    scale = BARS_HEIGHT / ticks[0]
    step = min(CHART_WIDTH / len(prompts), MAX_STEP)
    bars = tuple(_bar(prompt, at * step, step * BAR_SHARE, scale) for at, prompt in enumerate(prompts))
    gap = step * (1 - BAR_SHARE) / 2
    marks = tuple(
        CompactionMark(round(sum(prompt.at <= at for prompt in prompts) * step - gap, 1), at)
        for at in compactions
        if at >= prompts[0].at
    )
    present = {box.key for bar in bars for box in bar.boxes}
    keys = tuple((key, title) for key, title in SEGMENT_TITLES.items() if key in present)
    axis = tuple(Tick(tokens, round(BARS_HEIGHT - tokens * scale, 2)) for tokens in ticks)
    return PromptChart(bars, marks, axis, keys, has_older)


def _bar(prompt: PromptPoint, x: float, width: float, scale: float) -> PromptBar:
    free = max(prompt.budget - prompt.tokens, 0)
    segments = segment_tokens(prompt.layers, tools=prompt.sections.get("tools", 0), free=free)
    boxes, y = [], float(BARS_HEIGHT)
    for key, tokens in segments.items():
        if tokens > 0:
            y -= tokens * scale
            boxes.append(Box(key, tokens, round(y, 2), round(tokens * scale, 2)))
    shared = STRIP_HEIGHT * (prompt.shared.percent or 0) / 100
    return PromptBar(
        prompt,
        segments,
        round(x, 2),
        round(width, 2),
        tuple(boxes),
        round(BARS_HEIGHT - prompt.budget * scale, 2),
        round(BARS_HEIGHT + GAP + STRIP_HEIGHT - shared, 2),
        round(shared, 2),
    )


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
    x = time_scale(starts_at, ends_at)

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
