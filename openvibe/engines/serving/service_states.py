"""The states of the services of `manage.py serve`, in a file that every process of the machine reads: the supervisor
has no database, and a service that keeps dying may be the reason why there is none."""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from django.conf import settings

from openvibe.engines.serving.atomic_write import atomic_write

FILE_NAME = "services.json"
MIN_REPORTED_EXITS = 2
"""The number of exits from which on a service is reported: one that ended once may have been killed; whoever ends again
at once keeps dying."""


@dataclass(frozen=True)
class ServiceState:
    """A service, how often in a row it ended without a steady run in between, the exit code of the last time, and when
    it starts again (Unix time; 0 while it runs)."""

    name: str
    consecutive_exits: int = 0
    exit_code: int = 0
    restart_at: float = 0.0

    @property
    def problem(self) -> str:
        """A sentence about one that keeps dying, and empty otherwise."""
        if self.consecutive_exits < MIN_REPORTED_EXITS:
            return ""
        ended = (
            f"{self.name} keeps ending: {self.consecutive_exits} times in a row, last with exit code {self.exit_code}."
        )
        if not self.restart_at:
            return f"{ended} It runs again for now."
        return f"{ended} It starts again at {datetime.fromtimestamp(self.restart_at, UTC):%H:%M:%S} UTC."


def write_service_states(states: list[ServiceState]) -> None:
    """Writes the states of the services that this process keeps running. Raises OSError."""
    own = psutil.Process()
    report = {"pid": own.pid, "begun": own.create_time(), "services": [asdict(state) for state in states]}
    with atomic_write(_path()) as file:
        file.write(json.dumps(report).encode())


def forget_service_states() -> None:
    _path().unlink(missing_ok=True)


def read_service_states() -> list[ServiceState]:
    """Returns the states of the `serve` that runs on this machine now; none where services are started one by one, or
    when it was killed."""
    try:
        report = json.loads(_path().read_bytes())
        if psutil.Process(report["pid"]).create_time() != report["begun"]:
            return []
        return [ServiceState(**state) for state in report["services"]]
    except (OSError, ValueError, TypeError, KeyError, psutil.Error):
        return []


def _path() -> Path:
    path: Path = settings.VAR / FILE_NAME
    return path
