"""The admin's base class: lists that hold their titles, numbers and searches alike, and actions that ask first. Whoever
runs the installation enters (`openvibe.base.admin_site`), so no class asks whose rows they are."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import ERROR_FLAG
from django.core.exceptions import ValidationError
from django.db import DataError, models, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.text import capfirst
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminPasswordWidget

from openvibe.base.admin_site import LIST_PAGES
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.forms import SameWorkspaceForm, field_changes
from openvibe.base.problems import Problem


@contextmanager
def as_form_error() -> Iterator[None]:
    """What a service refuses is an error of the form's field."""
    try:
        yield
    except Problem as problem:
        raise ValidationError(problem.message) from None


def secret_input(label: str) -> forms.CharField:
    widget = UnfoldAdminPasswordWidget(render_value=False, attrs={"autocomplete": "new-password"})
    return forms.CharField(label=label, required=False, strip=True, widget=widget)


def number_column(field: "models.Field[Any, Any]") -> Callable[[models.Model], str | None]:
    """Shows whole numbers of a field with separators: 20,177."""

    @admin.display(description=field.verbose_name, ordering=field.name)
    def column(row: models.Model) -> str | None:
        number = getattr(row, field.name)
        return None if number is None else f"{number:,}"

    return column


class BaseAdmin(ModelAdmin):  # type: ignore[misc]  # the theme has no types
    """Rows of every workspace. Set what may be done with them."""

    may_add = False
    may_change = False
    may_delete = False
    form: "type[forms.ModelForm[Any]]" = SameWorkspaceForm
    list_fullwidth = True
    compressed_fields = True
    show_full_result_count = False
    list_per_page = 50

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        page = LIST_PAGES.get(f"{self.opts.app_label}_{self.opts.model_name}")
        title = page.title if page else capfirst(self.opts.verbose_name_plural)
        try:
            return super().changelist_view(request, {"title": title, **(extra_context or {})})
        except (DataError, ValueError):  # of a filter whose value no column has: NUL, the year 0
            if request.method != "GET" or not request.GET or ERROR_FLAG in request.GET:
                raise
            return redirect(f"{request.path}?{ERROR_FLAG}=1")  # as Django does for the filters it checks

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[Any], search_term: str
    ) -> tuple[models.QuerySet[Any], bool]:
        rows, has_duplicates = super().get_search_results(request, queryset, search_term.replace("\x00", ""))
        return rows, has_duplicates

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        return self._with_number_columns(super().get_list_display(request))

    def _with_number_columns(self, names: Iterable[Any]) -> list[Any]:
        """The same columns, those of whole numbers with separators. Ids stay as they are."""
        counts = {
            field.name: number_column(field)
            for field in self.opts.concrete_fields
            if isinstance(field, models.IntegerField) and not field.primary_key and not field.name.endswith("_id")
        }
        return [counts.get(name, name) if isinstance(name, str) else name for name in names]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            row._reader = request.user
        return row

    def app_link(self, row: models.Model, workspace: Any, address: str, words: str) -> str:
        """A link to the row's page in the app for who is in its workspace; for others what they would find there."""
        reader: Any = getattr(row, "_reader", None)
        if reader is None or not reader.memberships.filter(workspace=workspace, removed_at=None).exists():
            return f"It is read in the app, by members of {workspace}. Its owners can invite you."
        return format_html('<a class="ov-link" href="{}">{}</a>', address, words)

    def has_add_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return self.may_add and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return self.may_change and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return self.may_delete and super().has_delete_permission(request, obj)

    def response_action(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> Any:
        """What was ticked by hand and is no id chooses nothing."""
        raw_ids = request.POST.getlist(ACTION_CHECKBOX_NAME)
        ids = [value for value in raw_ids if value.isascii() and value.isdigit() and len(value) < 19]
        if ids != raw_ids:
            form_data = request.POST.copy()
            form_data.setlist(ACTION_CHECKBOX_NAME, ids)
            request.POST = form_data  # type: ignore[assignment]  # a copy with more in it
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


def admin_actor(request: HttpRequest) -> str:
    """The one who acts in the admin, as the audit log names who may be no participant of the workspace."""
    user: Any = request.user
    return f"{user} ({user.email}), in the admin"


class AuditedAdmin(BaseAdmin):
    """Rows that forms of the admin save, each change of which stands in the audit log as `audit_action`."""

    audit_action: AuditAction

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            self.audit(request, obj, after="made")
            return
        for field_change in field_changes(form):
            words = {"before": field_change.before, "after": field_change.after, "what": field_change.label}
            self.audit(request, obj, **words, action=self.audit_action_of(field_change.name))

    def audit_action_of(self, field: str) -> AuditAction:
        return self.audit_action

    def workspace_id_of(self, row: Any) -> int | None:
        """The workspace in whose audit log changes of the row stand; None for what belongs to the server."""
        return getattr(row, "workspace_id", None)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.audit(request, obj, after="deleted")
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        with transaction.atomic():
            for row in queryset:
                self.audit(request, row, after="deleted")
            super().delete_queryset(request, queryset)

    def audit(
        self,
        request: HttpRequest,
        row: Any,
        *,
        before: str = "",
        after: str,
        what: str = "",
        action: AuditAction | None = None,
    ) -> None:
        record_audit(
            action or self.audit_action,
            workspace_id=self.workspace_id_of(row),
            by=admin_actor(request),
            subject=f"{what} of {row}" if what else str(row),
            before=before,
            after=after,
        )


class ReadOnlyAdmin(BaseAdmin):
    """An admin of what is looked at, never touched."""

    actions = None

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        fields = super().get_fields(request, obj)
        return self._with_number_columns(fields) if self.fields else fields
