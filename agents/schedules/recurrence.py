"""Cron lines and when they are due, in a time zone with its daylight-saving nights. Pure.

The parser is Celery's: five fields (minute, hour, day of month, month, day of week), `*/15`, `9-17`, `mon-fri`. Unlike
in old crons, a day must match both its fields."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from celery.schedules import ParseException, crontab

from openvibe.base.problems import Problem
from openvibe.engines.database.time_zones import instant_of

MAX_DAYS_AHEAD = 366 * 41
"""Days that are looked through for the next time: 29 February on a given weekday comes after forty years at the
latest, where a year such as 2100 has none."""


class CronFields(NamedTuple):
    """What a cron line names. Weekdays count from 0, Sunday."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]


def parse_cron(line: str) -> CronFields:
    """Raises Problem that says what is wrong with the line."""
    fields = line.split()
    if len(fields) != 5:
        raise Problem(
            f"A cron line has five fields, minute, hour, day of month, month and day of week, not {len(fields)}. "
            "For example 0 9 * * mon-fri: at 9:00 from Monday to Friday.",
            code="bad_cron",
            field="cron",
        )
    try:
        cron: Any = crontab.from_string(" ".join(fields))
    except (ParseException, ValueError) as error:
        raise Problem(f"The cron line cannot be read: {error}", code="bad_cron", field="cron") from None
    return CronFields(
        minutes=tuple(sorted(cron.minute)),
        hours=tuple(sorted(cron.hour)),
        days=frozenset(cron.day_of_month),
        months=frozenset(cron.month_of_year),
        weekdays=frozenset(cron.day_of_week),
    )


def parse_time_zone(name: str) -> ZoneInfo:
    """Raises Problem."""
    if name not in available_timezones():
        raise Problem(
            f"There is no time zone {name[:60]!r}. Name it like Europe/Berlin.", code="bad_zone", field="time_zone"
        )
    return ZoneInfo(name)


def next_times(cron: str, time_zone: str, after: datetime, count: int = 1) -> list[datetime]:
    """The next `count` instants (UTC) after `after`; fewer where the line comes no more. Raises Problem.

    A time in the hour that a daylight-saving night leaves out is due once, at the first minute after it; one in the
    hour that comes twice is due once, the first time.
    """
    zone = parse_time_zone(time_zone)
    later = (instant for instant in _instants(parse_cron(cron), zone, after) if instant > after)
    return list(islice(_without_repeats(later), count))


def _instants(cron: CronFields, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Due instants from the day before `after` on, in order; neighbours may be alike."""
    first_day = after.astimezone(zone).date() - timedelta(days=1)
    for offset in range(MAX_DAYS_AHEAD):
        day = first_day + timedelta(days=offset)
        if not _is_due_on(cron, day):
            continue
        for hour in cron.hours:
            for minute in cron.minutes:
                yield instant_of(datetime(day.year, day.month, day.day, hour, minute), zone)


def _is_due_on(cron: CronFields, day: date) -> bool:
    return day.month in cron.months and day.day in cron.days and day.isoweekday() % 7 in cron.weekdays


def _without_repeats(instants: Iterator[datetime]) -> Iterator[datetime]:
    previous = None
    for instant in instants:
        if instant != previous:
            yield instant
        previous = instant
