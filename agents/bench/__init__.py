"""What the main paths cost, each as a ratio to a floor measured in the same run. `manage.py bench` prints it."""

from agents.bench.appending import measure_append
from agents.bench.assembling import measure_assemble
from agents.bench.recall import measure_recall
from agents.bench.remembering import measure_cache, measure_compact
from agents.bench.report import Aim, Report, Row
from agents.bench.searching import measure_search
from agents.bench.serving import measure_http

__all__ = [
    "Aim",
    "Report",
    "Row",
    "measure_append",
    "measure_assemble",
    "measure_cache",
    "measure_compact",
    "measure_http",
    "measure_recall",
    "measure_search",
]
