"""`manage.py serve`, as a person meets it: started, used, interrupted, killed and started again."""

import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from openvibe.engines.database.embedded.server import ensure_server, find_postmaster, release_server
from openvibe.engines.serving.supervisor import STOP_SECONDS, stop_orphans
from openvibe.runner.management.commands.serve import check_port, is_serving, stop_on_signal
from tests.locks import BLOCKED
from tests.operations.installation_template import prepare_server
from tests.operations.processes import (
    PATIENCE,
    ROOT,
    environment,
    free_port,
    manage,
    processes_of,
    python,
    wait_for_end_of_processes,
    wait_until,
)
from tests.operations.server import Serving, serving

PRODUCTION = {
    "OPENVIBE_PRODUCTION": "1",
    "OPENVIBE_SECRET_KEY": "a key for tests of fifty characters or more than that",
}


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
    processes = {"OPENVIBE_WEB_PROCESSES": "2", "OPENVIBE_WORKER_CONCURRENCY": "8"}
    with serving(var, **PRODUCTION, **processes) as first:
        assert first.status("/healthz") == 200
        doctor = manage("doctor", "--only=event stream", f"--url=http://127.0.0.1:{first.port}", var=var)
        assert doctor.stdout.startswith("ok      event stream: an event is here after "), doctor.stderr
        assert f"It listens on 127.0.0.1, port {first.port}." in first.text
        assert f"the first password stands in {var}/sign-in.txt" in first.text
        assert (var / "sign-in.txt").read_text().rpartition("password: ")[2].strip() not in first.text
        wait_until(lambda: len(services_of(var, "web")) == 1 + 2, "both web processes")
        assert megabytes(processes_of(var)) <= 450
        remember(var, "a first day")
        assert first.interrupt() == 0
    assert processes_of(var) == []
    assert "Everything is kept" in first.text

    with serving(var) as second:
        assert remembered(var) == [("a first day",)]
        assert manage("demo", var=var).stdout.startswith(f"Sign in: http://127.0.0.1:{second.port}/ as ")
        assert second.interrupt() == 0
    assert processes_of(var) == []


@pytest.mark.usefixtures("furnished")
def test_a_job_is_carried_out_and_a_killed_worker_is_replaced(var: Path) -> None:
    with serving(var) as serve:
        serve.wait_for("ready.")
        before = manage("doctor", "--wait", "150", var=var)
        assert before.returncode == 0, before.stdout + before.stderr
        assert {"runs", "background"} <= set(before.stdout.partition("workers: answered")[2].split())

        assert listening_sessions(var) == 2, "one that only sends jobs never reads what it hears, and hangs"
        (worker,) = services_of(var, "worker")
        worker.kill()
        serve.wait_for("worker ended")
        after = manage("doctor", "--wait", "150", var=var)
        assert after.returncode == 0, after.stdout + after.stderr
        assert serve.interrupt() == 0


def listening_sessions(var: Path) -> int:
    """Database sessions that listen for jobs."""
    listeners = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN \"pgmq%'"
    try:
        with psycopg.connect(ensure_server(var).conninfo()) as connection:
            return int(connection.execute(listeners).fetchall()[0][0])
    finally:
        release_server(var)


def services_of(var: Path, name: str) -> list[psutil.Process]:
    return processes_of(var, f"openvibe-{name}")


def megabytes(processes: list[psutil.Process]) -> float:
    """Memory of all of them together: what they share counts once (PSS)."""
    return sum(process.memory_full_info().pss for process in processes) / 2**20


@pytest.mark.usefixtures("furnished")
def test_ctrl_c_ends_everything_whoever_still_listens(var: Path, settings: Settings) -> None:
    with serving(var) as serve, ExitStack() as visitors:
        wait_until(lambda: count_recurring_jobs(var) == len(settings.CELERY_BEAT_SCHEDULE), "the schedule")
        for words in ("GET /api/v1/events/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost:"):
            visitor = visitors.enter_context(socket.create_connection(("127.0.0.1", serve.port)))
            visitor.sendall(words.encode())  # the second never says what it wants
        assert serve.interrupt() == 0
    assert STOP_SECONDS < 5
    assert processes_of(var) == []


def test_the_unit_of_systemd_counts_a_stop_in_the_first_second_as_success(var: Path) -> None:
    (var / "django.py").write_text(f"import os; os.kill(os.getpid(), {signal.SIGTERM})")  # while it loads
    done = manage("serve", var=var, PYTHONPATH=str(var))
    unit = (ROOT / "docs/operations-install.md").read_text().partition("[Service]")[2].partition("```")[0]
    assert f"SuccessExitStatus={done.returncode}" in unit.splitlines()


