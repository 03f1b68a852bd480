"""`workspace_view`, the decorator of every workspace page: who asks, in which workspace, and what is answered when
something is wrong. `request_access` says the same of an API call."""

import re
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.http import url_has_allowed_host_and_scheme
from django_htmx.middleware import HtmxDetails
from rest_framework.request import Request

from openvibe.api.auth import caller_of
from openvibe.base.problems import Missing, Problem, Unavailable
from openvibe.engines.database.time_zones import time_zone_or_utc
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, User, Workspace
from openvibe.workspaces.queries import access_member, member_access

P = ParamSpec("P")
LAST_WORKSPACE_SESSION_KEY = "last_workspace"
READER_HEADER = "OpenVibe-Participant"
"""The header that says for whom an answer was made. A page shows nothing that was made for somebody else, who signed in
on another page."""
SECRET_INPUTS = re.compile(r"pass|token|key|secret|code|credential", re.IGNORECASE)
"""The words in names of forms' fields that are never shown again, whatever goes wrong."""
HIDDEN_INPUTS = frozenset(
    (
        *(
            "next",
            "from",
            "to",
            "on",
            "of",
            "do",
            "kind",
            "ref",
            "seq",
            "client_id",
            "based_on",
            "version",
            "number",
            "seen",
        ),
        *("to", "draft_version", "q", "page", "versions", "invitations", "listed", "first", "second"),
        *("workspace", "channel", "thread", "message", "participant", "agent", "session", "keep"),
        *("plugin", "settings", "local", "action", "_selected_action", "adaptation", "offered_by", "on_question"),
        *("window_told", "list", "browser"),
    )
)
"""Names of fields that pages fill in by themselves: nobody typed what they hold, and an address may hold a secret."""


class WorkspaceRequest(HttpRequest):
    """A request that came through `workspace_view`."""

    user: User
    member: Member
    access: Access
    workspace: Workspace
    htmx: HtmxDetails
    stream_position: int  # of the newest event before anything else was read: where the page's stream begins


WorkspaceView = Callable[Concatenate[WorkspaceRequest, P], HttpResponseBase]


def workspace_view(view: WorkspaceView[P]) -> Callable[..., HttpResponseBase]:
    """Lets members in; the view gets a `WorkspaceRequest` and the address' other parts, not the slug.

    Signed out: to the sign-in page and back; of a form that was sent, what was typed is shown. Strangers and unknown
    workspaces: the same 404. A `Problem` the view raises becomes the answer of `problem_response`, and so does an
    address that only takes forms, asked for as a page.
    """

    @wraps(view)
    def wrapper(request: HttpRequest, slug: str, *args: Any, **kwargs: Any) -> HttpResponseBase:
        member = _session_member(request, slug)
        if member is None and not request.user.is_authenticated:
            if request.method == "POST" or wants_json(request) or request.headers.get("HX-Request"):
                signed_out = Problem("You are signed out. Sign in again, then send it once more.", code="signed_out")
                return problem_response(request, signed_out, status=401)
            return redirect_to_login(request.get_full_path())
        try:
            workspace_request = cast(WorkspaceRequest, request)
            _attach_workspace(workspace_request, member or access_member(workspace_request.user.pk, slug))
            with timezone.override(request_timezone(request)):
                response = view(workspace_request, *args, **kwargs)
            response.headers[READER_HEADER] = str(workspace_request.access.participant_id)
            return _no_page_response(request, response) if response.status_code == 405 else response
        except Problem as problem:
            response = problem_response(request, problem)
            if not isinstance(problem, Unavailable):
                response.headers[READER_HEADER] = str(_reader_id(request, slug))
            return response

    return wrapper


def _reader_id(request: HttpRequest, slug: str) -> int:
    """The participant that whoever asks is in this workspace, or was until she was removed; 0 for strangers."""
    if access := getattr(request, "access", None):
        return int(access.participant_id)
    ids = Member.objects.filter(user=request.user.pk, workspace__slug=slug).values_list("participant_id", flat=True)
    return ids.first() or 0


