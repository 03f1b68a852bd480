"""The admin's one rule for rows, and the pages of the ground floor: what happened, recurring jobs."""

from openvibe.base.admin.jobs import RecurringJobAdmin, ScheduleAdmin
from openvibe.base.admin.model_admin import (
    CHANNEL_READERS,
    AuditedAdmin,
    ReadOnlyAdmin,
    WorkspaceScopedAdmin,
    admin_actor,
    as_form_error,
    number_column,
    secret_input,
)
from openvibe.base.admin.records import AuditRecordAdmin, EventAdmin, LogEntryAdmin
from openvibe.base.forms import SameWorkspaceForm, StoredSecretForm

__all__ = [
    "CHANNEL_READERS",
    "AuditRecordAdmin",
    "AuditedAdmin",
    "EventAdmin",
    "LogEntryAdmin",
    "ReadOnlyAdmin",
    "RecurringJobAdmin",
    "SameWorkspaceForm",
    "ScheduleAdmin",
    "StoredSecretForm",
    "WorkspaceScopedAdmin",
    "admin_actor",
    "as_form_error",
    "number_column",
    "secret_input",
]
