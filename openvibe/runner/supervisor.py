"""Keeps a handful of server processes running: starts, watches, restarts and stops them, and merges their logs."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

VAR_FOLDER_VARIABLE = "OPENVIBE_SERVED_FROM"  # environment of each process we start: the `var` folder it belongs to
MIN_BACKOFF_SECONDS = 0.5  # before a process that ended is started again; doubles each time
MAX_BACKOFF_SECONDS = 30.0
STABLE_AFTER_SECONDS = 60.0  # a process that ran this long starts with a short pause again
MAX_CONSECUTIVE_EXITS = 5  # ends in a row, none of them after a steady run
STOP_TIMEOUT = 15.0


class ServiceCrashLoop(Exception):
    """A service ended again and again right after its start. The text says which; its log lines came before."""


@dataclass
class _ServiceProcess:
    name: str
    process: subprocess.Popen[bytes]
    reader: threading.Thread
    started_at: float
    consecutive_exits: int = 0
    restart_at: float | None = None


class Supervisor:
    """Runs services, a short name and a long-running command each, until told to stop. Each ends when we end, even
    when we are killed (`child_guard`)."""

    def __init__(
        self,
        services: Mapping[str, Sequence[str]],
        *,
        var: Path,
        write_line: Callable[[str], None],
        environment: Mapping[str, str],
    ) -> None:
        self._services = services
        self._write_line = write_line
        self._environment = {**os.environ, **environment, VAR_FOLDER_VARIABLE: str(var), "PYTHONUNBUFFERED": "1"}
        self._processes: list[_ServiceProcess] = []

    def start(self) -> None:
        self._processes = [self._start_service(name) for name in self._services]

    def restart_exited(self) -> None:
        """Starts again what has ended, after a growing pause. Call it a few times a second.

        Raises ServiceCrashLoop.
        """
        now = time.monotonic()
        for position, running in enumerate(self._processes):
            code = running.process.poll()
            if code is None:
                continue
            if running.restart_at is None:
                is_stable = now - running.started_at > STABLE_AFTER_SECONDS
                exits = 1 if is_stable else running.consecutive_exits + 1
                if exits >= MAX_CONSECUTIVE_EXITS:
                    raise ServiceCrashLoop(f"{running.name} ended {exits} times in a row; its log is above.")
                backoff = min(MIN_BACKOFF_SECONDS * 2 ** (exits - 1), MAX_BACKOFF_SECONDS)
                running.consecutive_exits, running.restart_at = exits, now + backoff
                self._write_line(f"{running.name} ended (exit code {code}); it starts again in {backoff:g} s.")
            elif now >= running.restart_at:
                self._processes[position] = self._start_service(running.name, running.consecutive_exits)

    def stop(self) -> None:
        """Asks every service to stop, waits, and leaves none behind."""
        for running in self._processes:
            with suppress(OSError):
                running.process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT
        for running in self._processes:
            try:
                running.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.process.kill()
                running.process.wait()
            running.reader.join(2)
        self._processes = []

    def _start_service(self, name: str, consecutive_exits: int = 0) -> _ServiceProcess:
        process = subprocess.Popen(
            [sys.executable, "-m", "openvibe.runner.child_guard", *self._services[name]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,  # Ctrl-C is for us; we tell them
        )
        reader = threading.Thread(target=self._forward_output, args=(name, process), daemon=True)
        reader.start()
        return _ServiceProcess(name, process, reader, time.monotonic(), consecutive_exits)

    def _forward_output(self, name: str, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            text = line.decode(errors="replace").rstrip()
            if text:
                self._write_line(f"{name:<6} | {text}")


def stop_orphans(var: Path, *, timeout: float = STOP_TIMEOUT) -> int:
    """Ends what a killed earlier run of the same `var` left running; answers how many processes that were.

    Only call it while holding the lock that allows one run at a time.
    """
    own_pids = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    orphans = [each for each in psutil.process_iter() if each.pid not in own_pids and _belongs_to(each, var)]
    for process in orphans:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(orphans, timeout=timeout)
    for process in stubborn:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=timeout)
    return len(orphans)


def _belongs_to(process: psutil.Process, var: Path) -> bool:
    try:
        return process.environ().get(VAR_FOLDER_VARIABLE) == str(var)
    except (psutil.Error, OSError):
        return False
