"""What `openvibe run` keeps between starts: the command's session of each thread, what is under way, and how far it has
heard."""

import fcntl
import json
import os
import re
import threading
from pathlib import Path
from typing import Any

MAX_THREADS = 1_000


class Sessions:
    """A small file that only its owner reads. Threads of this process may share it; other processes may not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position_file = path.with_suffix(".position")
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)

    def take(self) -> bool:
        """Whether this is the only one of this file, as long as it lives."""
        self._taken = self.path.with_suffix(".lock").open("w")
        try:
            fcntl.flock(self._taken, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def get(self, thread: int, command: str) -> tuple[str, int | None]:
        """The command's session of this thread, and the run whose context it read last; empty where there is none."""
        found = self._read("threads").get(str(thread), {})
        return (found["session"], found["run"]) if found.get("command") == command else ("", None)

    def set(self, thread: int, command: str, session: str, run: int) -> None:
        """Keeps the session of a thread, and that it is prompted for the run."""
        with self._lock:
            threads, runs = self._read("threads"), self._read("under_way")
            threads.pop(str(thread), None)
            threads[str(thread)] = {"command": command, "session": session, "run": run}
            if str(run) in runs:
                runs[str(run)]["is_prompted"] = True
            self._write(dict(list(threads.items())[-MAX_THREADS:]), runs)

    def under_way(self) -> dict[str, Any]:
        """What is being answered, by the ids of runs: `message`, `attempt`, `is_prompted`."""
        return self._read("under_way")

    def begin(self, run: int, message: int, attempt: int, *, is_prompted: bool = False) -> None:
        with self._lock:
            kept = {"message": message, "attempt": attempt, "is_prompted": is_prompted}
            self._write(self._read("threads"), {**self._read("under_way"), str(run): kept})

    def end(self, run: int) -> None:
        with self._lock:
            runs = self._read("under_way")
            runs.pop(str(run), None)
            self._write(self._read("threads"), runs)

    def _read(self, part: str) -> dict[str, Any]:
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8"))[part]
        except (OSError, ValueError, KeyError, TypeError):  # none yet, or one of an older form: sessions begin anew
            return {}
        return kept if isinstance(kept, dict) else {}

    def _write(self, threads: dict[str, Any], runs: dict[str, Any]) -> None:
        write_private(self.path.with_suffix(".new"), json.dumps({"threads": threads, "under_way": runs}))
        self.path.with_suffix(".new").replace(self.path)


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner may read, from its first byte on."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def state_file(url: str, handle: str) -> Path:
    """The file of this agent of this OpenVibe, where XDG keeps state."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "openvibe"
    return folder / f"{file_name(url, handle)}.json"


def file_name(url: str, handle: str) -> str:
    """A name for this agent of this OpenVibe among files."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", f"{handle}@{url.partition('//')[2] or url}").rstrip("_")
