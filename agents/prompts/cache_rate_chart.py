"""Cache rates drawn over time, with the compactions between them. Pure: plain values for an SVG."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from agents.day_charts import CHART_HEIGHT, CHART_WIDTH
from agents.prompts.points import Rate, RatesAround


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
