"""A run's page, and the views behind stop, interrupt, retry and regenerate."""

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from agents.agent.models import Run
from agents.runs.lifecycle import interrupt_run, regenerate_run, retry_run, stop_run
from agents.runs.steps import changed_files, read_reasoning
from agents.runs.steps import run_steps as list_run_steps
from agents.runs.timeline import run_timeline
from agents.tasks import enqueue_run_on_commit
from agents.web.run_cards import read_run_card, runs_by_message
from openvibe.base.problems import Missing
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@require_POST
@workspace_view
def stop(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    run = access_run(request.access, run_id)
    stop_run(run=run, by=request.access)
    return _render_runs(request, run)


@require_POST
@workspace_view
def interrupt(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    run = access_run(request.access, run_id)
    interrupt_run(run=run, by=request.access)
    return _render_runs(request, run)


@require_POST
@workspace_view
def retry(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    run = access_run(request.access, run_id)
    retry_run(run=run, by=request.access)
    enqueue_run_on_commit(run.pk)
    return _render_runs(request, run)


@require_POST
@workspace_view
def regenerate(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    """Another answer to the same message; the page stays at the one that was there."""
    earlier = access_run(request.access, run_id)
    run = regenerate_run(run=earlier, by=request.access)
    enqueue_run_on_commit(run.pk)
    return _render_runs(request, run if "on_run" in request.POST else earlier)


@workspace_view
def run_detail(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    """What the run did and when, why it failed, and what may be done about it. A page, or a fragment for the panel."""
    run = access_run(request.access, run_id)
    return _render_run_page(request, run)


@workspace_view
def run_thoughts(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    """What the model thought, for the fold of its reply, or as a page. While it thinks the fold asks again."""
    run = access_run(request.access, run_id)
    return _render_fold(request, run, "agents/_run_thoughts.html", {"reasoning": read_reasoning(run)})


@workspace_view
def run_steps(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    """What the run did, step by step, as far as the asker may see it, for the fold of its reply, or as a page."""
    run = access_run(request.access, run_id)
    return _render_fold(request, run, "agents/_run_steps.html", {"steps": list_run_steps(run, request.access)})


@workspace_view
def run_files(request: WorkspaceRequest, run_id: int) -> HttpResponse:
    """The files that an agent elsewhere says it changed in the run, with diffs, for the fold of its reply, or as a
    page."""
    run = access_run(request.access, run_id)
    return _render_fold(request, run, "agents/_run_files.html", {"files": changed_files(run)})


def _render_fold(request: WorkspaceRequest, run: Run, template: str, content: dict[str, object]) -> HttpResponse:
    page = {"run": run, "fold": template, **content}
    return render(request, template if request.htmx else "agents/run_fold.html", page)


def _render_run_page(request: WorkspaceRequest, run: Run) -> HttpResponse:
    page = {"run": run, "card": read_run_card(run.pk, request.access), "timeline": run_timeline(run, request.access)}
    return render(request, "agents/_run_page.html" if request.htmx else "agents/run.html", page)


def access_run(access: Access, run_id: int) -> Run:
    """A run in a thread the asker sees. Raises Missing."""
    messages = ("thread__channel", "trigger__author", "reply__author")
    related = (*messages, "agent__participant", "requested_by", "approval", "regenerates")
    run: Run | None = Run.objects.visible_to(access).select_related(*related).filter(pk=run_id).first()
    if run is None:
        raise Missing
    return run


def _render_runs(request: WorkspaceRequest, run: Run) -> HttpResponse:
    """The runs at the message where the button was, or the run's page, or back to the thread."""
    run = access_run(request.access, run.pk)
    if "on_run" in request.POST:
        return _render_run_page(request, run) if request.htmx else redirect("run", request.workspace.slug, run.pk)
    message = run.trigger if run.reply is None or "on_question" in request.POST else run.reply
    if not request.htmx:
        return redirect("message", request.workspace.slug, message.pk)
    extras = runs_by_message([message], request.access).get(message.pk, {})
    return render(request, "agents/_run.html", {"message": message, "extras": extras})
