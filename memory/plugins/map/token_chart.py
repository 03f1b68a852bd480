"""The token chart of a thread's memory map: tokens over time, with a mark for each compaction. Plain values, no
database."""

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from openvibe.engines.charts.charts import CHART_WIDTH, time_scale

CHART_HEIGHT = 140
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

    @property
    def ticks(self) -> tuple[int, int, int]:
        """Tokens at the top, in the middle and at the bottom."""
        top = round(max(self.max_tokens, 1) * HEADROOM)
        return top, top // 2, 0


class Growth(NamedTuple):
    """Tokens of messages that came at `at`: measured between two compactions by what was said."""

    at: datetime
    tokens: int


def build_token_chart(
    steps: Sequence[CompactionStep],
    growth: Sequence[Growth] = (),
    *,
    starts_at: datetime,
    now: datetime,
    tokens: int,
    threshold: int,
    target: int,
) -> TokenChart:
    """The history from `starts_at` until `now`, when it is `tokens`. `steps` and `growth` oldest first.

    The line rises when messages came, up to what the next compaction measured, and falls at each compaction.
    """
    max_tokens = max([tokens, threshold, *(size for step in steps for size in (step.before, step.after))])
    x = time_scale(starts_at, now)

    def y(size: int) -> float:
        return round(CHART_HEIGHT - CHART_HEIGHT * size / (max(max_tokens, 1) * HEADROOM), 1)

    marks = tuple(ChartMark(x(step.at), y(step.before), y(step.after), step) for step in steps)
    sizes = _sizes_over_time(steps, growth, starts_at=starts_at, now=now, tokens=tokens)
    line = " ".join(f"{x(at)},{y(size)}" for at, size in sizes)
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


def _sizes_over_time(
    steps: Sequence[CompactionStep], growth: Sequence[Growth], *, starts_at: datetime, now: datetime, tokens: int
) -> Iterator[tuple[datetime, int]]:
    """Times that never run back, each with the size then; two sizes at one time are a jump."""
    pending, size, last_at = deque(growth), 0, starts_at
    yield starts_at, 0
    for at, before, after in [*steps, CompactionStep(now, tokens, tokens)]:
        at = max(at, last_at)
        while pending and pending[0].at <= at:
            came = pending.popleft()
            last_at = max(came.at, last_at)
            yield last_at, size
            size = min(size + came.tokens, max(before, size))
            yield last_at, size
        yield from ((at, size), (at, before), (at, after))
        size, last_at = after, at
