"""Starting real processes in a test and waiting for what they do."""

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.run_once import shared

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 600.0  # seconds; a deadline for slow machines, never a pause
PORTS = range(10_081, 32_768)  # above those that browsers refuse, below those that Linux hands out by itself


def wait_until(is_so: Callable[[], object], what: str, patience: float = PATIENCE, pause: float = 0.02) -> None:
    """Returns as soon as `is_so()` holds, asked every `pause` seconds; fails, naming `what`, when it never does."""
    deadline = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < deadline, f"still waiting: {what}"
        time.sleep(pause)


def environment(var: Path, **extra: str) -> dict[str, str]:
    """What a process of an installation of its own, in `var`, sees. What one of them compiled, the next need not."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPENVIBE_", "DATABASE_URL", "CELERY_", "PYTEST_", "PYTHONDONTWRITE"))
    }
    return {**kept, "DJANGO_SETTINGS_MODULE": "openvibe.settings", "OPENVIBE_VAR": str(var), **extra}


def python(*arguments: str, var: Path, **extra: str) -> subprocess.Popen[str]:
    """Starts Python in the project's folder; its output can be read from `stdout`."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment(var, **extra),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def manage(*arguments: str, var: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Runs a `manage.py` command to its end."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment(var, **extra),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def free_port() -> int:
    """A port nobody listens on, and nobody else in this run is given: neither here nor by the system, which has its own
    for whoever names none."""
    while True:
        port = random.choice(PORTS)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            (shared() / f"port-{port}").touch(exist_ok=False)
            return port


def processes_of(var: Path, name: str = "") -> list[psutil.Process]:
    """Every living process of the installation in `var`: its own, its PostgreSQL's; with `name`, those called so."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE or process.pid == os.getpid():
                continue
            if name and process.name() != name:
                continue
            if process.environ().get("OPENVIBE_VAR") == str(var) or str(var) in " ".join(process.cmdline()):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def wait_for_end_of_processes(var: Path) -> None:
    """Waits until nothing of the installation runs any more; fails, naming what still does."""
    try:
        wait_until(lambda: not processes_of(var), f"the end of everything that runs from {var}")
    except AssertionError as error:
        raise AssertionError(f"{error}: {[process.name() for process in processes_of(var)]}") from None


@contextmanager
def nothing_left_of(var: Path) -> Iterator[None]:
    """Ends afterwards whatever a failed test left running, so that it disturbs no other."""
    try:
        yield
    finally:
        for process in processes_of(var):
            process.kill()
