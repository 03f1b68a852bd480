"""Recurring jobs in the admin: when each last ran and runs next, changed, stopped, run now."""

import json
from datetime import timedelta
from typing import Any

from celery import current_app
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import DatabaseError, models
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    PeriodicTasks,
    SolarSchedule,
)
from kombu.exceptions import OperationalError

from openvibe.base.admin.model_admin import SameWorkspaceForm, WorkspaceScopedAdmin
from openvibe.base.scheduler import DELIVERED, synchronise_schedule

for model in (Group, PeriodicTask, IntervalSchedule, CrontabSchedule, SolarSchedule, ClockedSchedule):
    if admin.site.is_registered(model):
        admin.site.unregister(model)


class ScheduleForm(SameWorkspaceForm):
    """Refuses times that never come, or only when the calendar has ended: beat would stop over them."""

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        try:
            self._meta.model(**self.cleaned_data).schedule.is_due(timezone.now())
        except (OverflowError, ValueError):
            if not self.errors:
                raise ValidationError("This time never comes. Choose one that does.") from None
        return cleaned


class ScheduleAdmin(WorkspaceScopedAdmin):
    """What a recurring job may be set to; new ones are made beside the job."""

    form = ScheduleForm
    superusers_only = True
    may_add = True


admin.site.register(IntervalSchedule, ScheduleAdmin)
admin.site.register(CrontabSchedule, ScheduleAdmin)


@admin.register(PeriodicTask)
class RecurringJobAdmin(WorkspaceScopedAdmin):
    """When jobs run that nobody asks for. What is changed here stays as it is over new versions."""

    superusers_only = True
    may_change = True
    list_display = ("name", "enabled", "schedule", "last_run_at", "next_run", "total_run_count", "description")
    list_filter = ("enabled",)
    list_select_related = ("interval", "crontab")
    search_fields = ("name", "task")
    ordering = ("name",)
    readonly_fields = ("name", "task", "last_run_at", "next_run", "total_run_count", "description")
    fields = ("name", "task", "enabled", "interval", "crontab", *readonly_fields[2:])
    actions = ("run_now", "restore_schedule")

    @admin.display(description="Schedule")
    def schedule(self, job: PeriodicTask) -> str:
        return str(job.scheduler)

    @admin.display(description="Next run")
    def next_run(self, job: PeriodicTask) -> str:
        """After the last one, as the scheduler reckons; what is overdue comes with its next look."""
        if not job.enabled:
            return "Switched off"
        now = timezone.now()
        if job.last_run_at is None:
            return "Not known before its first run"
        seconds = job.schedule.remaining_estimate(job.last_run_at).total_seconds()
        return date_format(now + timedelta(seconds=seconds), "DATETIME_FORMAT") if seconds > 0 else "Now"

    def save_model(self, request: HttpRequest, job: PeriodicTask, form: Any, change: bool) -> None:
        if form.changed_data:
            job.description = f"Changed by {request.user}"
        super().save_model(request, job, form, change)

    @admin.action(description="Run now")
    def run_now(self, request: HttpRequest, rows: models.QuerySet[PeriodicTask]) -> None:
        for job in rows:
            try:
                current_app.send_task(job.task, json.loads(job.args), json.loads(job.kwargs), retry=False)
            except (OperationalError, DatabaseError) as error:
                self.message_user(request, f"The queue does not take “{job.name}”: {error}", messages.ERROR)
            else:
                self.message_user(request, f"A worker was asked to run “{job.name}”.")

    @admin.action(description="Back to the delivered schedule")
    def restore_schedule(self, request: HttpRequest, rows: models.QuerySet[PeriodicTask]) -> None:
        rows.update(description=DELIVERED, enabled=True)
        synchronise_schedule(settings.CELERY_BEAT_SCHEDULE)
        PeriodicTasks.update_changed()
