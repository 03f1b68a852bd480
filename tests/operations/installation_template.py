"""Installations for tests that are about serving, not about the first start."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from openvibe.runner.postgres.server import ensure_server, release_server
from tests.operations.processes import manage, nothing_left_of
from tests.run_once import once, shared


def prepare(var: Path) -> None:
    """Fill `var` with an installation that has its tables and was never served. Made once in a run, then copied."""
    made = shared() / "installation"
    with once("installation") as is_first:
        if is_first:
            _make(made, lambda: _migrate(made))
    _copy(made, var)


def prepare_server(var: Path) -> None:
    """Fill `var` with an embedded server that was started and stopped once: no tables. Made once, then copied."""
    made = shared() / "server"
    with once("server") as is_first:
        if is_first:
            _make(made, lambda: _start_and_stop(made))
    _copy(made, var)


def _make(folder: Path, fill: Callable[[], object]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    with nothing_left_of(folder):
        fill()


def _migrate(folder: Path) -> None:
    done = manage("migrate", "--verbosity", "0", var=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def _start_and_stop(folder: Path) -> None:
    ensure_server(folder)
    release_server(folder)


def _copy(made: Path, var: Path) -> None:
    subprocess.run(["cp", "-a", f"{made}/.", str(var)], check=True)  # keeps whom the files belong to
