"""The browser's session as a way into the API: the same member, the same access, CSRF checked on writes."""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.request import Request

from openvibe.api.callers import Caller, caller_of
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.services import access_of_member


class MemberSession(BaseAuthentication):
    """`X-Workspace: slug` or `?workspace=` chooses; whoever is in one workspace only need not say."""

    def authenticate(self, request: Request) -> tuple[Caller, None] | None:
        user = getattr(request._request, "user", AnonymousUser())
        if not isinstance(user, User) or not user.is_active:
            return None
        _check_csrf(request)
        member = _chosen(request, user)
        return Caller(participant=member.participant, access=access_of_member(member)), None


def _any_view(request: HttpRequest) -> HttpResponse:
    """Stands for the view: only whether it is exempt is asked of it, and it is not."""
    return HttpResponse()


def _check_csrf(request: Request) -> None:
    check = CSRFCheck(lambda _: None)  # type: ignore[arg-type]
    check.process_request(request._request)
    if check.process_view(request._request, _any_view, (), {}):
        raise Refused("The CSRF token is missing or old. Send the page's csrftoken as X-CSRFToken.", code="csrf")


def _chosen(request: Request, user: User) -> Member:
    wanted = request.headers.get("X-Workspace") or request.query_params.get("workspace", "")
    standing = Member.objects.select_related("participant__workspace").filter(user=user, removed_at=None)
    if wanted:
        if "\x00" in wanted or (member := standing.filter(workspace__slug=wanted).first()) is None:
            raise Missing
        return member
    members = list(standing[:2])
    if len(members) == 1:
        return members[0]
    if not members:
        raise Missing
    raise Problem(
        "You are in several workspaces. Say which: X-Workspace: slug, or ?workspace=slug.",
        code="choose_workspace",
        field="workspace",
    )


def asker(request: Request) -> Access:
    """What the caller may see: what every `visible_to` takes."""
    access = caller_of(request).access
    assert isinstance(access, Access)
    return access
