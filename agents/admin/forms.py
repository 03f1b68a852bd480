"""Forms of the agent's pages."""

from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminRadioSelectWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from agents.models import Agent
from openvibe.base.admin import SameWorkspaceForm
from openvibe.chat.models import Channel
from openvibe.workspaces.models import Workspace

INITIAL_SOUL = """\
identity:
  name: Vibe
  role: Helps the team find what was said
  description: Answers from the conversation at hand.
philosophy:
  principles:
    - Quote before you conclude
capabilities:
  domains: []
behavior:
  response_style: conversational
constraints:
  never_do:
    - Invent facts
"""


class SoulTextarea(UnfoldAdminTextareaWidget):  # type: ignore[misc]
    """A large monospace box for YAML."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__(
            attrs={"rows": 28, "spellcheck": "false", "autocapitalize": "off", "wrap": "off", **(attrs or {})}
        )
        self.attrs["class"] = f"{self.attrs.get('class', '')} ov-soul"


class NewAgentForm(forms.Form):
    workspace = forms.ModelChoiceField(queryset=Workspace.objects.none(), widget=UnfoldAdminSelectWidget)
    handle = forms.CharField(max_length=33, widget=UnfoldAdminTextInputWidget, help_text="What people type after @.")
    name = forms.CharField(max_length=80, widget=UnfoldAdminTextInputWidget)
    soul = forms.CharField(
        label="SOUL", widget=SoulTextarea, initial=INITIAL_SOUL, strip=False, help_text="YAML, 500 to 2,000 tokens."
    )


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


class AgentForm(SameWorkspaceForm):
    class Meta:
        model = Agent
        fields = ("endpoint", "daily_token_budget", "answers_itself")
