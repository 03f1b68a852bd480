"""One entry: what it says, where it is from, how fresh it is, what became of it; and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.module_loading import import_string
from django.views.decorators.http import require_POST, require_safe

from knowledge.history import revisions_known_to
from knowledge.models import Contradiction, Entry
from knowledge.presets import PRESETS, shown
from knowledge.services import (
    accept_entry,
    archive_entry,
    flag_entry,
    reject_entry,
    renew_entry,
    restore_entry,
    see_notices,
)
from knowledge.services.revising import check_may_manage, may_manage
from knowledge.web.finding import entry_of
from knowledge.web.forms import Typed, typed_in
from knowledge.web.review import pairs_of, queue_again, same_span
from knowledge.web.shown import entry_shown, revisions_shown
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Message
from openvibe.chat.web.shell import shell_of
from openvibe.workspaces.models import Participant
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

REVISIONS_SHOWN = 50
Act = Callable[[WorkspaceRequest, Entry, Typed], object]


@in_workspace
@require_safe
def entry(request: WorkspaceRequest, entry_id: int) -> HttpResponse:
    """The entry's page. Looking at it is having seen its notices; a panel that renews itself (`?unasked`) is not."""
    shell_of(request).position  # noqa: B018  where live updates begin, asked before anything is read
    found = entry_of(request, entry_id)
    if "unasked" not in request.GET:
        see_notices(by=request.access, entry=found)
    return render(request, "knowledge/_entry.html" if request.htmx else "knowledge/entry.html", _page(request, found))


def _page(request: WorkspaceRequest, found: Entry) -> dict[str, Any]:
    others = Entry.objects.visible_to(request.access).with_people()
    revisions = list(revisions_known_to(request.access, found).select_related("by")[: REVISIONS_SHOWN + 1])
    people = Participant.objects.filter(workspace=request.workspace).values_list("handle", "name")
    return {
        "row": entry_shown(found),
        "expires_exactly": shown(found.expires_at) if found.expires_at else "",
        "successor": others.filter(supersedes=found).first(),
        "earlier": others.filter(pk=found.supersedes_id).first() if found.supersedes_id else None,
        "source": _source(request, found),
        "revisions": revisions_shown(revisions[:REVISIONS_SHOWN], dict(people)),
        "has_more_revisions": len(revisions) > REVISIONS_SHOWN,
        "uses": uses_of(found, request),
        "pairs": pairs_of(request, Contradiction.objects.filter(Q(first=found) | Q(second=found))),
        "presets": PRESETS.items(),
        "span": same_span(found),
        "may_manage": may_manage(request.access),
    }


def _source(request: WorkspaceRequest, found: Entry) -> Message | None:
    """The message it was made from, if the reader may see it and it stands."""
    messages: QuerySet[Message] = Message.objects.visible_to(request.access)
    return messages.filter(pk=found.source_message_id or 0, deleted_at=None).select_related("thread").first()


def uses_of(found: Entry, request: WorkspaceRequest) -> list[Any]:
    """Where it was used, told by the floor that uses it."""
    hook = getattr(settings, "KNOWLEDGE_USES", "")
    return list(import_string(hook)(found, request.access)) if hook else []


@in_workspace
@require_POST
def act(request: WorkspaceRequest, entry_id: int, verb: str) -> HttpResponse:
    """Renew, archive, bring back, accept, reject, or send to review; `from=review` leads back to the queue."""
    check_may_manage(request.access)
    found = entry_of(request, entry_id)
    if verb not in ACTS:
        raise Missing
    ACTS[verb](request, found, typed_in(request))
    if request.POST.get("from") == "review":
        return queue_again(request)
    if request.htmx:
        return render(request, "knowledge/_entry.html", _page(request, entry_of(request, entry_id)))
    return redirect("knowledge-entry", request.workspace.slug, entry_id)


def _renew(request: WorkspaceRequest, found: Entry, typed: Typed) -> object:
    if not typed.expires:
        raise Problem("Say until when it is to hold.", code="bad_expiry", field="expires_at")
    at = same_span(found) if typed.expires == "same" else typed.expires_at()
    return renew_entry(entry=found, by=request.access, expires_at=at, note=typed.note, based_on=typed.based_on)


def _plainly(service: Callable[..., object]) -> Act:
    def run(request: WorkspaceRequest, found: Entry, typed: Typed) -> object:
        return service(entry=found, by=request.access, note=typed.note, based_on=typed.based_on)

    return run


def _flag(request: WorkspaceRequest, found: Entry, typed: Typed) -> object:
    return flag_entry(entry=found, by=request.access, reason=request.POST.get("reason", ""), note=typed.note)


ACTS: dict[str, Act] = {
    "renew": _renew,
    "archive": _plainly(archive_entry),
    "restore": _plainly(restore_entry),
    "accept": _plainly(accept_entry),
    "reject": _plainly(reject_entry),
    "flag": _flag,
}
