"""The running server's main process: which one it is, whether it lives, and how it is stopped."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil

STOP_SECONDS = 30.0


def find_postmaster(home: Path) -> psutil.Process | None:
    """The running server's process. A pid file left by a killed server, its number perhaps reused, is removed."""
    pid_file = home / "data" / "postmaster.pid"
    try:
        process = psutil.Process(int(pid_file.read_text().split("\n", 1)[0]))
        if is_alive(process) and _serves(process, home / "data"):
            return process
    except FileNotFoundError:
        return None
    except (psutil.NoSuchProcess, ValueError):
        pass
    pid_file.unlink(missing_ok=True)
    return None


def _serves(process: psutil.Process, data: Path) -> bool:
    """Whether the process is the PostgreSQL whose working folder, as always, is its data folder."""
    try:
        return process.name().startswith("postgres") and os.path.samefile(process.cwd(), data)
    except (psutil.AccessDenied, OSError):
        return process.name().startswith("postgres")


def is_alive(process: psutil.Process) -> bool:
    """Whether the process still does something; one that ended and waits to be collected does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def stop_postmaster(home: Path) -> None:
    """Stops the server of `home`, if one runs, and waits until it has."""
    postmaster = find_postmaster(home)
    if postmaster is None:
        return
    for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):  # fast, immediate, and if nothing helps
        with suppress(psutil.NoSuchProcess):
            postmaster.send_signal(how)
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            if not is_alive(postmaster):
                return
            time.sleep(0.02)
