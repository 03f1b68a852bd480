"""The card of a person or an agent: what a click on a name opens, and a page of its own without scripts."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from openvibe.chat.queries import access_person
from openvibe.chat.wiring import PERSON_EXTRAS
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import Member

ROLES = {
    Member.Role.OWNER: "Runs the workspace: settings, people, agents, models.",
    Member.Role.ADMIN: "Runs the workspace, but for its owners.",
    Member.Role.MEMBER: "Reads public channels and those they were added to, writes, and works with agents.",
    Member.Role.GUEST: "Reads and writes only in channels they were added to.",
}
"""What a member may do, in a sentence for each role."""


@workspace_view
@require_safe
def person(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """The page of who somebody is; for htmx the card alone."""
    card = access_person(request.access, handle)
    member = getattr(card.who, "member", None)
    context = {
        "card": card,
        "role": member.get_role_display() if member else "",
        "may": ROLES[Member.Role(member.role)] if member else "",
        "local_time_words": f"{card.local_time:%A, %H:%M}" if card.local_time else "",
        "is_self": card.who.pk == request.access.participant_id,
        **{name: value for source in PERSON_EXTRAS for name, value in source(card.who, request.access).items()},
    }
    return render(request, "chat/_person_card.html" if request.htmx else "chat/person.html", context)
