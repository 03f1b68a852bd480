"""Timing several things in turns, so that what else the machine does hits all of them alike."""

import gc
import time
from collections.abc import Callable, Mapping
from statistics import median

Step = Callable[[], object]


def interleaved(steps: Mapping[str, Step], *, repeats: int, warm_up: int) -> dict[str, float]:
    """Median milliseconds of each step; every round runs each of them once, in order."""
    for _ in range(warm_up):
        for step in steps.values():
            step()
    taken: dict[str, list[float]] = {name: [] for name in steps}
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            for name, step in steps.items():
                began = time.perf_counter()
                step()
                taken[name].append((time.perf_counter() - began) * 1000)
    finally:
        gc.enable()
    return {name: median(times) for name, times in taken.items()}
