"""The form of a model endpoint, in the admin and in the app. A key goes in and never comes out."""

from __future__ import annotations

from typing import Any

from django import forms

from openvibe.base.forms import StoredSecretForm
from openvibe.base.problems import Problem
from openvibe.engines.llm.endpoints.endpoints import ENDPOINT_CHECK, longest_timeout, timeout_help
from openvibe.engines.llm.models import Endpoint

PROMPT_FIELDS = ("workspace", "name", "model", "context_window", "output_reserve", "is_default", "is_fallback")
"""What decides how large a prompt may be, and whose."""


class EndpointForm(StoredSecretForm):
    """The workspace is a field, or else that of the instance. Checked and saved in one transaction: it locks the
    workspace, so that two who take one name, or make their model the default, are checked one after the other."""

    api_key = forms.CharField(
        label="Key",
        required=False,
        strip=True,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
    )
    secret_name, address_names = "api_key", frozenset(("base_url",))

    class Meta:
        model = Endpoint
        fields = (
            *("name", "kind", "base_url", "model", "api_key", "forget", "is_default", "is_fallback"),
            *("is_for_summaries", "summary_rank", "context_window", "output_reserve", "timeout_seconds", "sees_images"),
            *("price_in", "price_out"),
        )
        labels = {
            "is_default": "Default of this workspace",
            "is_fallback": "Fallback of this workspace",
            "is_for_summaries": "Writes the summaries",
            "summary_rank": "Stands in for summaries",
            "sees_images": "Sees images",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if field := self.fields.get("timeout_seconds"):
            field.help_text = timeout_help()
            field.widget.attrs["max"] = longest_timeout()
        if isinstance(rank := self.fields.get("summary_rank"), forms.ChoiceField):
            rank.choices = [("", "No"), *Endpoint.SUMMARY_RANKS]

    def clean_timeout_seconds(self) -> int:
        """What is stored already may be more than the operator allows by now: the lower one counts."""
        seconds: int = self.cleaned_data["timeout_seconds"]
        if "timeout_seconds" in self.changed_data and seconds > longest_timeout():
            raise forms.ValidationError(
                f"Whoever runs OpenVibe allows at most {longest_timeout():,} seconds "
                "(OPENVIBE_MODEL_TOTAL_SECONDS). Enter no more than that, or ask them for more."
            )
        return seconds

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if "workspace" not in self.errors:
            workspace = self._value("workspace")
            type(workspace)._default_manager.select_for_update(no_key=True).get(pk=workspace.pk)
        self._check_one_per_workspace("name", "There is a model of this name already. Choose another.")
        self._check_one_per_workspace("is_default", "{} is the default of this workspace. Switch it off there first.")
        self._check_one_per_workspace(
            "is_for_summaries", "{} writes the summaries of this workspace already. Switch it off there first."
        )
        self._check_one_per_workspace(
            "summary_rank", "{} stands in at this place already. Choose another place, or change that one first."
        )
        self._check_one_per_workspace(
            "is_fallback", "{} is the fallback of this workspace already. Switch it off there first."
        )
        self._check_fallback()
        if "context_window" in self.changed_data:
            was_filled_in = str(self.cleaned_data.get("context_window")) == self.data.get("window_told")
            sources = Endpoint.WindowSource
            self.instance.window_source = sources.SERVER if was_filled_in else sources.PERSON
        self._check_prompts()
        return cleaned

    def _check_fallback(self) -> None:
        """One that asks the same model at the same address as the default is no help."""
        if self.errors or not (self._value("is_fallback") or self._value("is_default")):
            return
        other_flag = "is_default" if self._value("is_fallback") else "is_fallback"
        others = Endpoint.objects.filter(workspace=self._value("workspace"), **{other_flag: True})
        other = others.exclude(pk=self.instance.pk).first()
        this = Endpoint(kind=self._value("kind"), base_url=self._value("base_url"), model=self._value("model"))
        if other is not None and other.is_same_model(this):
            self.add_error("is_fallback", f"{other} asks the same model at the same address: it would fail with it.")

    def _value(self, name: str) -> Any:
        return self.cleaned_data[name] if name in self.fields else getattr(self.instance, name)

    def _check_prompts(self) -> None:
        """Agents that answer through it have to fit into its window."""
        if self.errors or not set(PROMPT_FIELDS) & set(self.changed_data):
            return
        endpoint = Endpoint(pk=self.instance.pk)
        for name in PROMPT_FIELDS:
            setattr(endpoint, name, self._value(name))
        try:
            ENDPOINT_CHECK.only()(endpoint)
        except Problem as problem:
            self.add_error("context_window", problem.message)

    def _check_one_per_workspace(self, name: str, message: str) -> None:
        """Checks a constraint per workspace of this value: a flag that is on, or a name."""
        value = self.cleaned_data.get(name)
        if not value or "workspace" in self.errors:
            return
        others = Endpoint.objects.filter(workspace=self._value("workspace"), **{name: value})
        if other := others.exclude(pk=self.instance.pk).first():
            self.add_error(name, message.format(other))
