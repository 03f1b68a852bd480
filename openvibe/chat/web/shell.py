"""The shell: sidebar, stream position and right panel of every workspace page, made only when a template asks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from django.http import HttpRequest
from django.template import Library
from django.utils.safestring import SafeString

from openvibe.base.fragments import render_fragment, render_fragments
from openvibe.chat.queries import Sidebar, SidebarChannel, SidebarParticipant, read_sidebar
from openvibe.chat.wiring import SIDEBAR_EXTRAS
from openvibe.workspaces.decorators import WorkspaceRequest

register = Library()
"""Tags of templates that `{% load shell %}`."""

PANEL_PATH = re.compile(r"[a-z0-9][a-z0-9/_-]{0,200}")


@dataclass
class Shell:
    """The sidebar, the place in the event stream, and what the right panel holds."""

    request: WorkspaceRequest

    @property
    def position(self) -> int:
        """Where the event stream of this page begins: asked before the content is read, or something is missed."""
        return self.request.stream_position

    @cached_property
    def panel(self) -> str:
        """The address `?panel=` names inside this workspace; empty when there is none."""
        path = self.request.GET.get("panel", "")
        return f"/w/{self.request.workspace.slug}/{path}" if PANEL_PATH.fullmatch(path) else ""

    @cached_property
    def sidebar(self) -> Sidebar:
        return read_sidebar(self.request.access, self.request.user.pk)

    @property
    def channels(self) -> tuple[SidebarChannel, ...]:
        return self.sidebar.channels

    @property
    def agents(self) -> tuple[SidebarParticipant, ...]:
        return self.sidebar.agents

    @cached_property
    def extras(self) -> dict[str, object]:
        """What upper floors show in the sidebar."""
        return {name: value for source in SIDEBAR_EXTRAS for name, value in source(self.request.access).items()}

    def agent_links(self) -> SafeString:
        slug, here = self.request.workspace.slug, path_if(self.request, "agent")
        rows = ({"slug": slug, "agent": agent, "here": here} for agent in self.agents)
        return render_fragments("chat/_sidebar_agent.html", rows)

    def people_links(self) -> SafeString:
        slug, asker = self.request.workspace.slug, self.request.access.participant_id
        rows = ({"slug": slug, "person": one, "is_asker": one.pk == asker} for one in self.sidebar.people)
        return render_fragments("chat/_sidebar_person.html", rows)


def path_if(request: HttpRequest, *views: str) -> str:
    """The address of the page where it is one of these views; else empty, as on most pages."""
    match = request.resolver_match
    return request.path if match is not None and match.url_name in views else ""


@register.simple_tag(takes_context=True)
def sidebar_top(context: Mapping[str, Any]) -> SafeString:
    """`{% sidebar_top %}`: the menu of workspaces, and where everything of this one is found."""
    request, shell = context["request"], context["shell"]
    access, channels = request.access, shell.channels
    return render_fragment(
        "chat/_sidebar_top.html",
        csrf_token=context["csrf_token"],
        slug=request.workspace.slug,
        name=request.workspace.name,
        workspaces=shell.sidebar.workspaces,
        administers=access.administers,
        is_superuser=request.user.is_superuser,
        theme=request.user.theme,
        here=path_if(request, "inbox", "mentions", "knowledge", "search"),
        has_news=any(channel.unread for channel in channels) or bool(shell.extras.get("notices")),
        mention_count=sum(channel.mention_count for channel in channels),
        to_review=shell.extras.get("to_review"),
    )


@register.simple_tag(takes_context=True)
def channel_links(context: Mapping[str, Any]) -> SafeString:
    """`{% channel_links %}`: the channels of the sidebar; the page's own `channel`, if it has one, is marked."""
    slug = context["request"].workspace.slug
    current = getattr(context.get("channel"), "pk", None)
    rows = ({"slug": slug, "channel": one, "is_current": one.pk == current} for one in context["shell"].channels)
    return render_fragments("chat/_sidebar_channel.html", rows)


def shell_context(request: HttpRequest) -> dict[str, Shell]:
    """Context processor: `shell`, the same for every template of a request, on pages of a workspace."""
    if not hasattr(request, "access"):
        return {}
    return {"shell": vars(request).setdefault("shell", Shell(cast(WorkspaceRequest, request)))}
