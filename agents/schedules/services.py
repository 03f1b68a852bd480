"""Services that create, update, stop and delete schedules, and start the runs of those that are due."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.agent.access import visible_to
from agents.agent.models import Agent, Run, Schedule
from agents.agent.pace import CLOCK_SLACK, pace_denial
from agents.agent.permissions import unasked_denied_reasons
from agents.schedules.recurrence import next_times, parse_time_zone
from openvibe.base.events import emit
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import create_system_message, create_thread
from openvibe.engines.text.cleaning import TextRefused, clean_body
from openvibe.workspaces.access import Access

log = structlog.get_logger(__name__)

MAX_SCHEDULES = 20
"""Schedules of one agent."""

MAX_PROMPT_CHARACTERS = 4_000
BATCH_SIZE = 200


@dataclass(frozen=True)
class ScheduleDraft:
    """What a schedule is to say. `thread` stands in `channel`; None: a new thread each time."""

    name: str
    cron: str
    time_zone: str
    prompt: str
    channel: Channel
    thread: Thread | None = None
    is_active: bool = True


@transaction.atomic
def create_schedule(*, agent: Agent, by: Access, draft: ScheduleDraft) -> Schedule:
    """Raises Refused (not an admin; the agent may not speak there), Problem (the field that is wrong)."""
    _check_administers(by, agent)
    schedule = Schedule(agent=agent)
    _write(schedule, by, draft)
    Agent.objects.select_for_update(of=("self",), no_key=True).get(pk=agent.pk)  # two at once count one another
    if Schedule.objects.filter(agent=agent).count() >= MAX_SCHEDULES:
        raise Problem(f"@{agent.handle} has {MAX_SCHEDULES} schedules, the most there may be.", code="too_many")
    schedule.save()
    emit("agent_changed", workspace_id=agent.workspace_id)
    return schedule


@transaction.atomic
def update_schedule(*, schedule: Schedule, by: Access, draft: ScheduleDraft) -> Schedule:
    """Changes the schedule, which is due next as the new line says. Raises as `create_schedule`."""
    current = _lock(schedule)
    _check_administers(by, current.agent)
    _write(current, by, draft)
    current.save()
    emit("agent_changed", workspace_id=current.agent.workspace_id)
    return current


@transaction.atomic
def delete_schedule(*, schedule: Schedule, by: Access) -> None:
    """What it posted stays. Raises Refused."""
    current = _lock(schedule)
    _check_administers(by, current.agent)
    current.delete()
    emit("agent_changed", workspace_id=current.agent.workspace_id)


@transaction.atomic
def stop_schedules(*, schedules: Iterable[Schedule], by: Access) -> list[Schedule]:
    """Switches them off: any member who sees them may, guests excepted; admins switch them on again. Returns those that
    were on until now."""
    if by.is_agent or by.is_guest:
        raise Refused("Only members of the workspace stop what an agent posts on schedule.", code="people_only")
    stopped = []
    for schedule in sorted(schedules, key=lambda schedule: schedule.pk):
        current = _lock(schedule)
        if current.is_active:
            who = current.agent.workspace.participants.get(pk=by.participant_id)
            current.is_active, current.next_due_at, current.note = False, None, f"{who.name} stopped it."
            current.save(update_fields=["is_active", "next_due_at", "note", "updated_at"])
            emit("agent_changed", workspace_id=current.agent.workspace_id)
            stopped.append(current)
    return stopped


@dataclass(frozen=True)
class GoingOn:
    """How many schedules of an agent are on: where the asker reads, and elsewhere."""

    seen: int
    unseen: int


def count_going_on(agent: Agent, access: Access) -> GoingOn:
    """Two queries."""
    active = Schedule.objects.filter(agent=agent, is_active=True)
    seen_count = Schedule.objects.visible_to(access).filter(agent=agent, is_active=True).count()
    return GoingOn(seen_count, active.count() - seen_count)


def _lock(schedule: Schedule) -> Schedule:
    """Raises Missing once it was deleted."""
    rows = Schedule.objects.select_for_update(of=("self",)).select_related("agent__participant", "agent__workspace")
    current = rows.filter(pk=schedule.pk).first()
    if current is None:
        raise Missing
    return current


def _check_administers(by: Access, agent: Agent) -> None:
    if not by.administers or by.workspace_id != agent.workspace_id:
        raise Refused("Only owners and admins may set what an agent does on schedule.")


def _write(schedule: Schedule, by: Access, draft: ScheduleDraft) -> None:
    """The draft onto the row, every field checked."""
    schedule.name = _clean_text(draft.name, "name", 80)
    schedule.prompt = _clean_text(draft.prompt, "prompt", MAX_PROMPT_CHARACTERS)
    schedule.cron, schedule.time_zone = _clean_text(" ".join(draft.cron.split()), "cron", 100), draft.time_zone.strip()
    times = next_times(schedule.cron, schedule.time_zone, timezone.now())
    if not times:
        raise Problem("This line never comes.", code="bad_cron", field="cron")
    schedule.channel, schedule.thread = draft.channel, draft.thread
    schedule.is_active, schedule.next_due_at = draft.is_active, times[0] if draft.is_active else None
    schedule.author_id = by.participant_id
    schedule.note = ""
    if draft.is_active and (reason := place_denied_reason(schedule)):
        raise Refused(reason, code="agent_silent")


def _clean_text(text: str, field: str, max_characters: int) -> str:
    try:
        return clean_body(text, max_characters=max_characters).strip()
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field=field) from None


def place_denied_reason(schedule: Schedule) -> str | None:
    """The reason why the agent may not speak where the schedule posts, as things are now; None when it may."""
    return place_denied_reasons(schedule.agent, [schedule])[0]


def place_denied_reasons(agent: Agent, schedules: Sequence[Schedule]) -> list[str | None]:
    """The same for many schedules of one agent, in as many queries."""
    threads = [
        schedule.thread or Thread(workspace_id=agent.workspace_id, channel=schedule.channel) for schedule in schedules
    ]
    denials = unasked_denied_reasons(agent, threads, "scheduled")
    return [_closed_reason(agent, each) or denial for each, denial in zip(schedules, denials, strict=True)]


def _closed_reason(agent: Agent, schedule: Schedule) -> str | None:
    """What has nothing to do with trust: nobody speaks there, or the agent does not run here."""
    name, thread = f"@{agent.participant.handle}", schedule.thread
    if agent.answers_itself:
        return f"{name} does not run here: it answers by itself, through the API, and keeps its own schedule."
    if schedule.channel.archived_at is not None:
        return f"{name} does not speak there: the channel is archived."
    if thread is not None and thread.archived_at is not None:
        return f"{name} does not speak there: the thread is archived."
    return None


def _pace_denied_reason(schedule: Schedule, now: datetime) -> str | None:
    """The reason why it is too soon, or too much for one day. The caller holds the agent's row."""
    runs = Run.objects.filter(agent=schedule.agent, schedule=schedule, regenerates=None)
    if runs.exclude(state__in=Run.FINISHED_STATES).exists():
        return "What it began the time before is not finished."
    denial = pace_denial(schedule.agent, now)
    return denial.reason if denial else None


