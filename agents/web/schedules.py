"""An agent's schedules: what it posts unasked, when and where; and stopping it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_http_methods, require_POST

from agents.agent.access import visible_to
from agents.agent.models import Agent, Schedule
from agents.agent.pace import MAX_PROACTIVE_PER_DAY
from agents.schedules.recurrence import next_times, parse_time_zone
from agents.schedules.services import (
    ScheduleDraft,
    count_going_on,
    create_schedule,
    delete_schedule,
    place_denied_reasons,
    stop_schedules,
    update_schedule,
)
from agents.web.access import access_agent
from openvibe.base.forms import ServiceForm
from openvibe.base.params import MAX_ID, int_param
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Channel, Thread
from openvibe.engines.text.cleaning import pluralize
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import Member

PREVIEW_TIMES = 3
MAX_THREADS_OFFERED = 50
NO_PLACE = "Choose where it posts."
CRON_HELP = mark_safe(
    "A cron line: minute, hour, day of month, month, day of week. <code>0 9 * * mon-fri</code> is at 9:00 from Monday "
    "to Friday, <code>*/30 8-17 * * *</code> every half hour from 8:00 on. Where day of month and day of week are both "
    "given, a day must match both."
)


def _required_widget(widget: type[forms.Widget], **attributes: object) -> forms.Widget:
    return widget(attrs={"required": True, **attributes})


class ScheduleForm(ServiceForm):
    """The form of a new schedule, or of `editing`. What it says is checked by the services; `place` is `c12` or
    `t34`."""

    name = forms.CharField(required=False, label="Name", widget=_required_widget(forms.TextInput, maxlength=80))
    cron = forms.CharField(
        required=False,
        label="When",
        initial="0 9 * * mon-fri",
        widget=_required_widget(forms.TextInput, maxlength=100),
        help_text=CRON_HELP,
    )
    time_zone = forms.CharField(
        required=False,
        label="Time zone",
        initial="UTC",
        widget=_required_widget(forms.TextInput, maxlength=64),
        help_text="Like Europe/Berlin. A time that a night in spring skips runs right after the skipped hour.",
    )
    place = forms.CharField(
        label="Where it posts", error_messages={"required": NO_PLACE, "null_characters_not_allowed": NO_PLACE}
    )
    prompt = forms.CharField(
        required=False, label="What it is to do", widget=_required_widget(forms.Textarea, rows=4, maxlength=4_000)
    )
    is_active = forms.BooleanField(required=False, label="Active", initial=True)

    def __init__(self, request: WorkspaceRequest, agent: Agent, editing: Schedule | None) -> None:
        super().__init__(request.POST if request.method == "POST" else None, initial=_initial(editing))
        self.access = request.access
        places = _places(agent, request.access) if request.access.administers else []
        if editing is not None and _place_of(editing) not in dict(places):  # older than those that are offered
            places.append((_place_of(editing), "Where it posts now"))
        self.fields["place"].widget = forms.Select(choices=places)

    def clean_place(self) -> tuple[Channel, Thread | None]:
        return _access_place(self.access, self.cleaned_data["place"])

    def draft(self) -> ScheduleDraft:
        """The draft that a valid form makes."""
        values = {**self.cleaned_data}
        values["channel"], values["thread"] = values.pop("place")
        values["prompt"] = values["prompt"].replace("\r\n", "\n")
        return ScheduleDraft(**values)

    def times(self) -> tuple[str, ...]:
        """The times at which it would run next, whatever else is wrong. Raises Problem."""
        return _local_times(self.cleaned_data["cron"], self.cleaned_data["time_zone"])


@dataclass(frozen=True)
class ScheduleRow:
    """A schedule on its agent's page. `times`: the next ones, in its own time zone; `denial`: why none of them would
    run as things are now; `author_left`: whoever set it may not do so any more, in a sentence."""

    schedule: Schedule
    times: tuple[str, ...]
    denial: str
    author_left: str


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_schedules(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """What stands, with a form for admins: `?edit=` fills it with one. POST saves, or with `show` only says when."""
    agent = access_agent(request, handle)
    editing = _edited_schedule(request, agent)
    form = ScheduleForm(request, agent, editing)
    times: tuple[str, ...] = ()
    if request.method == "POST":
        try:
            if form.is_valid() and "show" not in request.POST:
                _save(request, agent, editing, form.draft())
                return redirect("agent-schedules", request.workspace.slug, handle)
            elif "show" in request.POST and not {"cron", "time_zone"} & form.errors.keys():
                times = form.times()
        except Problem as problem:
            form.add_problem(problem)
    rows = _rows(agent, request.access)
    page = {
        "agent": agent,
        "rows": rows,
        "any_active": any(row.schedule.is_active for row in rows),
        "unseen": "" if request.access.is_guest else unseen_words(count_going_on(agent, request.access).unseen),
        "form": form,
        "editing": editing,
        "times": times,
        "max_per_day": MAX_PROACTIVE_PER_DAY,
    }
    return render(request, "agents/schedules.html", page, status=form.status)


@workspace_view
@require_POST
def schedule_stop(request: WorkspaceRequest, schedule_id: int) -> HttpResponse:
    """Switches one off, from its agent's page or from something it posted."""
    schedule = _access_schedule(request.access, schedule_id)
    stopped = stop_schedules(schedules=[schedule], by=request.access)
    messages.success(request, _stop_words(schedule.agent, stopped or [schedule], request.access))
    return redirect("agent-schedules", request.workspace.slug, schedule.agent.participant.handle)


