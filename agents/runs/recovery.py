"""Recovery of runs that a dead worker or a down broker left behind. Those that wait for an approval are left alone."""

from agents.agent.models import RUNS
from agents.runs.external.silence import fail_silent_runs
from agents.runs.permissions.answers import lapse_overdue_permissions
from agents.runs.store import fail_run

WORKER_LOST = (
    f"The worker stopped {RUNS.max_attempts} times while answering. Try again; if it happens again, see the log."
)


def recover_runs() -> list[int]:
    """Ids of runs to send to a worker now: those without an owner, and those whose message got lost.

    Runs that agents carry out elsewhere are ended where their agent fell silent; what they asked leave for is denied
    where nobody answered in time.
    """
    fail_silent_runs()
    lapse_overdue_permissions()
    return RUNS.recover(lambda run: fail_run(run, "worker_lost", WORKER_LOST))
