"""The channels that an agent watches: set by admins, stopped by members; its newest looks, and what each was asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from agents.agent.models import MAX_REST_MINUTES, Agent, Watch, WatchLook
from agents.agent.pace import MAX_PROACTIVE_PER_DAY
from agents.prompts.assembler.watch import proactive_triggers
from agents.prompts.snapshots.content import UnreadableContent, content_messages, unpack_content
from agents.watching.queries import count_looks, visible_looks
from agents.watching.services import (
    DEFAULT_REST_MINUTES,
    agent_denied_reason,
    create_watch,
    free_channels,
    stop_watches,
    update_watch,
    watch_denied_reasons,
)
from agents.watching.thresholds import Threshold, read_thresholds
from agents.web.access import access_agent, check_may
from openvibe.base.forms import ServiceForm
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing, Problem
from openvibe.engines.llm.values import ChatMessage
from openvibe.engines.text.cleaning import pluralize
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

MAX_LOOKS = 20
NO_CHANNEL = "Choose a channel that it is in."


class WatchForm(ServiceForm):
    """The form of a channel to watch. What it says is checked by the services."""

    channel = forms.TypedChoiceField(label="Channel", coerce=int, error_messages={"invalid_choice": NO_CHANNEL})
    rest_minutes = forms.IntegerField(
        label="Minutes of rest",
        initial=DEFAULT_REST_MINUTES,
        min_value=1,
        max_value=MAX_REST_MINUTES,
        help_text="So long people have said nothing in a thread before it looks.",
    )

    def __init__(self, request: WorkspaceRequest, channels: Sequence[Any]) -> None:
        super().__init__(request.POST if request.method == "POST" else None)
        self.fields["channel"].choices = [(channel.pk, f"#{channel.name}") for channel in channels]  # type: ignore[attr-defined]  # a choice field


class ChangeForm(forms.Form):
    """What an admin changes of a watch: the minutes, or `do`: start it again, or forget the verdicts."""

    rest_minutes = forms.IntegerField(required=False, min_value=1, max_value=MAX_REST_MINUTES)
    do = forms.ChoiceField(required=False, choices=[("start", "start"), ("forget", "forget")])


@dataclass(frozen=True)
class WatchRow:
    """A watch on its agent's page. `denial`: why it does not look there as things are now."""

    watch: Watch
    threshold: Threshold
    denial: str


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_watching(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """What it watches, and for what; POST adds a channel."""
    agent = access_agent(request, handle)
    if request.method == "POST":
        check_may(request, "set what an agent watches")
    channels = free_channels(agent, request.access)
    form = WatchForm(request, channels)
    if request.method == "POST" and form.is_valid():
        try:
            channel = next(each for each in channels if each.pk == form.cleaned_data["channel"])
            minutes = form.cleaned_data["rest_minutes"]
            create_watch(agent=agent, by=request.access, channel=channel, rest_minutes=minutes)
            return redirect("agent-watching", request.workspace.slug, handle)
        except Problem as problem:
            form.add_problem(problem)
    rows = _rows(agent, request.access)
    page = {
        "agent": agent,
        "rows": rows,
        "any_active": any(row.watch.is_active for row in rows),
        "triggers": () if request.access.is_guest else proactive_triggers(agent),
        "obstacle": agent_denied_reason(agent),
        "counts": count_looks(agent, request.access),
        "looks": _newest_looks(agent, request.access),
        "form": form,
        "has_channels": bool(channels),
        "max_per_day": MAX_PROACTIVE_PER_DAY,
    }
    return render(request, "agents/watching.html", page, status=form.status)


@workspace_view
@require_POST
def watch_change(request: WorkspaceRequest, watch_id: int) -> HttpResponse:
    """Changes one, for admins."""
    watch = _access_watch(request.access, watch_id)
    form = ChangeForm(request.POST)
    if not form.is_valid():
        words = f"It looks 1 to {MAX_REST_MINUTES} minutes after people have said something. Nothing was changed."
        messages.error(request, words)
    else:
        values = form.cleaned_data
        try:
            update_watch(
                watch=watch,
                by=request.access,
                rest_minutes=values["rest_minutes"],
                is_active=True if values["do"] == "start" else None,
                resets_threshold=values["do"] == "forget",
            )
            messages.success(request, f"Saved for #{watch.channel.name}.")
        except Problem as problem:
            messages.error(request, problem.message)
    return redirect("agent-watching", request.workspace.slug, watch.agent.handle)


@workspace_view
@require_POST
def watch_stop(request: WorkspaceRequest, watch_id: int) -> HttpResponse:
    """Switches one off, from its agent's page or from something it posted."""
    watch = _access_watch(request.access, watch_id)
    stopped = stop_watches(watches=[watch], by=request.access)
    messages.success(request, _stop_words(watch.agent, stopped or [watch], request.access))
    return redirect("agent-watching", request.workspace.slug, watch.agent.handle)


@workspace_view
@require_POST
def watches_stop(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """Switches off all of an agent's that the asker sees."""
    agent = access_agent(request, handle)
    stopped = stop_watches(watches=_watches(request.access).filter(agent=agent, is_active=True), by=request.access)
    messages.success(request, _stop_words(agent, stopped, request.access))
    return redirect("agent-watching", request.workspace.slug, handle)


@workspace_view
def watch_look(request: WorkspaceRequest, look_id: int) -> HttpResponse:
    """What a look was asked, word for word, and what came of it."""
    related = ("watch__agent__participant", "watch__channel", "thread")
    look = visible_looks(request.access).select_related(*related).filter(pk=min(look_id, MAX_ID)).first()
    if look is None:
        raise Missing
    page = {"look": look, "agent": look.watch.agent, "prompt": _prompt_messages(look)}
    return render(request, "agents/watch_look.html", page)


def _prompt_messages(look: WatchLook) -> list[ChatMessage]:
    """None where it is not kept any more, or cannot be read."""
    try:
        return list(content_messages(unpack_content(look.content))) if look.content else []
    except UnreadableContent:
        return []


def _watches(access: Access) -> Any:
    related = ("agent__participant", "agent__workspace", "agent__endpoint", "agent__soul", "channel", "author")
    return Watch.objects.visible_to(access).select_related(*related)


def _access_watch(access: Access, watch_id: int) -> Watch:
    watch: Watch | None = _watches(access).filter(pk=min(watch_id, MAX_ID)).first()
    if watch is None:
        raise Missing
    return watch


def _rows(agent: Agent, access: Access) -> list[WatchRow]:
    watches = list(_watches(access).filter(agent=agent))
    thresholds = read_thresholds(watches)
    denials = watch_denied_reasons(agent, [watch.channel for watch in watches]) if watches else []
    return [
        WatchRow(watch, thresholds[watch.pk], (denial or "") if watch.is_active else "")
        for watch, denial in zip(watches, denials, strict=True)
    ]


def _newest_looks(agent: Agent, access: Access) -> list[WatchLook]:
    looks = visible_looks(access).filter(watch__agent=agent).select_related("thread", "watch__channel")
    return list(looks.defer("content").order_by("-pk")[:MAX_LOOKS])


def _stop_words(agent: Agent, stopped: Sequence[Watch], access: Access) -> str:
    """What is stopped, and how many others go on."""
    counts, name = count_looks(agent, access), agent.participant.name
    words = "Nothing was stopped."
    if stopped:
        channels = ", ".join(f"#{watch.channel.name}" for watch in stopped[:5])
        more = f" and {len(stopped) - 5} more" if len(stopped) > 5 else ""
        words = f"{name} watches {channels}{more} no more. An admin can start that again."
    others = counts.watches + counts.unseen
    return f"{words} It goes on watching {pluralize(others, 'other channel')}." if others else words
