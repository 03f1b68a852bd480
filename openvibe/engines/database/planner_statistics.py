"""The planner's statistics of tables that changed.

PostgreSQL analyzes a table by itself once 50 rows changed, and looks once a minute: the few rows that say who may see
what never reach that, and an import is searched before. A plan made without statistics may read a whole workspace."""

from django.db import connection
from psycopg import sql

_SELECT_CHANGED = """SELECT relname FROM pg_stat_user_tables WHERE schemaname = current_schema()
AND n_mod_since_analyze > n_live_tup / 10 ORDER BY relname"""


def analyze_changed_tables() -> int:
    """Analyze each table of which more than a tenth changed since it was last; how many there were.

    A table that somebody else is at is skipped: whoever builds an index there must not wait for us.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")  # what this session changed counts, too
        cursor.execute(_SELECT_CHANGED)
        tables = [name for (name,) in cursor.fetchall()]
        for table in tables:
            cursor.execute(sql.SQL("ANALYZE (SKIP_LOCKED) {}").format(sql.Identifier(table)))
    return len(tables)
