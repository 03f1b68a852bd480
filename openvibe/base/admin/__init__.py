"""The admin's base classes, and the pages of the ground floor: what happened, recurring jobs."""

from openvibe.base.admin.jobs import RecurringJobAdmin, ScheduleAdmin
from openvibe.base.admin.model_admin import (
    AuditedAdmin,
    BaseAdmin,
    ReadOnlyAdmin,
    admin_actor,
    as_form_error,
    number_column,
    secret_input,
)
from openvibe.base.admin.records import AuditRecordAdmin, EventAdmin, LogEntryAdmin
from openvibe.base.forms import SameWorkspaceForm

__all__ = [
    "AuditRecordAdmin",
    "AuditedAdmin",
    "BaseAdmin",
    "EventAdmin",
    "LogEntryAdmin",
    "ReadOnlyAdmin",
    "RecurringJobAdmin",
    "SameWorkspaceForm",
    "ScheduleAdmin",
    "admin_actor",
    "as_form_error",
    "number_column",
    "secret_input",
]
