"""`openvibe host agents.toml`: several agents on one machine, each a process of its own, started again when it dies."""

import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from openvibe_client.http import backoff_seconds
from openvibe_client.join import BadUsage

LASTING_SECONDS = 60.0
"""What ran so long and died is started again at once."""
STOP_SECONDS = 30.0


def read_agents(path: Path) -> dict[str, list[str]]:
    """The command lines of `openvibe run` by agents' handles. Raises BadUsage."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadUsage(f"{path} cannot be read: {error}") from None
    agents = {handle: table for handle, table in tables.items() if isinstance(table, dict)}
    usual = {name: value for name, value in tables.items() if name not in agents}
    if not agents:
        raise BadUsage(f'{path} names no agent. Write for each: [reed] and command = ["claude"].')
    return {handle: _words(f"{path}: [{handle}]", handle, {**usual, **table}) for handle, table in agents.items()}


def _words(place: str, handle: str, row: dict[str, Any]) -> list[str]:
    """The command line of one agent: its words are the options of `openvibe run`, which says what it does not know."""
    command = row.pop("command", None)
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise BadUsage(f'{place} has no command. Write command = ["claude"].')
    words = ["run", "--as", handle]
    for name, value in row.items():
        text = str(Path(value).expanduser()) if name in ("directory", "token_file") else str(value)
        words += [f"--{name.replace('_', '-')}"] * (value is not False) + [text] * (not isinstance(value, bool))
    return [*words, "--", *command]


class Host:
    """Keeps the agents running until KeyboardInterrupt; then each ends as it would by itself."""

    def __init__(self, agents: dict[str, list[str]], log: Callable[[str], object]) -> None:
        self._agents, self._log = agents, log
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._is_ending = threading.Event()

    def run(self) -> None:
        threads = [threading.Thread(target=self._keep, args=each) for each in self._agents.items()]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.5)
        finally:
            self._is_ending.set()
            for process in list(self._processes.values()):
                process.terminate()
            for process in list(self._processes.values()):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)
                process.kill()

    def _keep(self, handle: str, words: list[str]) -> None:
        failures = 0
        while not self._is_ending.is_set():
            began = time.monotonic()
            process = self._processes[handle] = subprocess.Popen([sys.executable, "-m", "openvibe_client.cli", *words])
            if self._is_ending.is_set():  # it was started as all were ended
                process.terminate()
            code = process.wait()
            if self._is_ending.is_set():
                return
            if code == 2:  # what it said has to be mended first
                self._log(f"@{handle} is not started again: see above.")
                return
            failures = 0 if time.monotonic() - began > LASTING_SECONDS else failures + 1
            wait = backoff_seconds(failures, first=1.0, longest=60.0)
            self._log(f"@{handle} ended with exit code {code} and is started again in {wait:.0f} s.")
            self._is_ending.wait(wait)
