"""Images of messages: their pixels, small and whole, and the form of their description."""

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_vary_headers
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_http_methods, require_safe

from openvibe.base.problems import Missing, Problem
from openvibe.chat import services
from openvibe.chat.models import MAX_DESCRIPTION, Image
from openvibe.chat.queries import access_image
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@workspace_view
@require_safe
def image(request: WorkspaceRequest, image_id: int) -> HttpResponse:
    """The image as it is kept."""
    row = access_image(request.access, image_id)
    return image_response(request.headers.get("If-None-Match", ""), row, bytes(row.content), row.media_type)


@workspace_view
@require_safe
def image_thumbnail(request: WorkspaceRequest, image_id: int) -> HttpResponse:
    """The image, small."""
    row = access_image(request.access, image_id)
    return image_response(request.headers.get("If-None-Match", ""), row, bytes(row.thumbnail), "image/webp")


def image_response(known_etag: str, image: Image, content: bytes, media_type: str) -> HttpResponse:
    """The bytes, or 304 for a browser that has them: asked each time, so that whoever may see it no more does not."""
    etag = f'"{image.sha256[:32]}-{len(content)}"'
    response = HttpResponse(status=304) if known_etag == etag else HttpResponse(content, content_type=media_type)
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Disposition"] = content_disposition_header(False, image.name) or "inline"
    patch_vary_headers(response, ["Cookie"])
    return response


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def image_description(request: WorkspaceRequest, image_id: int) -> HttpResponse:
    """The form in which whoever posted an image says what it shows."""
    row = access_image(request.access, image_id)
    if row.message.author_id != request.access.participant_id:
        raise Missing
    text, problem = row.description, None
    if request.method == "POST":
        text = request.POST.get("description", "")
        try:
            services.describe_image(image=row, by=request.access, description=text)
            return redirect("message", request.workspace.slug, row.message_id)
        except Problem as error:
            text, problem = text.replace("\x00", ""), error
    page = {"image": row, "thread": row.thread, "text": text, "problem": problem, "most": MAX_DESCRIPTION}
    name = "chat/_describe.html" if request.htmx else "chat/describe.html"
    return render(request, name, page, status=problem.status if problem else 200)
