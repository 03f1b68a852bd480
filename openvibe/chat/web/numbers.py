"""Numbers and dates from an address, where anything may stand."""

from datetime import date

from django.http import QueryDict

LARGEST_ID = 2**63 - 1


def number(query: QueryDict, name: str) -> int | None:
    """A whole number from 0 up, or None when it is missing or not one."""
    given = query.get(name, "")
    return min(int(given), LARGEST_ID) if given.isascii() and given.isdigit() and len(given) < 20 else None


def day(query: QueryDict, name: str) -> date | None:
    try:
        return date.fromisoformat(query.get(name, ""))
    except ValueError:
        return None
