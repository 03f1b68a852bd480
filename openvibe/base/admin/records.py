"""What happened, in the admin: events, the audit log, changes made in the admin."""

from django.contrib import admin
from django.contrib.admin.models import LogEntry

from openvibe.base.admin.model_admin import ReadOnlyAdmin
from openvibe.base.models import AuditRecord, Event


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ("position", "kind", "workspace_id", "channel_id", "thread_id", "message_id", "created_at")
    list_filter = ("kind",)
    search_fields = ("=thread_id", "=message_id", "kind")
    ordering = ("-id",)


@admin.register(AuditRecord)
class AuditRecordAdmin(ReadOnlyAdmin):
    """The audit log. Rows without a workspace are about accounts."""

    list_display = ("created_at", "actor", "action", "subject", "before", "after", "note", "workspace_name")
    list_filter = ("action", "created_at")
    search_fields = ("actor", "subject", "note")
    ordering = ("-id",)


@admin.register(LogEntry)
class LogEntryAdmin(ReadOnlyAdmin):
    """A record of who saved what on pages of the admin."""

    list_display = ("action_time", "user", "content_type", "object_repr", "what_happened")
    list_filter = ("action_flag",)
    list_select_related = ("user", "content_type")
    search_fields = ("object_repr", "change_message")
    ordering = ("-action_time",)

    @admin.display(description="Change")
    def what_happened(self, entry: LogEntry) -> str:
        return str(entry.get_change_message())
