"""Memory in the admin: feedback and episodes to look at, settle and delete; which plugin recalls."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import models
from django.db.models import F, Q, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from memory.episodes.models import Episode, Feedback
from memory.episodes.queries import status_label
from memory.episodes.services import delete_episode, mark_applied
from memory.plugins.lcm.models import Conversation
from memory.plugins.models import DEFAULT_PLUGIN, Compaction, MemoryPlugin
from memory.plugins.registry import PluginStatus, capability_diff, installed_plugins, plugin_statuses
from memory.plugins.services import configure_plugin, enable_plugin
from openvibe.base.admin import BaseAdmin, ReadOnlyAdmin
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Thread
from openvibe.workspaces.decorators import LAST_WORKSPACE_SESSION_KEY
from openvibe.workspaces.models import Workspace
from openvibe.workspaces.queries import admin_access


@admin.register(MemoryPlugin)
class MemoryPluginAdmin(ReadOnlyAdmin):
    """One page: every plugin of one workspace. Switching asks first and says what happens."""

    fields = ("workspace", "name", "enabled", "config", "changed_by")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """GET shows; POST with `plugin` asks, and switches once confirmed; POST with `settings` stores settings.
        Without `workspace` it is about the one visited last."""
        workspaces = list(Workspace.objects.order_by("name"))
        requested_id = request.POST.get("workspace") or request.GET.get("workspace", "")
        last_slug = request.session.get(LAST_WORKSPACE_SESSION_KEY)
        workspace = next(
            (one for one in workspaces if (str(one.pk) == requested_id if requested_id else one.slug == last_slug)),
            None if requested_id else next(iter(workspaces), None),
        )
        if workspace is None:
            self.message_user(request, "There is no such workspace.", messages.WARNING)
            return redirect("admin:index")
        if request.method != "POST":
            return self._list_page(request, workspace, workspaces)
        try:
            if "settings" in request.POST:
                self._store_settings(request, workspace)
            else:
                name = request.POST.get("plugin", "")
                if name not in installed_plugins():
                    raise Missing("There is no such memory plugin.")
                if request.POST.get("confirmed") != "yes":
                    return self._confirm_page(request, workspace, name)
                switch = enable_plugin(workspace=workspace, name=name, by=admin_access(request, workspace.pk))
                self._log_and_report(request, workspace, name, switch.message, has_changed=bool(switch.disabled))
        except Problem as problem:
            self.message_user(request, problem.message, messages.ERROR)
        return redirect(self._changelist_url(workspace))

    def _list_page(self, request: HttpRequest, workspace: Workspace, workspaces: list[Workspace]) -> HttpResponse:
        plugin_forms = [(status, _settings_form(status)) for status in plugin_statuses(workspace.pk)]
        context = {"workspaces": workspaces, "plugin_forms": plugin_forms, "default": DEFAULT_PLUGIN}
        return self._render_page(request, "plugins", workspace, "Memory plugins", **context)

    def _confirm_page(self, request: HttpRequest, workspace: Workspace, name: str) -> HttpResponse:
        threads = Thread.objects.filter(workspace=workspace)
        return self._render_page(
            request,
            "switch_plugin",
            workspace,
            f"Enable {name}?",
            plugin=installed_plugins()[name],
            before=next(status for status in plugin_statuses(workspace.pk) if status.enabled),
            change=capability_diff(workspace.pk, name),
            thread_count=threads.count(),
            message_count=threads.aggregate(all=Sum("last_seq"))["all"] or 0,  # not counted row by row
        )

    def _store_settings(self, request: HttpRequest, workspace: Workspace) -> None:
        name = request.POST.get("settings", "")
        values = {
            key.removeprefix("set-"): str(value).strip()
            for key, value in request.POST.items()
            if key.startswith("set-")
        }
        configure_plugin(workspace=workspace, name=name, config=values, by=admin_access(request, workspace.pk))
        self._log_and_report(request, workspace, name, f"The settings of {name} are saved.")

    def _log_and_report(
        self, request: HttpRequest, workspace: Workspace, name: str, message: str, *, has_changed: bool = True
    ) -> None:
        row = MemoryPlugin.objects.filter(workspace=workspace, name=name).first()
        if has_changed and row is not None:
            self.log_change(request, row, message)
        self.message_user(request, message, messages.SUCCESS if has_changed else messages.INFO)

    def _render_page(
        self, request: HttpRequest, template: str, workspace: Workspace, title: str, **more: Any
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "home": workspace,
            **more,
            "here": self._changelist_url(workspace),
        }
        return TemplateResponse(request, f"admin/memory/{template}.html", context)

    def _changelist_url(self, workspace: Workspace) -> str:
        return f"{reverse('admin:memory_memoryplugin_changelist')}?workspace={workspace.pk}"


def _settings_form(status: PluginStatus) -> forms.Form:
    """The settings of a plugin: a choice where it takes a few words, else text, which is the plugin's to check."""
    form = forms.Form(auto_id=f"{status.name.replace('/', '-')}-%s")
    for setting in status.settings:
        options: dict[str, Any] = {
            "label": setting.label,
            "required": False,
            "initial": status.config.get(setting.name, ""),
        }
        if setting.choices:
            choices = [("", f"As delivered: {setting.default}"), *((word, word) for word in setting.choices)]
            options |= {"choices": choices, "help_text": setting.description, "widget": UnfoldAdminSelectWidget}
            form.fields[f"set-{setting.name}"] = forms.ChoiceField(**options)
        else:
            options["help_text"] = f"{setting.description} Left empty: {setting.default}."
            form.fields[f"set-{setting.name}"] = forms.CharField(**options, widget=UnfoldAdminTextInputWidget)
    return form