def start_due_schedules(now: datetime | None = None) -> list[int]:
    """Starts the runs of all schedules that are due; returns their ids. However often it is called, each due time
    starts one.

    Times that passed while nothing ran are one: the schedule runs once, late, and then as it says.
    """
    now = now or timezone.now()
    _reset_times_ahead(now)
    due_schedules = Schedule.objects.filter(is_active=True, next_due_at__lte=now).order_by("next_due_at", "pk")
    run_ids = [_start_due(pk, now) for pk in due_schedules.values_list("pk", flat=True)[:BATCH_SIZE]]
    return [run_id for run_id in run_ids if run_id is not None]


@transaction.atomic
def _reset_times_ahead(now: datetime) -> None:
    """Schedules that ran while the clock was ahead are due next by the time that it is, not years later."""
    ahead = Schedule.objects.filter(is_active=True, last_due_at__gt=now + CLOCK_SLACK)
    for schedule in ahead.select_for_update(skip_locked=True)[:BATCH_SIZE]:
        schedule.last_due_at = None
        _set_next(schedule, now)
        schedule.save(update_fields=["last_due_at", "is_active", "next_due_at", "updated_at"])


def _set_next(schedule: Schedule, now: datetime) -> None:
    times = next_times(schedule.cron, schedule.time_zone, now)
    schedule.is_active, schedule.next_due_at = bool(times), times[0] if times else None


@transaction.atomic
def _start_due(schedule_id: int, now: datetime) -> int | None:
    """One schedule, if it is still due and nobody else has it: its run, and when it is due next, together."""
    rows = Schedule.objects.select_for_update(of=("self",), skip_locked=True).select_related(
        "channel", "thread__channel"
    )
    schedule = rows.filter(pk=schedule_id, is_active=True, next_due_at__lte=now).first()
    if schedule is None or schedule.next_due_at is None:
        return None
    agents = Agent.objects.select_related("participant", "workspace", "soul", "endpoint")
    schedule.agent = agents.select_for_update(of=("self",), no_key=True).get(pk=schedule.agent_id)
    due_at = schedule.last_due_at = schedule.next_due_at
    _set_next(schedule, now)
    run, reason = None, place_denied_reason(schedule) or _pace_denied_reason(schedule, now)
    if reason is None:
        try:
            with transaction.atomic():
                run = _create_run(schedule, due_at)
        except Problem as problem:
            reason = problem.message
        except IntegrityError:  # the clock went back
            reason = "It ran for this time already."
    schedule.note = reason[:300] if reason else ""
    schedule.save(update_fields=["last_due_at", "is_active", "next_due_at", "note", "updated_at"])
    if reason:
        log.warning("schedule_did_not_run", schedule=schedule.pk, due_at=due_at.isoformat())
        emit("agent_changed", workspace_id=schedule.agent.workspace_id)
    return run.pk if run else None


def _create_run(schedule: Schedule, due_at: datetime) -> Run:
    agent, local = schedule.agent, due_at.astimezone(parse_time_zone(schedule.time_zone))
    thread = schedule.thread or create_thread(
        channel=schedule.channel, by=visible_to(agent), title=f"{schedule.name}, {local:%-d %B %Y}"
    )
    body = f"On schedule “{schedule.name}”: {schedule.prompt}"
    message: Message = create_system_message(thread=thread, author=agent.participant, body=body)
    return Run.objects.create(
        workspace_id=agent.workspace_id,
        agent=agent,
        thread=thread,
        trigger=message,
        requested_by_id=schedule.author_id,
        task=Run.Task.SCHEDULED,
        schedule=schedule,
        due_at=due_at,
    )
