"""The client's wheel for whoever installs it: for everybody, signed in or not."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from agents.connect.client_wheel import find_client_wheel, read_client_wheel
from openvibe.base.problems import Missing


@require_safe
def newest_client(request: HttpRequest) -> HttpResponse:
    """Leads to the wheel under its full name, which pip and uv want to know before they fetch it."""
    try:
        wheel = read_client_wheel()
    except Missing as problem:
        return _missing_response(problem)
    response = redirect("client-wheel", wheel.filename)
    response.headers["Cache-Control"] = "no-cache"
    return response


@require_safe
def client_wheel(request: HttpRequest, filename: str) -> HttpResponse:
    """The wheel of this server's client, for those who have it already a 304: its digest is the ETag."""
    try:
        wheel = find_client_wheel(filename)
    except Missing as problem:
        return _missing_response(problem)
    etag = f'"{wheel.digest}"'
    response = get_conditional_response(request, etag=etag) or HttpResponse(
        wheel.content, content_type="application/octet-stream"
    )
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = "public, no-cache"
    if response.status_code == 200:
        response.headers["Content-Disposition"] = f'attachment; filename="{wheel.filename}"'
    return response


def _missing_response(problem: Missing) -> HttpResponse:
    return HttpResponse(f"{problem.message}\n", status=404, content_type="text/plain; charset=utf-8")


urlpatterns = [
    path("client.whl", newest_client, name="client-newest"),
    path("client/<str:filename>", client_wheel, name="client-wheel"),
]
