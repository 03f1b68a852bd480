"""Settings pages of imports, for owners and admins: conversations from elsewhere, and the account of each file."""

import json

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from openvibe.base.params import MAX_ID, int_param
from openvibe.base.problems import Problem
from openvibe.chat.importing.account import account_csv, load_account
from openvibe.chat.importing.formats import FORMATS
from openvibe.chat.models import Channel, ConversationImport
from openvibe.chat.queries import access_channel
from openvibe.chat.services import (
    access_import,
    check_may_import,
    dismiss_import_notes,
    request_import,
    visible_imports,
)
from openvibe.chat.tasks import enqueue_import_on_commit
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

SHOWN_IMPORTS = 50


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def imports(request: WorkspaceRequest) -> HttpResponse:
    """A POST brings a file in. While one is being read the list asks for itself anew (`list`)."""
    check_may_import(request.access)
    problem = None
    if request.method == "POST":
        try:
            job = _request(request)
            enqueue_import_on_commit(job.pk)
            return redirect("settings-import", request.workspace.slug, job.pk)
        except Problem as error:
            problem = error
    page = {
        "imports": visible_imports(request.access).defer("account")[:SHOWN_IMPORTS],
        "problem": problem,
        "formats": FORMATS,
        "format": request.POST.get("format", ""),
        "channel_id": int_param(request.POST, "channel"),
        "channels": Channel.objects.visible_to(request.access).open().order_by("name"),
    }
    template = "chat/_imports.html" if request.GET.get("list") else "chat/settings_imports.html"
    return render(request, template, page, status=problem.status if problem else 200)


def _request(request: WorkspaceRequest) -> ConversationImport:
    upload = request.FILES.get("file")
    if upload is None:
        raise Problem("Choose a file first.", code="empty", field="file")
    channel_id = int_param(request.POST, "channel")
    return request_import(
        by=request.access,
        chunks=upload.chunks(),
        file_name=upload.name or "",
        form=request.POST.get("format", ""),
        channel=access_channel(request.access, channel_id) if channel_id else None,
    )


@workspace_view
@require_safe
def import_account(request: WorkspaceRequest, import_id: int) -> HttpResponse:
    """The account of one import: a page, or a file (`?format=json` or `csv`)."""
    job = access_import(request.access, min(import_id, MAX_ID))
    form = request.GET.get("format", "")
    if form in ("json", "csv"):
        return account_response(job, form)
    kinds, left_out = load_account(job.account)
    page = {"job": job, "kinds": kinds, "left_out": left_out, "format_name": FORMATS.get(job.format, job.format)}
    template = "chat/_import_state.html" if request.GET.get("part") else "chat/settings_import.html"
    return render(request, template, page)


def account_response(job: ConversationImport, form: str) -> HttpResponse:
    """The account as a file."""
    if form == "csv":
        text, content_type = account_csv(job.account), "text/csv; charset=utf-8"
    else:
        text, content_type = json.dumps(job.account, ensure_ascii=False, indent=2), "application/json"
    response = HttpResponse(text, content_type=content_type)
    name = f"import-{job.pk}-account.{form}"
    response.headers["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=name) or ""
    return response


@workspace_view
@require_POST
def notes_dismiss(request: WorkspaceRequest) -> HttpResponse:
    """Hides what the inbox says of imports so far."""
    dismiss_import_notes(request.access)
    return redirect("inbox", request.workspace.slug)
