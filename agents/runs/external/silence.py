"""The sweep that ends runs of agents elsewhere which cannot go on: nobody is heard of them any more or began them, they
take too long, their message was deleted, or their thread was lost.

A server that was away itself heard nobody: silence counts from when it was back (`listening_since`)."""

from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents.agent.access import visible_to
from agents.agent.models import EXTERNAL_RUNS, Run
from agents.agent.permissions import reply_denied_reason
from agents.runs.external.lifecycle import NOT_BEGUN, ReportedUsage, fail_external_run
from agents.runs.external.programs import programs_heard_at
from agents.runs.steps import MAX_ERROR_CHARACTERS as STEP_ERROR_CHARACTERS
from agents.runs.steps import add_step
from agents.runs.store import emit_reply_changed, emit_run_changed
from openvibe.chat.queries import sees_thread
from openvibe.engines.jobs.job_runs import newest_starts
from openvibe.engines.text.cleaning import pluralize

BATCH_SIZE = 200
CONNECT_SECONDS = 45.0
"""How long a run waits before it is said that its program was not heard since."""
NOT_CONNECTED = "not_connected"
NOT_CONNECTED_MESSAGE = "Its program is not connected. The question waits for it up to {minutes} min, then it fails."
START_TIMEOUT_MESSAGE = (
    "{name} runs elsewhere and did not begin within {minutes} min. See that its program is running, then press Retry."
)
TOO_LONG_MESSAGE = (
    "It took longer than the {minutes} that one answer of it may take. What it wrote until then is kept. An owner or "
    "admin can allow more in its settings; then press Retry."
)
SWEEP_TASK = "agents.sweep_runs"
SWEEPS_LOOKED_AT = 100
MAX_MISSED_SWEEPS, SWEEP_SLACK = 3, timedelta(seconds=15)
"""A server that is up lets no more than so many intervals between two sweeps go by, and a moment."""


def fail_silent_runs() -> None:
    """Ends external runs whose agent was not heard any more or did not begin, whose message was deleted, or whose
    thread it lost."""
    awaited = Run.objects.filter(heard_at__isnull=False, state__in=EXTERNAL_RUNS.unfinished)
    unfinished = list(awaited.order_by("heard_at", "pk").values_list("pk", "agent__participant")[:BATCH_SIZE])
    up_since = listening_since(timezone.now()) if unfinished else None
    heard_at = programs_heard_at({participant_id for _, participant_id in unfinished}) if unfinished else {}
    for run_id, participant_id in unfinished:
        with transaction.atomic():
            rows = awaited.select_for_update(no_key=True, of=("self",), skip_locked=True)
            run = rows.select_related("agent__participant", "thread__channel", "trigger").filter(pk=run_id).first()
            if run is None:
                continue
            code, reason = _lapse_of(run, up_since)
            if code and run.state == Run.State.QUEUED:
                _fail_queued(run, code, reason)
            elif code:
                fail_external_run(run=run, error=reason, usage=ReportedUsage(), code=code)
            elif run.state == Run.State.QUEUED:
                _note_connection(run, heard_at.get(participant_id))


def _note_connection(run: Run, program_heard_at: datetime | None) -> None:
    """Stores with a run that waits that its program was not heard since it was asked, or that it is there again."""
    asked_at = run.heard_at or run.queued_at
    if _is_busy(run):
        return
    is_heard = program_heard_at is not None and program_heard_at >= asked_at
    is_late = timezone.now() - asked_at >= timedelta(seconds=CONNECT_SECONDS)
    code = NOT_CONNECTED if is_late and not is_heard else ""
    if code == run.error_code:
        return
    run.error_code = code
    run.error = NOT_CONNECTED_MESSAGE.format(minutes=settings.AGENT_BEGIN_MINUTES) if code else ""
    run.save(update_fields=["error_code", "error"])
    emit_run_changed(run)


def _fail_queued(run: Run, code: str, reason: str) -> None:
    """Nothing was written: the reply of an earlier attempt stays as it is."""
    run.state, run.finished_at, run.error_code, run.error = Run.State.FAILED, timezone.now(), code, reason
    add_step(run, "failed", attempt=run.attempt, error=reason[:STEP_ERROR_CHARACTERS])
    run.save(update_fields=["state", "finished_at", "error_code", "error", "steps"])
    emit_reply_changed(run)


def _lapse_of(run: Run, up_since: datetime | None) -> tuple[str, str]:
    """The reason why the run cannot go on, as a code and words for people; empty when it can. `up_since`: as
    `listening_since`."""
    is_queued = run.state == Run.State.QUEUED
    seconds = 60 * settings.AGENT_BEGIN_MINUTES if is_queued else settings.AGENT_SILENCE_SECONDS
    if run.trigger.is_deleted:
        return "deleted", "The message was deleted before it was answered."
    if not run.agent.is_active:
        return "agent_silent", "The agent was deactivated before it answered."
    if not sees_thread(visible_to(run.agent), run.thread):
        return "agent_silent", reply_denied_reason(run.agent, run.thread, run.task) or "It sees this thread no more."
    if is_queued and not run.agent.answers_itself:
        return "answered_here", "Its answers are written here by now, and not elsewhere. Press Retry."
    now = timezone.now()
    if not is_queued and run.started_at and now - run.started_at > timedelta(minutes=run.agent.run_minutes):
        return "too_long", TOO_LONG_MESSAGE.format(minutes=pluralize(run.agent.run_minutes, "minute"))
    heard_at = max(filter(None, (run.heard_at, up_since)), default=now)
    if heard_at > now - timedelta(seconds=seconds) or (is_queued and _is_busy(run)):
        return "", ""
    if is_queued:
        return NOT_BEGUN, START_TIMEOUT_MESSAGE.format(
            name=run.agent.participant.name, minutes=settings.AGENT_BEGIN_MINUTES
        )
    return "silent", f"It fell silent while it answered: nothing was heard of it for {seconds:g} seconds."


def _is_busy(run: Run) -> bool:
    """Whether the agent elsewhere writes another answer in the thread: it can begin no second one there."""
    active = Run.objects.filter(EXTERNAL_RUNS.condition, agent=run.agent_id, thread=run.thread_id)
    return active.filter(state__in=EXTERNAL_RUNS.active).exists()


def listening_since(now: datetime) -> datetime | None:
    """The time since which this server can have heard agents, where it was away shortly before: it swept no runs then.
    None where it was not. Silence counts from then on."""
    times = [now, *newest_starts(SWEEP_TASK, SWEEPS_LOOKED_AT)]
    gaps = [later - earlier for later, earlier in pairwise(times)]
    if not gaps:
        return None
    max_gap = MAX_MISSED_SWEEPS * timedelta(seconds=median(gap.total_seconds() for gap in gaps)) + SWEEP_SLACK
    return next((later for later, gap in zip(times, gaps, strict=False) if gap > max_gap), None)
