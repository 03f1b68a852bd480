"""Keeps this version's data for the versions after it: `python -m tests.upgrades.write_state NAME`.

A database with rows in every table (`tests/upgrades/rows.py`) is dumped as `tests/data/upgrades/NAME.sql.gz`, such as
`0.1.0-2026-11-28`; `test_upgrades.py` then opens every page on it. Write one with each release, and before migrations
are squashed; never write one anew.
"""

import gzip
import os
import sys
from pathlib import Path
from typing import Any

SECRET_KEY = "of the states that tests upgrade; it opens nothing"
STATES = Path(__file__).resolve().parent.parent / "data/upgrades"
DATABASE = "openvibe_state"
MAX_BYTES = 300 * 1024


def main(name: str) -> int:
    """0 when the state was written; 1 when it is too large to keep."""
    from django.core.management import call_command
    from django.db import connection

    from tests.run_once import run_program
    from tests.upgrades.rows import fill

    usual = connection.settings_dict["NAME"]
    _recreate(connection)
    connection.settings_dict["NAME"] = DATABASE
    try:
        call_command("migrate", interactive=False, verbosity=0)
        fill()
        dump = run_program("pg_dump", "--no-owner", "--no-privileges", "--restrict-key=state", DATABASE).encode()
    finally:
        connection.close()
        connection.settings_dict["NAME"] = usual
    packed = gzip.compress(dump, mtime=0)
    if len(packed) > MAX_BYTES:
        print(f"{len(packed):,} bytes are too many: {MAX_BYTES:,} are kept.")
        return 1
    STATES.mkdir(exist_ok=True)
    (STATES / f"{name}.sql.gz").write_bytes(packed)
    print(f"{name}.sql.gz: {len(packed):,} bytes")
    return 0


def _recreate(connection: Any) -> None:
    connection.close()
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        cursor.execute(f"CREATE DATABASE {DATABASE}")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    os.environ["OPENVIBE_SECRET_KEY"] = SECRET_KEY
    import django

    django.setup()
    sys.exit(main(sys.argv[1]))
