"""Ends a server process with its parent: `python -m openvibe.runner.child_guard COMMAND …` runs it, never longer than
the parent lives.

Standard input is a pipe whose other end the parent holds. When the pipe closes, however the parent ended, or on
SIGTERM, the command is asked to stop (SIGTERM) and, after a grace period, killed with everything it started."""

import ctypes
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

GRACE_SECONDS = 10.0
PR_SET_PDEATHSIG = 1  # of prctl(2)


def main(command: list[str]) -> int:
    """Runs the command, in a process group of its own, to its end and answers its exit code."""
    signals, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=_set_parent_death_signal)
    parent_pipe = sys.stdin.fileno()
    while child.poll() is None:
        ready, _, _ = select.select([parent_pipe, signals], [], [])
        if parent_pipe in ready or set(os.read(signals, 64)) - {signal.SIGCHLD}:
            break
    return _stop_child(child)


def _stop_child(child: subprocess.Popen[bytes]) -> int:
    if child.poll() is None:
        child.terminate()
    try:
        code = child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        code = child.wait()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)  # what it left behind
    return code if code >= 0 else 128 - code


def _set_parent_death_signal() -> None:
    """On Linux the kernel stops the command should this process itself be killed."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
