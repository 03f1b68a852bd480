"""The shell: sidebar, stream position and right panel of every workspace page, made only when a template asks."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from django.http import HttpRequest

from openvibe.chat.queries import SidebarChannel, participants_known_to, sidebar_channels
from openvibe.chat.wiring import SIDEBAR_EXTRAS
from openvibe.workspaces.decorators import WorkspaceRequest, event_position
from openvibe.workspaces.models import Participant, Workspace

PANEL_PATH = re.compile(r"[a-z0-9][a-z0-9/_-]{0,200}")
MAX_PEOPLE = 40


@dataclass
class Shell:
    """The sidebar, the place in the event stream, and what the right panel holds."""

    request: WorkspaceRequest

    @property
    def position(self) -> int:
        """Where the event stream of this page begins: asked before the content is read, or something is missed."""
        return event_position(self.request)

    @cached_property
    def panel(self) -> str:
        """The address `?panel=` names inside this workspace; empty when there is none."""
        path = self.request.GET.get("panel", "")
        return f"/w/{self.request.workspace.slug}/{path}" if PANEL_PATH.fullmatch(path) else ""

    @cached_property
    def channels(self) -> list[SidebarChannel]:
        return sidebar_channels(self.request.access)

    @property
    def mention_count(self) -> int:
        return sum(channel.mention_count for channel in self.channels)

    @property
    def has_unread(self) -> bool:
        return any(channel.unread for channel in self.channels)

    @cached_property
    def extras(self) -> dict[str, object]:
        """What upper floors show in the sidebar."""
        return {name: value for source in SIDEBAR_EXTRAS for name, value in source(self.request.access).items()}

    @cached_property
    def participants(self) -> list[Participant]:
        return list(participants_known_to(self.request.access))

    @property
    def agents(self) -> list[Participant]:
        return [one for one in self.participants if one.is_agent]

    @property
    def people(self) -> list[Participant]:
        return [one for one in self.participants if not one.is_agent][:MAX_PEOPLE]

    @cached_property
    def workspaces(self) -> list[Workspace]:
        joined = Workspace.objects.filter(members__user=self.request.user, members__removed_at=None)
        return list(joined.order_by("name", "id"))


def shell_context(request: HttpRequest) -> dict[str, Shell]:
    """Context processor: `shell`, the same for every template of a request, on pages of a workspace."""
    if not hasattr(request, "access"):
        return {}
    return {"shell": vars(request).setdefault("shell", Shell(cast(WorkspaceRequest, request)))}