def test_under_nohup_a_closed_terminal_ends_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signal() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.is_set()
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("furnished")
def test_a_log_that_cannot_be_written_ends_nothing(var: Path) -> None:
    port = free_port()
    command = [sys.executable, "-u", "manage.py", "serve", "--port", str(port)]  # as `make run` does
    with Path("/dev/full").open("w") as log:  # as on a full disk
        process = subprocess.Popen(command, cwd=ROOT, env=environment(var), stdout=log, stderr=subprocess.DEVNULL)
    wait_until(lambda: process.poll() is not None or is_serving("127.0.0.1", port), "the pages")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0


@pytest.mark.usefixtures("furnished")
def test_open_pages_do_not_hold_up_the_end(var: Path) -> None:
    issued = manage("token", "issue", "--workspace=willow", "--handle=ana", "--name=listener", var=var)
    key = issued.stdout.strip()
    with serving(var) as serve, socket.create_connection(("127.0.0.1", serve.port)) as listener:
        head = f"GET /api/v1/events/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
        listener.sendall(head.encode())
        stream = listener.makefile("rb")
        assert any(line == b": open\n" for line in stream)
        assert serve.interrupt() == 0
        assert stream.read().endswith(b"0\r\n\r\n"), "whole, as a proxy wants it"


def count_recurring_jobs(var: Path) -> int:
    with psycopg.connect(ensure_server(var).conninfo()) as connection:
        row = connection.execute("SELECT count(*) FROM django_celery_beat_periodictask").fetchone()
    release_server(var)
    return row[0] if row else 0


