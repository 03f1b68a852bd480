"""The expiry of an entry: until when an entry holds, and how fresh that makes it: parsed, normalised, put into words.
Pure: no Django."""

from __future__ import annotations

import re
from calendar import isleap
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, Protocol, get_args

from openvibe.base.problems import Problem

EXPIRY_PRESETS: dict[str, str] = {"30d": "30 days", "90d": "90 days", "1y": "1 year", "never": "Never"}
"""What is offered, in this order; anything else is a date."""

MAX_YEARS = 100


def parse_expiry(text: str, *, now: datetime) -> datetime | None:
    """The instant meant by a preset, a date or a date with a time; None for `never` and for an empty text.

    A date alone is the end of that day: 00:00 UTC of the next. A date with a time but without an offset is read as
    UTC; with an offset it is converted. `1y` is the same day and time next year; presets count from the whole minute.
    Raises Problem (field expires_at).
    """
    value = text.strip()
    if value in ("", "never"):
        return None
    minute = now.replace(second=0, microsecond=0)
    if value in ("30d", "90d"):
        at = minute + timedelta(days=int(value[:-1]))
    else:
        at = _add_one_year(minute) if value == "1y" else _parse_instant(value)
    return normalize_expiry(at, now=now)


def normalize_expiry(at: datetime | None, *, now: datetime) -> datetime | None:
    """The instant in UTC; one without a zone is UTC already. Raises Problem for what is past or absurdly far."""
    if at is None:
        return None
    try:
        instant = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        raise _too_far_error() from None
    if instant <= now:
        raise Problem(
            f"{format_instant(instant)} is past. Choose a later moment, or never.",
            code="expiry_past",
            field="expires_at",
        )
    if instant.year > now.year + MAX_YEARS:
        raise _too_far_error()
    return instant


def _add_one_year(at: datetime) -> datetime:
    """The same day and time a year on; 28 February after a 29th."""
    day = 28 if (at.month, at.day) == (2, 29) and not isleap(at.year + 1) else at.day
    return at.replace(year=at.year + 1, day=day)


def format_instant(at: datetime) -> str:
    """`2026-03-01 09:30 UTC`; seconds only where there are some. The end of a day is that day alone: `2026-03-01`.

    Read back by `parse_expiry` it is the same instant."""
    instant = at.astimezone(UTC)
    if instant.time() == time() and instant.date() > date.min:
        return f"{instant.date() - timedelta(days=1)}"
    seconds = ":%S.%f" if instant.microsecond else ":%S" if instant.second else ""
    return f"{instant:%Y-%m-%d %H:%M{seconds} UTC}"


def _parse_instant(text: str) -> datetime:
    plain = _iso_day(text[:60].removesuffix("UTC").rstrip()) if len(text) <= 60 else ""
    try:
        try:
            day = date.fromisoformat(plain)  # however ISO writes it: 2027-03-28, 20270328, 2027-W12-7
        except ValueError:
            return datetime.fromisoformat(plain)
        return datetime.combine(day, time(), UTC) + timedelta(days=1)
    except OverflowError:
        raise _too_far_error() from None
    except ValueError:
        raise Problem(
            "This is no date that exists. Write it like 2026-03-01 or 2026-03-01 09:30 (UTC), or choose never.",
            code="bad_expiry",
            field="expires_at",
        ) from None


_LOCAL_DAY = re.compile(r"(\d{1,2})([./])\s?(\d{1,2})\2\s?(\d{4})")


def _iso_day(text: str) -> str:
    """A day as people write it (31.12.2026, 31/12/2026, 12/31/2026), as ISO writes it; other texts as they are. Raises
    Problem where day and month could be either."""
    match = _LOCAL_DAY.fullmatch(text)
    if match is None:
        return text
    first, second, year = int(match[1]), int(match[3]), match[4]
    if match[2] == "/" and first <= 12 and second <= 12 and first != second:
        raise Problem(
            f"{text} may be two days. Write it like {year}-{second:02d}-{first:02d} or "
            f"{year}-{first:02d}-{second:02d}.",
            code="bad_expiry",
            field="expires_at",
        )
    day, month = (second, first) if match[2] == "/" and second > 12 else (first, second)
    return f"{year}-{month:02d}-{day:02d}"


def _too_far_error() -> Problem:
    return Problem(
        f"That is more than {MAX_YEARS} years away. Choose an earlier date, or never.",
        code="bad_expiry",
        field="expires_at",
    )


FreshnessState = Literal["fresh", "expiring", "expired", "proposed", "needs_review", "superseded", "archived"]
FRESHNESS_STATES: tuple[FreshnessState, ...] = get_args(FreshnessState)

EXPIRING_WITHIN = timedelta(days=14)
"""The time before its end in which an entry counts as expiring."""

REVIEW_REASONS_IN_WORDS = {
    "expired": "it expired",
    "contradiction": "it may contradict another entry",
    "wrong": "somebody said it was wrong",
    "source_gone": "what it was made from was deleted",
    "unused": "nobody used it for 90 days",
    "asked": "somebody asked for it",
}


class HasFreshness(Protocol):
    """What of an entry decides how fresh it is."""

    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def expires_at(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class Freshness:
    """`words` is for people and prompts, `at` the instant at which the entry stops holding, or stopped."""

    state: FreshnessState
    words: str
    at: datetime | None = None

    @property
    def formatted_at(self) -> str:
        """The day, or the instant to the minute (UTC); empty where there is none."""
        return format_instant(self.at) if self.at else ""


def compute_freshness(entry: HasFreshness, now: datetime | None = None) -> Freshness:
    """How the entry stands at `now` (aware; the default is this moment).

    An entry whose time is over is `expired` from the very instant, whether or not the job has run.
    """
    at, now = entry.expires_at, now or datetime.now(UTC)
    if entry.status in ("proposed", "superseded"):
        return Freshness("proposed" if entry.status == "proposed" else "superseded", entry.status, at)
    if entry.status == "archived":
        return Freshness("archived", "archived: nobody used it for 90 days" if entry.reason == "unused" else "archived")
    if at is not None and at <= now and entry.reason in ("", "expired"):
        return Freshness("expired", f"expired {_format_ago(now - at)}", at)
    if entry.status == "needs_review":
        reason = REVIEW_REASONS_IN_WORDS.get(entry.reason, REVIEW_REASONS_IN_WORDS["asked"])
        return Freshness("needs_review", f"needs review: {reason}", at)
    if at is None:
        return Freshness("fresh", "does not expire")
    state: FreshnessState = "expiring" if at - now <= EXPIRING_WITHIN else "fresh"
    return Freshness(state, f"expires in {_format_duration(at - now)}", at)


def _format_ago(span: timedelta) -> str:
    return "just now" if span < timedelta(minutes=1) else f"{_format_duration(span)} ago"


def _format_duration(span: timedelta) -> str:
    """`40 min`, `5 h`, `6 d`: to the nearest, at least one minute. What holds for 90 days says so from the start."""
    minutes = max(1, round(span.total_seconds() / 60))
    if minutes < 60:
        return f"{minutes} min"
    return f"{round(minutes / 60)} h" if minutes < 48 * 60 else f"{round(minutes / (24 * 60))} d"
