"""`bench search`: a question in, what bears on it out, texts and all: threads of growing length, and knowledge."""

import gc
import time
from collections.abc import Callable, Sequence
from statistics import median

from knowledge.search import find_entries
from openvibe.chat.search.thread import find_messages
from tests.bench.corpus import embed_all, make_bench_workspace, make_entries, make_thread
from tests.bench.measurement import Aim, Measurement, Report

SIZES = (1_000, 10_000, 100_000)
ENTRIES = 100_000
QUESTIONS = 60
BUDGET = 8_000
MAX_MEDIAN = {10_000: 5.0, 100_000: 12.0}
"""Milliseconds, the median, by messages in the thread."""

MAX_KNOWLEDGE_MEDIAN = 10.0
MAX_SPREAD = 3.0


def measure_search(*, sizes: Sequence[int] = SIZES, entries: int = ENTRIES, repeats: int = 120) -> Report:
    """Milliseconds of a whole search, another question each time: 8,000 tokens of messages, or 20 entries.

    Words and vectors of the built-in embedder both count. All threads stand in one table, and so do the entries of two
    workspaces, half as many in the other one.
    """
    world, other = make_bench_workspace(), make_bench_workspace()
    threads = {size: make_thread(world, size) for size in sizes}
    make_entries(world, entries)
    make_entries(other, entries // 2)
    embed_all()
    questions = [world.language.question() for _ in range(QUESTIONS)]
    times_by_target = {
        f"{size:,} messages": _times(
            lambda question, pk=thread.pk: find_messages(world.by, question, thread_id=pk, budget=BUDGET),  # type: ignore[misc]
            questions,
            repeats,
        )
        for size, thread in threads.items()
    }
    times_by_target[f"{entries:,} entries"] = _times(
        lambda question: find_entries(world.by, question), questions, repeats
    )
    rows = [
        Measurement(f"{what}: {name}", value, "ms")
        for what, times in times_by_target.items()
        for name, value in (("median", median(times)), ("p95", _p95(times)))
    ]
    limits = {f"{size:,} messages": limit for size, limit in MAX_MEDIAN.items() if size in sizes}
    limits[f"{entries:,} entries"] = MAX_KNOWLEDGE_MEDIAN
    aims = [Aim(f"{what}: median in ms", median(times_by_target[what]), limit) for what, limit in limits.items()]
    for what, times in times_by_target.items():
        aims.append(Aim(f"{what}: p95 over the median", _p95(times) / median(times), MAX_SPREAD))
    return Report("search", rows, tuple(aims))


def _times(search: Callable[[str], object], questions: Sequence[str], repeats: int) -> list[float]:
    for question in questions[:20]:
        search(question)
    milliseconds: list[float] = []
    gc.collect()
    gc.disable()
    try:
        for turn in range(repeats):
            started = time.perf_counter()
            search(questions[turn % len(questions)])
            milliseconds.append((time.perf_counter() - started) * 1000)
    finally:
        gc.enable()
    return milliseconds


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)]
