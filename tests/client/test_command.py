"""Commands under way: fed, read as they print, ended with everything they started."""

import os
import sys
import threading
from pathlib import Path

import psutil
import pytest

from openvibe_client.command import Command, CommandResult
from tests.operations.processes import PATIENCE, wait_until


def python(code: str) -> Command:
    return Command([sys.executable, "-I", "-S", "-c", code], env=dict(os.environ))


def run(code: str, input_text: str = "", timeout: float = PATIENCE) -> tuple[bytes, CommandResult]:
    pieces: list[bytes] = []
    ended = python(code).run(input_text, pieces.append, timeout=timeout)
    return b"".join(pieces), ended


def test_it_reads_its_input_and_says_how_it_ended() -> None:
    said, ended = run(
        "import sys; print(sys.stdin.read()[::-1]); sys.stderr.write('why\\n' * 9999); sys.exit(3)", "abc"
    )
    assert (said, ended.exit_code, ended.is_timed_out) == (b"cba\n", 3, False)
    assert ended.errors.endswith("why\nwhy")
    assert len(ended.errors) <= 8_000


def test_five_megabytes_come_through_though_its_input_is_not_read() -> None:
    said, ended = run("import sys; sys.stdout.write('x' * 5_000_000)", "y" * 1_000_000)
    assert (len(said), ended.exit_code) == (5_000_000, 0)


def test_a_death_half_way_keeps_what_was_said() -> None:
    said, ended = run("import os; print('half', flush=True); os.kill(os.getpid(), 9)")
    assert (said, ended.exit_code) == (b"half\n", -9)


NEVER_ENDS = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openvibe_client.command.GRACE_SECONDS", 0.2)
    monkeypatch.setattr("openvibe_client.command.PIPE_SECONDS", 0.2)


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_one_that_never_ends_is_ended_with_what_it_started(little_grace: None) -> None:
    command, said = python(NEVER_ENDS), list[bytes]()

    def take(data: bytes) -> None:
        said.append(data)
        threading.Thread(target=command.stop).start()  # as a Stop comes: from another thread

    ended = command.run("", take, timeout=PATIENCE)
    assert ended.exit_code == -9
    wait_until(lambda: is_gone(int(said[0])), "its child ends")


def test_one_that_takes_too_long_is_ended(little_grace: None) -> None:
    assert run("import time; time.sleep(600)", timeout=0.1)[1].is_timed_out


def test_what_a_command_leaves_behind_holds_up_nothing(little_grace: None, tmp_path: Path) -> None:
    leaves = "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True)"
    said: list[bytes] = []
    assert python(leaves).run("", said.append, timeout=PATIENCE).exit_code == 0
    wait_until(lambda: said, "what it printed is read")
    wait_until(lambda: is_gone(int(said[0])), "what it left ends")
