"""Timing and profiling of steps, and the report of a bench as a table and as JSON.

Steps are timed in turns, so that what else the machine does hits all of them alike. Shares of one function's time
are measured apart from the medians, because profiling slows down."""

import cProfile
import gc
import pstats
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """One measure. `value` is in `unit`; `ratio` is to the floor of the same run, None where there is none."""

    what: str
    value: float
    unit: str
    ratio: float | None = None


@dataclass(frozen=True)
class Aim:
    """A promise: `value` should be at most `limit`."""

    aim: str
    value: float
    limit: float

    @property
    def holds(self) -> bool:
        return self.value <= self.limit


@dataclass(frozen=True)
class Report:
    bench: str
    rows: Sequence[Measurement]
    aims: Sequence[Aim] = ()

    def as_values(self) -> dict[str, Any]:
        """`{"bench", "rows": [...], "aims": [{"aim", "value", "limit", "holds"}]}`."""
        return {
            "bench": self.bench,
            "rows": [asdict(row) for row in self.rows],
            "aims": [{**asdict(aim), "holds": aim.holds} for aim in self.aims],
        }

    def as_table(self) -> str:
        width = max(len(row.what) for row in self.rows)
        lines = [f"bench {self.bench}"]
        for row in self.rows:
            ratio = "" if row.ratio is None else f"{row.ratio:>8.2f} × floor"
            lines.append(f"  {row.what:<{width}}  {row.value:>10,.2f} {row.unit:<5}{ratio}".rstrip())
        for aim in self.aims:
            state = "holds " if aim.holds else "MISSED"
            lines.append(f"  {state} {aim.aim}: {aim.value:.2f}, aim ≤ {aim.limit:g}")
        return "\n".join(lines)


Step = Callable[[], object]


def interleaved_medians(steps: Mapping[str, Step], *, repeats: int, warm_up: int) -> dict[str, float]:
    """Median milliseconds of each step; every round runs each of them once, in order."""
    return {name: median(times) for name, times in interleaved_times(steps, repeats=repeats, warm_up=warm_up).items()}


def interleaved_times(steps: Mapping[str, Step], *, repeats: int, warm_up: int) -> dict[str, list[float]]:
    """Milliseconds of each run of each step; every round runs each of them once, in order."""
    for _ in range(warm_up):
        for step in steps.values():
            step()
    milliseconds: dict[str, list[float]] = {name: [] for name in steps}
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            for name, step in steps.items():
                start_time = time.perf_counter()
                step()
                milliseconds[name].append((time.perf_counter() - start_time) * 1000)
    finally:
        gc.enable()
    return milliseconds


ProfiledFunction = tuple[str, str, str]
"""A title, the end of a file's path, and a function in it whose cumulative time counts."""


def profile_shares(
    step: Callable[[], object], *, repeats: int, total_of: str, functions: Sequence[ProfiledFunction]
) -> list[Measurement]:
    """Percent of the time of function `total_of` spent in each place; they overlap where one calls the other.

    Raises LookupError for a function that was never called: it has another name by now.
    """
    profile = cProfile.Profile()
    for _ in range(repeats):
        profile.runcall(step)
    spent: dict[tuple[str, int, str], tuple[Any, ...]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(entry[3] for (_, _, name), entry in spent.items() if name == total_of) or 1.0
    rows = []
    for title, file, function in functions:
        seconds = [f[3] for (path, _, name), f in spent.items() if path.endswith(file) and name == function]
        if not seconds:
            raise LookupError(
                f"{file} has no {function} that {total_of} calls: the bench names functions of yesterday."
            )
        rows.append(Measurement(f"of it, {title}", 100 * sum(seconds) / total, "%"))
    return rows
