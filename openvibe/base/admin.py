"""The admin's one rule: superusers see every row, everybody else only rows of workspaces they administer.

Every ModelAdmin of the project is a `WorkspaceScopedAdmin` that names the way from its rows to their workspace.
Lists, choices, permissions and pages all ask `rows_of`, so that they cannot differ.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery import current_app
from django import forms
from django.apps import apps
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import DatabaseError, models
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseRedirect
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    PeriodicTasks,
    SolarSchedule,
)
from kombu.exceptions import OperationalError
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminPasswordWidget

from openvibe.base.fields import UnreadableSecret, secret_hint
from openvibe.base.models import Event
from openvibe.base.problems import Problem
from openvibe.base.registers import Register
from openvibe.base.scheduler import DELIVERED, synchronise_schedule


def administered_workspace_ids(request: HttpRequest) -> list[int]:
    """Ids of the workspaces the signed-in person runs, asked once per request."""
    workspace_ids: list[int] | None = getattr(request, "_administered", None)
    if workspace_ids is None:
        user: Any = request.user
        workspace_ids = []
        if user.is_authenticated:
            memberships = user.memberships.filter(role__in=("owner", "admin"), removed_at=None)
            workspace_ids = list(memberships.values_list("workspace_id", flat=True))
        request._administered = workspace_ids  # type: ignore[attr-defined]
    return workspace_ids


def may_use_admin(request: HttpRequest) -> bool:
    """Superusers, and whoever runs a workspace; each sees only what `rows_of` gives."""
    user: Any = request.user
    return bool(user.is_active and (user.is_superuser or administered_workspace_ids(request)))


@contextmanager
def as_form_error() -> Iterator[None]:
    """What a service refuses is an error of the form's field."""
    try:
        yield
    except Problem as problem:
        raise ValidationError(problem.message) from None


class SameWorkspaceForm(forms.ModelForm):  # type: ignore[type-arg]
    """Refuses choices from two workspaces in one row, whoever makes them."""

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        fields = self.cleaned_data
        workspace_id = getattr(fields.get("workspace"), "pk", None) or getattr(self.instance, "workspace_id", None)
        for name, value in fields.items():
            for chosen in value if isinstance(value, models.QuerySet) else [value]:
                chosen_workspace_id = getattr(chosen, "workspace_id", None)
                if workspace_id is None:
                    workspace_id = chosen_workspace_id
                elif chosen_workspace_id not in (None, workspace_id):
                    self.add_error(name, ValidationError(f"{chosen} belongs to another workspace."))
        return cleaned


def secret_input(label: str) -> forms.CharField:
    widget = UnfoldAdminPasswordWidget(render_value=False, attrs={"autocomplete": "new-password"})
    return forms.CharField(label=label, required=False, strip=True, widget=widget)


class StoredSecretForm(SameWorkspaceForm):
    """A row with one secret, which goes in and never comes out: a new one, the stored one, or with `forget` none.

    A stored one is only for the address it was entered for: where `address_names` change it has to be entered again.
    """

    secret_name: str
    address_names: frozenset[str]
    forget = forms.BooleanField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial.pop(self.secret_name, None)
        field, secret = self.fields[self.secret_name], getattr(self.instance, self.secret_name)
        noun = str(field.label).lower()
        self.fields["forget"].label = f"Forget the stored {noun}"
        hint = secret_hint(secret, noun)
        field.help_text = f"A {noun} ending in {hint} is stored. Leave this empty to keep it."
        if isinstance(secret, UnreadableSecret):
            field.help_text = (
                f"The stored {noun} cannot be read: the server's secret key is another one now. Enter the {noun} again."
            )
        elif not hint:
            field.help_text = f"No {noun} is stored."

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        forgets = self.cleaned_data.get("forget") or self.address_names & set(self.changed_data)
        stored = "" if forgets else getattr(self.instance, self.secret_name)
        self.cleaned_data[self.secret_name] = self.cleaned_data.get(self.secret_name) or stored
        return cleaned


