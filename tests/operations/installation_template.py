"""Installations for tests that are not about the first start. Each is made once in a run, then copied."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from openvibe.engines.database.embedded.server import ensure_server, release_server
from tests.operations.processes import PATIENCE, ROOT, environment, nothing_left_of
from tests.run_once import once, run_program, shared

FIRST_START = """
import io, django; django.setup()
from django.core.management import call_command
from openvibe.runner.bootstrap import prepare_database
from openvibe.engines.serving.static_files import collect_static_files
prepare_database()
collect_static_files()
call_command("demo", if_empty=True, url="", stdout=io.StringIO())
"""


def prepare_server(var: Path) -> None:
    """Fills `var` with an embedded server that was started and stopped once: no tables."""
    _copy(_made_once("server", _start_and_stop), var)


def prepare(var: Path, dump: Path) -> None:
    """Fills `var` with an installation that has its tables (`migrated_dump`) and was never served."""
    _copy(_made_once("installation", lambda made: _restore(made, dump)), var)


def furnish(var: Path, dump: Path) -> None:
    """Fills `var` with an installation whose first start is over: tables, sample data, static files."""
    _copy(_made_once("furnished", lambda made: _start_first(made, dump)), var)


def _made_once(name: str, fill: Callable[[Path], None]) -> Path:
    folder = shared() / name
    with once(name) as is_first:
        if is_first:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o755)
            with nothing_left_of(folder):
                fill(folder)
    return folder


def _start_and_stop(var: Path) -> None:
    ensure_server(var)
    release_server(var)


def _restore(var: Path, dump: Path) -> None:
    prepare_server(var)
    server = ensure_server(var)
    options = ("-q", "-1", "-v", "ON_ERROR_STOP=1", "-d", "openvibe", "-f", str(dump))
    run_program("psql", *options, host=server.socket, port=server.port, user=server.user)
    release_server(var)


def _start_first(var: Path, dump: Path) -> None:
    prepare(var, dump)
    command = [sys.executable, "-c", FIRST_START]
    process = subprocess.run(
        command, cwd=ROOT, env=environment(var), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr


def _copy(made: Path, var: Path) -> None:
    subprocess.run(["cp", "-a", f"{made}/.", str(var)], check=True)  # keeps whom the files belong to
