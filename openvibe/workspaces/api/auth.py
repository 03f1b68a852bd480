"""The browser's session as a way into the API: the same member, the same access, CSRF checked on writes."""

from typing import Any

from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from openvibe.api.auth import Caller, requested_workspaces
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.queries import access_member, list_memberships, member_access


class MemberSession(SessionAuthentication):
    """`X-Workspace: slug` or `?workspace=` chooses; whoever is in one workspace only need not say."""

    def authenticate(self, request: Request) -> tuple[Caller, User] | None:
        """The caller, and as `request.auth` whose session it is."""
        http_request: Any = request._request
        user = getattr(http_request, "user", None)
        if not isinstance(user, User) or not user.is_active:
            return None
        try:
            self.enforce_csrf(http_request)
        except PermissionDenied:
            message = "The CSRF token is missing or old. Send the page's csrftoken as X-CSRFToken."
            raise Refused(message, code="csrf") from None
        member = _requested_member(request, user)
        return Caller(participant=member.participant, access=member_access(member)), user


def _requested_member(request: Request, user: User) -> Member:
    slug = next(filter(None, requested_workspaces(request)), "")
    members = [access_member(user.pk, slug)] if slug else list_memberships(user)
    if not members:
        raise Missing
    if len(members) > 1:
        message = "You are in several workspaces. Say which: X-Workspace: slug, or ?workspace=slug."
        raise Problem(message, code="choose_workspace", field="workspace")
    return members[0]