@contextmanager
def few_open_files(count: int) -> Iterator[None]:
    """What starts meanwhile may have so many, as a shell has it, until it asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("furnished")
def test_connections_that_say_nothing_keep_nobody_out_and_are_closed(var: Path) -> None:
    with ExitStack() as stack:
        with few_open_files(256):
            serve = stack.enter_context(serving(var, OPENVIBE_WEB_PROCESSES="1"))
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", serve.port))) for _ in range(400)]
        silent[0].sendall(b"GET / HT")
        assert serve.status("/readyz") == 200
        for connection in (silent[0], silent[-1]):
            connection.settimeout(PATIENCE)
            assert connection.recv(1) == b""
        assert serve.interrupt() == 0


@pytest.mark.usefixtures("furnished")
def test_a_killed_run_takes_its_processes_along_and_the_next_one_is_alone(var: Path) -> None:
    with serving(var) as killed:
        remember(var, "before the kill")
        killed.process.kill()
        killed.process.wait()
    wait_for_end_of_processes(var)
    with serving(var) as again:
        assert remembered(var) == [("before the kill",)]
        beside = manage("serve", "--port", str(free_port()), var=var)
        assert beside.returncode == 1
        assert f"already runs from {var} (process {again.process.pid})" in beside.stderr
        assert again.status("/healthz") == 200
        assert again.interrupt() == 0
    assert processes_of(var) == []


@contextmanager
def preparing(var: Path) -> Iterator[tuple[Serving, psutil.Process]]:
    """A `serve` and its preparation, which has the database and waits for its turn to collect static files."""
    with open(var / "static" / "collecting.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        serve = Serving(var, free_port())
        wait_until(lambda: services_of(var, "setup"), "the preparation")
        (preparation,) = services_of(var, "setup")
        yield serve, preparation


@pytest.mark.usefixtures("furnished")
def test_a_run_that_is_killed_with_its_preparation_leaves_nothing_behind(var: Path) -> None:
    with preparing(var) as (serve, preparation):
        assert find_postmaster(var / "postgres")
        preparation.kill()
        serve.process.kill()
        serve.process.wait()
        wait_for_end_of_processes(var)


@pytest.mark.usefixtures("furnished")
def test_a_run_that_cannot_go_on_after_a_killed_one_leaves_nothing_behind(var: Path) -> None:
    with preparing(var) as (killed, _), socket.socket() as other:
        killed.process.kill()
        killed.process.wait()
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert manage("serve", "--port", str(other.getsockname()[1]), var=var).returncode == 1
        wait_for_end_of_processes(var)


@pytest.mark.usefixtures("furnished")
def test_a_preparation_that_is_killed_leaves_no_database(var: Path) -> None:
    with preparing(var) as (serve, preparation):
        preparation.kill()
        assert serve.process.wait(PATIENCE) == 1
        assert processes_of(var) == []


def test_a_used_port_says_which_and_what_to_type(var: Path, settings: Settings) -> None:
    settings.VAR = var
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CommandError, match=rf"Port {port} is used.*make run PORT="):
            call_command("serve", port=port)


def test_links_in_mails_lead_to_the_port_that_is_served(var: Path, settings: Settings) -> None:
    settings.VAR = var
    with pytest.raises(CommandError, match="is no host name"):
        call_command("serve", host="vibe..example", port=9000)
    assert settings.PUBLIC_URL == "http://localhost:9000"


@pytest.mark.parametrize("host", ["vibe..example", "x" * 64])
def test_a_host_that_is_none_says_so(host: str) -> None:
    with pytest.raises(CommandError, match="is no host name"):
        check_port(host, 8000)


@pytest.mark.parametrize("port", ["-1", "0", "65536", "http"])
def test_a_port_that_is_none_says_so(var: Path, settings: Settings, port: str) -> None:
    settings.VAR = var
    with pytest.raises(CommandError, match="port"):
        call_command("serve", f"--port={port}")


def test_leftovers_of_a_killed_run_are_ended_and_nobody_else(var: Path) -> None:
    code = "import sys; lock = open(sys.argv[1], 'a'); print('up', flush=True); sys.stdin.read()"
    ours, theirs = var / "serve.lock", var / "elsewhere.lock"
    leftover, neighbour = (python("-c", code, str(file), var=var) for file in (ours, theirs))
    for process in (leftover, neighbour):
        assert process.stdout is not None
        process.stdout.readline()

    assert stop_orphans(ours) == 1
    assert not psutil.pid_exists(leftover.pid)
    assert neighbour.poll() is None
    neighbour.communicate()


@pytest.mark.parametrize("command", ["serve", "migrate"])
@pytest.mark.parametrize("folder", ["file", "/sys/openvibe"], ids=["a file", "read-only"])
def test_a_folder_that_cannot_be_written_says_so(var: Path, folder: str, command: str) -> None:
    (var / "file").write_text("not a folder")
    done = manage(command, var=var / folder, PORT=str(free_port()))  # nobody, root neither, makes folders in /sys
    assert done.returncode == 1
    assert "OPENVIBE_VAR" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("furnished")
def test_a_restore_that_is_told_to_end_says_what_to_do(var: Path) -> None:
    """A restore hears SIGTERM: what a shell starts in the background is deaf to Ctrl-C."""
    file = var / "all.tar"
    assert manage("backup", str(file), var=var).returncode == 0
    with psycopg.connect(ensure_server(var).conninfo()) as connection:
        connection.execute("LOCK TABLE workspaces_user IN SHARE MODE")  # which nobody drops meanwhile
        restore = python("manage.py", "restore", str(file), "--replace", var=var)
        wait_until(
            lambda: connection.execute(BLOCKED).fetchall() == [(True,)] or restore.poll() is not None,
            "the restore to wait for the lock",
        )
        restore.send_signal(signal.SIGTERM)
        text, _ = restore.communicate(timeout=PATIENCE)
    release_server(var)
    assert restore.returncode == 128 + signal.SIGTERM
    assert f"Interrupted. The restore of {file} was interrupted" in text
    assert f"Run `manage.py restore {file} --replace` to its end" in text
    assert not list(var.glob(".restore-*"))


def test_doctor_says_what_is_missing(var: Path) -> None:
    prepare_server(var)
    done = manage("doctor", "--wait", "0.1", var=var)
    assert done.returncode == 1
    assert "PROBLEM tables" in done.stdout
    assert "manage.py migrate" in done.stdout
    assert "ok      database: PostgreSQL 18" in done.stdout


def test_doctor_ends_with_sentences_when_the_database_is_gone(var: Path) -> None:
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    done = manage("doctor", var=var, DATABASE_URL=url)
    assert done.returncode == 1
    assert "PROBLEM database: no server answers at 127.0.0.1:" in done.stdout
    assert "PROBLEM workers: not known without the database." in done.stdout
    assert "disk: " in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_an_outside_database_that_is_not_there_says_so(var: Path) -> None:
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    done = manage("serve", "--port", str(free_port()), var=var, DATABASE_URL=url)
    assert done.returncode == 1
    assert "The database cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_setting_that_is_wrong_says_so(var: Path) -> None:
    done = manage("check", var=var, OPENVIBE_WORKER_CONCURRENCY="many")
    assert done.returncode == 1
    assert "OPENVIBE_WORKER_CONCURRENCY: Input should be a valid integer" in done.stderr
    assert "Traceback" not in done.stderr
