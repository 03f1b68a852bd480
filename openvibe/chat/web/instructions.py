"""The settings page of instructions for agents: the organisation's and those of channels and threads in one place."""

from typing import Any, NamedTuple

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from openvibe.base.params import int_param
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import Channel, Thread
from openvibe.chat.queries import access_channel
from openvibe.chat.services import set_instructions
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.text.cleaning import text_version
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.queries import expand_instructions, read_snippets
from openvibe.workspaces.services import MAX_INSTRUCTION_TOKENS, update_workspace

MAX_THREADS = 50
"""Threads with instructions of their own that are listed, the newest first."""


class PlaceInstructions(NamedTuple):
    """Instructions of a channel or thread, their tokens with all that they include, and the version of their text."""

    row: Channel | Thread
    tokens: int
    version: str


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def instructions(request: WorkspaceRequest) -> HttpResponse:
    """A POST saves `instructions`: of `channel`, or without one the organisation's."""
    if not request.access.administers:
        raise Refused("Only owners and admins write instructions for agents: they are trusted. Ask one of them.")
    problem, text = None, request.POST.get("instructions", "").replace("\r\n", "\n")
    channel_id = (int_param(request.POST, "channel") or 0) if "channel" in request.POST else None
    version = request.POST.get("version")
    if request.method == "POST":
        try:
            if channel_id is not None:
                channel = _access_named_channel(request, channel_id)
                set_instructions(scope=channel, by=request.access, text=text, version=version)
            else:
                values = {"instructions": text, "instructions_version": version}
                update_workspace(workspace=request.workspace, by=request.access, **values)
            messages.success(request, "Saved. Agents read it from their next prompt on.")
            return redirect("settings-instructions", request.workspace.slug)
        except Problem as error:
            problem = error
    page = {**_read_places(request), "problem": problem, "kept": text, "kept_channel": channel_id}
    page["is_stale"] = problem is not None and problem.code == "changed_meanwhile"
    page["is_kept_below"] = channel_id is not None and all(place.row.pk != channel_id for place in page["channels"])
    return render(request, "chat/settings_instructions.html", page, status=problem.status if problem else 200)


def _access_named_channel(request: WorkspaceRequest, channel_id: int) -> Channel:
    """Raises Missing in words that name the channel: the page itself is there."""
    try:
        return access_channel(request.access, channel_id)
    except Missing:
        raise Missing(
            "There is no such channel any more, or it is not visible to you. Nothing was saved, and your text is kept "
            "here: choose another channel for it, or copy it."
        ) from None


def _read_places(request: WorkspaceRequest) -> dict[str, Any]:
    """What stands on the page. Five queries, however many channels there are."""
    access, snippets = request.access, read_snippets(request.workspace.pk)

    def tokens(text: str) -> int:
        return count_tokens(expand_instructions(text, snippets).text)

    def place(row: Channel | Thread) -> PlaceInstructions:
        return PlaceInstructions(row, tokens(row.instructions), text_version(row.instructions))

    channels = list(Channel.objects.visible_to(access).open().order_by("name", "pk"))
    threads = Thread.objects.visible_to(access).exclude(instructions="").order_by("-pk")[:MAX_THREADS]
    return {
        "organisation_version": text_version(request.workspace.instructions),
        "no_text_version": text_version(""),
        "organisation_tokens": tokens(request.workspace.instructions),
        "limit": MAX_INSTRUCTION_TOKENS,
        "channels": [place(row) for row in channels if row.instructions],
        "other_channels": [row for row in channels if not row.instructions],
        "threads": [place(row) for row in threads],
        "snippets": [(snippet, tokens(snippet.text)) for snippet in snippets],
    }
