"""A command under way: its output read as it comes, and nothing of it left when it is over."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

GRACE_SECONDS = 5.0
"""Seconds between SIGTERM and SIGKILL."""
PIPE_SECONDS = 2.0
"""How long output may still come once the command itself is over: what it left running may hold the pipe."""
MAX_ERROR_BYTES = 8_000


@dataclass(frozen=True)
class CommandResult:
    """`exit_code` as the shell would say it, negative for a signal; `errors`: the last of its standard error."""

    exit_code: int
    errors: str
    is_timed_out: bool = False


class Command:
    """One command in a process group of its own. `stop` may be called from any thread, before and after its end."""

    def __init__(self, words: Sequence[str], *, env: Mapping[str, str], directory: Path | None = None) -> None:
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=directory,
            start_new_session=True,
        )
        self._errors = b""
        self._is_over = threading.Event()

    def run(self, given: str, take: Callable[[bytes], object], *, timeout: float) -> CommandResult:
        """Gives the command this on standard input, hands on what it prints, and waits for its end.

        `take` is called in one thread, with b"" never; what it raises stops the command and is raised here.
        """
        raised: list[BaseException] = []
        threads = [
            threading.Thread(target=self._give, args=(given,), daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
            threading.Thread(target=self._read_output, args=(take, raised), daemon=True),
        ]
        for thread in threads:
            thread.start()
        is_timed_out = False
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            is_timed_out = True
            self.stop()
        finally:
            for thread in threads[1:]:
                thread.join(PIPE_SECONDS)
            self.stop()
            for thread in threads:
                thread.join(PIPE_SECONDS)
        if raised:
            raise raised[0]
        errors = self._errors.decode("utf-8", "replace").strip()
        return CommandResult(self._process.returncode, errors, is_timed_out)

    def stop(self) -> None:
        """Ends it and everything it started: SIGTERM, and what is still there after a while gets SIGKILL."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _give(self, given: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError), self._process.stdin as stdin:  # it need not read all of it
            stdin.write(given.encode("utf-8", "replace"))

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with suppress(OSError, ValueError), self._process.stderr as stderr:
            while data := os.read(stderr.fileno(), 65_536):
                self._errors = (self._errors + data)[-MAX_ERROR_BYTES:]

    def _read_output(self, take: Callable[[bytes], object], raised: list[BaseException]) -> None:
        assert self._process.stdout is not None
        try:
            with self._process.stdout as stdout:
                while data := os.read(stdout.fileno(), 65_536):
                    take(data)
        except BaseException as error:  # told to who called
            raised.append(error)
            self.stop()
