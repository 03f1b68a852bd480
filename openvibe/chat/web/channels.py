"""The channel page, and what can be changed about a channel."""

from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from django.contrib import messages
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from openvibe.base.params import int_param, words_param
from openvibe.base.problems import Problem
from openvibe.chat import services
from openvibe.chat.models import Channel, ChannelMembership, Thread, reread_visibility, sees_channel
from openvibe.chat.queries import (
    BROWSE_SCOPES,
    BrowseScope,
    access_channel,
    agents_with_access,
    browse_channels,
    list_channel_threads,
    members_with_access,
    scoped_instructions,
)
from openvibe.chat.services.permissions import check_creates_channels, check_manages_channel, may_manage_channel
from openvibe.chat.web.agent_limits import AgentLimitsForm
from openvibe.chat.web.notifications import channel_notify_menu
from openvibe.chat.web.thread_lists import thread_list_context
from openvibe.engines.text.cleaning import has_visible_character, text_version
from openvibe.engines.text.markdown import plain_text
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import IMPORTED_KINDS, Participant
from openvibe.workspaces.queries import is_here, name_like

MAX_DERIVED_TITLE_CHARACTERS = 80
SCOPE_LABELS: dict[BrowseScope, str] = {"all": "All", "joined": "Joined", "others": "Not joined"}
PEOPLE_ON_A_PAGE = 50
CHANNELS_ON_A_PAGE = 50
MAX_OFFERED_PARTICIPANTS = 200
"""People and agents to choose from at a time; others are searched for."""


