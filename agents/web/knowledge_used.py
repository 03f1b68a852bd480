"""Knowledge in the context viewer: how an entry that a run had before it stands now, and saying that it was wrong."""

from dataclasses import dataclass, replace

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from agents.models import Run
from agents.web.runs import visible_run
from knowledge.freshness import freshness
from knowledge.models import Entry
from knowledge.services import flag_entry
from knowledge.services.revising import may_manage
from openvibe.base.problems import Missing, Problem
from openvibe.workspaces.access import Access
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace


@dataclass(frozen=True)
class UsedEntry:
    """An entry as the viewer's page shows it. `words` say how it stands now, `note` what was said against it.

    `typed` and `problem` are what the form keeps when something was wrong with it.
    """

    entry_id: int
    topic: str
    how: str
    words: str
    owner: str
    is_said_wrong: bool
    may_say_wrong: bool
    note: str = ""
    typed: str = ""
    problem: str = ""


def used_in(run: Run, access: Access) -> dict[str, UsedEntry]:
    """Entries the run had before it, as far as the asker may read them, by their keys in a prompt. One query.

    The caller has checked that the run itself is visible.
    """
    seen = Entry.objects.visible_to(access).order_by().values("pk")
    uses = run.knowledge_uses.filter(entry__in=seen).select_related("entry__owner").defer("entry__search")
    return {f"knowledge:{use.entry_id}": _shown(use.entry, use.how, access) for use in uses.order_by("id")}


def _shown(entry: Entry, how: str, access: Access) -> UsedEntry:
    waits = entry.status == Entry.Status.NEEDS_REVIEW
    is_said_wrong = waits and entry.reason == Entry.Reason.WRONG
    return UsedEntry(
        entry_id=entry.pk,
        topic=entry.topic,
        how=how,
        words=freshness(entry).words,
        owner=entry.owner.name,
        is_said_wrong=is_said_wrong,
        may_say_wrong=(waits or entry.status == Entry.Status.ACTIVE) and not is_said_wrong and may_manage(access),
        note=entry.reason_note if is_said_wrong else "",
    )


@require_POST
@in_workspace
def wrong(request: WorkspaceRequest, run_id: int, entry_id: int) -> HttpResponse:
    """Send an entry to review that this run had before it. Said twice it is said once; what was typed is kept."""
    run = visible_run(request.access, run_id)
    key, typed = f"knowledge:{entry_id}", request.POST.get("note", "")
    if key not in used_in(run, request.access):
        raise Missing
    problem = ""
    try:
        flag_entry(
            entry=Entry.objects.get(pk=entry_id), by=request.access, reason=Entry.Reason.WRONG, note=typed, how="page"
        )
    except Problem as error:
        if not request.htmx:
            raise
        problem = error.message
    if not request.htmx:
        return redirect("run-context", request.workspace.slug, run.pk)
    used = used_in(run, request.access)[key]
    if problem:
        used = replace(used, problem=problem, typed=typed)
    return render(request, "agents/_knowledge_used.html", {"run": run, "used": used})
