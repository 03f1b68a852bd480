"""Something stated that can be another, and whether two of them differ. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something stated that can be another: `said` as it stands in the text, from `start` to `end`.

    `kind`: money, percent, span, clock, date, period, weekday, size, version or count. `low` and `high` are equal
    but for ranges; `parts` of dates are year, month and day, 0 where unsaid. `bound`: "=", ">" (at least), "<".
    """

    kind: str
    said: str
    start: int
    end: int
    low: float = 0.0
    high: float = 0.0
    unit: frozenset[str] = frozenset()
    per: frozenset[str] = frozenset()
    bound: str = "="
    rough: bool = False
    parts: tuple[int, ...] = ()


def differ(one: Quantity, other: Quantity) -> bool | None:
    """Whether the two cannot both be true of one thing; None when nothing follows from them. Symmetric."""
    if one.kind != other.kind or not _comparable(one, other):
        return None
    if one.kind in ("date", "period"):
        return any(a and b and a != b for a, b in zip(one.parts, other.parts, strict=True))
    slack = 0.1 if one.rough or other.rough else 0.04 if one.kind == "span" and one.unit != other.unit else 1e-9
    if one.bound == other.bound:
        return _apart(one.low, other.low, slack) or _apart(one.high, other.high, slack)
    if one.bound == "=":
        one, other = other, one
    apart = other.high < one.low * (1 - slack) if one.bound == ">" else other.low > one.high * (1 + slack)
    return True if apart else None


def _comparable(one: Quantity, other: Quantity) -> bool:
    if one.per and other.per and one.per != other.per:
        return False
    if one.kind in ("money", "count"):
        return not one.unit or not other.unit or bool(one.unit & other.unit)
    return one.kind != "version" or one.unit == other.unit


def _apart(one: float, other: float, slack: float) -> bool:
    return abs(one - other) > slack * max(abs(one), abs(other))
