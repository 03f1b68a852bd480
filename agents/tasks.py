"""Celery tasks of agents: ids in, one call each."""

from functools import partial

import structlog
from celery import shared_task
from django.db import transaction

from agents.archive.jobs import delete_expired_archives, execute_export, recover_exports
from agents.prompts.snapshots.entry_erasure import erase_entries
from agents.prompts.snapshots.store import expire_records
from agents.runs.executor import execute_run
from agents.runs.external.presence import notify_silent
from agents.runs.recovery import recover_runs
from agents.schedules.services import start_due_schedules
from agents.watching.looks import due_threads, look

log = structlog.get_logger(__name__)
LOOK_MESSAGE_EXPIRES = 30  # seconds; what is due is sent again by then
RUN_MESSAGE_EXPIRES = 3600  # seconds; recovery asks again for runs whose message expired


def enqueue_run(run_id: int) -> None:
    """Asks a worker to execute the run. A broker that is down is only logged: recovery asks again."""
    try:
        execute_run_task.apply_async((run_id,), expires=RUN_MESSAGE_EXPIRES, retry=False)
    except Exception as error:  # every transport has errors of its own
        log.warning("run_not_sent", run_id=run_id, error=type(error).__name__)


def enqueue_run_on_commit(run_id: int) -> None:
    transaction.on_commit(partial(enqueue_run, run_id))


@shared_task(name="agents.carry_out_run", acks_late=True, ignore_result=True)
def execute_run_task(run_id: int) -> None:
    next_run_id = execute_run(run_id)
    if next_run_id is not None:
        enqueue_run(next_run_id)


@shared_task(name="agents.sweep_runs", ignore_result=True, expires=30)
def recover_runs_task() -> dict[str, int]:
    notify_silent()
    run_ids = recover_runs()
    for run_id in run_ids:
        enqueue_run(run_id)
    return {"runs sent again": len(run_ids)}


@shared_task(name="agents.start_due_schedules", ignore_result=True, expires=30)
def start_due_schedules_task() -> dict[str, int]:
    run_ids = start_due_schedules()
    for run_id in run_ids:
        enqueue_run(run_id)
    return {"runs started": len(run_ids)}


@shared_task(name="agents.start_due_looks", ignore_result=True, expires=30)
def start_due_looks_task() -> dict[str, int]:
    """Asks workers to look; who is not taken within half a minute is asked again, and looks once."""
    watched_ids = due_threads()
    for watched_id in watched_ids:
        look_task.apply_async((watched_id,), expires=LOOK_MESSAGE_EXPIRES, retry=False)
    return {"threads to look at": len(watched_ids)}


@shared_task(name="agents.look", ignore_result=True)
def look_task(watched_id: int) -> None:
    run_id = look(watched_id)
    if run_id is not None:
        enqueue_run(run_id)


def enqueue_export(export_id: int, delay_seconds: int = 0) -> None:
    """Asks a worker to write the archive. A broker that is down is only logged: the sweep asks again."""
    try:
        execute_export_task.apply_async((export_id,), countdown=delay_seconds, retry=False)
    except Exception as error:  # every transport has errors of its own
        log.warning("export_not_sent", export_id=export_id, error=type(error).__name__)


def enqueue_export_on_commit(export_id: int) -> None:
    transaction.on_commit(partial(enqueue_export, export_id))


@shared_task(name="agents.export_workspace", acks_late=True, ignore_result=True)
def execute_export_task(export_id: int) -> None:
    delay_seconds = execute_export(export_id)
    if delay_seconds is not None:
        enqueue_export(export_id, delay_seconds)


@shared_task(name="agents.sweep_exports", ignore_result=True, expires=60)
def recover_exports_task() -> dict[str, int]:
    export_ids = recover_exports()
    for export_id in export_ids:
        enqueue_export(export_id)
    return {"archives sent again": len(export_ids), "archives deleted": delete_expired_archives()}


@shared_task(name="agents.thin_snapshots", ignore_result=True)
def expire_records_task() -> dict[str, int]:
    return {"prompts and results emptied": expire_records()}


@shared_task(name="agents.erase_entries", ignore_result=True, expires=30)
def erase_entries_task() -> dict[str, int]:
    return {"erased entries worked on": erase_entries()}
