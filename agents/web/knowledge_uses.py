"""Knowledge that a run had before it, in its viewer: how fresh it is now, and the form to flag it as wrong."""

from dataclasses import dataclass, replace

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from agents.agent.models import Run
from agents.web.runs import access_run
from knowledge.models import Entry
from knowledge.queries import compute_freshness
from knowledge.services import flag_entry, may_manage
from openvibe.base.problems import Missing, Problem
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@dataclass(frozen=True)
class UsedEntry:
    """An entry that a run had before it, for the viewer. `note` is what the form keeps when it has a `problem`."""

    entry: Entry
    how: str
    may_manage: bool
    note: str = ""
    problem: str = ""

    @property
    def freshness(self) -> str:
        return compute_freshness(self.entry).words

    @property
    def is_flagged(self) -> bool:
        return self.entry.status == Entry.Status.NEEDS_REVIEW and self.entry.reason == Entry.Reason.WRONG

    @property
    def may_flag(self) -> bool:
        is_in_use = self.entry.status in (Entry.Status.ACTIVE, Entry.Status.NEEDS_REVIEW)
        return is_in_use and not self.is_flagged and self.may_manage


def used_entries(run: Run, access: Access) -> dict[str, UsedEntry]:
    """Entries the run had before it, as far as the asker may read them, by their keys in a prompt. One query.

    The caller has checked that the run itself is visible.
    """
    readable = Entry.objects.visible_to(access).order_by().values("pk")
    uses = run.knowledge_uses.filter(entry__in=readable).select_related("entry__owner").defer("entry__search")
    return {
        f"knowledge:{use.entry_id}": UsedEntry(use.entry, use.how, may_manage(access)) for use in uses.order_by("id")
    }


@require_POST
@workspace_view
def flag_used_entry(request: WorkspaceRequest, run_id: int, entry_id: int) -> HttpResponse:
    """Sends an entry to review that this run had before it. Said twice it is said once; a refused note is kept."""
    run = access_run(request.access, run_id)
    key, note = f"knowledge:{entry_id}", request.POST.get("note", "")
    if key not in used_entries(run, request.access):
        raise Missing
    entry, problem = Entry.objects.get(pk=entry_id), ""
    try:
        flag_entry(entry=entry, by=request.access, reason=Entry.Reason.WRONG, note=note, how="page")
    except Problem as error:
        if not request.htmx:
            raise
        problem = error.message
    if not request.htmx:
        return redirect("run-context", request.workspace.slug, run.pk)
    used_entry = replace(used_entries(run, request.access)[key], problem=problem, note=note)
    return render(request, "agents/_knowledge_used.html", {"run": run, "used": used_entry})
