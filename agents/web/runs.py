"""Doors of runs: stop, retry, regenerate."""

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from agents.models import Run
from agents.runs.queue import regenerate_run, retry_run, stop_run
from agents.tasks import send_after_commit
from agents.web.extras import runs_of
from openvibe.base.problems import Missing
from openvibe.workspaces.access import Access
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace


@require_POST
@in_workspace
def stop(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    return _answer(request, stop_run(run=visible_run(request.access, run_id), by=request.access))


@require_POST
@in_workspace
def retry(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    run = retry_run(run=visible_run(request.access, run_id), by=request.access)
    send_after_commit(run.pk)
    return _answer(request, run)


@require_POST
@in_workspace
def regenerate(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    """Another answer to the same message; the page stays at the one that was there."""
    earlier = visible_run(request.access, run_id)
    run = regenerate_run(run=earlier, by=request.access)
    send_after_commit(run.pk)
    return _answer(request, earlier)


def visible_run(access: Access, run_id: int) -> Run:
    """A run in a thread the asker sees. Raises Missing."""
    runs = Run.objects.visible_to(access)
    run: Run | None = (
        runs.select_related("agent__participant", "thread__channel", "trigger__author", "reply__author")
        .filter(pk=run_id)
        .first()
    )
    if run is None:
        raise Missing
    return run


def _answer(request: WorkspaceRequest, run: Run) -> HttpResponse:
    """The runs at the message where the button was, or back to the thread."""
    message = run.reply or run.trigger
    if not request.htmx:
        return redirect("message", request.workspace.slug, message.pk)
    extras = runs_of([message], request.access).get(message.pk, {})
    return render(request, "agents/_run.html", {"message": message, "extras": extras})
