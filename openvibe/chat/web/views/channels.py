"""The channel page, and what can be changed about a channel."""

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from openvibe.base.problems import Problem
from openvibe.chat.markdown import plain_text
from openvibe.chat.models import Channel, ChannelMembership, Thread
from openvibe.chat.querysets import agents_reading, people_reading, threads_in
from openvibe.chat.services import (
    add_to_channel,
    archive_channel,
    create_channel,
    create_thread,
    edit_channel,
    post_message,
    remove_from_channel,
)
from openvibe.chat.web.finding import channel_of
from openvibe.chat.web.shell import shell_of
from openvibe.workspaces.models import Participant
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

TITLE_FROM_TEXT = 80
THREADS_SHOWN = 50


@in_workspace
@require_safe
def channel(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """Its threads, the one last written in first; `?archived=1` shows those put away."""
    shell_of(request).position  # noqa: B018  where live updates begin, asked before anything is read
    return channel_page(request, channel_of(request, channel_id))


def channel_page(
    request: WorkspaceRequest, found: Channel, *, problem: Problem | None = None, kept: Mapping[str, str] | None = None
) -> HttpResponse:
    archived = request.GET.get("archived") == "1"
    pages = Paginator(threads_in(found, request.access, archived=archived), THREADS_SHOWN)
    context: dict[str, Any] = {
        "channel": found,
        "threads": pages.get_page(request.GET.get("page")),
        "archived": archived,
        "problem": problem,
        "kept": kept or {},
        "accesses": Thread.Access.choices,
        "may_run": request.access.administers or found.created_by_id == request.access.participant_id,
        "is_added": found.memberships.filter(participant_id=request.access.participant_id).exists(),
    }
    return render(request, "chat/channel.html", context, status=problem.status if problem else 200)


@in_workspace
@require_safe
def channel_members(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """Who reads the channel: people, and agents with their level; who could be added."""
    found = channel_of(request, channel_id)
    added = ChannelMembership.objects.filter(channel=found, participant=OuterRef("pk"))
    others = (
        Participant.objects.filter(workspace=request.workspace, is_active=True)
        .exclude(kind=Participant.Kind.IMPORTED)
        .exclude(channel_memberships__channel=found)
    )
    context = {
        "channel": found,
        "agents": agents_reading(found),
        "people": people_reading(found).annotate(added=Exists(added)),
        "added_ids": set(found.memberships.values_list("participant_id", flat=True)),
        "others": [] if request.access.is_guest else others.order_by("kind", "name"),
        "may_run": request.access.administers or found.created_by_id == request.access.participant_id,
    }
    return render(request, "chat/channel_members.html", context)


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def channel_create(request: WorkspaceRequest) -> HttpResponse:
    problem = None
    if request.method == "POST":
        try:
            made = create_channel(
                by=request.access,
                name=request.POST.get("name", ""),
                description=request.POST.get("description", ""),
                is_private="is_private" in request.POST,
            )
            return redirect("channel", request.workspace.slug, made.pk)
        except Problem as raised:
            problem = raised
    context = {"problem": problem, "kept": request.POST}
    return render(request, "chat/channel_form.html", context, status=problem.status if problem else 200)


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def channel_edit(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """Name and description; `archived` 1 or 0 puts the channel away or brings it back."""
    found = channel_of(request, channel_id)
    problem = None
    kept: Mapping[str, str] = {"name": found.name, "description": found.description}
    if request.method == "POST":
        try:
            _change(request, found)
            return redirect("channel", request.workspace.slug, found.pk)
        except Problem as raised:
            problem, kept = raised, request.POST.dict()
    context = {"channel": found, "problem": problem, "kept": kept}
    return render(request, "chat/channel_form.html", context, status=problem.status if problem else 200)


def _change(request: WorkspaceRequest, found: Channel) -> None:
    if (archived := {"1": True, "0": False}.get(request.POST.get("archived", ""))) is not None:
        archive_channel(channel=found, by=request.access, archived=archived)
        return
    name, description = request.POST.get("name", ""), request.POST.get("description", "")
    edit_channel(channel=found, by=request.access, name=name, description=description)


@in_workspace
@require_POST
def channel_membership(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """Add `participant` to the channel, or with `remove` take them out."""
    found = channel_of(request, channel_id)
    given = request.POST.get("participant", "")
    numbers = [int(given)] if given.isascii() and given.isdigit() and len(given) < 19 else []
    participant = Participant.objects.filter(workspace=request.workspace, pk__in=numbers).first()
    if participant is None:
        raise Problem("Choose somebody of this workspace.", code="unknown_participant", field="participant")
    if "remove" in request.POST:
        remove_from_channel(channel=found, participant=participant, by=request.access)
    else:
        add_to_channel(channel=found, participant=participant, by=request.access)
    if not Channel.objects.visible_to(request.access).filter(pk=found.pk).exists():
        messages.info(request, f"You left {found}.")
        return redirect("inbox", request.workspace.slug)
    return redirect("channel-members", request.workspace.slug, found.pk)


@in_workspace
@require_POST
def thread_create(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """A new thread with its first message. Without a title the beginning of the text is one."""
    found = channel_of(request, channel_id)
    kept = {name: request.POST.get(name, "").replace("\r\n", "\n") for name in ("title", "body", "access")}
    try:
        made = _begin(request, found, kept)
    except Problem as problem:
        return channel_page(request, found, problem=problem, kept=kept)
    return redirect("thread", request.workspace.slug, made.pk)


def _begin(request: WorkspaceRequest, found: Channel, given: Mapping[str, str]) -> Thread:
    title = given["title"].strip() or plain_text(given["body"][:2000])[:TITLE_FROM_TEXT]
    with transaction.atomic():
        made = create_thread(
            channel=found, by=request.access, title=title, access=given["access"] or Thread.Access.OPEN
        )
        if given["body"].strip():
            post_message(thread=made, by=request.access, body=given["body"])
    return made
