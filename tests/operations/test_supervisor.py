"""What a killed supervisor leaves behind: nothing, the database included, whatever its services do at that moment."""

from pathlib import Path

import pytest

from openvibe.runner.postgres.server import find_postmaster
from tests.operations.installation_template import prepare_server
from tests.operations.processes import python, wait_for_end_of_processes, wait_until

SUPERVISE = """
import os, signal, sys, threading
from django.conf import settings
from openvibe.runner.database_guard import database_guard
from openvibe.runner.postgres.server import ensure_server
from openvibe.runner.supervisor import Supervisor


def ready():
    print(os.getpid(), "is up", flush=True)
    threading.Event().wait()


def begins():
    "Has no handler of its own yet."
    ready()


def does_not_listen():
    "Nor does what it started."
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.fork()
    ready()


def comes_back():
    "A thread of it asks for the database until the end."
    def ask():
        while True:
            ensure_server(settings.VAR, recheck=True)
    threading.Thread(target=ask, daemon=True).start()
    ready()


with database_guard(settings.VAR):
    ensure_server(settings.VAR)
    services = {name: globals()[name] for name in sys.argv[1:]}
    supervisor = Supervisor(services, write_line=lambda line: print(line, flush=True))
    supervisor.start()
    while True:
        supervisor.watch(0.2)
"""


@pytest.mark.parametrize(
    ("services", "processes"), [(["begins"], 0), (["comes_back"], 1), (["does_not_listen", "begins"], 3)]
)
def test_a_killed_supervisor_leaves_nothing_behind(var: Path, services: list[str], processes: int) -> None:
    """Killed once so many say that they are up."""
    prepare_server(var)
    supervisor = python("-c", SUPERVISE, *services, var=var)
    assert supervisor.stdout is not None
    for _ in range(processes):
        assert supervisor.stdout.readline().endswith("is up\n")
    if not processes:
        wait_until(lambda: find_postmaster(var / "postgres"), "PostgreSQL")
    supervisor.kill()
    supervisor.wait()
    wait_for_end_of_processes(var)
