"""`bench search`: a question in, what bears on it out, texts and all: threads of growing length, and knowledge."""

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import cycle
from statistics import median

from knowledge.search import find_entries
from openvibe.chat.models import Thread
from openvibe.chat.search.thread import find_messages
from tests.bench.bare_sql import bare_sql_step, range_read_step
from tests.bench.corpus import BenchWorkspace, embed_all, make_bench_workspace, make_entries, make_thread
from tests.bench.measurement import Aim, Measurement, Report, Step, interleaved_times
from tests.bench.scratch_database import connect_bare

SIZES = (1_000, 10_000, 100_000)
ENTRIES = 100_000
QUESTIONS = 60
BUDGET = 8_000
MAX_FLOOR_RATIOS = {10_000: 6.0, 100_000: 15.0}
"""Times the floor, by messages in the thread."""

MAX_KNOWLEDGE_RATIO = 12.0
MAX_SPREAD = 3.0
BYTES_A_TOKEN = 4


def measure_search(*, sizes: Sequence[int] = SIZES, entries: int = ENTRIES, repeats: int = 120) -> Report:
    """Milliseconds of a whole search, another question each time: 8,000 tokens of messages, or 20 entries.

    Words and vectors of the built-in embedder both count. All threads stand in one table, and so do the entries of two
    workspaces, half as many in the other one. The floor reads as many bytes of message bodies as 8,000 tokens have;
    beside it stand the statements of the same searches in bare SQL.
    """
    world, other = make_bench_workspace(), make_bench_workspace()
    threads = {size: make_thread(world, size) for size in sizes}
    make_entries(world, entries)
    make_entries(other, entries // 2)
    embed_all()
    questions = [world.language.question() for _ in range(QUESTIONS)]
    searches: dict[str, Callable[[str], object]] = {
        f"{size:,} messages": partial(_find_messages, world, thread) for size, thread in threads.items()
    }
    searches[f"{entries:,} entries"] = lambda question: find_entries(world.by, question)
    with closing(connect_bare()) as connection:
        steps: dict[str, Step] = {"floor": range_read_step(connection, threads[sizes[-1]], BUDGET * BYTES_A_TOKEN)}
        for what, search in searches.items():
            steps[f"{what}: statements in bare SQL"] = bare_sql_step(
                connection, [partial(search, each) for each in questions]
            )
            steps[what] = _search_step(search, questions)
        times = interleaved_times(steps, repeats=repeats, warm_up=20)
    floor = median(times["floor"])
    rows = [Measurement("floor: 8,000 tokens in one range read", floor, "ms")]
    medians = {name: median(each) for name, each in times.items()}
    rows += [
        Measurement(f"{name}: median", medians[name], "ms", medians[name] / floor) for name in steps if name != "floor"
    ]
    rows += [Measurement(f"{what}: p95", _p95(times[what]), "ms") for what in searches]
    limits = {f"{size:,} messages": limit for size, limit in MAX_FLOOR_RATIOS.items() if size in sizes}
    limits[f"{entries:,} entries"] = MAX_KNOWLEDGE_RATIO
    aims = [Aim(f"{what}: median over the floor", median(times[what]) / floor, limit) for what, limit in limits.items()]
    aims += [
        Aim(f"{what}: p95 over the median", _p95(times[what]) / median(times[what]), MAX_SPREAD) for what in searches
    ]
    return Report("search", rows, tuple(aims))


def _find_messages(world: BenchWorkspace, thread: Thread, question: str) -> object:
    return find_messages(world.by, question, thread_id=thread.pk, budget=BUDGET)


def _search_step(search: Callable[[str], object], questions: Sequence[str]) -> Step:
    turn = cycle(questions)
    return lambda: search(next(turn))


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)]
