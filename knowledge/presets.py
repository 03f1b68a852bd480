"""Until when an entry holds: what people pick or type, as one instant in UTC. Pure: no Django."""

from __future__ import annotations

from calendar import isleap
from datetime import UTC, date, datetime, time, timedelta

from openvibe.base.problems import Problem

PRESETS: dict[str, str] = {"30d": "30 days", "90d": "90 days", "1y": "1 year", "never": "Never"}
"""What is offered, in this order; anything else is a date."""

LONGEST_YEARS = 100


def expiry_of(text: str, *, now: datetime) -> datetime | None:
    """The instant meant by a preset, a date or a date with a time; None for `never` and for an empty text.

    A date alone is the end of that day: 00:00 UTC of the next. A date with a time but without an offset is read as
    UTC; with an offset it is converted. `1y` is the same day and time next year; presets count from the whole minute.
    Raises Problem (field expires_at).
    """
    asked = text.strip()
    if asked in ("", "never"):
        return None
    minute = now.replace(second=0, microsecond=0)
    if asked in ("30d", "90d"):
        return checked_expiry(minute + timedelta(days=int(asked[:-1])), now=now)
    if asked == "1y":
        return checked_expiry(a_year_after(minute), now=now)
    return checked_expiry(_typed(asked), now=now)


def checked_expiry(at: datetime | None, *, now: datetime) -> datetime | None:
    """The instant in UTC; one without a zone is UTC already. Raises Problem for what is past or absurdly far."""
    if at is None:
        return None
    try:
        instant = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        raise _too_far() from None
    if instant <= now:
        raise Problem(
            f"{shown(instant)} is past. Choose a later moment, or never.", code="expiry_past", field="expires_at"
        )
    if instant.year > now.year + LONGEST_YEARS:
        raise _too_far()
    return instant


def a_year_after(at: datetime) -> datetime:
    """The same day and time a year on; 28 February after a 29th."""
    day = 28 if (at.month, at.day) == (2, 29) and not isleap(at.year + 1) else at.day
    return at.replace(year=at.year + 1, day=day)


def shown(at: datetime) -> str:
    """`2026-03-01 09:30 UTC`; seconds only where there are some. Read back by `expiry_of` it is the same instant."""
    instant = at.astimezone(UTC)
    if instant.microsecond:
        return f"{instant:%Y-%m-%d %H:%M:%S.%f} UTC"
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC" if instant.second else f"{instant:%Y-%m-%d %H:%M} UTC"


def _typed(text: str) -> datetime:
    plain = text[:60].removesuffix("UTC").rstrip() if len(text) <= 60 else ""
    try:
        day = _day(plain)
        return datetime.fromisoformat(plain) if day is None else datetime.combine(day, time(), UTC) + timedelta(days=1)
    except OverflowError:
        raise _too_far() from None
    except ValueError:
        raise Problem(
            "This is no date that exists. Write it like 2026-03-01 or 2026-03-01 09:30 (UTC), or choose never.",
            code="bad_expiry",
            field="expires_at",
        ) from None


def _day(text: str) -> date | None:
    """A date alone, however ISO writes it (2027-03-28, 20270328, 2027-W12-7); None for anything else."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _too_far() -> Problem:
    return Problem(
        f"That is more than {LONGEST_YEARS} years away. Choose an earlier date, or never.",
        code="bad_expiry",
        field="expires_at",
    )
