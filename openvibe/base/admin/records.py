"""What happened, in the admin: events, the audit log, changes made in the admin."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db import models
from django.http import HttpRequest

from openvibe.base.admin.model_admin import ReadOnlyAdmin
from openvibe.base.models import AuditRecord, Event


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    workspace_path = "workspace_id"
    list_display = ("position", "kind", "workspace_id", "channel_id", "thread_id", "message_id", "created_at")
    list_filter = ("kind",)
    search_fields = ("=thread_id", "=message_id", "kind")
    ordering = ("-id",)


@admin.register(AuditRecord)
class AuditRecordAdmin(ReadOnlyAdmin):
    """The audit log. Rows without a workspace are about accounts: for superusers."""

    workspace_path = "workspace_id"
    list_display = ("created_at", "actor", "action", "subject", "before", "after", "note", "workspace_name")
    list_filter = ("action", "created_at")
    search_fields = ("actor", "subject", "note")
    ordering = ("-id",)


@admin.register(LogEntry)
class LogEntryAdmin(ReadOnlyAdmin):
    """A record of who saved what on pages of the admin. Everything for superusers; others see what they did
    themselves."""

    who_sees = "You see your own edits, superusers all."

    list_display = ("action_time", "user", "content_type", "object_repr", "what_happened")
    list_filter = ("action_flag",)
    list_select_related = ("user", "content_type")
    search_fields = ("object_repr", "change_message")
    ordering = ("-action_time",)

    def visible_rows(self, request: HttpRequest) -> models.QuerySet[Any]:
        rows = LogEntry.objects.all()
        user: Any = request.user
        return rows if user.is_superuser else rows.filter(user_id=user.pk)

    @admin.display(description="Change")
    def what_happened(self, entry: LogEntry) -> str:
        return str(entry.get_change_message())
