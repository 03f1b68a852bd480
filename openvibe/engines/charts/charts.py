"""Charts: bars and lines of days with axes and values, and the scales that others are drawn by, as plain values for an
SVG. Pure.

The drawing is CHART_WIDTH × CHART_HEIGHT units, stretched to the page; words and numbers stand beside it as text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from math import ceil, floor, log10
from typing import Literal

CHART_WIDTH, CHART_HEIGHT = 600, 100

Unit = Literal["", "s", "%", "money"]


@dataclass(frozen=True)
class Series:
    """One value a day, None where there is none. `summary` is what its legend says."""

    name: str
    values: Mapping[date, float | None]
    summary: str


@dataclass(frozen=True)
class Bar:
    """One day's piece of a column: place and size in drawing units."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class Drawing:
    """A series drawn: `bars`, or the `points` of a line with a dot at each."""

    name: str
    summary: str
    number: int
    bars: tuple[Bar, ...] = ()
    points: str = ""
    dots: tuple[Bar, ...] = ()


@dataclass(frozen=True)
class DayChart:
    """`ticks` are the labels of the vertical axis from the top; the horizontal one goes from `first` to `last`."""

    title: str
    ticks: tuple[str, ...]
    first: date
    middle: date
    last: date
    drawings: tuple[Drawing, ...]
    width: int = CHART_WIDTH
    height: int = CHART_HEIGHT

    @property
    def description(self) -> str:
        """All of it in a sentence, for who does not see it."""
        series = "; ".join(f"{drawing.name}: {drawing.summary}" for drawing in self.drawings)
        return f"{self.title}, {self.first:%-d %b} to {self.last:%-d %b}. {series}."


def bar_chart(title: str, days: Sequence[date], series: Sequence[Series], unit: Unit = "") -> DayChart:
    """Columns, the series on top of each other."""
    top = round_up(max((sum(one.values.get(day) or 0 for one in series) for day in days), default=0))
    top = max(top, 2) if unit == "" else top  # counts have no halves
    step = CHART_WIDTH / len(days)
    base = dict.fromkeys(days, 0.0)
    drawings = []
    for number, one in enumerate(series):
        bars = []
        for position, day in enumerate(days):
            if value := one.values.get(day):
                height = CHART_HEIGHT * value / top
                y = CHART_HEIGHT - base[day] - height
                label = f"{day:%-d %b}: {format_value(value, unit)} {one.name}"
                x = round((position + 0.1) * step, 1)
                bars.append(Bar(x, round(y, 2), round(step * 0.8, 1), round(height, 2), label))
                base[day] += height
        drawings.append(Drawing(one.name, one.summary, number, bars=tuple(bars)))
    return _chart(title, days, top, unit, drawings)


def line_chart(
    title: str, days: Sequence[date], series: Sequence[Series], unit: Unit = "", top: float | None = None
) -> DayChart:
    """Lines through the days that have a value. `top` fixes the vertical axis, as 100 does for percent."""
    values = [value for one in series for day in days if (value := one.values.get(day)) is not None]
    top = top or round_up(max(values, default=0))
    step = CHART_WIDTH / len(days)
    drawings = []
    for number, one in enumerate(series):
        dots = []
        for position, day in enumerate(days):
            value = one.values.get(day)
            if value is not None:
                y = CHART_HEIGHT - CHART_HEIGHT * min(value / top, 1)
                label = f"{day:%-d %b}: {format_value(value, unit)} {one.name}"
                dots.append(Bar(round((position + 0.5) * step, 1), round(y, 2), 0, 0, label))
        points = " ".join(f"{dot.x},{dot.y}" for dot in dots)
        drawings.append(Drawing(one.name, one.summary, number, points=points, dots=tuple(dots)))
    return _chart(title, days, top, unit, drawings)


def time_scale(starts_at: datetime, ends_at: datetime) -> Callable[[datetime], float]:
    """What gives the place of a time on the horizontal axis: 0 for the first, CHART_WIDTH for the last, and the nearer
    of them for one that lies outside."""
    seconds = max((ends_at - starts_at).total_seconds(), 1.0)
    return lambda at: round(CHART_WIDTH * min(max((at - starts_at).total_seconds() / seconds, 0.0), 1.0), 1)


def _chart(title: str, days: Sequence[date], top: float, unit: Unit, drawings: Sequence[Drawing]) -> DayChart:
    ticks = (format_value(top, unit), format_value(top / 2, unit), format_value(0, unit))
    return DayChart(title, ticks, days[0], days[len(days) // 2], days[-1], tuple(drawings))


def round_up(value: float) -> float:
    """The next 1, 2 or 4 times a power of ten, whose half is a round number too; 2 for nothing."""
    if value <= 0:
        return 2
    power: float = 10 ** floor(log10(value))
    return next(factor * power for factor in (1, 2, 4, 10) if factor * power >= value * 0.999999)


def even_ticks(value: float, max_steps: int = 5) -> tuple[int, ...]:
    """Whole numbers for an axis, from the top down to 0: the smallest steps of 1, 2 or 5 times a power of ten of
    which at most `max_steps` reach the value."""
    least = max(value / max_steps, 1)
    power = 10 ** floor(log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)
    return tuple(step * n for n in range(max(ceil(value / step), 1), -1, -1))


def format_value(value: float, unit: Unit = "") -> str:
    """2 → 2, 12345 → 12,345, 0.25 s → 0.25 s, 40 % → 40 %."""
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2 if value >= 0.1 else 4
    text = f"{value:,.{digits}f}"
    return f"{text} {unit}" if unit in ("s", "%") else text