class WorkspaceScopedAdmin(ModelAdmin):  # type: ignore[misc]
    """Rows of the workspaces the asker administers. Set `workspace_path`, and what may be done."""

    workspace_path = "workspace"
    superusers_only = False
    may_add = False
    may_change = False
    may_delete = False
    form: "type[forms.ModelForm[Any]]" = SameWorkspaceForm
    list_fullwidth = True
    compressed_fields = True
    show_full_result_count = False
    list_per_page = 50

    def visible_rows(self, request: HttpRequest) -> models.QuerySet[Any]:
        """What the asker may see of this model, without order."""
        rows: models.QuerySet[Any] = self.model._default_manager.all()
        user: Any = request.user
        if user.is_superuser:
            return rows
        if self.superusers_only:
            return rows.none()
        return rows.filter(**{f"{self.workspace_path}__in": administered_workspace_ids(request)})

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        ordering = self.get_ordering(request)
        rows = self.visible_rows(request)
        return rows.order_by(*ordering) if ordering else rows

    def has_view_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        user: Any = request.user
        if not may_use_admin(request) or (self.superusers_only and not user.is_superuser):
            return False
        if user.is_superuser or obj is None or obj.pk is None:
            return True
        return self.visible_rows(request).filter(pk=obj.pk).exists()

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return self.may_add and self.has_view_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return self.may_change and self.has_view_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return self.may_delete and self.has_view_permission(request, obj)

    def get_field_queryset(self, db: str | None, db_field: Any, request: HttpRequest) -> models.QuerySet[Any]:
        return self.visible_choices(db_field.remote_field.model, request)

    def visible_choices(self, model: type[models.Model], request: HttpRequest) -> models.QuerySet[Any]:
        """What may be chosen of another model: what its own admin shows the asker."""
        registered = self.admin_site._registry.get(model)
        if isinstance(registered, WorkspaceScopedAdmin):
            return registered.visible_rows(request)
        user: Any = request.user
        rows: models.QuerySet[Any] = model._default_manager.all()
        return rows if user.is_superuser else rows.none()

    def response_action(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> Any:
        """What was ticked by hand and is no id chooses nothing."""
        selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
        ids = [value for value in selected if value.isascii() and value.isdigit() and len(value) < 19]
        if ids != selected:
            posted = request.POST.copy()
            posted.setlist(ACTION_CHECKBOX_NAME, ids)
            request.POST = posted  # type: ignore[assignment]
        return super().response_action(request, queryset)

    def confirmation_page(
        self, request: HttpRequest, rows: models.QuerySet[Any], *, action: str, question: str
    ) -> TemplateResponse | None:
        """None once the person has confirmed a bulk action; else the page that asks, with names and the count."""
        if request.POST.get("confirmed") == "yes":
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": question,
            "opts": self.model._meta,
            "action": action,
            "rows": rows,
            "count": len(rows),
        }
        return TemplateResponse(request, "admin/confirm.html", context)

    def ask_then(
        self, request: HttpRequest, object_id: str, act: Callable[[Any], None], template: str, *, title: str, verb: str
    ) -> HttpResponse:
        """A page that asks before something is done with one row; a POST does it and goes back to the row's page.

        `title` has a place for the row's name; `template` extends `admin/question.html`.
        """
        row = self.get_object(request, object_id)
        if row is None or not self.has_change_permission(request, row):
            not_found: HttpResponse = self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
            return not_found
        if request.method == "POST":
            act(row)
            return redirect(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", object_id)
        context = {"title": title.format(row), "verb": verb, "opts": self.opts, "original": row}
        return TemplateResponse(request, template, {**self.admin_site.each_context(request), **context})


class ReadOnlyAdmin(WorkspaceScopedAdmin):
    """Looked at, never touched."""

    actions = None


SIDEBAR_GROUPS: dict[str, list[tuple[str, str, str]]] = {
    "Agents": [
        ("Agents", "smart_toy", "agents.agent"),
        ("Model endpoints", "hub", "llm.endpoint"),
        ("MCP servers", "handyman", "agents.mcpserver"),
        ("Runs", "play_circle", "agents.run"),
        ("What runs saw", "visibility", "agents.snapshot"),
        ("Background calls", "schedule", "workspaces.spending"),
        ("SOUL versions", "history_edu", "agents.soulversion"),
        ("Changes of trust", "verified_user", "agents.trustchange"),
    ],
    "Memory": [
        ("Memory plugins", "extension", "memory.memoryplugin"),
        ("Feedback", "thumbs_up_down", "memory.feedback"),
        ("Episodes", "psychology", "memory.episode"),
    ],
    "Knowledge": [
        ("Entries", "menu_book", "knowledge.entry"),
        ("Revisions", "history", "knowledge.revision"),
        ("Contradictions", "compare_arrows", "knowledge.contradiction"),
    ],
    "Workspace": [
        ("Workspaces", "domain", "workspaces.workspace"),
        ("Snippets", "integration_instructions", "workspaces.snippet"),
        ("Search embedder", "manage_search", "search.vectorspace"),
        ("Channels", "tag", "chat.channel"),
        ("Dives", "scuba_diving", "chat.dive"),
        ("Members", "group", "workspaces.member"),
        ("People and agents", "badge", "workspaces.participant"),
        ("Invitations", "mail", "workspaces.invitation"),
    ],
    "Server": [
        ("Accounts", "person", "workspaces.user"),
        ("Tokens", "key", "api.token"),
        ("Audit log", "receipt_long", "admin.logentry"),
        ("Recurring jobs", "event_repeat", "django_celery_beat.periodictask"),
        ("Events", "bolt", "base.event"),
        ("Idempotency keys", "repeat", "api.idempotencykey"),
    ],
}
"""What the sidebar lists below the overview: a title, an icon and a model."""


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """The sidebar as the theme wants it, with what the asker may open."""
    overview = [
        {"title": "Overview", "icon": "home", "link": reverse("admin:index")},
        {"title": "Back to the conversations", "icon": "arrow_back", "link": "/"},
    ]
    groups: list[dict[str, Any]] = [{"title": "", "separator": False, "items": overview}]
    for title, entries in SIDEBAR_GROUPS.items():
        items = []
        for name, icon, label in entries:
            registered = admin.site._registry.get(apps.get_model(label))
            if registered is not None and registered.has_module_permission(request):
                link = reverse(f"admin:{label.replace('.', '_')}_changelist")
                items.append({"title": name, "icon": icon, "link": link})
        if items:
            groups.append({"title": title, "separator": True, "items": items})
    return groups


DASHBOARD: Register[Callable[[HttpRequest, dict[str, Any]], dict[str, Any]]] = Register("openvibe.base.admin.DASHBOARD")
"""Adds to the context of the index page what it shows."""


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    return DASHBOARD.only()(request, context)


def redirect_to_login(request: HttpRequest, extra_context: object = None) -> HttpResponse:
    """The admin has no sign-in of its own. Somebody signed in without the right to enter is sent home."""
    if request.user.is_authenticated:
        return redirect("/")
    target = request.GET.get("next") or reverse("admin:index")
    return HttpResponseRedirect(f"{reverse('account_login')}?{urlencode({'next': target})}")


admin.site.login = redirect_to_login  # type: ignore[method-assign]
admin.site.has_permission = may_use_admin  # type: ignore[method-assign]
admin.site.index_title = "Overview"
for model in (Group, PeriodicTask, IntervalSchedule, CrontabSchedule, SolarSchedule, ClockedSchedule):
    if admin.site.is_registered(model):
        admin.site.unregister(model)


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    workspace_path = "workspace_id"
    list_display = ("position", "kind", "workspace_id", "channel_id", "thread_id", "message_id", "created_at")
    list_filter = ("kind",)
    ordering = ("-id",)


@admin.register(LogEntry)
class LogEntryAdmin(ReadOnlyAdmin):
    """Who changed what in the admin. Everything for superusers; others see what they did themselves."""

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
    list_display = ("name", "enabled", "schedule", "last_run_at", "total_run_count", "description")
    list_filter = ("enabled",)
    list_select_related = ("interval", "crontab")
    search_fields = ("name", "task")
    ordering = ("name",)
    readonly_fields = ("name", "task", "last_run_at", "total_run_count", "description")
    fields = ("name", "task", "enabled", "interval", "crontab", *readonly_fields[2:])
    actions = ("run_now", "restore_schedule")

    @admin.display(description="Schedule")
    def schedule(self, job: PeriodicTask) -> str:
        return str(job.scheduler)

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
