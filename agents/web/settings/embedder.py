"""The settings page of search, for owners and admins: which embedder makes texts findable by meaning."""

from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from agents.connect.embedder_options import embedder_options
from agents.web.access import check_may
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.problems import Problem
from openvibe.base.rate_limits import check_rate
from openvibe.engines.llm.endpoints.endpoints import TOO_MANY_TESTS
from openvibe.engines.search.embedder_choice import EmbedderChange, EmbedderRefused, try_embedder, use_embedder
from openvibe.engines.search.space_lifecycle import space_statuses
from openvibe.engines.search.spaces import clear_space_cache
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def embedder(request: WorkspaceRequest) -> HttpResponse:
    """The embedders there are; a POST with `use` switches to the one it names, with `test` tries that one."""
    check_may(request, "choose how a workspace searches")
    if request.method == "POST":
        try:
            _act(request)
        except (EmbedderRefused, Problem) as refusal:
            messages.error(request, refusal.message)
        return redirect("settings-search", request.workspace.slug)
    statuses = space_statuses(request.workspace.pk)
    page = {
        "statuses": statuses,
        "choices": embedder_options(_endpoints(request), statuses),
        "texts": max((status.embedded + status.pending for status in statuses), default=0),
    }
    return render(request, "agents/settings_search.html", page)


def _act(request: WorkspaceRequest) -> None:
    """Does what the button says and tells how it went. Raises EmbedderRefused and Problem."""
    key = request.POST.get("use") or request.POST.get("test", "")
    kind, _, endpoint_id = key.partition("-")
    endpoint = next((one for one in _endpoints(request) if str(one.pk) == endpoint_id), None)
    if "test" in request.POST:
        check_rate(request, "test_model", TOO_MANY_TESTS)
        result = try_embedder(kind=kind, endpoint=endpoint)
        (messages.success if result.ok else messages.error)(request, result.message)
        return
    change = _use(request, kind, endpoint)
    (messages.success if change.changed else messages.info)(request, change.message)


@transaction.atomic
def _use(request: WorkspaceRequest, kind: str, endpoint: Any) -> EmbedderChange:
    transaction.on_commit(clear_space_cache)  # what others read meanwhile is of before
    change = use_embedder(workspace=request.workspace, kind=kind, endpoint=endpoint, by=request.access)
    if change.changed:
        record_audit(
            AuditAction.SETTINGS,
            workspace_id=request.workspace.pk,
            by=request.access,
            subject="search embedder",
            after=change.space.title,
        )
    return change


def _endpoints(request: WorkspaceRequest) -> list[Any]:
    """The workspace's model endpoints that may have embeddings."""
    return list(request.workspace.endpoints.filter(kind__in=("openai", "responses")).order_by("name"))
