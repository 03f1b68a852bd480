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
MAX_SQL_RATIO = 1.6
"""Times its own statements in bare SQL."""

MAX_SPREAD = 3.0
BYTES_A_TOKEN = 4
RANGE_READ = "8,000 tokens in one range read"


def measure_search(*, sizes: Sequence[int] = SIZES, entries: int = ENTRIES, repeats: int = 120) -> Report:
    """Milliseconds of a whole search, another question each time: 8,000 tokens of messages, or 20 entries.

    Words and vectors of the built-in embedder both count. All threads stand in one table, and so do the entries of two
    workspaces, half as many in the other one. The floor of each is what the same searches send to the database, in bare
    SQL; beside it stands one range read of as many bytes of message bodies as 8,000 tokens have.
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
        steps: dict[str, Step] = {RANGE_READ: range_read_step(connection, threads[sizes[-1]], BUDGET * BYTES_A_TOKEN)}
        for what, search in searches.items():
            steps[_floor(what)] = bare_sql_step(connection, [partial(search, each) for each in questions])
            steps[what] = _search_step(search, questions)
        times = interleaved_times(steps, repeats=repeats, warm_up=20)
    medians = {name: median(each) for name, each in times.items()}
    ratios = {what: medians[what] / medians[_floor(what)] for what in searches}
    rows = [
        Measurement(f"{what}: median" if what in searches else what, milliseconds, "ms", ratios.get(what))
        for what, milliseconds in medians.items()
    ]
    rows += [Measurement(f"{what}: p95", _p95(times[what]), "ms") for what in searches]
    aims = [
        Aim(f"{what}: median over that of its statements in bare SQL", ratio, MAX_SQL_RATIO)
        for what, ratio in ratios.items()
    ]
    aims += [Aim(f"{what}: p95 over the median", _p95(times[what]) / medians[what], MAX_SPREAD) for what in searches]
    return Report("search", rows, tuple(aims))


def _floor(what: str) -> str:
    return f"{what}: floor, its statements in bare SQL"


def _find_messages(world: BenchWorkspace, thread: Thread, question: str) -> object:
    return find_messages(world.by, question, thread_id=thread.pk, budget=BUDGET)


def _search_step(search: Callable[[str], object], questions: Sequence[str]) -> Step:
    turn = cycle(questions)
    return lambda: search(next(turn))


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)]
