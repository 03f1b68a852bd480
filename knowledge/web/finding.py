"""An entry by its id, from among those the asker may see."""

from __future__ import annotations

from knowledge.models import Entry
from openvibe.base.problems import Missing
from openvibe.chat.web.numbers import LARGEST_ID
from openvibe.workspaces.web.doors import WorkspaceRequest


def entry_of(request: WorkspaceRequest, entry_id: int) -> Entry:
    """With owner, author, who decided it, where it is from and its successor. Raises Missing."""
    found = Entry.objects.visible_to(request.access).with_people().filter(pk=min(entry_id, LARGEST_ID)).first()
    if found is None:
        raise Missing
    return found
