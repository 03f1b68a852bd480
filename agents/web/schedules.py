"""An agent's schedules: what it posts unasked, when and where; and stopping it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from agents.access import visible_to
from agents.models import Agent, Schedule
from agents.schedules.recurrence import next_times, parse_time_zone
from agents.schedules.services import (
    MAX_PROACTIVE_PER_DAY,
    ScheduleDraft,
    create_schedule,
    delete_schedule,
    place_denied_reasons,
    stop_schedules,
    update_schedule,
)
from agents.web.agent_page import access_agent
from openvibe.base.params import MAX_ID, int_param
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Channel, Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

TIMES_SHOWN = 3
MAX_THREADS_OFFERED = 50
EMPTY_FORM = {"name": "", "cron": "0 9 * * mon-fri", "time_zone": "UTC", "prompt": "", "place": "", "is_active": "1"}


@dataclass(frozen=True)
class ScheduleRow:
    """A schedule on its agent's page. `times`: the next ones, in its own time zone; `denial`: why none of them would
    run as things are now."""

    schedule: Schedule
    times: tuple[str, ...]
    denial: str


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_schedules(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """What stands, with a form for admins: `?edit=` fills it with one. POST saves, or with `show` only says when."""
    agent = access_agent(request, handle)
    editing = _edited_schedule(request, agent)
    problem: Problem | None = None
    times: tuple[str, ...] = ()
    form: Mapping[str, str] = _form_of(editing) if editing else EMPTY_FORM
    if request.method == "POST":
        form = {name: request.POST.get(name, "") for name in EMPTY_FORM}
        try:
            if "show" in request.POST:
                times = _local_times(form["cron"], form["time_zone"])
            else:
                _save(request, agent, editing, form)
                return redirect("agent-schedules", request.workspace.slug, handle)
        except Problem as error:
            problem = error
    rows = _rows(agent, request.access)
    page = {
        "agent": agent,
        "rows": rows,
        "any_active": any(row.schedule.is_active for row in rows),
        "form": form,
        "editing": editing,
        "problem": problem,
        "times": times,
        "places": _places(agent, request.access) if request.access.administers else (),
        "max_per_day": MAX_PROACTIVE_PER_DAY,
    }
    return render(request, "agents/schedules.html", page, status=problem.status if problem else 200)


@workspace_view
@require_POST
def schedule_stop(request: WorkspaceRequest, schedule_id: int) -> HttpResponse:
    """Switch one off, from its agent's page or from something it posted."""
    schedule = _access_schedule(request.access, schedule_id)
    stop_schedules(schedules=[schedule], by=request.access)
    messages.success(request, f"“{schedule.name}” is stopped. An admin can start it again.")
    return redirect("agent-schedules", request.workspace.slug, schedule.agent.participant.handle)