def _no_page_response(request: HttpRequest, refusal: HttpResponseBase) -> HttpResponse:
    """405 in words: somebody reloaded, or typed, the address a form was sent to."""
    problem = Problem("There is no page at this address: it only takes what a form sends.", code="no_page")
    response = problem_response(request, problem, status=405)
    response.headers["Allow"] = refusal.headers["Allow"]
    return response


def _session_member(request: HttpRequest, slug: str) -> Member | None:
    """The member who is signed in, read with her user by one statement, who is `request.user` from then on. None where
    that is not certain, of strangers for instance: who it is says Django's own way then."""
    session = request.session
    if session.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS:
        return None
    try:
        member = access_member(int(session[SESSION_KEY]), slug)
    except (KeyError, Missing):
        return None
    if not constant_time_compare(session.get(HASH_SESSION_KEY, ""), member.user.get_session_auth_hash()):
        return None
    request.user = member.user
    return member


def _attach_workspace(request: WorkspaceRequest, member: Member) -> None:
    """Attaches member, access, workspace and stream position."""
    request.member, request.workspace = member, member.workspace
    request.access = member_access(member)
    request.stream_position = member.stream_position or 0
    slug = member.workspace.slug
    if request.session.get(LAST_WORKSPACE_SESSION_KEY) != slug:
        request.session[LAST_WORKSPACE_SESSION_KEY] = slug


def request_timezone(request: HttpRequest) -> ZoneInfo:
    """The reader's time zone: what she chose, else what her browser says (the page's own JavaScript keeps its name in a
    cookie). UTC until then."""
    return time_zone_or_utc(getattr(request.user, "time_zone", "") or request.COOKIES.get("zone", ""))


def wants_json(request: HttpRequest) -> bool:
    return "application/json" in request.headers.get("Accept", "")


def problem_response(request: HttpRequest, problem: Problem, *, status: int | None = None) -> HttpResponse:
    """The answer to a problem in the form the asker reads: `{message, code, field}`, a note, or a page."""
    status = status or problem.status
    if wants_json(request):
        body = {"message": problem.message, "code": problem.code, "field": problem.field}
        return JsonResponse(body, status=status)
    reader = None if isinstance(problem, Unavailable) else request  # who that is, and what she was told, are rows
    if request.headers.get("HX-Request"):
        response = render(reader, "errors/_problem.html", {"problem": problem}, status=status)
        response.headers["HX-Retarget"] = "#toasts"
        response.headers["HX-Reswap"] = "beforeend"
        return response
    if isinstance(problem, Missing):
        is_hidden = problem.message == Missing().message
        context = {"message": problem.message, "kept": unsaved_texts(request), "is_gone": not is_hidden}
        return render(request, "404.html", context, status=404)
    same_page = "" if status in (403, 405) else request.get_full_path()
    back = page_before(request, otherwise=same_page) if request.method == "POST" else same_page
    context = {"problem": problem, "kept": unsaved_texts(request), "back": back}
    page = "signed_out" if problem.code == "signed_out" else "problem"
    return render(reader, f"errors/{page}.html", context, status=status)


def page_before(request: HttpRequest, *, otherwise: str) -> str:
    """The address of the page of ours that a form was sent from, as the browser names it."""
    referrer = request.headers.get("Referer", "")
    is_own_page = url_has_allowed_host_and_scheme(referrer, {request.get_host()}, require_https=request.is_secure())
    return referrer if is_own_page else otherwise


def unsaved_texts(request: HttpRequest) -> list[str]:
    """Texts that somebody typed into the refused form, for her to copy: no secret, and nothing the page filled in."""
    shown_values = {name: str(text) for name, text in request.POST.items() if name not in HIDDEN_INPUTS}
    texts_by_name = {
        name: text for name, text in shown_values.items() if len(text) > 20 or " " in text.strip()
    }  # not a choice's value
    return [text for name, text in texts_by_name.items() if not SECRET_INPUTS.search(name)]


def request_access(request: Request) -> Access:
    """Access of the caller, which every `visible_to` takes."""
    access = caller_of(request).access
    assert isinstance(access, Access)
    return access
