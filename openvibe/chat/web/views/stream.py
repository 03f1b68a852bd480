"""The event stream of a page."""

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from openvibe.base.problems import Missing, Problem
from openvibe.chat.streaming import AccessNow, event_stream
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import User
from openvibe.workspaces.services import access_of_member, member_of
from openvibe.workspaces.web.doors import refuse


async def events(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Server-sent events for a signed-in member, from `Last-Event-ID` or `?after=` on."""
    if not isinstance(request, ASGIRequest):
        return HttpResponse("Event streams need the server of `make run`.\n", status=503, content_type="text/plain")
    admitted = await sync_to_async(_admit)(request, slug)
    if isinstance(admitted, HttpResponse):
        return admitted
    given = request.headers.get("Last-Event-ID") or request.GET.get("after") or ""
    after = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None
    response = StreamingHttpResponse(event_stream(admitted, after), content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-cache"
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _admit(request: HttpRequest, slug: str) -> AccessNow | HttpResponse:
    """How to ask for this member's access from now on. Gives the request's connection back: a stream lasts."""
    user = request.user
    if not isinstance(user, User):
        return refuse(request, Problem("You are signed out. Sign in again.", code="signed_out"), status=401)
    access_now = member_access(user.pk, slug)
    entered = access_now()
    if not connection.in_atomic_block:
        connection.close()
    return access_now if entered else refuse(request, Missing())


def member_access(user_id: int, slug: str) -> AccessNow:
    """Asks the database each time: None once the member is removed, the account closed or the workspace gone."""

    def access_now() -> Access | None:
        try:
            return access_of_member(member_of(User(pk=user_id), slug))
        except Missing:
            return None

    return access_now
