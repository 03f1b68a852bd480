"""The form of a plugin's settings, made of what the plugin declares."""

from collections.abc import Mapping

from django import forms
from django.http import QueryDict

from memory.plugins.base import PluginSetting
from memory.plugins.registry import PluginStatus

PREFIX = "set-"


def read_settings(form_data: QueryDict) -> dict[str, str]:
    """What was typed, by the setting's name."""
    return {key.removeprefix(PREFIX): str(text).strip() for key, text in form_data.items() if key.startswith(PREFIX)}


def settings_form(status: PluginStatus, draft: Mapping[str, str]) -> forms.Form:
    """A choice where it takes a few words, else text, which is the plugin's to check."""
    form = forms.Form(auto_id=f"{status.name.replace('/', '-')}-%s")
    for setting in status.settings:
        value = draft.get(PREFIX + setting.name, status.config.get(setting.name, ""))
        form.fields[PREFIX + setting.name] = _setting_field(setting, value)
    return form


def _setting_field(setting: PluginSetting, value: object) -> forms.Field:
    if not setting.choices:
        words = f"{setting.description} Left empty: {setting.default}."
        return forms.CharField(label=setting.label, required=False, initial=value, help_text=words)
    choices = [("", f"As delivered: {setting.default}"), *((word, word) for word in setting.choices)]
    return forms.ChoiceField(
        label=setting.label, required=False, initial=value, choices=choices, help_text=setting.description
    )
