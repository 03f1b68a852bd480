"""Ending a job in the middle, as when its process dies there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection, transaction


class Killed(Exception):
    """The worker dies here."""


def killed_at(statement: int, job: Callable[[], object]) -> bool:
    """Whether the job was killed: before its nth statement."""
    seen = 0

    def dies(execute: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == statement:
            raise Killed
        return execute(*arguments)

    try:
        with transaction.atomic(), connection.execute_wrapper(dies):
            job()
    except Killed:
        return True
    return False
