"""Recurring jobs in the admin: when each last ran and runs next, changed, stopped, run now."""

from importlib import import_module
from typing import Any

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

from openvibe.base.admin.model_admin import BaseAdmin, ReadOnlyAdmin
from openvibe.base.forms import SameWorkspaceForm
from openvibe.engines.jobs.job_runs import OVER, JobBusy, next_run_at, request_job_run, schedule_in_words
from openvibe.engines.jobs.models import JobRun
from openvibe.engines.jobs.scheduler import DEFAULT_DESCRIPTION, synchronise_schedule

for registering in ("django.contrib.auth.admin", "django_celery_beat.admin"):
    import_module(registering)  # before it is replaced, whoever is loaded first
for model in (Group, PeriodicTask, IntervalSchedule, CrontabSchedule, SolarSchedule, ClockedSchedule):
    if admin.site.is_registered(model):
        admin.site.unregister(model)


class RecurringJobForm(SameWorkspaceForm):
    """Refuses times that never come, or only when the calendar has ended: beat would stop over them."""

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        try:
            self._meta.model(**self.cleaned_data).schedule.is_due(timezone.now())
        except (OverflowError, ValueError):
            if not self.errors:
                raise ValidationError("This time never comes. Choose one that does.") from None
        return cleaned


class ScheduleAdmin(BaseAdmin):
    """What a recurring job may be set to; new ones are made beside the job."""

    form = RecurringJobForm
    may_add = True


admin.site.register(IntervalSchedule, ScheduleAdmin)
admin.site.register(CrontabSchedule, ScheduleAdmin)


@admin.register(JobRun)
class JobRunAdmin(ReadOnlyAdmin):
    """Results of recurring jobs, the newest first."""

    list_display = ("task", "started_at", "milliseconds", "result", "worker")
    list_filter = ("task", "state")
    search_fields = ("task", "problem")
    fields = ("task", "started_at", "milliseconds", "result", "worker")

    @admin.display(description="Result")
    def result(self, run: JobRun) -> str:
        if not run.is_over:
            return run.get_state_display()
        return f"Failed: {run.problem}" if run.problem else f"OK: {run.summary}"


@admin.register(PeriodicTask)
class RecurringJobAdmin(BaseAdmin):
    """The times at which jobs run that nobody asks for. What is changed here stays as it is over new versions."""

    may_change = True
    list_display = ("name", "enabled", "schedule", "last_run", "last_result", "next_run", "runs", "description")
    list_filter = ("enabled",)
    list_select_related = ("interval", "crontab")
    search_fields = ("name", "task")
    ordering = ("name",)
    readonly_fields = ("name", "task", "last_run", "last_result", "next_run", "runs", "description")
    fields = ("name", "task", "enabled", "interval", "crontab", *readonly_fields[2:])
    actions = ("run_now", "restore_schedule")

    @admin.display(description="Last run", ordering="last_run_at")
    def last_run(self, job: PeriodicTask) -> str:
        return date_format(timezone.localtime(job.last_run_at), "DATETIME_FORMAT") if job.last_run_at else "–"

    @admin.display(description="Runs", ordering="total_run_count")
    def runs(self, job: PeriodicTask) -> str:
        return f"{job.total_run_count:,}"

    @admin.display(description="Schedule")
    def schedule(self, job: PeriodicTask) -> str:
        return schedule_in_words(job)

    @admin.display(description="Next run")
    def next_run(self, job: PeriodicTask) -> str:
        """What is overdue comes with the scheduler's next look."""
        now = timezone.now()
        due_at = next_run_at(job, now)
        if due_at is None:
            return "Switched off"
        return date_format(due_at, "DATETIME_FORMAT") if due_at > now else "Now"

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[PeriodicTask]:
        newest = JobRun.objects.filter(task=models.OuterRef("task"), state__in=OVER).order_by("-pk")
        newest_values = {"_last_problem": models.Subquery(newest.values("problem")[:1])}
        newest_values["_last_counts"] = models.Subquery(newest.values("counts")[:1])
        jobs: models.QuerySet[PeriodicTask] = super().get_queryset(request).annotate(**newest_values)
        return jobs

    @admin.display(description="Last result")
    def last_result(self, job: Any) -> str:
        if job._last_problem is None:
            return "–"
        return f"Failed: {job._last_problem}" if job._last_problem else f"OK: {JobRun(counts=job._last_counts).summary}"

    def save_model(self, request: HttpRequest, job: PeriodicTask, form: Any, change: bool) -> None:
        if form.changed_data:
            job.description = f"Changed by {request.user}"
        super().save_model(request, job, form, change)

    @admin.action(description="Run now")
    def run_now(self, request: HttpRequest, rows: models.QuerySet[PeriodicTask]) -> None:
        for job in rows:
            try:
                request_job_run(job)
            except JobBusy as refusal:
                self.message_user(request, refusal.message, messages.WARNING)
            except (OperationalError, DatabaseError) as error:
                self.message_user(request, f"The queue does not take “{job.name}”: {error}", messages.ERROR)
            else:
                self.message_user(request, f"A worker was asked to run “{job.name}”.")

    @admin.action(description="Back to the delivered schedule")
    def restore_schedule(self, request: HttpRequest, rows: models.QuerySet[PeriodicTask]) -> None:
        rows.update(description=DEFAULT_DESCRIPTION, enabled=True)
        synchronise_schedule(settings.CELERY_BEAT_SCHEDULE)
        PeriodicTasks.update_changed()
