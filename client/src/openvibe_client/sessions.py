"""What `openvibe run` keeps between starts: the command's session of each thread, and how far it has heard."""

import json
import os
import re
import threading
from pathlib import Path
from typing import Any

MAX_THREADS = 1_000


class Sessions:
    """A small file that only its owner reads. Threads of this process may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position_file = path.with_suffix(".position")
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)

    def get(self, thread: int, preset: str) -> str | None:
        """The session of this thread, if it is one of this preset."""
        found = self._read().get(str(thread))
        return found["session"] if isinstance(found, dict) and found.get("preset") == preset else None

    def set(self, thread: int, preset: str, session: str | None) -> None:
        with self._lock:
            kept = self._read()
            kept.pop(str(thread), None)
            if session is not None:
                kept[str(thread)] = {"preset": preset, "session": session}
            self._write(dict(list(kept.items())[-MAX_THREADS:]))

    def _read(self) -> dict[str, Any]:
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return kept if isinstance(kept, dict) else {}

    def _write(self, kept: dict[str, Any]) -> None:
        write_private(self.path.with_suffix(".new"), json.dumps(kept))
        self.path.with_suffix(".new").replace(self.path)


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner may read, from its first byte on."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def state_file(url: str, handle: str) -> Path:
    """The file of this agent of this OpenVibe, where XDG keeps state."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "openvibe"
    return folder / (re.sub(r"[^A-Za-z0-9.-]+", "_", f"{handle}@{url.partition('//')[2] or url}") + ".json")
