"""The switch of memory plugins: which one recalls in a workspace, what changing it means, and its settings."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.widgets import UnfoldAdminTextInputWidget

from memory.models import DEFAULT_PLUGIN, MemoryPlugin
from memory.providers.registry import installed
from memory.providers.standing import Standing, standings, what_changes
from memory.services.plugins import configure_plugin, enable_plugin
from openvibe.base.admin import ReadOnlyAdmin
from openvibe.base.problems import Problem
from openvibe.chat.models import Thread
from openvibe.workspaces.admin import acting_as
from openvibe.workspaces.models import Workspace


@admin.register(MemoryPlugin)
class MemoryPluginAdmin(ReadOnlyAdmin):
    """One page: every plugin of one workspace. Switching asks first and says what happens."""

    fields = ("workspace", "name", "enabled", "config", "changed_by")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """GET shows; POST with `plugin` asks, and switches once confirmed; POST with `settings` stores settings."""
        if not self.has_view_permission(request):
            return redirect("admin:index")
        homes = list(self.choices_of(Workspace, request).order_by("name"))
        asked = request.POST.get("workspace") or request.GET.get("workspace", "")
        home = next((one for one in homes if str(one.pk) == asked), None if asked else next(iter(homes), None))
        if home is None:
            self.message_user(request, "There is no such workspace among those you run.", messages.WARNING)
            return redirect("admin:index")
        if request.method == "POST" and "settings" in request.POST:
            return self._configured(request, home)
        if request.method == "POST":
            return self._switched(request, home)
        return self._shown(request, home, homes)

    def _shown(self, request: HttpRequest, home: Workspace, homes: list[Workspace]) -> HttpResponse:
        found = standings(home.pk)
        return self._page(
            request, "plugins", home, "Memory plugins", homes=homes, standings=[(one, _form(one)) for one in found],
            default=DEFAULT_PLUGIN,
        )  # fmt: skip

    def _switched(self, request: HttpRequest, home: Workspace) -> HttpResponse:
        name = request.POST.get("plugin", "")
        if name not in installed():
            self.message_user(request, "There is no such memory plugin.", messages.ERROR)
            return redirect(self._address(home))
        if request.POST.get("confirmed") != "yes":
            before = next(one for one in standings(home.pk) if one.enabled)
            return self._page(
                request, "switch_plugin", home, f"Enable {name}?",
                plugin=installed()[name], before=before, change=what_changes(home.pk, name), said=_said_in(home),
            )  # fmt: skip
        try:
            done = enable_plugin(workspace=home, name=name, by=acting_as(request, home.pk))
        except Problem as problem:
            self.message_user(request, problem.message, messages.ERROR)
        else:
            self._noted(request, home, name, done.said, changed=bool(done.disabled))
        return redirect(self._address(home))

    def _configured(self, request: HttpRequest, home: Workspace) -> HttpResponse:
        name = request.POST.get("settings", "")
        given = {
            key.removeprefix("set-"): str(value).strip()
            for key, value in request.POST.items()
            if key.startswith("set-")
        }
        try:
            configure_plugin(workspace=home, name=name, config=given, by=acting_as(request, home.pk))
        except Problem as problem:
            self.message_user(request, problem.message, messages.ERROR)
        else:
            self._noted(request, home, name, f"The settings of {name} are saved.")
        return redirect(self._address(home))

    def _noted(self, request: HttpRequest, home: Workspace, name: str, said: str, *, changed: bool = True) -> None:
        row = MemoryPlugin.objects.filter(workspace=home, name=name).first()
        if changed and row is not None:
            self.log_change(request, row, said)
        self.message_user(request, said, messages.SUCCESS if changed else messages.INFO)

    def _page(self, request: HttpRequest, template: str, home: Workspace, title: str, **more: Any) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request), "title": title, "opts": self.opts, "home": home, **more,
            "here": self._address(home),
        }  # fmt: skip
        return TemplateResponse(request, f"admin/memory/{template}.html", context)

    def _address(self, home: Workspace) -> str:
        return f"{reverse('admin:memory_memoryplugin_changelist')}?workspace={home.pk}"


def _form(one: Standing) -> forms.Form:
    """The settings of a plugin as fields of text: what they take is the plugin's to say."""
    form = forms.Form(auto_id=f"{one.name.replace('/', '-')}-%s")
    for setting in one.settings:
        form.fields[f"set-{setting.name}"] = forms.CharField(
            label=setting.name.replace("_", " ").capitalize(),
            required=False,
            initial=one.config.get(setting.name, ""),
            help_text=f"{setting.description} Left empty: {setting.default}.",
            widget=UnfoldAdminTextInputWidget,
        )
    return form


def _said_in(home: Workspace) -> dict[str, int]:
    """How much stays in reach. Counts by the threads' numbers, not by the messages themselves."""
    threads = Thread.objects.filter(workspace=home)
    return {"threads": threads.count(), "messages": threads.aggregate(all=Sum("last_seq"))["all"] or 0}
