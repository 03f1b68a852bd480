"""Who carries a compaction out: the worker whose database session holds its advisory lock."""

from contextlib import AbstractContextManager

from openvibe.base.ownership import owned as owned_key

COMPACTIONS = 7004 << 40
"""Keeps these locks apart from others in PostgreSQL's one space of 64-bit keys."""


def owned(compaction_id: int) -> AbstractContextManager[bool]:
    """True while this session owns the compaction; False when another does."""
    return owned_key(COMPACTIONS + compaction_id)
