"""Time zones by name, as people and browsers say them."""

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

EARLIEST, LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
"""The bounds between which each time zone has a local time; Python's own calendar ends a day further."""

_names = cache(available_timezones)


def is_time_zone(name: str) -> bool:
    return name in _names()


def time_zone_or_utc(name: str) -> ZoneInfo:
    """The zone of that name; UTC where there is none."""
    return ZoneInfo(name if is_time_zone(name) else "UTC")


def instant_of(local: datetime, zone: ZoneInfo) -> datetime:
    """The instant (UTC) of a local time; of one that a night leaves out, that of the first minute after it."""
    while True:
        instant = local.replace(tzinfo=zone).astimezone(UTC)
        if instant.astimezone(zone).replace(tzinfo=None) == local:
            return instant
        local += timedelta(minutes=1)


def has_local_time(at: datetime) -> bool:
    return EARLIEST <= at <= LATEST


@cache
def common_time_zones() -> tuple[str, ...]:
    """UTC, and those named after places, in order."""
    return ("UTC", *sorted(name for name in _names() if "/" in name and not name.startswith(("Etc/", "SystemV/"))))
