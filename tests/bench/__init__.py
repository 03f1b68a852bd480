"""What the main paths cost, each as a ratio to a floor measured in the same run. `manage.py bench` prints it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench.append import measure_append
from tests.bench.assemble import measure_assemble
from tests.bench.budget import CASES, QUICK_CASES, QUICK_WORLDS, WORLDS, measure_budget
from tests.bench.grow import QUICK_SIZES as GROW_QUICK_SIZES
from tests.bench.grow import measure_grow
from tests.bench.http_load import ServerDidNotStart, measure_http
from tests.bench.languages import measure_languages
from tests.bench.live import measure_answer, measure_live
from tests.bench.mcp_calls import measure_mcp
from tests.bench.measurement import Aim, Measurement, Report
from tests.bench.memory import TURNS, measure_cache, measure_compact
from tests.bench.page import measure_page
from tests.bench.permissions import measure_permissions
from tests.bench.prompt import measure_prompt
from tests.bench.recall import measure_recall
from tests.bench.runs import QUICK_MENTIONS, measure_runs
from tests.bench.samples import KINDS
from tests.bench.scratch_database import scratch_database
from tests.bench.search import measure_search
from tests.bench.webhooks import QUICK_MESSAGES, measure_webhooks

__all__ = ["BENCHES", "Aim", "Measurement", "Options", "Report", "ServerDidNotStart", "run_bench"]

QUICK_SIZES = (100, 1_000, 10_000)


class Options(NamedTuple):
    """What the command was told. `data` is a QMSum file, `kind` one of KINDS, all of them when None, `case` one case
    of `budget`."""

    quick: bool = False
    data: Path | None = None
    kind: str | None = None
    case: int | None = None

    @property
    def kinds(self) -> Sequence[str]:
        return (self.kind,) if self.kind else KINDS


BENCHES: dict[str, Callable[[Options], Report]] = {
    "assemble": lambda options: (
        measure_assemble(sizes=QUICK_SIZES, repeats=30) if options.quick else measure_assemble()
    ),
    "answer": lambda options: measure_answer(turns=1 if options.quick else 3),
    "append": lambda options: measure_append(sizes=QUICK_SIZES, repeats=60) if options.quick else measure_append(),
    "budget": lambda options: measure_budget(
        cases=range(QUICK_CASES if options.quick else CASES) if options.case is None else (options.case,),
        worlds=QUICK_WORLDS if options.quick else WORLDS,
    ),
    "cache": lambda options: measure_cache(turns=150 if options.quick else TURNS, data=options.data),
    "compact": lambda options: (
        measure_compact(messages=QUICK_SIZES[-1], sizes=QUICK_SIZES[1:]) if options.quick else measure_compact()
    ),
    "grow": lambda options: measure_grow(sizes=GROW_QUICK_SIZES) if options.quick else measure_grow(),
    "languages": lambda options: measure_languages(subjects=6 if options.quick else None),
    "live": lambda options: (
        measure_live(viewers=100, pages=2, idle=300, seconds=15.0) if options.quick else measure_live()
    ),
    "mcp": lambda options: measure_mcp(repeats=30) if options.quick else measure_mcp(),
    "page": lambda options: measure_page(repeats=2, keys=50) if options.quick else measure_page(),
    "permissions": lambda options: measure_permissions(calls=5) if options.quick else measure_permissions(),
    "search": lambda options: (
        measure_search(sizes=QUICK_SIZES[1:], entries=10_000, repeats=60) if options.quick else measure_search()
    ),
    "prompt": lambda options: measure_prompt(data=options.data, kinds=options.kinds, quick=options.quick),
    "recall": lambda options: measure_recall(data=options.data, kinds=options.kinds, quick=options.quick),
    "runs": lambda options: measure_runs(mentions=QUICK_MENTIONS) if options.quick else measure_runs(),
    "webhooks": lambda options: (
        measure_webhooks(messages=QUICK_MESSAGES, one_by_one=8) if options.quick else measure_webhooks()
    ),
    "http": lambda options: measure_http(seconds=0.5, turns=2, processes=(1,)) if options.quick else measure_http(),
}


def run_bench(name: str, options: Options) -> Report:
    """Measures in a database of its own, removed afterwards. Raises ServerDidNotStart."""
    with scratch_database():
        return BENCHES[name](options)
