"""Feedback and episodes in the admin: to look at, settle and delete."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db import models
from django.db.models import Q
from django.http import HttpRequest
from django.template.response import TemplateResponse

from memory.fates import fate_words
from memory.models import Episode, Feedback
from memory.services import delete_episode, mark_applied
from openvibe.base.admin import ReadOnlyAdmin, WorkspaceRowsAdmin
from openvibe.base.problems import Problem
from openvibe.chat.admin import channels_open_to
from openvibe.chat.models import Channel
from openvibe.workspaces.admin import acting_as


@admin.register(Feedback)
class FeedbackAdmin(ReadOnlyAdmin):
    workspace_path = "participant__workspace"
    list_display = ("verdict", "participant", "answered_by", "text", "fate", "created_at")
    list_filter = ("verdict",)
    list_select_related = ("participant", "message__author", "episode__applied_by")
    search_fields = ("text", "participant__name")
    ordering = ("-created_at",)
    fields = ("participant", "verdict", "tags", "text", "created_at", "updated_at")

    def rows_of(self, request: HttpRequest) -> models.QuerySet[Any]:
        channels = channels_open_to(request, Channel.objects.all())
        return super().rows_of(request).filter(message__thread__channel__in=channels)

    @admin.display(description="Agent")
    def answered_by(self, feedback: Feedback) -> str:
        return str(feedback.message.author)

    @admin.display(description="What became of it")
    def fate(self, feedback: Feedback) -> str:
        episode = getattr(feedback, "episode", None)
        return fate_words(episode) if episode else "–"


class OpenFilter(admin.SimpleListFilter):
    title = "settled"
    parameter_name = "settled"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("no", "Open feedback"), ("yes", "Settled")]

    def queryset(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> models.QuerySet[Any]:
        if self.value() == "no":
            return queryset.filter(kind=Episode.Kind.FEEDBACK_RECEIVED, applied_at=None)
        return queryset.exclude(applied_at=None) if self.value() == "yes" else queryset


@admin.register(Episode)
class EpisodeAdmin(WorkspaceRowsAdmin):
    workspace_path = "agent__workspace"
    list_display = ("summary_start", "agent", "kind", "fate", "prompt_count", "created_at", "expires_at")
    list_filter = ("kind", OpenFilter)
    list_select_related = ("agent", "applied_by")
    search_fields = ("summary", "learning", "agent__handle")
    ordering = ("-created_at",)
    fields = ("agent", "kind", "summary", "learning", "prompt_count", "applied_at", "applied_by", "applied_how",
              "created_at", "expires_at", "archived_at")  # fmt: skip
    readonly_fields = fields
    actions = ("settle", "remove")

    def rows_of(self, request: HttpRequest) -> models.QuerySet[Any]:
        channels = channels_open_to(request, Channel.objects.all())
        return super().rows_of(request).filter(Q(channel=None) | Q(channel__in=channels))

    @admin.display(description="Summary")
    def summary_start(self, episode: Episode) -> str:
        return episode.summary[:80]

    @admin.display(description="What became of it")
    def fate(self, episode: Episode) -> str:
        return fate_words(episode) if episode.kind == Episode.Kind.FEEDBACK_RECEIVED else "–"

    @admin.action(description="Mark applied…")
    def settle(self, request: HttpRequest, rows: models.QuerySet[Episode]) -> TemplateResponse | None:
        asked = self.confirmed(request, rows, action="settle", question="Mark this feedback as applied?")
        if asked is None:
            self._each(request, rows, mark_applied, "marked applied")
        return asked

    @admin.action(description="Delete…")
    def remove(self, request: HttpRequest, rows: models.QuerySet[Episode]) -> TemplateResponse | None:
        asked = self.confirmed(request, rows, action="remove", question="Delete these episodes for good?")
        if asked is None:
            self._each(request, rows, delete_episode, "deleted")
        return asked

    def _each(self, request: HttpRequest, rows: models.QuerySet[Episode], verb: Any, done: str) -> None:
        settled, refused = 0, ""
        for episode in rows.select_related("agent", "feedback"):
            try:
                verb(episode=episode, by=acting_as(request, episode.agent.workspace_id))
                settled += 1
            except Problem as problem:
                refused = problem.message
        self.message_user(request, f"{settled} {done}.", messages.SUCCESS if settled else messages.WARNING)
        if refused:
            self.message_user(request, refused, messages.ERROR)
