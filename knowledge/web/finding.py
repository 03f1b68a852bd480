"""Rows by id, from among those the asker may see, and who may manage them."""

from __future__ import annotations

from django.db.models import QuerySet

from knowledge.models import Entry
from openvibe.base.problems import Missing, Refused
from openvibe.chat.web.numbers import LARGEST_ID
from openvibe.workspaces.access import Access
from openvibe.workspaces.web.doors import WorkspaceRequest


def entry_of(request: WorkspaceRequest, entry_id: int) -> Entry:
    """With owner, author, who decided it, where it is from and its successor. Raises Missing."""
    found = for_pages(Entry.objects.visible_to(request.access)).filter(pk=min(entry_id, LARGEST_ID)).first()
    if found is None:
        raise Missing
    return found


def for_pages(entries: QuerySet[Entry]) -> QuerySet[Entry]:
    """With everything that is shown beside an entry: one query."""
    return entries.select_related("owner", "author__agent", "decided_by", "source_thread__channel").defer("search")


def may_manage(access: Access) -> bool:
    """Members, admins and owners; guests and agents read."""
    return not access.is_agent and not access.is_guest


def check_may_manage(access: Access) -> None:
    """Raises Refused for who only reads knowledge."""
    if not may_manage(access):
        raise Refused("Guests read knowledge, they do not change it. Ask a member.")
