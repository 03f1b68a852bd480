"""Integers and words parsed from query strings, where anything may stand. Pure."""

from collections.abc import Mapping

MAX_ID = 2**63 - 1  # of a row, and of every other whole number that PostgreSQL's bigint holds


def int_param(query: Mapping[str, str], name: str) -> int | None:
    """A whole number from 0 up, or None when it is missing or not one."""
    value = query.get(name, "")
    return min(int(value), MAX_ID) if value.isascii() and value.isdigit() and len(value) < 20 else None


def words_param(query: Mapping[str, str], name: str = "q", size: int = 200) -> str:
    """What somebody looks for, as the database takes it: at most `size` characters."""
    return query.get(name, "").replace("\x00", "")[:size].strip()
