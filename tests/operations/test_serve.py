"""`manage.py serve`, as a person meets it: started, used, interrupted, killed and started again."""

import socket
import sys
from pathlib import Path

import psutil
import psycopg
import pytest

from openvibe.runner.postgres.server import ensure_server, release_server
from openvibe.runner.supervisor import VAR_FOLDER_VARIABLE, stop_orphans
from tests.operations.installation_template import prepare, prepare_server
from tests.operations.processes import free_port, manage, processes_of, python, wait_until
from tests.operations.server import serving


def remember(var: Path, what: str) -> None:
    with psycopg.connect(ensure_server(var).conninfo()) as connection:
        connection.execute("CREATE TABLE remembered (what text)")
        connection.execute("INSERT INTO remembered VALUES (%s)", [what])
    release_server(var)


def remembered(var: Path) -> list[tuple[str]]:
    try:
        with psycopg.connect(ensure_server(var).conninfo()) as connection:
            return connection.execute("SELECT what FROM remembered").fetchall()
    finally:
        release_server(var)


def test_it_serves_until_ctrl_c_and_keeps_everything(var: Path) -> None:
    with serving(var) as first:
        assert first.status("/healthz") == 200
        assert "Sign in" in first.text
        remember(var, "a first day")
        assert first.interrupt() == 0
    assert processes_of(var) == []
    assert "Everything is kept" in first.text

    with serving(var) as second:
        assert remembered(var) == [("a first day",)]
        assert second.interrupt() == 0
    assert processes_of(var) == []


def test_a_job_is_carried_out_and_a_killed_worker_is_replaced(var: Path) -> None:
    prepare(var)
    with serving(var) as serve:
        serve.wait_for("ready.")
        before = manage("doctor", "--wait", "30", var=var)
        assert before.returncode == 0, before.stdout + before.stderr

        worker = next(process for process in processes_of(var) if is_worker_itself(process))
        worker.kill()
        serve.wait_for("worker ended")
        after = manage("doctor", "--wait", "30", var=var)
        assert after.returncode == 0, after.stdout + after.stderr
        assert serve.interrupt() == 0


def is_worker_itself(process: psutil.Process) -> bool:
    """The Celery worker's main process: not the leash before it, not the pool behind it."""
    command, parent = process.cmdline(), process.parent()
    return "worker" in command and "openvibe.runner.child_guard" not in command and bool(parent) and is_leash(parent)


def is_leash(process: psutil.Process | None) -> bool:
    return process is not None and "openvibe.runner.child_guard" in process.cmdline()


def test_a_killed_run_takes_its_processes_along_and_the_next_one_is_alone(var: Path) -> None:
    prepare(var)
    with serving(var) as killed:
        remember(var, "before the kill")
        killed.process.kill()
        killed.process.wait()
    with serving(var) as again:
        assert remembered(var) == [("before the kill",)]
        beside = manage("serve", "--port", str(free_port()), var=var)
        assert beside.returncode == 1
        assert f"already runs from {var} (process {again.process.pid})" in beside.stderr
        assert again.status("/healthz") == 200
        assert again.interrupt() == 0
    assert processes_of(var) == []


def test_a_used_port_says_which_and_what_to_type(var: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = manage("serve", "--port", str(port), var=var)
    assert done.returncode == 1
    assert f"Port {port} is used" in done.stderr
    assert "make run PORT=" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("port", ["-1", "0", "65536", "http"])
def test_a_port_that_is_none_says_so(var: Path, port: str) -> None:
    done = manage("serve", f"--port={port}", var=var)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "port" in done.stderr


def test_leftovers_of_a_killed_run_are_ended_and_nobody_else(var: Path) -> None:
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    leftover = python("-c", code, var=var, **{VAR_FOLDER_VARIABLE: str(var)})
    neighbour = python("-c", code, var=var, **{VAR_FOLDER_VARIABLE: str(var / "elsewhere")})
    for process in (leftover, neighbour):
        assert process.stdout is not None
        process.stdout.readline()

    assert stop_orphans(var) == 1
    assert not lives(leftover.pid)
    assert neighbour.poll() is None
    neighbour.communicate()


def test_a_leash_lets_nothing_outlive_its_keeper(var: Path) -> None:
    grandchild = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    leash = python("-m", "openvibe.runner.child_guard", sys.executable, "-c", child, var=var)
    assert leash.stdout is not None
    deepest = int(leash.stdout.readline())
    assert leash.stdin is not None
    leash.stdin.close()  # what the system does for a keeper that was killed
    leash.wait(30)
    wait_until(lambda: not lives(deepest), "the end of the grandchild")


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_leash_passes_the_exit_code_on(var: Path) -> None:
    leash = python("-m", "openvibe.runner.child_guard", sys.executable, "-c", "raise SystemExit(7)", var=var)
    assert leash.wait(30) == 7
    leash.communicate()


@pytest.mark.parametrize("command", ["serve", "migrate"])
@pytest.mark.parametrize("folder", ["file", "/sys/openvibe"], ids=["a file", "read-only"])
def test_a_folder_that_cannot_be_written_says_so(var: Path, folder: str, command: str) -> None:
    (var / "file").write_text("not a folder")
    done = manage(command, var=var / folder, PORT=str(free_port()))  # nobody, root neither, makes folders in /sys
    assert done.returncode == 1
    assert "OPENVIBE_VAR" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_says_what_is_missing(var: Path) -> None:
    prepare_server(var)
    done = manage("doctor", "--wait", "0.1", var=var)
    assert done.returncode == 1
    assert "PROBLEM tables" in done.stdout
    assert "manage.py migrate" in done.stdout
    assert "ok      database: PostgreSQL 18" in done.stdout


def test_an_outside_database_that_is_not_there_says_so(var: Path) -> None:
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    done = manage("serve", "--port", str(free_port()), var=var, DATABASE_URL=url)
    assert done.returncode == 1
    assert "The database cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_setting_that_is_wrong_says_so(var: Path) -> None:
    done = manage("check", var=var, OPENVIBE_WORKER_CONCURRENCY="many")
    assert done.returncode == 1
    assert "worker_concurrency" in done.stderr
    assert "Traceback" not in done.stderr
