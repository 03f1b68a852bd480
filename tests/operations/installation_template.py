"""Installations for tests that are about serving, not about the first start."""

import shutil
import subprocess
from pathlib import Path

from tests.operations.processes import manage, nothing_left_of
from tests.run_once import once, shared


def prepare(var: Path) -> None:
    """Fill `var` with an installation that has its tables and was never served. Made once in a run, then copied."""
    made = shared() / "installation"
    with once("installation") as is_first:
        if is_first:
            _make(made)
    subprocess.run(["cp", "-a", f"{made}/.", str(var)], check=True)  # keeps whom the files belong to


def _make(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    with nothing_left_of(folder):
        done = manage("migrate", "--verbosity", "0", var=folder)
    assert done.returncode == 0, done.stdout + done.stderr