@workspace_view
@require_safe
def channel(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """The page of a channel with its threads, the one last written in first; `?archived=1` shows those put away."""
    return render_channel_page(request, access_channel(request.access, channel_id))


def render_channel_page(
    request: WorkspaceRequest,
    channel: Channel,
    *,
    problem: Problem | None = None,
    form_data: Mapping[str, str] | None = None,
) -> HttpResponse:
    archived = request.GET.get("archived") == "1"
    context: dict[str, Any] = {
        "channel": channel,
        **thread_list_context(request, partial(list_channel_threads, channel, request.access, archived=archived)),
        "archived": archived,
        "problem": problem,
        "form_data": form_data or {"client_id": uuid4().hex},
        "accesses": Thread.Access.choices,
        "may_manage": may_manage_channel(channel, request.access),
        "notify": channel_notify_menu(request, channel),
    }
    return render(request, "chat/channel.html", context, status=problem.status if problem else 200)


@workspace_view
@require_safe
def channel_members(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """The page of who reads the channel: people, and agents with their level; who could be added. `?q=` keeps whom it
    names."""
    channel = access_channel(request.access, channel_id)
    added = ChannelMembership.objects.filter(channel=channel, participant=OuterRef("pk"))
    addable = (
        Participant.objects.filter(workspace=request.workspace, is_active=True)
        .exclude(kind__in=IMPORTED_KINDS)
        .exclude(channel_memberships__channel=channel)
    )
    words = words_param(request.GET)
    people = members_with_access(channel).filter(name_like(words)).annotate(added=Exists(added), is_here=is_here("pk"))
    page = Paginator(people, PEOPLE_ON_A_PAGE).get_page(request.GET.get("page"))
    addable = addable.none() if request.access.is_guest else addable.filter(name_like(words)).order_by("kind", "name")
    others = list(addable[: MAX_OFFERED_PARTICIPANTS + 1])
    added_agents = channel.memberships.filter(participant__kind=Participant.Kind.AGENT)
    context = {
        "channel": channel,
        "agents": agents_with_access(channel),
        "people": page,
        "page": page,
        "words": words,
        "words_query": urlencode({"q": words}) if words else "",
        "added_ids": set(added_agents.values_list("participant_id", flat=True)),
        "others": others[:MAX_OFFERED_PARTICIPANTS],
        "offered_all": len(others) <= MAX_OFFERED_PARTICIPANTS,
        "may_manage": may_manage_channel(channel, request.access),
        "instructions": scoped_instructions(request.access, request.workspace, channel),
    }
    return render(request, "chat/channel_members.html", context)


@workspace_view
@require_safe
def channel_list(request: WorkspaceRequest) -> HttpResponse:
    """The page to browse channels: every open one the asker sees, by name; `?q=` keeps those whose name or purpose
    holds the words, `?show=joined` or `others` those she joined, or did not."""
    words = words_param(request.GET)
    show: BrowseScope = next((name for name in BROWSE_SCOPES if name == request.GET.get("show")), "all")
    channels = browse_channels(request.access, words=words, show=show)
    page = Paginator(channels, CHANNELS_ON_A_PAGE).get_page(request.GET.get("page"))
    query = {**({"q": words} if words else {}), **({"show": show} if show != "all" else {})}
    context = {"page": page, "words": words, "words_query": urlencode(query), "show": show, "shows": SCOPE_LABELS}
    return render(request, "chat/channels.html", context)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def channel_create(request: WorkspaceRequest) -> HttpResponse:
    check_creates_channels(request.access)
    problem = None
    if request.method == "POST":
        try:
            channel = services.create_channel(
                by=request.access,
                name=request.POST.get("name", ""),
                description=request.POST.get("description", ""),
                is_private="is_private" in request.POST,
            )
            return redirect("channel", request.workspace.slug, channel.pk)
        except Problem as error:
            problem = error
    context = {"problem": problem, "form_data": request.POST}
    return render(request, "chat/channel_form.html", context, status=problem.status if problem else 200)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def channel_edit(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """The page that saves name and description; `instructions` for agents; with `limits` what holds for agents;
    `archived` 1 or 0 puts the channel away or brings it back."""
    channel = access_channel(request.access, channel_id)
    check_manages_channel(channel, request.access)
    problem, limits = None, AgentLimitsForm(channel, request.access)
    form_data: Mapping[str, str] = {
        "name": channel.name,
        "description": channel.description,
        "instructions": channel.instructions,
    }
    if request.method == "POST":
        try:
            archived = {"1": True, "0": False}.get(request.POST.get("archived", ""))
            if archived is not None:
                services.archive_channel(channel=channel, by=request.access, archived=archived)
            elif "limits" in request.POST:
                limits = AgentLimitsForm(channel, request.access, request.POST)
                limits.save(by=request.access)
            elif "instructions" in request.POST:
                text, version = request.POST["instructions"], request.POST.get("version")
                services.set_instructions(scope=channel, by=request.access, text=text, version=version)
            else:
                name, description = request.POST.get("name", ""), request.POST.get("description", "")
                services.update_channel(channel=channel, by=request.access, name=name, description=description)
            return redirect("channel", request.workspace.slug, channel.pk)
        except Problem as error:
            problem, form_data = error, {**form_data, **request.POST.dict()}
    context = {
        "channel": channel,
        "limits": limits,
        "problem": problem,
        "form_data": form_data,
        "version": text_version(channel.instructions),
        "is_stale": problem is not None and problem.code == "changed_meanwhile",
    }
    return render(request, "chat/channel_form.html", context, status=problem.status if problem else 200)


@workspace_view
@require_POST
def channel_membership(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """The page that adds `participant` to the channel, or with `remove` takes them out."""
    channel = access_channel(request.access, channel_id)
    participant_id = int_param(request.POST, "participant")
    participants = Participant.objects.filter(workspace=request.workspace)
    participant = participants.filter(pk=participant_id).first() if participant_id is not None else None
    if participant is None:
        raise Problem("Choose somebody of this workspace.", code="unknown_participant", field="participant")
    if "remove" in request.POST:
        services.remove_from_channel(channel=channel, participant=participant, by=request.access)
    else:
        services.add_to_channel(channel=channel, participant=participant, by=request.access)
    if not sees_channel(reread_visibility(request.access), channel.pk):
        messages.info(request, f"You left {channel}.")
        return redirect("inbox", request.workspace.slug)
    return redirect("channel-members", request.workspace.slug, channel.pk)


@workspace_view
@require_POST
def thread_create(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """A new thread with its first message. Without a title the beginning of the text is one. The same form sent again
    with the same words, as after an answer that was lost, leads to the thread that it made."""
    channel = access_channel(request.access, channel_id)
    names = ("title", "body", "access", "client_id")
    form_data = {name: request.POST.get(name, "").replace("\r\n", "\n") for name in names}
    client_id = sha256("\n".join(form_data.values()).encode()).hexdigest() if form_data["client_id"] else ""
    try:
        with transaction.atomic():
            thread = services.create_thread(
                channel=channel,
                by=request.access,
                title=form_data["title"].strip() or plain_text(form_data["body"][:2000])[:MAX_DERIVED_TITLE_CHARACTERS],
                access=form_data["access"] or Thread.Access.OPEN,
                client_id=client_id,
            )
            if has_visible_character(form_data["body"]):
                services.post_message(thread=thread, by=request.access, body=form_data["body"], client_id=client_id)
    except Problem as problem:
        return render_channel_page(request, channel, problem=problem, form_data=form_data)
    return redirect("thread", request.workspace.slug, thread.pk)