@workspace_view
@require_POST
def schedules_stop(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """Switches off all of an agent's that the asker sees."""
    agent = access_agent(request, handle)
    schedules = _schedules(request.access).filter(agent=agent, is_active=True)
    stopped = stop_schedules(schedules=schedules, by=request.access)
    messages.success(request, _stop_words(agent, stopped, request.access))
    return redirect("agent-schedules", request.workspace.slug, handle)


MAX_STOPPED_NAMED = 5


def _stop_words(agent: Agent, stopped: Sequence[Schedule], access: Access) -> str:
    """What is stopped, by name, and how many others go on: of those where the asker does not read no more than that."""
    going_on, name = count_going_on(agent, access), agent.participant.name
    names = [f"“{schedule.name}”" for schedule in stopped[:MAX_STOPPED_NAMED]]
    if len(stopped) > len(names):
        names.append(f"{len(stopped) - len(names)} more")
    listed = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    sentences = ["Nothing was stopped."]
    if stopped:
        are, them = ("is", "it") if len(stopped) == 1 else ("are", "them")
        sentences = [f"{listed} {are} stopped. An admin can start {them} again."]
    if going_on.seen:
        go = "goes" if going_on.seen == 1 else "go"
        sentences.append(f"{pluralize(going_on.seen, 'other schedule')} of {name} that you see {go} on.")
    if going_on.unseen:
        sentences.append(unseen_words(going_on.unseen))
    if not going_on.seen and not going_on.unseen:
        sentences.append(f"{name} posts nothing on schedule any more.")
    return " ".join(sentences)


def unseen_words(count: int) -> str:
    """What members are told of schedules that post where they do not read, and who stops them; empty of none."""
    if not count:
        return ""
    are = f"{pluralize(count, 'schedule')} in places that you do not see {'goes' if count == 1 else 'go'} on."
    return f"{are} Members who read there can stop {'it' if count == 1 else 'them'}; below L3 an agent posts none."


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
    members = Member.objects.filter(participant__in={each.author_id for each in schedules}, removed_at=None)
    roles = dict(members.values_list("participant", "role"))
    return [
        ScheduleRow(
            each,
            _local_times(each.cron, each.time_zone) if each.is_active else (),
            (denial or "") if each.is_active else "",
            _author_left(each, roles.get(each.author_id)),
        )
        for each, denial in zip(schedules, denials, strict=True)
    ]


def _author_left(schedule: Schedule, role: str | None) -> str:
    """Empty as long as whoever set it is an owner or admin."""
    if role in (Member.Role.OWNER, Member.Role.ADMIN):
        return ""
    now = "is no owner or admin any more" if role else "is not in this workspace any more"
    return f"{schedule.author.label}, who set it, {now}."


def _local_times(cron: str, time_zone: str) -> tuple[str, ...]:
    """The next times in words, in the schedule's zone and not the reader's. Raises Problem."""
    zone = parse_time_zone(time_zone.strip())
    return tuple(
        f"{time.astimezone(zone):%a %-d %b %Y, %H:%M}"
        for time in next_times(cron, zone.key, timezone.now(), PREVIEW_TIMES)
    )


def _place_of(schedule: Schedule) -> str:
    return f"t{schedule.thread_id}" if schedule.thread_id else f"c{schedule.channel_id}"


def _initial(schedule: Schedule | None) -> dict[str, object]:
    if schedule is None:
        return {}
    names = ("name", "cron", "time_zone", "prompt", "is_active")
    return {**{name: getattr(schedule, name) for name in names}, "place": _place_of(schedule)}


def _places(agent: Agent, access: Access) -> list[tuple[str, str]]:
    """The places where it may post, as far as both see it: a new thread in a channel, or one of the threads written in
    last."""
    own = visible_to(agent)
    channels = Channel.objects.visible_to(own).filter(pk__in=Channel.objects.visible_to(access), archived_at=None)
    threads = Thread.objects.visible_to(own).filter(pk__in=Thread.objects.visible_to(access)).exclude_dives()
    threads = threads.filter(archived_at=None, channel__archived_at=None).select_related("channel")
    return [
        *((f"c{channel.pk}", f"#{channel.name}: a new thread each time") for channel in channels.order_by("name")),
        *(
            (f"t{thread.pk}", f"{thread.channel} › {thread.title}")
            for thread in threads.order_by("-last_message_at")[:MAX_THREADS_OFFERED]
        ),
    ]


def _save(request: WorkspaceRequest, agent: Agent, editing: Schedule | None, draft: ScheduleDraft) -> None:
    """Raises Problem with the field that is wrong."""
    if editing is None:
        create_schedule(agent=agent, by=request.access, draft=draft)
    else:
        update_schedule(schedule=editing, by=request.access, draft=draft)


def _access_place(access: Access, place: str) -> tuple[Channel, Thread | None]:
    """The channel and the thread that `c12` and `t34` stand for. Raises ValidationError for what the asker does not
    see."""
    kind, number = place[:1], place[1:]
    pk = int(number) if number.isascii() and number.isdecimal() and len(number) < 19 else 0
    if kind == "t":
        threads = Thread.objects.visible_to(access).exclude_dives().select_related("channel")
        if thread := threads.filter(pk=pk).first():
            return thread.channel, thread
    elif channel := Channel.objects.visible_to(access).filter(pk=pk).first():
        return channel, None
    raise forms.ValidationError(NO_PLACE)
