"""Who carries a run out: the worker whose database session holds the run's advisory lock."""

from contextlib import AbstractContextManager

from openvibe.base import ownership

RUNS = 7002 << 40
"""Keeps these locks apart from others in PostgreSQL's one space of 64-bit keys."""


def owned(run_id: int) -> AbstractContextManager[bool]:
    """True while this session owns the run; False when another does."""
    return ownership.owned(RUNS + run_id)
