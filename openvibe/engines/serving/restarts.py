"""The restarts of services that ended: after pauses that grow, for as long as it keeps ending."""

from dataclasses import dataclass, replace

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
