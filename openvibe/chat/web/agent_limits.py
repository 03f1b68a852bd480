"""The form of what holds for agents in a channel."""

from itertools import groupby
from typing import Any, NamedTuple

from django import forms

from openvibe.base.forms import ServiceForm
from openvibe.base.problems import Problem
from openvibe.chat import services
from openvibe.chat.models import Channel
from openvibe.chat.services.agent_limits import MAX_DAILY_TOKENS
from openvibe.workspaces.access import Access

ALL_TOOLS, SOME_TOOLS = "all", "some"


class ShownChoice(NamedTuple):
    name: str
    label: str
    is_chosen: bool


class AgentLimitsForm(ServiceForm):
    """A form of which agents answer; for owners and admins also what they may use, and how many tokens a day."""

    added_agents_only = forms.BooleanField(required=False)
    which_tools = forms.ChoiceField(choices=[(ALL_TOOLS, ""), (SOME_TOOLS, "")], required=False)
    agent_tools = forms.MultipleChoiceField(required=False)
    daily_token_budget = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=MAX_DAILY_TOKENS,
        error_messages={
            "invalid": "Write a whole number of tokens, or nothing for no budget of its own.",
            "min_value": "A budget is 0 or more tokens a day.",
            "max_value": f"A budget is at most {MAX_DAILY_TOKENS:,} tokens a day.",
        },
    )

    def __init__(self, channel: Channel, access: Access, data: Any = None) -> None:
        initial = {
            "added_agents_only": channel.added_agents_only,
            "which_tools": ALL_TOOLS if channel.agent_tools is None else SOME_TOOLS,
            "agent_tools": channel.agent_tools or [],
            "daily_token_budget": channel.daily_token_budget,
        }
        super().__init__(data, initial=initial)
        self.channel, self.is_for_admins = channel, access.administers
        self.choices = services.tool_choices(channel.workspace_id) if access.administers else []
        names = [choice.name for choice in self.choices]
        names += [name for name in channel.agent_tools or () if name not in names]
        self.fields["agent_tools"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]  # of choices

    @property
    def groups(self) -> list[tuple[str, list[ShownChoice]]]:
        """The choices under their headings, those that the form holds ticked."""
        chosen = set(self["agent_tools"].value() or ())
        return [
            (group, [ShownChoice(choice.name, choice.label, choice.name in chosen) for choice in choices])
            for group, choices in groupby(self.choices, key=lambda choice: choice.group)
        ]

    def save(self, *, by: Access) -> None:
        """Raises Problem with the first thing that is wrong."""
        if not self.is_valid():
            field, errors = next(iter(self.errors.items()))
            raise Problem(str(errors[0]), code="invalid", field=field)
        values = self.cleaned_data
        limits: dict[str, Any] = {"added_agents_only": values["added_agents_only"]}
        if self.is_for_admins:
            limits["tools"] = values["agent_tools"] if values["which_tools"] == SOME_TOOLS else None
            limits["daily_token_budget"] = values["daily_token_budget"]
        services.set_agent_limits(channel=self.channel, by=by, **limits)
