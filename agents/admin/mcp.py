"""MCP servers in the admin: where they are, what their tools may do, and fetching the tools. A token goes in and never
comes out."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from unfold.admin import TabularInline
from unfold.decorators import action

from agents.agent.models import McpServer, McpTool
from agents.tools.mcp_servers.forms import McpServerForm
from agents.tools.mcp_servers.services import describe_arguments, describe_fetch
from agents.tools.mcp_servers.tools import refresh_tools
from openvibe.base.admin import AuditedAdmin, secret_input
from openvibe.base.audit import AuditAction
from openvibe.base.problems import Problem


class McpServerAdminForm(McpServerForm):
    token = secret_input("Token")


class McpToolForm(forms.ModelForm):  # type: ignore[type-arg]  # takes none when it runs
    class Meta:
        labels: ClassVar = {"effect": "What it does", "asks_first": "Asks a person first"}


class McpToolInline(TabularInline):  # type: ignore[misc]  # unfold has no types
    """What the tools may do. They come and go by fetching alone."""

    model = McpTool
    form = McpToolForm
    extra = 0
    hide_title = True
    can_delete = False
    fields = ("name", "description", "arguments", "effect", "asks_first", "offered", "who")
    readonly_fields = ("name", "description", "arguments", "offered", "who")

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("agents__participant")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """The field, named for screen readers: the head of its column is no label."""
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None:
            field.widget.attrs["aria-label"] = str(field.label)
        return field

    @admin.display(description="Arguments")
    def arguments(self, tool: McpTool) -> str:
        """The arguments, with what the server says of each, and the whole of what agents are given: a server may hide
        words for them anywhere in it."""
        rows = "; ".join(f"{name}: {words}".rstrip(": ") for name, words in describe_arguments(tool.input_schema))
        whole = json.dumps(tool.input_schema, ensure_ascii=False)
        details = "<details><summary>As agents read them</summary><code class='break-words'>{}</code></details>"
        return format_html("{}" + details, rows or "–", whole)

    @admin.display(description="Offered by the server", boolean=True)
    def offered(self, tool: McpTool) -> bool:
        return tool.is_listed

    @admin.display(description="Allowed to")
    def who(self, tool: McpTool) -> str:
        return ", ".join(f"@{agent.handle}" for agent in tool.agents.all()) or "–"


@admin.register(McpServer)
class McpServerAdmin(AuditedAdmin):
    audit_action = AuditAction.MCP_SERVER
    may_add = may_change = may_delete = True
    form = McpServerAdminForm
    inlines = (McpToolInline,)
    list_display = ("name", "workspace", "url", "stored_token", "is_active", "fetched_at")
    list_filter = ("is_active",)
    list_select_related = ("workspace",)
    search_fields = ("name", "url")
    ordering = ("workspace", "name")
    actions_detail = ("fetch_tools",)
    fieldsets = (
        (None, {"fields": ("workspace", "name", "is_active")}),
        ("Where and with which token", {"fields": ("url", "token", "forget", "header")}),
        ("Limits", {"fields": ("timeout_seconds", "max_bytes")}),
    )

    @admin.display(description="Token")
    def stored_token(self, server: McpServer) -> str:
        return server.token_hint or "–"

    def save_model(self, request: HttpRequest, obj: McpServer, form: Any, change: bool) -> None:
        """What was changed begins without failures."""
        obj.failures, obj.rests_until = 0, None
        super().save_model(request, obj, form, change)

    @action(description="Fetch tools", url_path="fetch")  # type: ignore[untyped-decorator]  # unfold has no types
    def fetch_tools(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Asks before it calls, then says what came."""

        def fetch(server: McpServer) -> None:
            try:
                result = refresh_tools(server=server)
            except Problem as problem:
                self.message_user(request, problem.message, messages.ERROR)
            else:
                self.log_change(request, server, "Fetched its tools")
                self.message_user(request, describe_fetch(server, result), messages.SUCCESS)

        title, verb = "Fetch the tools of {}", "Fetch tools now"
        return self.ask_then(request, object_id, fetch, "admin/mcp/fetch.html", title=title, verb=verb)
