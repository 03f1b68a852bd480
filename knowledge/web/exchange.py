"""Knowledge as a file: taken in with a report for every row, and given out."""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_safe

from knowledge.exchange import export_entries
from knowledge.importing import import_entries
from knowledge.services.revising import check_may_manage
from knowledge.sheets import CONTENT_TYPES, MAX_BYTES
from openvibe.base.problems import Problem
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def import_file(request: WorkspaceRequest) -> HttpResponse:
    """A CSV or JSONL file (`file`), or the same as `text`; the answer says what became of every row."""
    check_may_manage(request.access)
    page: dict[str, object] = {"text": request.POST.get("text", "").replace("\x00", "")}
    status = 200
    if request.method == "POST":
        try:
            page["report"] = import_entries(by=request.access, raw=_raw(request))
        except Problem as problem:
            page["problem"], status = problem, problem.status
    return render(request, "knowledge/import.html", page, status=status)


def _raw(request: WorkspaceRequest) -> bytes:
    given = request.FILES.get("file")
    raw = given.read(MAX_BYTES + 1) if given else request.POST.get("text", "").encode(errors="replace")
    if not raw.strip():
        raise Problem("Choose a file, or paste some rows.", code="empty", field="file")
    return bytes(raw)


@in_workspace
@require_safe
def export_file(request: WorkspaceRequest) -> HttpResponseBase:
    """Everything the asker may read, as `?format=` csv or jsonl; `status` narrows."""
    form = request.GET.get("format", "csv")
    lines = export_entries(request.access, form, statuses=request.GET.getlist("status"))
    response = StreamingHttpResponse(lines, content_type=CONTENT_TYPES[form])
    response.headers["Content-Disposition"] = f'attachment; filename="{request.workspace.slug}-knowledge.{form}"'
    return response
