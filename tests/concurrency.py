"""Calls made at the same moment, each in a thread and a database session of its own."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from django.db import connection

from openvibe.base.problems import Problem


def at_once(*calls: Callable[[], object]) -> list[str]:
    """What came of each, sorted: `done`, or the code of the problem."""
    ready = Barrier(len(calls))

    def outcome(call: Callable[[], object]) -> str:
        try:
            ready.wait(60)
            call()
        except Problem as problem:
            return problem.code
        finally:
            connection.close()
        return "done"

    with ThreadPoolExecutor(len(calls)) as callers:
        return sorted(callers.map(outcome, calls))
