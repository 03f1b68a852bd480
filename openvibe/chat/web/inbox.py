"""What is new for the reader: inbox, mentions, sidebar, and the event stream that keeps pages current."""

from collections.abc import Sequence
from functools import partial

from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from openvibe.base.params import int_param
from openvibe.base.problems import Conflict, Missing, Problem
from openvibe.chat import services
from openvibe.chat.live.stream import event_response, parse_position
from openvibe.chat.live.viewers import Viewer
from openvibe.chat.queries import (
    Show,
    list_inbox_threads,
    list_unread_threads,
    message_preview,
    messages_mentioning,
    read_at_work,
)
from openvibe.chat.web.live import PageFrames
from openvibe.chat.web.shell import channel_choices
from openvibe.chat.web.thread_lists import PAGE_SIZE, OpenEndedPage, page_number, thread_list_context
from openvibe.chat.wiring import FIRST_STEPS, INBOX_NOTES, FirstStep
from openvibe.workspaces.decorators import (
    WorkspaceRequest,
    problem_response,
    request_timezone,
    wants_json,
    workspace_view,
)
from openvibe.workspaces.models import User
from openvibe.workspaces.queries import access_member
from openvibe.workspaces.services import end_first_steps

SHOW_LABELS: dict[Show, str] = {"all": "All", "unread": "Unread", "mentions": "Mentions", "direct": "Direct messages"}


@workspace_view
@require_safe
def inbox(request: WorkspaceRequest) -> HttpResponse:
    """Threads, those with something new first, beside what waits for the reader.

    `?show=unread`, `mentions` or `direct` and `?channel=` choose which; what is none of them shows all. First steps
    stand beside all of them alone: on a phone they would stand above the few that were chosen."""
    show: Show = next((name for name in SHOW_LABELS if name == request.GET.get("show")), "all")
    channel_id = int_param(request.GET, "channel")
    list_threads = partial(list_inbox_threads, request.access, show=show, channel_id=channel_id)
    context = thread_list_context(request, list_threads, show_channel=channel_id is None)
    context["notes"] = [note for source in INBOX_NOTES for note in source(request.access)]
    context["first_steps"] = () if show != "all" or channel_id else _first_steps(request)
    context["rooms"] = channel_choices(request, channel_id)
    context |= {"shows": SHOW_LABELS, "show": show, "channel_id": channel_id}
    return render(request, "chat/_inbox.html" if request.htmx else "chat/inbox.html", context)


def _first_steps(request: WorkspaceRequest) -> Sequence[FirstStep]:
    """What a newcomer may try; nothing for whoever has tried all of it, or hid it: then without any query."""
    if request.member.first_steps_since is None:
        return ()
    steps = FIRST_STEPS.only()(request.member, request.access)
    if not all(step.is_done for step in steps):
        return steps
    end_first_steps(request.member)
    return ()


@workspace_view
@require_POST
def first_steps_hide(request: WorkspaceRequest) -> HttpResponse:
    """Hides the first steps for good."""
    end_first_steps(request.member)
    return redirect("inbox", request.workspace.slug)


@workspace_view
@require_safe
def next_unread(request: WorkspaceRequest) -> HttpResponse:
    """Redirects to the newest thread with something new, other than `?from=`; else to the inbox."""
    here = int_param(request.GET, "from")
    thread = next((item for item in list_unread_threads(request.access, limit=2).items if item.pk != here), None)
    to = redirect("thread", request.workspace.slug, thread.pk) if thread else None
    return to or redirect("inbox", request.workspace.slug)


@workspace_view
@require_POST
def read_all(request: WorkspaceRequest) -> HttpResponse:
    """Marks all as read."""
    count = services.mark_all_read(by=request.access)
    return JsonResponse({"read": count}) if wants_json(request) else redirect("inbox", request.workspace.slug)


@workspace_view
@require_safe
def mentions(request: WorkspaceRequest) -> HttpResponse:
    """Messages that name the reader, newest first."""
    messages, number = messages_mentioning(request.access), page_number(request)
    rows = list(messages[(number - 1) * PAGE_SIZE : number * PAGE_SIZE + 1])
    if not rows and number > 1:
        rows, number = list(messages[: PAGE_SIZE + 1]), 1
    page = OpenEndedPage(rows[:PAGE_SIZE], number, len(rows) > PAGE_SIZE)
    mentions = [(one, message_preview(one.body, one.kind, one.state, is_deleted=False)) for one in page]
    return render(request, "chat/mentions.html", {"page": page, "mentions": mentions})


@workspace_view
@require_safe
def at_work(request: WorkspaceRequest) -> HttpResponse:
    """The list of who works where, after an answer was begun or ended."""
    page = {"at_work": read_at_work(request.access), "slug": request.workspace.slug}
    return render(request, "chat/_at_work.html", page)


MAX_SHOWN_THREADS = 4
"""Threads of a page: the conversation, and the dive beside it."""


@require_safe
def events(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Server-sent events for a signed-in member, from `Last-Event-ID` or `?after=` on. Messages of each `?thread=` come
    as their HTML. `?participant=`: whose page asks; nobody else gets them."""
    user = request.user
    if not isinstance(user, User):
        return problem_response(request, Problem("You are signed out. Sign in again.", code="signed_out"), status=401)
    try:
        member = access_member(user.pk, slug)
    except Missing as problem:
        return problem_response(request, problem)
    if request.GET.get("participant", str(member.participant_id)) != str(member.participant_id):
        another = Conflict("Somebody else is signed in here now. Load the page again.", code="another_reader")
        return problem_response(request, another)
    after = parse_position(request.headers.get("Last-Event-ID") or request.GET.get("after") or "")
    thread_ids = map(parse_position, request.GET.getlist("thread")[:MAX_SHOWN_THREADS])
    frames = PageFrames(slug, request_timezone(request).key, frozenset(pk for pk in thread_ids if pk))
    key = request.session.session_key
    viewer = Viewer(member.workspace_id, member.participant_id, session_key=key, password=user.password)
    return event_response(request, viewer, frames, after)
