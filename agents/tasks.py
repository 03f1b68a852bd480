"""Jobs that Celery carries out: ids in, one call each."""

from functools import partial

import structlog
from celery import shared_task
from django.db import transaction

log = structlog.get_logger(__name__)
RUN_EXPIRES = 3600  # seconds; the sweeper asks again for runs whose message expired


def send(run_id: int) -> None:
    """Ask a worker to carry the run out. A broker that is down is only logged: the sweeper asks again."""
    try:
        carry_out_run.apply_async((run_id,), expires=RUN_EXPIRES, retry=False)
    except Exception as error:  # every transport has errors of its own
        log.warning("run_not_sent", run_id=run_id, error=type(error).__name__)


def send_after_commit(run_id: int) -> None:
    transaction.on_commit(partial(send, run_id))


@shared_task(name="agents.carry_out_run", acks_late=True, ignore_result=True)
def carry_out_run(run_id: int) -> None:
    from agents.runs.carrying import carry_out

    following = carry_out(run_id)
    if following is not None:
        send(following)


@shared_task(name="agents.sweep_runs", ignore_result=True, expires=30)
def sweep_runs() -> None:
    from agents.runs.sweeping import sweep

    for run_id in sweep():
        send(run_id)


@shared_task(name="agents.thin_snapshots", ignore_result=True)
def thin_old_snapshots() -> None:
    from agents.assembler.snapshot import thin_snapshots
    from agents.tools.viewing import thin_tool_results

    thin_snapshots()
    thin_tool_results()
