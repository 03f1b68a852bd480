"""What a token was made for: every method of every view names the scope it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from openvibe.api.callers import caller_or_none
from openvibe.base.problems import Refused

if TYPE_CHECKING:
    from rest_framework.views import APIView

READING = ("GET", "HEAD", "OPTIONS")


def scope_for(view: APIView, method: str) -> str:
    """`view.scopes[method]`, else `read` for reading and `write` for everything else."""
    named: dict[str, str] = getattr(view, "scopes", {})
    asked = "GET" if method == "HEAD" else method
    return named.get(asked, "read" if method in READING else "write")


class HasScope(BasePermission):
    """Signed in, with the scope of this method. Answers before anything is looked up."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        caller = caller_or_none(request)
        if caller is None:
            return False
        scope = scope_for(view, request.method or "GET")
        if scope not in caller.scopes:
            raise Refused(
                f"This token lacks the scope {scope!r}. Make one that has it, or use another call.",
                code="missing_scope",
            )
        return True
