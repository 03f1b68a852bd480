"""`manage.py bench NAME`: what the main paths cost, as ratios to a floor measured in the same run."""

import json
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.bench import (
    Report,
    measure_append,
    measure_assemble,
    measure_cache,
    measure_compact,
    measure_http,
    measure_recall,
    measure_search,
)
from agents.bench.remembering import TURNS
from agents.bench.scratch import scratch_database
from agents.bench.serving import ServerDidNotStart

QUICK = (100, 1_000, 10_000)

BENCHES: dict[str, Callable[[bool, Path | None], Report]] = {
    "assemble": lambda quick, _: measure_assemble(sizes=QUICK, repeats=30) if quick else measure_assemble(),
    "append": lambda quick, _: measure_append(sizes=QUICK, repeats=60) if quick else measure_append(),
    "cache": lambda quick, data: measure_cache(turns=150 if quick else TURNS, data=data),
    "compact": lambda quick, _: measure_compact(messages=QUICK[-1], sizes=QUICK[1:]) if quick else measure_compact(),
    "search": lambda quick, _: (
        measure_search(sizes=QUICK[1:], entries=10_000, repeats=60) if quick else measure_search()
    ),
    "recall": lambda quick, data: measure_recall(data=data, meetings=2 if quick else None),
    "http": lambda quick, _: measure_http(seconds=0.5, turns=2) if quick else measure_http(),
}


class Command(BaseCommand):
    help = "Measures in a database of its own, removed afterwards. Says whether the aims hold, and exits 0 either way."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", choices=sorted(BENCHES))
        parser.add_argument("--quick", action="store_true", help="fewer repeats, no thread of 100,000 messages")
        parser.add_argument("--data", type=Path, help="cache, recall: a QMSum file whose meetings are used")
        parser.add_argument("--json", action="store_true")

    def handle(self, *_arguments: Any, name: str, quick: bool, data: Path | None, **options: Any) -> None:
        try:
            with scratch_database():
                report = BENCHES[name](quick, data)
        except ServerDidNotStart as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            self.stdout.write(json.dumps(report.as_values(), ensure_ascii=False, indent=2))
        else:
            self.stdout.write(report.as_table())
