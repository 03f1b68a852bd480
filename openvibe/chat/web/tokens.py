"""Tokens for the API, made in the app: an admin's own and those of agents."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from openvibe.api.models import SCOPES, Token
from openvibe.api.services import MAX_TOKEN_DAYS, issue_token, revoke_token
from openvibe.base.params import MAX_ID, int_param
from openvibe.base.problems import Problem, Refused
from openvibe.chat.queries import token_owners
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

SCOPE_WORDS = {
    "read": "read channels, threads, messages and knowledge; build prompts; follow events",
    "write": "post, edit, give feedback, stop runs, make channels and threads",
    "memory": "memory, blocks, notes, work, progress, approvals, sessions",
    "knowledge": "write, suggest and review knowledge",
    "admin": "manage its owner's tokens; with an admin as owner SOULs, levels, instructions",
}
DEFAULT_SCOPES, DEFAULT_DAYS = ("read", "write", "memory"), 90


@never_cache
@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: WorkspaceRequest) -> HttpResponse:
    """Those that open something still, and a form for a new one, whose secret is shown in this answer only."""
    _check_administers(request.access)
    if request.method != "POST":
        return _render_tokens(request, kept={"scopes": DEFAULT_SCOPES, "days": DEFAULT_DAYS})
    days = request.POST.get("days", "").strip()
    kept: dict[str, Any] = {
        "owner": int_param(request.POST, "owner"),
        "name": request.POST.get("name", ""),
        "scopes": request.POST.getlist("scopes"),
        "days": days,
    }
    try:
        owner = token_owners(request.access).filter(pk=min(kept["owner"] or 0, MAX_ID)).first()
        if owner is None:
            raise Problem("Choose whose token it is to be.", code="bad_owner", field="owner")
        if days and not (days.isascii() and days.isdigit() and len(days) < 9):
            raise Problem(f"A token lasts 1 to {MAX_TOKEN_DAYS} days.", code="bad_days", field="days")
        token, secret = issue_token(
            participant=owner, name=kept["name"], scopes=kept["scopes"], days=int(days) if days else None
        )
    except Problem as problem:
        return _render_tokens(request, problem=problem, kept=kept)
    made = {"token": token, "secret": secret, "owner": owner}
    return _render_tokens(request, made=made, kept={"scopes": DEFAULT_SCOPES, "days": DEFAULT_DAYS})


@workspace_view
@require_POST
def token_revoke(request: WorkspaceRequest, token_id: int) -> HttpResponse:
    """It opens nothing any more."""
    _check_administers(request.access)
    rows = Token.objects.filter(participant__in=token_owners(request.access))
    revoke_token(token=get_object_or_404(rows, pk=min(token_id, MAX_ID)))
    return redirect("tokens", request.workspace.slug)


def _check_administers(access: Access) -> None:
    if not access.administers:
        raise Refused("Only owners and admins manage tokens. Ask one of them.")


def _render_tokens(request: WorkspaceRequest, *, problem: Problem | None = None, **context: Any) -> HttpResponse:
    owners = token_owners(request.access).order_by("kind", "name", "id")
    rows = Token.objects.filter(participant__in=owners, revoked_at=None).select_related("participant").order_by("-id")
    scopes = [(scope, SCOPE_WORDS[scope]) for scope in SCOPES]
    context |= {"problem": problem, "owners": owners, "tokens": rows, "scopes": scopes, "max_days": MAX_TOKEN_DAYS}
    return render(request, "workspaces/tokens.html", context, status=problem.status if problem else 200)
