"""Knowledge in the admin: to look at. What changes an entry is done on its page, where every change is a revision."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from knowledge.expiry import compute_freshness
from knowledge.models import Contradiction, Entry, Revision
from knowledge.queries import review_condition
from openvibe.base.admin import ReadOnlyAdmin


class ReviewFilter(admin.SimpleListFilter):
    title = "review"
    parameter_name = "review"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("waits", "Waits for a decision")]

    def queryset(self, request: HttpRequest, queryset: models.QuerySet[Entry]) -> models.QuerySet[Entry]:
        return queryset.filter(review_condition(timezone.now())) if self.value() == "waits" else queryset


@admin.register(Entry)
class EntryAdmin(ReadOnlyAdmin):
    list_display = ("topic", "kind", "status", "visibility", "fresh", "owner", "use_count", "last_used_at")
    list_filter = (ReviewFilter, "status", "kind", "visibility", "source")
    list_select_related = ("owner",)
    search_fields = ("topic", "owner__handle")
    ordering = ("-id",)
    fields = (
        "workspace",
        "topic",
        "content",
        "tokens",
        "kind",
        "visibility",
        "status",
        "status_since",
        "reason",
        "reason_note",
        "expires_at",
        "source",
        "author",
        "owner",
        "decided_by",
        "decided_at",
        "supersedes",
        "tags",
        "is_pinned",
        "use_count",
        "last_used_at",
        "version",
        "created_at",
        "updated_at",
        "its_page",
    )
    readonly_fields = ("its_page",)

    @admin.display(description="Fresh", ordering="expires_at")
    def fresh(self, entry: Entry) -> str:
        return compute_freshness(entry).words

    @admin.display(description="Its page")
    def its_page(self, entry: Entry) -> str:
        address = reverse("knowledge-entry", args=[entry.workspace.slug, entry.pk])
        return self.app_link(entry, entry.workspace, address, "Open it to change it")


@admin.register(Revision)
class RevisionAdmin(ReadOnlyAdmin):
    """Revisions cannot be changed or deleted, here or anywhere."""

    list_display = ("created_at", "entry", "number", "action", "by", "how", "note")
    list_filter = ("action", "how")
    list_select_related = ("entry", "by")
    search_fields = ("entry__topic", "note")
    ordering = ("-id",)
    fields = ("entry", "number", "action", "by", "how", "note", "changes", "created_at")


@admin.register(Contradiction)
class ContradictionAdmin(ReadOnlyAdmin):
    list_display = ("found_at", "first", "second", "why", "found_by", "settled_how", "settled_by")
    list_filter = ("found_by", "settled_how")
    list_select_related = ("first", "second", "settled_by")
    search_fields = ("first__topic", "second__topic", "why")
    ordering = ("-id",)
    fields = ("workspace", "first", "second", "why", "found_by", "found_at", "settled_at", "settled_by", "settled_how")
