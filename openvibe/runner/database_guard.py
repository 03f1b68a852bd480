"""Stops the embedded PostgreSQL after a `serve` that was killed.

The guard is this file as a program. It loads what it needs once it is needed: a fork of `serve` would keep 70 MB."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PATIENCE = 2.0  # seconds; what a killed process had opened is closed one by one


@contextmanager
def database_guard(var: Path) -> Iterator[None]:
    """Guards the database server: meanwhile a guard process waits until this process and all that it forked are gone,
    however they end, and stops the server if nobody else uses it. Afterwards this process does so."""
    from openvibe.engines.database.embedded.server import (  # 70 MB, which the guard has no use for until then
        release_server,
    )

    reading, writing = os.pipe()
    guard = subprocess.Popen(
        [sys.executable, __file__, str(reading), str(var)],
        pass_fds=[reading],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # who kills a group, or closes a terminal, does not mean this one
    )
    os.close(reading)
    try:
        yield
    finally:
        guard.kill()
        guard.wait()
        os.close(writing)
        release_server(var)


def stop_server_at_last(reading: int, var: Path) -> None:
    """Stops the server, once nobody has the other end of the pipe."""
    os.read(reading, 1)
    from openvibe.engines.database.embedded.server import (  # 70 MB, which the guard has no use for until then
        release_server,
    )

    deadline = time.monotonic() + PATIENCE
    while not release_server(var) and time.monotonic() < deadline:
        time.sleep(0.05)


if __name__ == "__main__":
    sys.path[0] = str(PROJECT)
    stop_server_at_last(int(sys.argv[1]), Path(sys.argv[2]))
