"""Keeps a handful of server processes running: starts, watches, restarts and stops them, and merges their logs."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

MARK = "OPENVIBE_SERVED_FROM"  # environment variable of every process we start: the `var` folder it belongs to
FIRST_PAUSE = 0.5  # seconds before a process that ended is started again; doubles each time
LONGEST_PAUSE = 30.0
STEADY_SECONDS = 60.0  # a process that ran this long starts with a short pause again
GIVE_UP_AFTER = 5  # ends in a row, none of them after a steady run
STOP_SECONDS = 15.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Service:
    """One long-running command and the short name its log lines carry."""

    name: str
    command: Sequence[str]


class ServiceKeepsEnding(Exception):
    """A service ended again and again right after its start. The text says which; its log lines came before."""


@dataclass
class _Kept:
    service: Service
    process: subprocess.Popen[bytes]
    since: float
    ends: int = 0
    start_at: float | None = None
    readers: list[threading.Thread] = field(default_factory=list)


class Supervisor:
    """Runs services until told to stop. Each is on a leash: it ends when we end, even when we are killed."""

    def __init__(
        self,
        services: Sequence[Service],
        *,
        var: Path,
        say: Say,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._services = services
        self._say = say
        self._environment = {**os.environ, **(environment or {}), MARK: str(var), "PYTHONUNBUFFERED": "1"}
        self._kept: list[_Kept] = []

    def start(self) -> None:
        """Starts every service."""
        self._kept = [self._started(service) for service in self._services]

    def watch(self) -> None:
        """Starts again what has ended, after a growing pause. Call it a few times a second.

        Raises ServiceKeepsEnding.
        """
        now = time.monotonic()
        for position, kept in enumerate(self._kept):
            code = kept.process.poll()
            if code is None:
                continue
            if kept.start_at is None:
                ends = 1 if now - kept.since > STEADY_SECONDS else kept.ends + 1
                if ends >= GIVE_UP_AFTER:
                    raise ServiceKeepsEnding(f"{kept.service.name} ended {ends} times in a row; its log is above.")
                pause = min(FIRST_PAUSE * 2 ** (ends - 1), LONGEST_PAUSE)
                kept.ends, kept.start_at = ends, now + pause
                self._say(f"{kept.service.name} ended (exit code {code}); it starts again in {pause:g} s.")
            elif now >= kept.start_at:
                fresh = self._started(kept.service)
                fresh.ends = kept.ends
                self._kept[position] = fresh

    def stop(self) -> None:
        """Asks every service to stop, waits, and leaves none behind."""
        for kept in self._kept:
            with suppress(OSError):
                kept.process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for kept in self._kept:
            try:
                kept.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                kept.process.kill()
                kept.process.wait()
            for reader in kept.readers:
                reader.join(2)
        self._kept = []

    def _started(self, service: Service) -> _Kept:
        process = subprocess.Popen(
            [sys.executable, "-m", "openvibe.base.leash", *service.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,  # Ctrl-C is for us; we tell them
        )
        reader = threading.Thread(target=self._pass_on, args=(service.name, process), daemon=True)
        reader.start()
        return _Kept(service, process, time.monotonic(), readers=[reader])

    def _pass_on(self, name: str, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            text = line.decode(errors="replace").rstrip()
            if text:
                self._say(f"{name:<6} | {text}")


def end_leftovers(var: Path, *, patience: float = STOP_SECONDS) -> int:
    """Ends what a killed earlier run of the same `var` left running; answers how many processes that were.

    Only call it while holding the lock that allows one run at a time.
    """
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    left = [process for process in psutil.process_iter() if process.pid not in spared and _carries(process, var)]
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(left, timeout=patience)
    for process in stubborn:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=patience)
    return len(left)


def _carries(process: psutil.Process, var: Path) -> bool:
    try:
        return process.environ().get(MARK) == str(var)
    except (psutil.Error, OSError):
        return False
