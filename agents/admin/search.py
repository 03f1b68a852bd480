"""The switch of embedders: which one a workspace's texts are compared with, and what another one would mean."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse

from agents.connect.embedder_options import embedder_options
from openvibe.base.admin import ReadOnlyAdmin
from openvibe.engines.search.embedder_choice import EmbedderRefused, try_embedder, use_embedder
from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.space_lifecycle import space_statuses


@admin.register(VectorSpace)
class VectorSpaceAdmin(ReadOnlyAdmin):
    """One page: the embedders of one workspace. What a switch does stands beside its button."""

    fields = ("workspace", "kind", "endpoint", "model", "address", "dimension", "state", "problem", "try_again_at")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """GET shows; POST with `use` switches, POST with `test` tries, each naming a choice of the page."""
        workspaces = list(apps.get_model("workspaces.Workspace")._default_manager.order_by("name"))
        workspace_id = request.POST.get("workspace") or request.GET.get("workspace", "")
        workspace = next(
            (candidate for candidate in workspaces if str(candidate.pk) == workspace_id),
            None if workspace_id else next(iter(workspaces), None),
        )
        if workspace is None:
            self.message_user(request, "There is no such workspace.", messages.WARNING)
            return redirect("admin:index")
        if request.method == "POST":
            return self._handle_post(request, workspace)
        return self._render_page(request, workspace, workspaces)

    def _handle_post(self, request: HttpRequest, workspace: Any) -> HttpResponse:
        key = request.POST.get("use") or request.POST.get("test", "")
        kind, _, endpoint_id = key.partition("-")
        endpoint = next((one for one in self._endpoints(workspace) if str(one.pk) == endpoint_id), None)
        if "test" in request.POST:
            result = try_embedder(kind=kind, endpoint=endpoint)
            self.message_user(request, result.message, messages.SUCCESS if result.ok else messages.ERROR)
        else:
            self._use_embedder(request, workspace, kind, endpoint)
        return redirect(f"{reverse('admin:search_vectorspace_changelist')}?workspace={workspace.pk}")

    def _use_embedder(self, request: HttpRequest, workspace: Any, kind: str, endpoint: Any) -> None:
        try:
            change = use_embedder(workspace=workspace, kind=kind, endpoint=endpoint, by=None)
        except EmbedderRefused as refusal:
            self.message_user(request, refusal.message, messages.ERROR)
            return
        if change.changed:
            self.log_change(request, change.space, change.message)
        self.message_user(request, change.message, messages.SUCCESS if change.changed else messages.INFO)

    def _render_page(self, request: HttpRequest, workspace: Any, workspaces: list[Any]) -> HttpResponse:
        statuses = space_statuses(workspace.pk)
        context = {
            **self.admin_site.each_context(request),
            "title": "Search embedder",
            "opts": self.opts,
            "home": workspace,
            "homes": workspaces,
            "statuses": statuses,
            "choices": embedder_options(self._endpoints(workspace), statuses),
            "texts": max((status.embedded + status.pending for status in statuses), default=0),
        }
        return TemplateResponse(request, "admin/search/embedder.html", context)

    def _endpoints(self, workspace: Any) -> list[Any]:
        rows = apps.get_model("llm.Endpoint")._default_manager.filter(workspace=workspace)
        return list(rows.filter(kind__in=("openai", "responses")).order_by("name"))
