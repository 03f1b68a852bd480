"""The cache that all processes share: Django's, without its count of the whole table at each write.

Its entries are rate limits and codes that were used, none of which lives longer than a day; `base.forget_sessions`
deletes those that expired, so that nothing has to be thrown away to make room."""

import base64
import pickle
from datetime import UTC, datetime
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.db import DatabaseCache
from django.db import connection
from django.utils import timezone
from psycopg import sql

from openvibe.base.models import CacheEntry

_TABLE = sql.Identifier(CacheEntry._meta.db_table)
_TOUCH = sql.SQL("UPDATE {} SET expires = %s WHERE cache_key = %s").format(_TABLE)
_SET = sql.SQL(
    "INSERT INTO {} (cache_key, value, expires) VALUES (%s, %s, %s)"
    " ON CONFLICT (cache_key) DO UPDATE SET value = excluded.value, expires = excluded.expires"
).format(_TABLE)
_ADD = sql.SQL("{} WHERE {}.expires < %s").format(_SET, _TABLE)


class SharedCache(DatabaseCache):
    """Writes with one statement of constant cost, however many entries there are."""

    def _base_set(self, mode: str, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT) -> bool:
        """`mode` is set, add (only where there is none that holds) or touch; whether anything was written."""
        ends_at = self.get_backend_timeout(timeout)
        expires = datetime.max.replace(tzinfo=UTC) if ends_at is None else datetime.fromtimestamp(ends_at, UTC)
        with connection.cursor() as cursor:
            if mode == "touch":
                cursor.execute(_TOUCH, [expires, key])
            else:
                stored = base64.b64encode(pickle.dumps(value, self.pickle_protocol)).decode("ascii")
                if mode == "set":
                    cursor.execute(_SET, [key, stored, expires])
                else:
                    cursor.execute(_ADD, [key, stored, expires, timezone.now()])
            return bool(cursor.rowcount)
