"""The browser's session as a way into the API: the same member, the same access, CSRF checked on writes."""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.request import Request

from openvibe.api.auth import Caller
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.queries import member_access


class MemberSession(BaseAuthentication):
    """`X-Workspace: slug` or `?workspace=` chooses; whoever is in one workspace only need not say."""

    def authenticate(self, request: Request) -> tuple[Caller, None] | None:
        user = getattr(request._request, "user", AnonymousUser())
        if not isinstance(user, User) or not user.is_active:
            return None
        _check_csrf(request)
        member = _requested_member(request, user)
        return Caller(participant=member.participant, access=member_access(member)), None


def _placeholder_view(request: HttpRequest) -> HttpResponse:
    """Stands for the view: only whether it is exempt is asked of it, and it is not."""
    return HttpResponse()


def _check_csrf(request: Request) -> None:
    check = CSRFCheck(lambda _: None)  # type: ignore[arg-type]
    check.process_request(request._request)
    if check.process_view(request._request, _placeholder_view, (), {}):
        raise Refused("The CSRF token is missing or old. Send the page's csrftoken as X-CSRFToken.", code="csrf")


def _requested_member(request: Request, user: User) -> Member:
    slug = request.headers.get("X-Workspace") or request.query_params.get("workspace", "")
    memberships = Member.objects.select_related("participant__workspace").filter(user=user, removed_at=None)
    if slug:
        if "\x00" in slug or (member := memberships.filter(workspace__slug=slug).first()) is None:
            raise Missing
        return member
    members = list(memberships[:2])
    if len(members) == 1:
        return members[0]
    if not members:
        raise Missing
    raise Problem(
        "You are in several workspaces. Say which: X-Workspace: slug, or ?workspace=slug.",
        code="choose_workspace",
        field="workspace",
    )
