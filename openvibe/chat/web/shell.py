"""What every workspace page shows around its content, made only when a template asks for it."""

import re
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Max
from django.http import HttpRequest

from openvibe.base.models import Event

PANEL = re.compile(r"[a-z0-9][a-z0-9/_-]{0,200}")


@dataclass
class Shell:
    """The sidebar, the place in the event stream, and what the right panel holds."""

    request: HttpRequest

    @cached_property
    def position(self) -> int:
        """Where the event stream of this page begins."""
        workspace = self.request.workspace.pk  # type: ignore[attr-defined]
        found = Event.objects.filter(workspace_id=workspace).aggregate(last=Max("position"))["last"]
        return found or 0

    @cached_property
    def panel(self) -> str:
        """The address `?panel=` names inside this workspace; empty when there is none."""
        named = self.request.GET.get("panel", "")
        if not PANEL.fullmatch(named):
            return ""
        return f"/w/{self.request.workspace.slug}/{named}"  # type: ignore[attr-defined]


def shell(request: HttpRequest) -> dict[str, Shell]:
    """Context processor: `shell` on pages of a workspace."""
    return {"shell": Shell(request)} if hasattr(request, "access") else {}
