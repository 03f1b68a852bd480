"""Keeps a handful of services running: starts, watches, restarts (after pauses that grow) and stops them, and merges
their logs.

Each runs in a process forked from this one, so that what was loaded here is shared by all; nothing here starts a
thread, which a fork would not survive. Nothing outlives us, even when we are killed: every process holds the reading
end of a pipe whose writing end we alone hold, and ends when it closes. Then `database_guard` stops PostgreSQL."""

import ctypes
import multiprocessing
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.context import ForkProcess
from pathlib import Path

import psutil
from django.conf import settings

from openvibe.engines.database.embedded.server import forbid_restart, release_server
from openvibe.engines.serving.logs import json_line
from openvibe.engines.serving.service_states import ServiceState

MIN_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 60.0
STEADY_SECONDS = 60.0
"""A service that ran for so long starts with a short pause again."""


@dataclass(frozen=True)
class Restarts:
    """The ends of a service so far: in a row, none of them after a steady run. Times are seconds of one clock."""

    started_at: float
    consecutive_exits: int = 0
    exit_code: int = 0
    restart_at: float | None = None

    def after_exit(self, now: float, exit_code: int) -> "Restarts":
        """Returns the state of one that ended now, and is to be started again at `restart_at`."""
        exits = 1 if self.is_steady(now) else self.consecutive_exits + 1
        pause = min(MIN_PAUSE_SECONDS * 2 ** min(exits - 1, 10), MAX_PAUSE_SECONDS)
        return replace(self, consecutive_exits=exits, exit_code=exit_code, restart_at=now + pause)

    def after_start(self, now: float) -> "Restarts":
        return replace(self, started_at=now, restart_at=None)

    def after_steady_run(self) -> "Restarts":
        """Returns the state of one that runs steadily: what was before does not count any more."""
        return replace(self, consecutive_exits=0, exit_code=0)

    def is_steady(self, now: float) -> bool:
        return self.restart_at is None and now - self.started_at > STEADY_SECONDS


MAX_FIRST_EXITS = 5  # of a service that is needed to begin, in a row: what it wants is not there
STOP_SECONDS = 3.5  # to end by itself; Ctrl-C ends everything in 5 s
READ_BYTES = 65_536
PR_SET_NAME = 15  # of prctl(2)
PROCESS_NAME_PREFIX = "openvibe-"

Service = Callable[[], object]
"""Runs until its process is told to stop (SIGTERM)."""

_alive: tuple[int, int] | None = None  # the pipe, once there is a supervisor


class ServiceCannotStart(Exception):
    """A service ended again and again before it ever served. The text says which; its log lines came before."""


@dataclass
class _ServiceProcess:
    name: str
    process: ForkProcess
    restarts: Restarts


@dataclass
class _Output:
    """What the processes of a service write, and the beginning of a line that is not whole yet."""

    name: str
    rest: bytes = b""