@admin.register(Compaction)
class CompactionAdmin(ReadOnlyAdmin):
    """No titles and no texts: threads are read in the app, with the reader's own access."""

    list_display = (
        "id",
        "thread_id",
        "trigger",
        "state",
        "tokens_before",
        "tokens_after",
        "queued_at",
        "finished_at",
        "error",
    )
    list_filter = ("state", "trigger")
    search_fields = ("=thread__id", "error")
    ordering = ("-id",)
    fields = (
        "thread_id",
        "plugin",
        "trigger",
        "full",
        "state",
        "attempt",
        "error",
        "tokens_before",
        "tokens_after",
        "created_count",
        "queued_at",
        "started_at",
        "finished_at",
        "memory_map",
    )
    readonly_fields = ("memory_map",)

    @admin.display(description="Its thread")
    def memory_map(self, compaction: Compaction) -> str:
        return thread_link(self, compaction.thread)


class StuckFilter(admin.SimpleListFilter):
    title = "over their trigger"
    parameter_name = "stuck"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Over it, with nothing left to summarise")]

    def queryset(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> models.QuerySet[Any]:
        return queryset.filter(exhausted_version=F("version")) if self.value() == "yes" else queryset


@admin.register(Conversation)
class ConversationAdmin(ReadOnlyAdmin):
    """No titles and no texts."""

    list_display = ("thread_id", "messages", "is_stuck")
    list_filter = (StuckFilter,)
    list_select_related = ("thread",)
    search_fields = ("=thread__id",)
    ordering = ("-id",)
    fields = ("thread_id", "messages", "is_stuck", "memory_map")
    readonly_fields = ("memory_map",)

    @admin.display(description="Messages", ordering="thread__last_seq")
    def messages(self, conversation: Conversation) -> str:
        return f"{conversation.thread.last_seq:,}"

    @admin.display(description="Over its trigger, with nothing left to summarise", boolean=True)
    def is_stuck(self, conversation: Conversation) -> bool:
        return conversation.exhausted_version == conversation.version

    @admin.display(description="Its thread")
    def memory_map(self, conversation: Conversation) -> str:
        return thread_link(self, conversation.thread)


def thread_link(page: ReadOnlyAdmin, thread: Thread) -> str:
    """A link to the memory map, for who may see the thread there."""
    address = reverse("thread-memory", args=[thread.workspace.slug, thread.pk])
    return page.app_link(thread, thread.workspace, address, "Open its memory map")


@admin.register(Feedback)
class FeedbackAdmin(ReadOnlyAdmin):
    list_display = ("verdict", "participant", "answered_by", "text", "fate", "created_at")
    list_filter = ("verdict",)
    list_select_related = ("participant", "message__author", "episode__applied_by")
    search_fields = ("text", "participant__name")
    ordering = ("-created_at",)
    fields = ("participant", "verdict", "tags", "text", "created_at", "updated_at")

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        """Direct messages are nobody's but the two's."""
        rows: models.QuerySet[Any] = super().get_queryset(request)
        return rows.filter(message__thread__channel__first_participant=None)

    @admin.display(description="Agent")
    def answered_by(self, feedback: Feedback) -> str:
        return str(feedback.message.author)

    @admin.display(description="What became of it")
    def fate(self, feedback: Feedback) -> str:
        episode = getattr(feedback, "episode", None)
        return status_label(episode) if episode else "–"


class SettledFilter(admin.SimpleListFilter):
    title = "settled"
    parameter_name = "settled"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("no", "Open feedback"), ("yes", "Settled")]

    def queryset(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> models.QuerySet[Any]:
        if self.value() == "no":
            return queryset.filter(kind=Episode.Kind.FEEDBACK_RECEIVED, applied_at=None, archived_at=None)
        return queryset.exclude(applied_at=None) if self.value() == "yes" else queryset


@admin.register(Episode)
class EpisodeAdmin(BaseAdmin):
    list_display = ("summary_start", "agent", "kind", "fate", "prompt_count", "created_at", "expires_at")
    list_filter = ("kind", SettledFilter)
    list_select_related = ("agent", "applied_by")
    search_fields = ("summary", "learning", "agent__handle")
    ordering = ("-created_at",)
    fields = (
        "agent",
        "kind",
        "summary",
        "learning",
        "subject",
        "prompt_count",
        "applied_at",
        "applied_by",
        "applied_how",
        "created_at",
        "expires_at",
        "archived_at",
    )
    readonly_fields = fields
    actions = ("settle", "remove")

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        """Direct messages are nobody's but the two's."""
        rows: models.QuerySet[Any] = super().get_queryset(request)
        return rows.filter(Q(channel=None) | Q(channel__first_participant=None))

    @admin.display(description="Summary")
    def summary_start(self, episode: Episode) -> str:
        return episode.summary[:80]

    @admin.display(description="What became of it")
    def fate(self, episode: Episode) -> str:
        return status_label(episode) if episode.kind == Episode.Kind.FEEDBACK_RECEIVED else "–"

    @admin.action(description="Mark applied…")
    def settle(self, request: HttpRequest, rows: models.QuerySet[Episode]) -> TemplateResponse | None:
        question = "Mark this feedback as applied?"
        return self._run_once_confirmed(request, rows, "settle", question, mark_applied, "marked applied")

    @admin.action(description="Delete…")
    def remove(self, request: HttpRequest, rows: models.QuerySet[Episode]) -> TemplateResponse | None:
        question = "Delete these episodes for good?"
        return self._run_once_confirmed(request, rows, "remove", question, delete_episode, "deleted")

    def _run_once_confirmed(
        self, request: HttpRequest, rows: models.QuerySet[Episode], action: str, question: str, verb: Any, outcome: str
    ) -> TemplateResponse | None:
        """The page that asks; once it was answered, `verb` on each row and how many are `done`."""
        confirmation = self.confirmation_page(request, rows, action=action, question=question)
        if confirmation is not None:
            return confirmation
        count, refusal = 0, ""
        for episode in rows.select_related("agent", "feedback"):
            try:
                verb(episode=episode, by=admin_access(request, episode.agent.workspace_id))
                count += 1
            except Problem as problem:
                refusal = problem.message
        self.message_user(request, f"{count} {outcome}.", messages.SUCCESS if count else messages.WARNING)
        if refusal:
            self.message_user(request, refusal, messages.ERROR)
        return None
