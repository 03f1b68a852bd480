"""What is new for the reader: inbox, mentions, sidebar, and the event stream that keeps pages current."""

from functools import partial

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.core.paginator import Paginator
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from openvibe.base.params import int_param
from openvibe.base.problems import Missing, Problem
from openvibe.chat.event_stream import CurrentAccess, event_stream, parse_position
from openvibe.chat.queries import list_unread_threads, messages_mentioning
from openvibe.chat.web.thread_lists import thread_list_context
from openvibe.chat.wiring import INBOX_NOTES
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, problem_response, workspace_view
from openvibe.workspaces.models import User
from openvibe.workspaces.queries import access_member, member_access

PAGE_SIZE = 50


@workspace_view
@require_safe
def inbox(request: WorkspaceRequest) -> HttpResponse:
    """Threads with something new, newest first, below what needs the reader for another reason."""
    context = thread_list_context(request, partial(list_unread_threads, request.access), show_channel=True)
    context["notes"] = [note for source in INBOX_NOTES for note in source(request.access)]
    return render(request, "chat/_inbox.html" if request.htmx else "chat/inbox.html", context)


@workspace_view
@require_safe
def next_unread(request: WorkspaceRequest) -> HttpResponse:
    """To the newest thread with something new, other than `?from=`; else to the inbox."""
    here = int_param(request.GET, "from")
    thread = next((item for item in list_unread_threads(request.access, limit=2).items if item.pk != here), None)
    to = redirect("thread", request.workspace.slug, thread.pk) if thread else None
    return to or redirect("inbox", request.workspace.slug)


@workspace_view
@require_safe
def mentions(request: WorkspaceRequest) -> HttpResponse:
    """Messages that name the reader, newest first."""
    page = Paginator(messages_mentioning(request.access), PAGE_SIZE).get_page(request.GET.get("page"))
    return render(request, "chat/mentions.html", {"page": page})


@workspace_view
@require_safe
def sidebar(request: WorkspaceRequest) -> HttpResponse:
    """The sidebar again, after something changed."""
    return render(request, "chat/_sidebar.html")


async def events(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Server-sent events for a signed-in member, from `Last-Event-ID` or `?after=` on."""
    if not isinstance(request, ASGIRequest):
        return HttpResponse("Event streams need the server of `make run`.\n", status=503, content_type="text/plain")
    access_now = await sync_to_async(_check_stream_access)(request, slug)
    if isinstance(access_now, HttpResponse):
        return access_now
    after = parse_position(request.headers.get("Last-Event-ID") or request.GET.get("after") or "")
    response = StreamingHttpResponse(event_stream(access_now, after), content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-cache"
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _check_stream_access(request: HttpRequest, slug: str) -> CurrentAccess | HttpResponse:
    """How to ask for this member's access from now on. Gives the request's connection back: a stream lasts."""
    user = request.user
    if not isinstance(user, User):
        return problem_response(request, Problem("You are signed out. Sign in again.", code="signed_out"), status=401)
    access_now = member_current_access(user.pk, slug)
    access = access_now()
    if not connection.in_atomic_block:
        connection.close()
    return access_now if access else problem_response(request, Missing())


def member_current_access(user_id: int, slug: str) -> CurrentAccess:
    """Asks the database each time: None once the member is removed, the account closed or the workspace gone."""

    def access_now() -> Access | None:
        try:
            return member_access(access_member(User(pk=user_id), slug))
        except Missing:
            return None

    return access_now
