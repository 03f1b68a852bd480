"""What the main paths cost, each as a ratio to a floor measured in the same run. `manage.py bench` prints it."""

from collections.abc import Callable
from pathlib import Path

from tests.bench.append import measure_append
from tests.bench.assemble import measure_assemble
from tests.bench.http_load import ServerDidNotStart, measure_http
from tests.bench.measurement import Aim, Measurement, Report
from tests.bench.memory import TURNS, measure_cache, measure_compact
from tests.bench.recall import measure_recall
from tests.bench.scratch_database import scratch_database
from tests.bench.search import measure_search

__all__ = ["BENCHES", "Aim", "Measurement", "Report", "ServerDidNotStart", "run_bench"]

QUICK_SIZES = (100, 1_000, 10_000)

BENCHES: dict[str, Callable[[bool, Path | None], Report]] = {
    "assemble": lambda quick, _: measure_assemble(sizes=QUICK_SIZES, repeats=30) if quick else measure_assemble(),
    "append": lambda quick, _: measure_append(sizes=QUICK_SIZES, repeats=60) if quick else measure_append(),
    "cache": lambda quick, data: measure_cache(turns=150 if quick else TURNS, data=data),
    "compact": lambda quick, _: (
        measure_compact(messages=QUICK_SIZES[-1], sizes=QUICK_SIZES[1:]) if quick else measure_compact()
    ),
    "search": lambda quick, _: (
        measure_search(sizes=QUICK_SIZES[1:], entries=10_000, repeats=60) if quick else measure_search()
    ),
    "recall": lambda quick, data: measure_recall(data=data, meetings=2 if quick else None),
    "http": lambda quick, _: measure_http(seconds=0.5, turns=2) if quick else measure_http(),
}


def run_bench(name: str, *, quick: bool, data: Path | None) -> Report:
    """Measure in a database of its own, removed afterwards. Raises ServerDidNotStart."""
    with scratch_database():
        return BENCHES[name](quick, data)
