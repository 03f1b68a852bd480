"""The settings page of exports, for owners and admins: archives of the workspace, and what else can be taken out."""

from django.http import FileResponse, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from agents.archive.jobs import access_archive, may_export, request_export, visible_exports
from agents.tasks import enqueue_export_on_commit
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Problem, Refused
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def exports(request: WorkspaceRequest) -> HttpResponse:
    """A POST asks for an archive. While one is being written its line asks for itself anew (`line`)."""
    if not request.access.administers:
        raise Refused("Only owners and admins take data out of the workspace. Ask one of them.")
    problem = None
    if request.method == "POST":
        try:
            enqueue_export_on_commit(request_export(member=request.member).pk)
            return redirect("settings-exports", request.workspace.slug)
        except Problem as error:
            problem = error
    page = {
        "exports": visible_exports(request.member)[:20],
        "may_export": may_export(request.member),
        "now": timezone.now(),
        "problem": problem,
    }
    template = "agents/_exports.html" if request.GET.get("list") else "agents/settings_exports.html"
    return render(request, template, page, status=problem.status if problem else 200)


@workspace_view
@require_safe
def export_download(request: WorkspaceRequest, export_id: int) -> FileResponse:
    """The file of an archive, as a download."""
    export, path = access_archive(member=request.member, export_id=min(export_id, MAX_ID))
    name = f"{request.workspace.slug}-{export.queued_at:%Y-%m-%d}.zip"
    return FileResponse(path.open("rb"), as_attachment=True, filename=name, content_type="application/zip")
