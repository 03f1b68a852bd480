"""The token chart of a thread's memory map: tokens over time, with a mark for each compaction. Plain values, no
database."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

CHART_WIDTH, CHART_HEIGHT = 600, 140
HEADROOM = 1.08
"""The drawing reaches a little above the highest value."""


class CompactionStep(NamedTuple):
    """A compaction that made the context smaller: sizes in tokens, before and after."""

    at: datetime
    before: int
    after: int


class ChartMark(NamedTuple):
    """A compaction's place in the drawing."""

    x: float
    before_y: float
    after_y: float
    step: CompactionStep


class TokenChart(NamedTuple):
    """A line over CHART_WIDTH × CHART_HEIGHT units, from `starts_at` to `ends_at`. `line` and `area`: lists of points.

    `threshold_y` and `target_y`: where compaction begins, and what it brings the context down to.
    """

    line: str
    area: str
    marks: tuple[ChartMark, ...]
    threshold_y: float
    target_y: float
    starts_at: datetime
    ends_at: datetime
    max_tokens: int
    width: int = CHART_WIDTH
    height: int = CHART_HEIGHT


def build_token_chart(
    steps: Sequence[CompactionStep], *, starts_at: datetime, now: datetime, tokens: int, threshold: int, target: int
) -> TokenChart:
    """The history from `starts_at` until `now`, when it is `tokens`. `steps` oldest first.

    Only what was measured is drawn: between two compactions the line is straight.
    """
    max_tokens = max([tokens, threshold, *(size for step in steps for size in (step.before, step.after))])
    seconds = max((now - starts_at).total_seconds(), 1.0)

    def x(at: datetime) -> float:
        return round(CHART_WIDTH * min(max((at - starts_at).total_seconds() / seconds, 0.0), 1.0), 1)

    def y(size: int) -> float:
        return round(CHART_HEIGHT - CHART_HEIGHT * size / (max(max_tokens, 1) * HEADROOM), 1)

    marks = tuple(ChartMark(x(step.at), y(step.before), y(step.after), step) for step in steps)
    steps_down = [(mark.x, height) for mark in marks for height in (mark.before_y, mark.after_y)]
    points = [(0.0, float(CHART_HEIGHT)), *steps_down, (float(CHART_WIDTH), y(tokens))]
    line = " ".join(f"{across},{down}" for across, down in points)
    return TokenChart(
        line,
        f"0,{CHART_HEIGHT} {line} {CHART_WIDTH},{CHART_HEIGHT}",
        marks,
        y(threshold),
        y(target),
        starts_at,
        now,
        max_tokens,
    )
