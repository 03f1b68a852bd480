"""What is dear to make is made once in a run of the tests, by whichever of its processes needs it first."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management import call_command
from django.db import connection

_SHARED = "SHARED_BY_TESTS"
TEMPLATE = "openvibe_tests_template"


def begin() -> None:
    """Before the processes of a run are started: a folder for what they share."""
    folder = Path(tempfile.mkdtemp(prefix="openvibe-run-")).resolve()
    folder.chmod(0o755)  # PostgreSQL may run as somebody else
    os.environ[_SHARED] = str(folder)


def end() -> None:
    shutil.rmtree(os.environ.pop(_SHARED), ignore_errors=True)


def shared() -> Path:
    return Path(os.environ[_SHARED])


@contextmanager
def once(name: str) -> Iterator[bool]:
    """True for the first; the others wait until it is done, and make it themselves where it failed."""
    done = shared() / f"{name}.done"
    with open(shared() / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not done.exists()
        done.touch()


def migrated_template() -> str:
    """The name of a database with every migration, which the test databases are copies of."""
    with once("template") as is_first:
        if is_first:
            _make_template()
    return TEMPLATE


def _make_template() -> None:
    name = connection.ops.quote_name(TEMPLATE)
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name}")
    usual = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = TEMPLATE
    try:
        call_command("migrate", interactive=False, verbosity=0)
    finally:
        connection.close()
        connection.settings_dict["NAME"] = usual
