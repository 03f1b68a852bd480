"""The switch of embedders: which one a workspace's texts are compared with, and what another one would mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse

from openvibe.base.admin import ReadOnlyAdmin
from openvibe.base.problems import Problem
from openvibe.search.models import VectorSpace
from openvibe.search.services import try_embedder, use_embedder
from openvibe.search.standing import standings

Kind = VectorSpace.Kind


@dataclass(frozen=True)
class Choice:
    """An embedder as the page offers it. `key` is what its buttons post; `state` "" where it is not in use."""

    key: str
    title: str
    description: str
    state: str = ""


@dataclass(frozen=True)
class _Administering:
    """Somebody whom the admin shows this workspace to: an owner or admin of it, or a superuser."""

    workspace_id: int
    administers: bool = True


@admin.register(VectorSpace)
class VectorSpaceAdmin(ReadOnlyAdmin):
    """One page: the embedders of one workspace. What a switch does stands beside its button."""

    fields = ("workspace", "kind", "endpoint", "model", "address", "dimension", "state", "problem", "try_again_at")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """GET shows; POST with `use` switches, POST with `test` tries, each naming a choice of the page."""
        if not self.has_view_permission(request):
            return redirect("admin:index")
        homes = list(self.choices_of(apps.get_model("workspaces.Workspace"), request).order_by("name"))
        asked = request.POST.get("workspace") or request.GET.get("workspace", "")
        home = next((one for one in homes if str(one.pk) == asked), None if asked else next(iter(homes), None))
        if home is None:
            self.message_user(request, "There is no such workspace among those you run.", messages.WARNING)
            return redirect("admin:index")
        if request.method == "POST":
            return self._acted(request, home)
        return self._shown(request, home, homes)

    def _acted(self, request: HttpRequest, home: Any) -> HttpResponse:
        key = request.POST.get("use") or request.POST.get("test", "")
        kind, _, number = key.partition("-")
        endpoint = next((one for one in self._endpoints(request, home) if str(one.pk) == number), None)
        if "test" in request.POST:
            tried = try_embedder(kind=kind, endpoint=endpoint)
            self.message_user(request, tried.said, messages.SUCCESS if tried.ok else messages.ERROR)
            return redirect(self._address(home))
        try:
            chosen = use_embedder(workspace=home, kind=kind, endpoint=endpoint, by=_Administering(home.pk))
        except Problem as problem:
            self.message_user(request, problem.message, messages.ERROR)
            return redirect(self._address(home))
        if chosen.changed:
            self.log_change(request, chosen.space, chosen.said)
        self.message_user(request, chosen.said, messages.SUCCESS if chosen.changed else messages.INFO)
        return redirect(self._address(home))

    def _shown(self, request: HttpRequest, home: Any, homes: list[Any]) -> HttpResponse:
        found = standings(home.pk)
        states = {
            (one.embedder.kind, one.embedder.endpoint_id): "in use" if one.is_serving else "being built"
            for one in found
        }
        context = {
            **self.admin_site.each_context(request), "title": "Search embedder", "opts": self.opts, "home": home,
            "homes": homes, "spaces": found, "choices": list(_choices(self._endpoints(request, home), states)),
            "texts": max((one.made + one.waiting for one in found), default=0),
        }  # fmt: skip
        return TemplateResponse(request, "admin/search/embedder.html", context)

    def _endpoints(self, request: HttpRequest, home: Any) -> list[Any]:
        rows = self.choices_of(apps.get_model("llm.Endpoint"), request)
        return list(rows.filter(workspace=home, kind="openai").order_by("name"))

    def _address(self, home: Any) -> str:
        return f"{reverse('admin:search_vectorspace_changelist')}?workspace={home.pk}"


def _choices(endpoints: list[Any], states: dict[tuple[str, int | None], str]) -> list[Choice]:
    """Every embedder that the workspace can choose."""
    built_in = Choice(
        "static", "Built in",
        "Vectors are made on this server; no text leaves it and no model is asked. Knows words and their kin.",
        states.get((Kind.STATIC, None), ""),
    )  # fmt: skip
    outside = [
        Choice(
            f"openai-{one.pk}", f"{one.name}: {one.model}",
            "Every message and every knowledge entry of this workspace, with secrets masked, is sent to "
            f"{one.base_url} once, and so is every question that is searched for. That may cost money. "
            "Its model has to be one that makes embeddings: Test tells.",
            states.get((Kind.OPENAI, one.pk), ""),
        )
        for one in endpoints
    ]  # fmt: skip
    none = Choice(
        "none", "None",
        "Search goes by words alone, at once, and all vectors are removed. An embedder that is chosen later makes "
        "them anew.",
        states.get((Kind.NONE, None), ""),
    )  # fmt: skip
    return [built_in, *outside, none]
