"""Forms of MCP servers and of their tools, in the admin and in the app. A token goes in and never comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django import forms

from agents.agent.models import McpServer, McpTool
from agents.tools.mcp_servers.services import ToolUse
from agents.tools.mcp_servers.tools import offered_name
from openvibe.base.forms import ServiceForm, StoredSecretForm


class McpServerForm(StoredSecretForm):
    """The workspace is a field, or else that of the instance. Checked and saved in one transaction: it locks the
    workspace, so that two who take one name are checked one after the other."""

    token = forms.CharField(
        label="Token",
        required=False,
        strip=True,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
    )
    secret_name, address_names = "token", frozenset(("url", "header"))

    class Meta:
        model = McpServer
        fields = ("name", "url", "token", "forget", "header", "timeout_seconds", "max_bytes", "is_active")
        labels: ClassVar = {
            "is_active": "In use",
            "url": "Address",
            "header": "Header that carries the token",
            "timeout_seconds": "Time limit of a call, in seconds",
            "max_bytes": "Size limit of an answer, in bytes",
        }

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        workspace = self.cleaned_data.get("workspace") or getattr(self.instance, "workspace", None)
        if workspace is not None:
            type(workspace)._default_manager.select_for_update(no_key=True).get(pk=workspace.pk)
            namesakes = McpServer.objects.filter(workspace=workspace, name=self.cleaned_data.get("name"))
            if namesakes.exclude(pk=self.instance.pk).exists():
                self.add_error("name", "There is an MCP server of this name already. Choose another.")
        return cleaned


class ToolUsesForm(ServiceForm):
    """What each tool of a server does, and whether it asks a person first; fields are named by the tool's id."""

    def __init__(self, tools: Sequence[McpTool], data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        self.tools = tools
        for tool in tools:
            self.fields[f"effect-{tool.pk}"] = forms.ChoiceField(
                choices=McpTool.Effect.choices, initial=tool.effect, label=f"What {tool.name} does"
            )
            self.fields[f"asks-{tool.pk}"] = forms.BooleanField(
                required=False, initial=tool.asks_first, label="Asks a person first"
            )
            self.fields[f"fingerprint-{tool.pk}"] = forms.CharField(
                initial=tool.fingerprint, max_length=64, widget=forms.HiddenInput
            )

    def uses(self) -> dict[int, ToolUse]:
        """What was chosen, by the tool's id."""
        values = self.cleaned_data
        return {
            tool.pk: ToolUse(*(values[f"{name}-{tool.pk}"] for name in ("effect", "asks", "fingerprint")))
            for tool in self.tools
        }


class ToolsForm(ServiceForm):
    """The tools of the workspace's MCP servers an agent may use."""

    tools = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple, label="It may use")

    def __init__(self, *args: Any, choices: Sequence[McpTool], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["tools"]
        field.choices = [(tool.pk, _tool_label(tool)) for tool in choices]


def _tool_label(tool: McpTool) -> str:
    """The tool's name as agents call it, with what it does."""
    asks = ", asks first" if tool.asks_first else ""
    first_line = tool.description.partition("\n")[0][:120]
    return f"{offered_name(tool)} ({tool.get_effect_display()}{asks}): {first_line}"
