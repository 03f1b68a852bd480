"""`manage.py bench NAME`: what the main paths cost, as ratios to a floor measured in the same run.

The benches themselves are part of the tests; this is their door.
"""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

BENCHES = (  # those of tests.bench
    "answer",
    "append",
    "assemble",
    "budget",
    "cache",
    "compact",
    "grow",
    "http",
    "languages",
    "live",
    "mcp",
    "page",
    "permissions",
    "prompt",
    "recall",
    "runs",
    "search",
    "webhooks",
)
KINDS = (
    *("meetings", "short facts", "long messages"),
    *("dated questions", "lists", "links", "standing instructions", "echoes"),
)


class Command(BaseCommand):
    help = "Measures in a database of its own, removed afterwards. Says whether the aims hold, and exits 0 either way."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", choices=BENCHES)
        parser.add_argument("--quick", action="store_true", help="fewer repeats, no thread of 100,000 messages")
        parser.add_argument("--kind", choices=KINDS, help="prompt, recall: one kind of conversation instead of all")
        parser.add_argument("--data", type=Path, help="cache, prompt, recall: a QMSum file whose meetings are used")
        parser.add_argument("--case", type=int, help="budget: only this case (of the worlds of --quick, if given)")
        parser.add_argument("--json", action="store_true")

    def handle(self, *_arguments: Any, name: str, **options: Any) -> None:
        try:
            from tests import bench  # installed in checkouts alone
        except ModuleNotFoundError as error:
            if error.name not in ("tests", "tests.bench"):
                raise
            raise CommandError(
                "The benches are part of the tests, which are not installed here. Run this in a checkout of OpenVibe."
            ) from None
        try:
            bench_options = bench.Options(**{part: options[part] for part in bench.Options._fields})
            report = bench.run_bench(name, bench_options)
        except bench.ServerDidNotStart as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            self.stdout.write(json.dumps(report.as_values(), ensure_ascii=False, indent=2))
        else:
            self.stdout.write(report.as_table())
