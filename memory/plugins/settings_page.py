"""The settings page of memory, for owners and admins: which plugin recalls, what another would change, its settings."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import Count, Sum
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from memory.plugins.base import PluginSetting
from memory.plugins.models import COMPACTIONS, DEFAULT_PLUGIN, Compaction
from memory.plugins.registry import PluginStatus, capability_diff, plugin_statuses
from memory.plugins.services import configure_plugin, enable_plugin
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Thread
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

PREFIX = "set-"


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def memory_settings(request: WorkspaceRequest) -> HttpResponse:
    """A POST with `plugin` enables that one, with `settings` stores the settings of that one."""
    if not request.access.administers:
        raise Refused("Only owners and admins may change how a workspace remembers. Ask one of them.")
    problem, name = None, request.POST.get("settings", "")
    if request.method == "POST":
        try:
            messages.success(request, _change(request, name))
            return redirect("settings-memory", request.workspace.slug)
        except Problem as error:
            problem = error
    draft = request.POST if problem else {}
    statuses = plugin_statuses(request.workspace.pk)
    page = {
        "plugins": [_plugin_context(request, status, draft if status.name == name else {}) for status in statuses],
        "default": DEFAULT_PLUGIN,
        "problem": problem,
        "active": next((status for status in statuses if status.enabled), None),
        **_counts(request),
    }
    return render(request, "memory/settings.html", page, status=problem.status if problem else 200)


def _change(request: WorkspaceRequest, name: str) -> str:
    """What was done, as a sentence. Raises Problem."""
    if "plugin" in request.POST:
        return enable_plugin(workspace=request.workspace, name=request.POST["plugin"], by=request.access).message
    configure_plugin(workspace=request.workspace, name=name, config=read_settings(request.POST), by=request.access)
    return "Saved. It holds from the next prompt on."


def _plugin_context(request: WorkspaceRequest, status: PluginStatus, draft: Any) -> dict[str, Any]:
    change = None if status.enabled else capability_diff(request.workspace.pk, status.name)
    return {"status": status, "change": change, "form": settings_form(status, draft)}


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
        widget = forms.Textarea(attrs={"rows": 3}) if setting.is_long else forms.TextInput()
        return forms.CharField(label=setting.label, required=False, initial=value, help_text=words, widget=widget)
    choices = [("", f"As delivered: {setting.default}"), *((word, word) for word in setting.choices)]
    return forms.ChoiceField(
        label=setting.label, required=False, initial=value, choices=choices, help_text=setting.description
    )


def _counts(request: WorkspaceRequest) -> dict[str, int]:
    threads = Thread.objects.filter(workspace=request.workspace)
    of_threads = threads.aggregate(threads=Count("pk"), messages=Sum("last_seq"))  # not counted message by message
    compactions = Compaction.objects.filter(thread__workspace=request.workspace, state__in=COMPACTIONS.unfinished)
    return {
        "thread_count": of_threads["threads"],
        "message_count": of_threads["messages"] or 0,
        "under_way": compactions.count(),
    }