class Supervisor:
    """Runs services by their names until told to stop. One that keeps ending is started again and again, after pauses
    that grow to a minute, and is reported; the others go on."""

    def __init__(
        self,
        services: Mapping[str, Service],
        *,
        write_line: Callable[[str], None],
        report: Callable[[list[ServiceState]], None] = lambda _: None,
    ) -> None:
        self._services = services
        self._write_line = write_line
        self._report = report
        self._processes: list[_ServiceProcess] = []
        self._outputs = selectors.DefaultSelector()
        self._name_width = max(map(len, services))

    def start(self) -> None:
        now = time.monotonic()
        self._processes = [_ServiceProcess(name, self._fork(name), Restarts(now)) for name in self._services]
        self._report_states()

    def watch(self, seconds: float) -> None:
        """Writes what services say for at most so long, and starts again what has ended, after a growing pause."""
        self._forward_output(seconds)
        now, has_changed = time.monotonic(), False
        for running in self._processes:
            before, code = running.restarts, running.process.exitcode
            if code is None:
                if before.consecutive_exits and before.is_steady(now):
                    running.restarts = before.after_steady_run()
            elif before.restart_at is None:
                _kill_group(running.process)  # what it left behind
                running.restarts = before.after_exit(now, code)
                pause = (running.restarts.restart_at or now) - now
                self._write_line(f"{running.name} ended (exit code {code}); it starts again in {pause:g} s.")
            elif now >= before.restart_at:
                running.process, running.restarts = self._fork(running.name), before.after_start(now)
            has_changed = has_changed or running.restarts is not before
        if has_changed:
            self._report_states()

    def check_first_start(self, name: str) -> None:
        """Raises ServiceCannotStart when the service, which has not served yet, ended too often to hope."""
        for running in self._processes:
            if running.name == name and running.restarts.consecutive_exits >= MAX_FIRST_EXITS:
                raise ServiceCannotStart(f"{name} ended {MAX_FIRST_EXITS} times before it served; its log is above.")

    def _report_states(self) -> None:
        """Writes the states with times of the wall clock: whoever reads them has no other."""
        offset = time.time() - time.monotonic()
        states = [
            ServiceState(
                name=running.name,
                consecutive_exits=running.restarts.consecutive_exits,
                exit_code=running.restarts.exit_code,
                restart_at=running.restarts.restart_at + offset if running.restarts.restart_at else 0.0,
            )
            for running in self._processes
        ]
        try:
            self._report(states)
        except OSError as error:  # the disk is full; services are kept running all the same
            self._write_line(f"How services are could not be written down: {error}.")

    def stop(self) -> None:
        """Asks every service to stop, waits, and leaves none behind."""
        for running in self._processes:
            running.process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        while any(running.process.is_alive() for running in self._processes) and time.monotonic() < deadline:
            self._forward_output(0.05)
        for running in self._processes:
            _kill_group(running.process)
            running.process.join()
        self._forward_output(0)
        self._processes = []

    def _fork(self, name: str) -> ForkProcess:
        global _alive
        _alive = _alive or os.pipe()
        reading, writing = os.pipe()
        process = multiprocessing.get_context("fork").Process(
            target=_run_service, args=(name, self._services[name], writing)
        )
        process.start()
        os.close(writing)
        self._outputs.register(reading, selectors.EVENT_READ, _Output(name))
        return process

    def _forward_output(self, seconds: float) -> None:
        ready = self._outputs.select(seconds) if self._outputs.get_map() else []
        for key, _ in ready:
            data, output = os.read(key.fd, READ_BYTES), key.data
            *lines, output.rest = (output.rest + data).split(b"\n")
            for line in lines if data else [output.rest]:
                if text := line.decode(errors="replace").rstrip():
                    self._write_line(self._log_line(output.name, text))
            if not data:
                self._outputs.unregister(key.fd)
                os.close(key.fd)

    def _log_line(self, name: str, text: str) -> str:
        """A line of the log, for collectors of logs in production; for people otherwise."""
        return json_line(text, service=name) if settings.ENV.production else f"{name:<{self._name_width}} | {text}"


def _run_service(name: str, run: Service, output: int) -> None:
    """Runs the service in the service's own process, which leads a session: Ctrl-C is for the supervisor, who tells
    it."""
    assert _alive is not None
    os.close(_alive[1])
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    for standard_stream in (1, 2):
        os.dup2(output, standard_stream)
    os.close(output)
    set_process_name(name)
    end_with_supervisor()
    try:
        run()
    finally:
        release_server(settings.VAR)


def end_with_supervisor() -> None:
    """Ends this process, and after a grace period its group, as soon as there is no supervisor any more. Does nothing
    where there never was one."""
    if _alive is None:
        return
    reading, _ = _alive

    def wait() -> None:
        os.read(reading, 1)
        forbid_restart(settings.VAR)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_SECONDS)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=wait, name="end-with-supervisor", daemon=True).start()


def _kill_group(process: ForkProcess) -> None:
    assert process.pid is not None
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def set_process_name(name: str) -> None:
    """Sets the name that `ps` and `top` show on Linux."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_NAME, f"{PROCESS_NAME_PREFIX}{name}".encode()[:15])


def stop_orphans(mark: Path, *, timeout: float = STOP_SECONDS) -> int:
    """Ends what a killed earlier run left running; answers how many processes that were.

    They are known by the open file that all processes of a run inherit. Only call it while holding its lock.
    """
    own_pids = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    orphans = [each for each in psutil.process_iter() if each.pid not in own_pids and _has_open(each, mark)]
    for process in orphans:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(orphans, timeout=timeout)
    for process in stubborn:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=timeout)
    return len(orphans)


def _has_open(process: psutil.Process, path: Path) -> bool:
    try:
        return any(file.path == str(path) for file in process.open_files())
    except (psutil.Error, OSError):
        return False
