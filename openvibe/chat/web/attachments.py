"""Files of messages: what agents can read of one, and a picture of its first page."""

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from openvibe.base.params import int_param
from openvibe.base.problems import Missing
from openvibe.chat.queries import access_attachment, access_original, read_attachment
from openvibe.chat.web.presenters import file_facts
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

SHOWN_TOKENS = 10_000
"""Tokens of a file's text on one page."""


@workspace_view
@require_safe
def attachment_text(request: WorkspaceRequest, attachment_id: int) -> HttpResponse:
    """The text of a file exactly as agents read it, in pieces, under what is known of the file."""
    file = access_attachment(request.access, attachment_id)
    offset = min(max(int_param(request.GET, "offset") or 0, 0), len(file.content) * 2)
    piece = read_attachment(file, offset=offset, limit=SHOWN_TOKENS)
    original = access_original(request.access, attachment_id)
    facts = file_facts(file, original.size if original else file.size)
    page = {"file": file, "facts": facts, "piece": piece, "thread": file.thread, "has_original": original is not None}
    return render(request, "chat/_file_text.html" if request.htmx else "chat/file_text.html", page)


@workspace_view
@require_safe
def attachment_preview(request: WorkspaceRequest, attachment_id: int) -> HttpResponse:
    """A picture of the file's first page."""
    original = access_original(request.access, attachment_id)
    if original is None or not original.preview:
        raise Missing
    response = HttpResponse(bytes(original.preview), content_type="image/webp")
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["X-Content-Type-Options"] = "nosniff"
    patch_vary_headers(response, ["Cookie"])
    return response