@workspace_view
@require_POST
def schedules_stop(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """Switch off all of an agent's that the asker sees."""
    agent = access_agent(request, handle)
    stop_schedules(schedules=_schedules(request.access).filter(agent=agent, is_active=True), by=request.access)
    messages.success(request, f"{agent.participant.name} posts nothing unasked any more.")
    return redirect("agent-schedules", request.workspace.slug, handle)


@workspace_view
@require_POST
def schedule_delete(request: WorkspaceRequest, schedule_id: int) -> HttpResponse:
    schedule = _access_schedule(request.access, schedule_id)
    delete_schedule(schedule=schedule, by=request.access)
    return redirect("agent-schedules", request.workspace.slug, schedule.agent.participant.handle)


def _schedules(access: Access) -> Any:
    related = ("agent__participant", "agent__workspace", "agent__endpoint", "channel", "thread__channel", "author")
    return Schedule.objects.visible_to(access).select_related(*related)


def _access_schedule(access: Access, schedule_id: int) -> Schedule:
    schedule: Schedule | None = _schedules(access).filter(pk=min(schedule_id, MAX_ID)).first()
    if schedule is None:
        raise Missing
    return schedule


def _edited_schedule(request: WorkspaceRequest, agent: Agent) -> Schedule | None:
    """The one that `edit` names, in the address or in the form. Raises Missing for another agent's."""
    schedule_id = int_param(request.GET, "edit")
    if schedule_id is None:
        return None
    schedule = _access_schedule(request.access, schedule_id)
    if schedule.agent_id != agent.pk:
        raise Missing
    return schedule


def _rows(agent: Agent, access: Access) -> list[ScheduleRow]:
    schedules = list(_schedules(access).filter(agent=agent))
    denials = place_denied_reasons(agent, schedules)
    return [
        ScheduleRow(each, _local_times(each.cron, each.time_zone), denial or "")
        if each.is_active
        else ScheduleRow(each, (), "")
        for each, denial in zip(schedules, denials, strict=True)
    ]


def _local_times(cron: str, time_zone: str) -> tuple[str, ...]:
    """The next times in words, in the schedule's zone and not the reader's. Raises Problem."""
    zone = parse_time_zone(time_zone.strip())
    return tuple(
        f"{time.astimezone(zone):%a %-d %b %Y, %H:%M}"
        for time in next_times(cron, zone.key, timezone.now(), TIMES_SHOWN)
    )


def _form_of(schedule: Schedule) -> dict[str, str]:
    place = f"t{schedule.thread_id}" if schedule.thread_id else f"c{schedule.channel_id}"
    columns = {name: str(getattr(schedule, name)) for name in ("name", "cron", "time_zone", "prompt")}
    return {**columns, "place": place, "is_active": "1" if schedule.is_active else ""}


def _places(agent: Agent, access: Access) -> list[tuple[str, str]]:
    """Where it may post, as far as both see it: a new thread in a channel, or one of the threads written in last."""
    own = visible_to(agent)
    channels = Channel.objects.visible_to(own).filter(pk__in=Channel.objects.visible_to(access), archived_at=None)
    threads = Thread.objects.visible_to(own).filter(pk__in=Thread.objects.visible_to(access)).exclude_dives()
    threads = threads.filter(archived_at=None, channel__archived_at=None).select_related("channel")
    return [
        *((f"c{channel.pk}", f"#{channel.name}: a new thread each time") for channel in channels.order_by("name")),
        *(
            (f"t{thread.pk}", f"#{thread.channel.name} › {thread.title}")
            for thread in threads.order_by("-last_message_at")[:MAX_THREADS_OFFERED]
        ),
    ]


def _save(request: WorkspaceRequest, agent: Agent, editing: Schedule | None, form: Mapping[str, str]) -> None:
    """Raises Problem with the field that is wrong."""
    channel, thread = _chosen_place(request.access, form["place"])
    draft = ScheduleDraft(
        name=form["name"],
        cron=form["cron"],
        time_zone=form["time_zone"],
        prompt=form["prompt"].replace("\r\n", "\n"),
        channel=channel,
        thread=thread,
        is_active=form["is_active"] == "1",
    )
    if editing is None:
        create_schedule(agent=agent, by=request.access, draft=draft)
    else:
        update_schedule(schedule=editing, by=request.access, draft=draft)


def _chosen_place(access: Access, place: str) -> tuple[Channel, Thread | None]:
    """Of `c12` and `t34`. Raises Problem for what the asker does not see."""
    kind, number = place[:1], place[1:]
    pk = int(number) if number.isascii() and number.isdecimal() and len(number) < 19 else 0
    if kind == "t":
        threads = Thread.objects.visible_to(access).exclude_dives().select_related("channel")
        if thread := threads.filter(pk=pk).first():
            return thread.channel, thread
    elif channel := Channel.objects.visible_to(access).filter(pk=pk).first():
        return channel, None
    raise Problem("Choose where it posts.", code="bad_place", field="place")
