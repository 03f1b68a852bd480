"""The switch of embedders: which one a workspace's texts are compared with, and what another one would mean."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.apps import apps
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse

from openvibe.base.admin import ReadOnlyAdmin
from openvibe.engines.search.embedder_choice import EmbedderRefused, try_embedder, use_embedder
from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.space_lifecycle import space_statuses
from openvibe.engines.search.spaces import LOCAL_EMBEDDERS

Kind = VectorSpace.Kind


class EmbedderOption(NamedTuple):
    """An embedder as the page offers it. `key` is what its buttons post; `state` "" where it is not in use."""

    key: str
    title: str
    description: str
    state: str


@admin.register(VectorSpace)
class VectorSpaceAdmin(ReadOnlyAdmin):
    """One page: the embedders of one workspace. What a switch does stands beside its button."""

    fields = ("workspace", "kind", "endpoint", "model", "address", "dimension", "state", "problem", "try_again_at")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """GET shows; POST with `use` switches, POST with `test` tries, each naming a choice of the page."""
        if not self.has_view_permission(request):
            return redirect("admin:index")
        workspaces = list(self.visible_choices(apps.get_model("workspaces.Workspace"), request).order_by("name"))
        workspace_id = request.POST.get("workspace") or request.GET.get("workspace", "")
        workspace = next(
            (candidate for candidate in workspaces if str(candidate.pk) == workspace_id),
            None if workspace_id else next(iter(workspaces), None),
        )
        if workspace is None:
            self.message_user(request, "There is no such workspace among those you run.", messages.WARNING)
            return redirect("admin:index")
        if request.method == "POST":
            return self._handle_post(request, workspace)
        return self._render_page(request, workspace, workspaces)

    def _handle_post(self, request: HttpRequest, workspace: Any) -> HttpResponse:
        key = request.POST.get("use") or request.POST.get("test", "")
        kind, _, endpoint_id = key.partition("-")
        endpoint = next((one for one in self._endpoints(request, workspace) if str(one.pk) == endpoint_id), None)
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
        spaces = [status.space for status in statuses]
        states = {(space.kind, space.endpoint_id): space.get_state_display().lower() for space in spaces}
        context = {
            **self.admin_site.each_context(request),
            "title": "Search embedder",
            "opts": self.opts,
            "home": workspace,
            "homes": workspaces,
            "statuses": statuses,
            "choices": _embedder_options(self._endpoints(request, workspace), states),
            "texts": max((status.embedded + status.pending for status in statuses), default=0),
        }
        return TemplateResponse(request, "admin/search/embedder.html", context)

    def _endpoints(self, request: HttpRequest, workspace: Any) -> list[Any]:
        rows = self.visible_choices(apps.get_model("llm.Endpoint"), request)
        return list(rows.filter(workspace=workspace, kind__in=("openai", "responses")).order_by("name"))


def _embedder_options(endpoints: list[Any], states: dict[tuple[str, int | None], str]) -> list[EmbedderOption]:
    """Every embedder that the workspace can choose."""
    return [
        EmbedderOption(
            "static",
            "Built in",
            "Vectors are made on this server; no text leaves it and no model is asked. Knows words and their kin.",
            states.get((Kind.STATIC, None), ""),
        ),
        EmbedderOption(
            "multilingual",
            "Multilingual",
            "Vectors are made on this server; no text leaves it and no model is asked. A question in one language "
            "finds what stands in another: English, German, French, Spanish, Italian, Portuguese, Dutch, Polish, "
            "Russian, Turkish, Arabic, Chinese, Japanese, Korean or Thai. It takes some 30 times as long as the "
            "built-in embedder, about 2 milliseconds for a short text, and 120 MB of memory in each process. "
            + LOCAL_EMBEDDERS[Kind.MULTILINGUAL].missing,
            states.get((Kind.MULTILINGUAL, None), ""),
        ),
        *(
            EmbedderOption(
                f"openai-{endpoint.pk}",
                f"{endpoint.name}: {endpoint.model}",
                "Every message and every knowledge entry of this workspace, with secrets masked, is sent to "
                f"{endpoint.base_url} once, and so is every question that is searched for. That may cost money. "
                "Its model has to be one that makes embeddings: Test tells.",
                states.get((Kind.OPENAI, endpoint.pk), ""),
            )
            for endpoint in endpoints
        ),
        EmbedderOption(
            "none",
            "None",
            "Search goes by words alone, at once, and all vectors are removed. An embedder that is chosen later makes "
            "them anew.",
            states.get((Kind.NONE, None), ""),
        ),
    ]
