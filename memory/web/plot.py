"""How many tokens a thread's memory needed over time, as a drawing. Plain values, no database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

WIDTH, HEIGHT = 600, 140
HEADROOM = 1.08
"""The drawing reaches a little above the highest value."""


@dataclass(frozen=True)
class Step:
    """A compaction that made the context smaller: sizes in tokens, before and after."""

    at: datetime
    before: int
    after: int


@dataclass(frozen=True)
class Mark:
    """A compaction's place in the drawing."""

    x: float
    before_y: float
    after_y: float
    step: Step


@dataclass(frozen=True)
class Plot:
    """A line over WIDTH × HEIGHT drawing units, from `begins` to `ends`. `line` and `area` are lists of points.

    `threshold_y` and `target_y`: where compaction begins, and what it brings the context down to.
    """

    line: str
    area: str
    marks: tuple[Mark, ...]
    threshold_y: float
    target_y: float
    begins: datetime
    ends: datetime
    most: int
    width: int = WIDTH
    height: int = HEIGHT


def token_plot(
    steps: Sequence[Step], *, begins: datetime, now: datetime, tokens: int, threshold: int, target: int
) -> Plot:
    """The history from `begins` until `now`, when it is `tokens`. `steps` oldest first.

    Only what was measured is drawn: between two compactions the line is straight.
    """
    most = max([tokens, threshold, *(size for step in steps for size in (step.before, step.after))])
    seconds = max((now - begins).total_seconds(), 1.0)

    def x(at: datetime) -> float:
        return round(WIDTH * min(max((at - begins).total_seconds() / seconds, 0.0), 1.0), 1)

    def y(size: int) -> float:
        return round(HEIGHT - HEIGHT * size / (max(most, 1) * HEADROOM), 1)

    marks = tuple(Mark(x(step.at), y(step.before), y(step.after), step) for step in steps)
    points = [(0.0, float(HEIGHT))]
    for mark in marks:
        points += [(mark.x, mark.before_y), (mark.x, mark.after_y)]
    points.append((float(WIDTH), y(tokens)))
    line = " ".join(f"{across},{down}" for across, down in points)
    return Plot(line, f"0,{HEIGHT} {line} {WIDTH},{HEIGHT}", marks, y(threshold), y(target), begins, now, most)
