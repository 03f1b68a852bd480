"""Model endpoints in the admin. A key goes in and never comes out."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound, JsonResponse
from django.urls import URLPattern, path
from django.utils.html import format_html_join
from unfold.decorators import action

from agents.connect.endpoint_forms import EndpointForm
from agents.connect.endpoints import forget_adaptations
from agents.connect.presets import PRESETS
from agents.connect.window_checks import offered_facts, try_and_measure
from openvibe.base.admin import AuditedAdmin, admin_actor, secret_input
from openvibe.base.audit import AuditAction
from openvibe.base.problems import Refused
from openvibe.base.rate_limits import check_rate
from openvibe.engines.llm.endpoints.endpoints import TOO_MANY_LISTS, TOO_MANY_TESTS, fetch_models
from openvibe.engines.llm.models import Endpoint


class EndpointAdminForm(EndpointForm):
    api_key = secret_input("Key")


@admin.register(Endpoint)
class EndpointAdmin(AuditedAdmin):
    audit_action = AuditAction.ENDPOINT
    may_add = may_change = may_delete = True
    form = EndpointAdminForm
    list_display = ("name", "workspace", "kind", "model", "key", "is_default", "is_fallback", "is_for_summaries")
    list_filter = ("kind", "is_default", "is_fallback", "is_for_summaries")
    list_select_related = ("workspace",)
    search_fields = ("name", "model")
    ordering = ("workspace", "name")
    actions_detail = ("test_endpoint", "forget_adaptations")
    readonly_fields = ("adaptations_known",)
    change_form_before_template = "admin/llm/presets.html"
    fieldsets = (
        (
            None,
            {"fields": ("workspace", "name", "kind", "is_default", "is_fallback", "is_for_summaries", "summary_rank")},
        ),
        ("Where and with which key", {"fields": ("base_url", "model", "api_key", "forget")}),
        (
            "Limits and prices",
            {
                "fields": (
                    "context_window",
                    "output_reserve",
                    "timeout_seconds",
                    "sees_images",
                    "price_in",
                    "price_out",
                ),
                "description": "A model whose two prices are 0 uses no token budget.",
            },
        ),
        ("What it wants otherwise", {"fields": ("adaptations_known",)}),
    )

    class Media:
        js = (forms.Script("js/endpoint_form.js", type="module"),)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        context = {**(extra_context or {}), "presets": PRESETS}
        response: HttpResponse = super().changeform_view(request, object_id, form_url, context)
        return response

    def get_urls(self) -> list[URLPattern]:
        models_view = self.admin_site.admin_view(self.fetch_models)
        return [path("models/", models_view, name="llm_endpoint_models"), *super().get_urls()]

    def fetch_models(self, request: HttpRequest) -> HttpResponse:
        """The names of the models that the endpoint of the form offers, as JSON, saved or not.

        The stored key goes only to the address that it was entered for, and a superuser's leave holds for that one.
        """
        if request.method != "POST" or not self.has_add_permission(request):
            return HttpResponseNotFound()
        try:
            check_rate(request, "list_models", TOO_MANY_LISTS)
        except Refused as error:
            return JsonResponse({"models": [], "message": error.message})
        form = request.POST
        endpoint = Endpoint(
            kind=form.get("kind", ""),
            base_url=form.get("base_url", "").strip(),
            api_key=form.get("api_key", "").strip(),
        )
        pk = form.get("endpoint", "")
        stored = self.get_queryset(request).filter(pk=pk).first() if pk.isdecimal() else None
        if stored and stored.base_url == endpoint.base_url:
            endpoint.api_key = endpoint.api_key or stored.api_key
            endpoint.allowed_address = stored.allowed_address
        result = fetch_models(endpoint=endpoint)
        facts = offered_facts(result, endpoint.base_url)
        return JsonResponse({"models": result.models, "facts": facts, "message": result.message})

    @admin.display(description="Key")
    def key(self, endpoint: Endpoint) -> str:
        return endpoint.key_hint or "–"

    @admin.display(description="Learned from what it refused")
    def adaptations_known(self, endpoint: Endpoint) -> str:
        rows = endpoint.adaptations.all() if endpoint.pk else ()
        lines = [
            (f"{row.effect} ({row.model}, learned {row.learned_at:%d %b %Y %H:%M} UTC)", row.words) for row in rows
        ]
        return format_html_join("", "<p>{}<br>{}</p>", lines) or "Nothing."

    @action(description="Forget", url_path="forget")  # type: ignore[untyped-decorator]  # the theme has no types
    def forget_adaptations(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """What was learned of it: it is asked as any other again."""

        def forget(endpoint: Endpoint) -> None:
            count = forget_adaptations(endpoint=endpoint, by=admin_actor(request))
            message = f"Forgotten. {endpoint} is asked as any other again." if count else "There was nothing to forget."
            self.message_user(request, message)

        return self.ask_then(
            request, object_id, forget, "admin/llm/forget.html", title="Forget what {} wants otherwise", verb="Forget"
        )

    @action(description="Test", url_path="test")  # type: ignore[untyped-decorator]  # the theme has no types
    def test_endpoint(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Asks before it calls: a test may cost money."""

        def test(endpoint: Endpoint) -> None:
            try:
                check_rate(request, "test_model", TOO_MANY_TESTS)
            except Refused as error:
                self.message_user(request, error.message, messages.ERROR)
                return
            result = try_and_measure(endpoint=endpoint)
            message = f"{result.summary} It said: {result.message}" if result.ok else result.message
            self.message_user(request, message, messages.SUCCESS if result.ok else messages.ERROR)

        return self.ask_then(request, object_id, test, "admin/llm/test.html", title="Test {}", verb="Test now")
