"""Where the time goes: shares of one function's time, measured apart from the medians because profiling slows down."""

import cProfile
import pstats
from collections.abc import Callable, Sequence
from typing import Any

from agents.bench.report import Row

Place = tuple[str, str, str]
"""A title, the end of a file's path, and a function in it whose cumulative time counts."""


def shares(step: Callable[[], object], *, repeats: int, whole: str, places: Sequence[Place]) -> list[Row]:
    """Percent of the time of function `whole` spent in each place; they overlap where one calls the other."""
    profile = cProfile.Profile()
    for _ in range(repeats):
        profile.runcall(step)
    spent: dict[tuple[str, int, str], tuple[Any, ...]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(found[3] for (_, _, name), found in spent.items() if name == whole) or 1.0
    rows = []
    for title, file, function in places:
        taken = sum(f[3] for (path, _, name), f in spent.items() if path.endswith(file) and name == function)
        rows.append(Row(f"of it, {title}", 100 * taken / total, "%"))
    return rows
