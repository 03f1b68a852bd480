"""Previews of links in messages, asked for once by a page for all that it shows."""

from django.http import HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from openvibe.chat.queries import read_link_previews
from openvibe.engines.serving.fragments import render_fragment
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@workspace_view
@require_safe
def link_previews(request: WorkspaceRequest) -> HttpResponse:
    """JSON: the HTML for each `?ref=` that the reader may see; the others are missing, as what does not exist."""
    previews = read_link_previews(request.access, request.GET.getlist("ref"))
    html = {text: render_fragment("chat/_link_preview.html", link=link) for text, link in previews.items()}
    return JsonResponse({"previews": html})
