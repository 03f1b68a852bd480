"""What a killed supervisor leaves behind: nothing, the database included, whatever its services do at that moment.
What a service that keeps dying leaves behind: all the others."""

import json
from pathlib import Path

import pytest

from openvibe.engines.database.embedded.server import find_postmaster
from tests.operations.installation_template import prepare_server
from tests.operations.processes import PATIENCE, python, wait_for_end_of_processes, wait_until

SUPERVISE = """
import os, signal, sys, threading
from django.conf import settings
from openvibe.runner.database_guard import database_guard
from openvibe.engines.database.embedded.server import ensure_server
from openvibe.engines.serving.supervisor import Supervisor


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


KEEP_RUNNING = """
import os, sys, threading
from openvibe.engines.serving.service_states import write_service_states
from openvibe.engines.serving import supervisor as supervision
from openvibe.engines.serving.supervisor import ServiceCannotStart, Supervisor

supervision.MIN_PAUSE_SECONDS = 0.001


def lives():
    print("lives as", os.getpid(), flush=True)
    threading.Event().wait()


def dies():
    os._exit(7)


supervisor = Supervisor(
    {"lives": lives, "dies": dies}, write_line=lambda line: print(line, flush=True), report=write_service_states
)
supervisor.start()
try:
    while True:
        supervisor.watch(0.01)
        for name in sys.argv[1:]:
            supervisor.check_first_start(name)
except ServiceCannotStart as error:
    print("It stops:", error, flush=True)
finally:
    supervisor.stop()
"""


def test_a_service_that_keeps_dying_is_started_again_and_takes_no_other_with_it(var: Path) -> None:
    supervisor = python("-c", KEEP_RUNNING, var=var)
    assert supervisor.stdout is not None
    try:
        said = [supervisor.stdout.readline() for _ in range(12)]
        services = json.loads((var / "services.json").read_bytes())["services"]
        assert supervisor.poll() is None
    finally:
        supervisor.kill()
        supervisor.wait()
    ends = [line for line in said if line.startswith("dies ended (exit code 7); it starts again in ")]
    assert len(ends) == 11
    assert len([line for line in said if "lives as" in line]) == 1
    dying = next(service for service in services if service["name"] == "dies")
    assert dying["consecutive_exits"] > 5
    assert dying["exit_code"] == 7
    assert next(service for service in services if service["name"] == "lives")["consecutive_exits"] == 0
    wait_for_end_of_processes(var)


def test_a_start_that_never_comes_to_serve_ends_with_a_sentence(var: Path) -> None:
    supervisor = python("-c", KEEP_RUNNING, "dies", var=var)
    output, _ = supervisor.communicate(timeout=PATIENCE)
    assert "It stops: dies ended 5 times before it served; its log is above." in output
    assert supervisor.returncode == 0
