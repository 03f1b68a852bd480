"""Verbs of compaction: ask for one, carry it out, find those a dead worker left behind."""

from memory.services.compaction.carrying import Again, carry_out_compaction
from memory.services.compaction.requesting import (
    request_compaction,
    request_if_due,
    request_rebuilding,
    waiting_compaction,
    why_not,
)
from memory.services.compaction.sweeping import sweep

__all__ = [
    "Again",
    "carry_out_compaction",
    "request_compaction",
    "request_if_due",
    "request_rebuilding",
    "sweep",
    "waiting_compaction",
    "why_not",
]
