"""What a killed supervisor leaves behind: nothing, whatever its services do at that moment."""

from pathlib import Path

import pytest

from openvibe.runner.postgres.server import find_postmaster
from tests.operations.installation_template import prepare_server
from tests.operations.processes import python, wait_for_end_of_processes

SUPERVISE = """
import os, signal, sys, threading
from django.conf import settings
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


ensure_server(settings.VAR)
services = {name: globals()[name] for name in sys.argv[1:]}
supervisor = Supervisor(services, write_line=lambda line: print(line, flush=True))
supervisor.start()
while True:
    supervisor.watch(0.2)
"""


@pytest.mark.parametrize(("services", "processes"), [(["begins"], 1), (["does_not_listen", "begins"], 3)])
def test_the_last_service_of_a_killed_supervisor_stops_the_database(
    var: Path, services: list[str], processes: int
) -> None:
    prepare_server(var)
    supervisor = python("-c", SUPERVISE, *services, var=var)
    assert supervisor.stdout is not None
    for _ in range(processes):
        assert supervisor.stdout.readline().endswith("is up\n")
    assert find_postmaster(var / "postgres")
    supervisor.kill()
    supervisor.wait()
    wait_for_end_of_processes(var)
