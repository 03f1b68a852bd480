"""How times come from the database: parsed in C, in UTC."""

from datetime import UTC, datetime
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver
from psycopg.abc import Buffer
from psycopg.types.datetime import TimestamptzLoader

from openvibe.engines.database.time_zones import EARLIEST, LATEST


def parse_stored_time(text: str) -> datetime:
    """A time as the database writes it, in JSON too; what lies at the ends of the calendar, where some time zones have
    no local time, is moved to where all have one."""
    at = datetime.fromisoformat(text)
    return at if EARLIEST <= at <= LATEST else max(EARLIEST, min(at, LATEST))


class UtcLoader(TimestamptzLoader):
    """Times as Django has them, in UTC as the connection speaks it, parsed in C: a page reads hundreds."""

    timezone = UTC  # Django asks for it

    def load(self, data: Buffer) -> datetime:
        try:
            return parse_stored_time(bytes(data).decode())
        except ValueError:  # a year that Python does not know: the driver's own words
            return super().load(data)


@receiver(connection_created, dispatch_uid="openvibe.times")
def load_times_fast(connection: BaseDatabaseWrapper, **_: object) -> None:
    driver: Any = connection.connection
    driver.adapters.register_loader("timestamptz", UtcLoader)
