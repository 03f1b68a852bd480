"""What is only looked at: SOUL versions, changes of trust, runs and snapshots."""

from __future__ import annotations

from django.contrib import admin
from django.urls import reverse

from agents.agent.models import Run, Snapshot, SoulVersion, TrustChange
from openvibe.base.admin import ReadOnlyAdmin


@admin.register(SoulVersion)
class SoulVersionAdmin(ReadOnlyAdmin):
    """Versions cannot be changed or deleted, here or anywhere."""

    list_display = ("agent", "number", "note", "author", "token_count", "created_at")
    list_select_related = ("agent__participant", "author")
    search_fields = ("note", "agent__participant__handle")
    ordering = ("-created_at",)
    fields = ("agent", "number", "note", "author", "token_count", "created_at", "source")


@admin.register(TrustChange)
class TrustChangeAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "agent", "level_before", "level_after", "note", "by_name")
    list_filter = ("level_after",)
    list_select_related = ("agent__participant",)
    search_fields = ("note", "by_name", "agent__participant__handle")
    ordering = ("-created_at", "-id")


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """No titles and no texts: threads are read in the app, with the reader's own access."""

    list_display = (
        "id",
        "agent",
        "task",
        "state",
        "model",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "queued_at",
        "took",
    )
    list_filter = ("state", "task", ("agent", admin.RelatedOnlyFieldListFilter))
    list_select_related = ("agent__participant",)
    search_fields = ("=id", "error_code", "model")
    ordering = ("-id",)
    fields = (
        "agent",
        "workspace",
        "task",
        "state",
        "error_code",
        "error",
        "attempt",
        "model",
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "queued_at",
        "sent_at",
        "started_at",
        "finished_at",
        "what_it_saw",
    )
    readonly_fields = ("what_it_saw",)

    @admin.display(description="Took")
    def took(self, run: Run) -> str:
        if run.started_at is None or run.finished_at is None:
            return "–"
        return f"{(run.finished_at - run.started_at).total_seconds():.1f} s"

    @admin.display(description="What it saw")
    def what_it_saw(self, run: Run) -> str:
        address = reverse("run-context", args=[run.workspace.slug, run.pk])
        return self.app_link(run, run.workspace, address, "Open the context viewer")


@admin.register(Snapshot)
class SnapshotAdmin(ReadOnlyAdmin):
    """Counts only; the text is in the context viewer, as far as the reader's access goes."""

    list_display = ("run", "task", "model", "tokens", "budget", "prefix_shared", "included_count", "dropped_count")
    list_select_related = ("run",)
    search_fields = ("=run__id", "model", "task")
    ordering = ("-id",)
    fields = (
        "run",
        "task",
        "model",
        "assembler_version",
        "soul",
        "tokens",
        "budget",
        "counter",
        "layers",
        "sections",
        "prefix_shared",
        "included_count",
        "dropped_count",
        "created_at",
    )
