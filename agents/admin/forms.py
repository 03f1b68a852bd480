"""Forms of agents in the admin: a new one, its settings, SOUL, trust level, channels and tools."""

from __future__ import annotations

from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminRadioSelectWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from agents.agent.models import Agent
from agents.agent.services import check_fallback
from agents.agent.soul.plain import PlainSoul, soul_to_yaml
from agents.prompts.assembler.validation import check_agent
from agents.tools.mcp_servers.forms import ToolsForm
from openvibe.base.admin import SameWorkspaceForm
from openvibe.base.problems import Problem
from openvibe.chat.models import Channel
from openvibe.workspaces.models import Workspace


class SoulTextarea(UnfoldAdminTextareaWidget):  # type: ignore[misc]  # unfold has no types
    """A large monospace box for YAML."""

    def __init__(self) -> None:
        super().__init__(attrs={"rows": 28, "spellcheck": "false", "autocapitalize": "off", "wrap": "off"})
        self.attrs["class"] += " ov-soul"


class NewAgentForm(forms.Form):
    """A form that says who the new agent is, in plain fields; the SOUL's page shows the rest."""

    workspace = forms.ModelChoiceField(queryset=Workspace.objects.none(), widget=UnfoldAdminSelectWidget)
    name = forms.CharField(max_length=80, widget=UnfoldAdminTextInputWidget)
    handle = forms.CharField(max_length=33, widget=UnfoldAdminTextInputWidget, help_text="What people type after @.")
    purpose = forms.CharField(
        label="What is it for?",
        max_length=300,
        widget=UnfoldAdminTextInputWidget,
        help_text="One line, such as “Helps the team find what was decided”.",
    )
    principles = forms.CharField(
        label="Tone and principles", required=False, widget=UnfoldAdminTextareaWidget, help_text="One a line."
    )
    never = forms.CharField(
        label="What it must never do", required=False, widget=UnfoldAdminTextareaWidget, help_text="One a line."
    )

    def soul(self) -> str:
        """YAML. Raises SoulError."""
        fields = ("name", "purpose", "principles", "never")
        return soul_to_yaml(PlainSoul(**{field: self.cleaned_data[field] for field in fields}).to_soul())


class SoulForm(forms.Form):
    """`based_on` is the version the text was opened at, so that nobody saves over a newer one."""

    soul = forms.CharField(label="SOUL", widget=SoulTextarea, strip=False, required=False)
    note = forms.CharField(
        label="What did you change, and why?", max_length=300, required=False, widget=UnfoldAdminTextInputWidget
    )
    based_on = forms.IntegerField(min_value=0, widget=forms.HiddenInput)


class TrustForm(forms.Form):
    level = forms.TypedChoiceField(
        choices=Agent.Level.choices, coerce=int, widget=UnfoldAdminRadioSelectWidget, label="Level"
    )
    note = forms.CharField(label="Why?", max_length=300, required=False, widget=UnfoldAdminTextInputWidget)


class ChannelsForm(forms.Form):
    channels = forms.ModelMultipleChoiceField(
        queryset=Channel.objects.none(),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        label="It is in",
    )


class ToolsAdminForm(ToolsForm):
    tools = forms.MultipleChoiceField(
        required=False, widget=UnfoldAdminCheckboxSelectMultipleWidget, label="It may use"
    )


class AgentForm(SameWorkspaceForm):
    """The endpoint's window has to hold what every prompt of the agent needs."""

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        changed_names = [name for name in ("endpoint", "fallback") if name in self.changed_data]
        if changed_names and not self.errors:
            endpoint, fallback = self.cleaned_data.get("endpoint"), self.cleaned_data.get("fallback")
            self.instance.endpoint, self.instance.fallback = endpoint, fallback
            try:
                check_fallback(self.instance, endpoint, fallback)
                check_agent(self.instance)
            except Problem as problem:
                self.add_error(problem.field if problem.field in changed_names else changed_names[0], problem.message)
        return cleaned
