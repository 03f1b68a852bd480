"""The page of one's own sessions: where one is signed in, since when, and how to end it."""

from allauth.usersessions.models import UserSession
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from openvibe.base.params import int_param
from openvibe.workspaces.decorators import request_timezone
from openvibe.workspaces.models import User
from openvibe.workspaces.services import describe_browser, end_sessions


@require_safe
def forget_pages(request: HttpRequest) -> HttpResponse:
    """An empty style sheet that makes a browser forget the pages it keeps: the one that signed out was still shown when
    the answer to that came. Pages do it themselves where scripts run."""
    headers = {"Clear-Site-Data": '"cache"', "Cache-Control": "no-store"}
    return HttpResponse("", content_type="text/css", headers=headers)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def sessions(request: HttpRequest) -> HttpResponse:
    """The page of where the person is signed in. POST ends one of them, `session`, or all others."""
    assert isinstance(request.user, User)
    current = request.session.session_key or ""
    if request.method == "POST":
        pk = int_param(request.POST, "session")
        if pk is None and request.POST.get("session"):
            return redirect("sessions")
        count = end_sessions(user=request.user, keep=current, pk=pk)
        messages.success(request, f"Signed out in {count} other {'place' if count == 1 else 'places'}.")
        return redirect("sessions")
    rows = UserSession.objects.purge_and_list(request.user)
    session_rows = [
        {"row": row, "browser": describe_browser(row.user_agent), "is_current": row.session_key == current}
        for row in sorted(rows, key=lambda row: (row.session_key != current, -row.last_seen_at.timestamp()))
    ]
    with timezone.override(request_timezone(request)):
        return render(request, "account/sessions.html", {"sessions": session_rows})
