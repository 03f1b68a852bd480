"""Tokens in the admin: made here, shown once, taken back here. Idempotency keys to look at."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest
from django.template.response import TemplateResponse
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminIntegerFieldWidget

from openvibe.api.models import SCOPE_WORDS, IdempotencyKey, Token
from openvibe.api.services import MAX_TOKEN_DAYS, issue_token, revoke_token
from openvibe.base.admin import BaseAdmin, ReadOnlyAdmin, admin_actor
from openvibe.base.problems import Problem


class TokenForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs alone
    """`request` is set by the admin, for each request a class of its own."""

    request: ClassVar[HttpRequest]
    scopes = forms.MultipleChoiceField(
        label="It may",
        choices=[(scope, f"{scope}: {words}") for scope, words in SCOPE_WORDS.items()],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
    )
    days = forms.IntegerField(
        min_value=1,
        max_value=MAX_TOKEN_DAYS,
        required=False,
        initial=90,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="Days until it expires. Empty: it does not.",
    )

    class Meta:
        model = Token
        fields = ("participant", "name", "scopes")
        labels: ClassVar = {"participant": "Whose", "name": "What for"}
        help_texts: ClassVar = {
            "participant": "Whoever holds the token reads and does what this agent or member may.",
            "name": "Such as the machine or the script that holds it.",
        }

    def clean(self) -> dict[str, Any] | None:
        """Makes the token with the verb of the API, so that its rules are the same."""
        cleaned = super().clean()
        if not self.errors and self.instance.pk is None:
            values = self.cleaned_data
            try:
                self.made = issue_token(
                    participant=values["participant"],
                    name=values["name"],
                    scopes=values["scopes"],
                    days=values["days"],
                    by=admin_actor(self.request),
                    made_by_id=self._participant_id(values["participant"].workspace_id),
                )
            except Problem as problem:
                self.add_error(problem.field if problem.field in self.fields else None, problem.message)
        return cleaned

    def _participant_id(self, workspace_id: int) -> int | None:
        """The maker, as a participant of the workspace; None for a superuser who is not in it."""
        user: Any = self.request.user
        own = user.memberships.filter(workspace=workspace_id, removed_at=None)
        participant_id: int | None = own.values_list("participant_id", flat=True).first()
        return participant_id


@admin.register(Token)
class TokenAdmin(BaseAdmin):
    """A secret is shown once, in the message after saving."""

    may_add = True
    form = TokenForm
    list_display = (
        "name",
        "ends_in",
        "participant",
        "maker",
        "scopes",
        "created_at",
        "last_used_at",
        "expires_at",
        "revoked_at",
    )
    list_select_related = ("participant", "made_by")
    search_fields = ("name", "participant__handle", "made_by__handle")
    ordering = ("-created_at",)
    actions = ("revoke",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if obj is None:
            return ("participant", "name", "scopes", "days")
        dates = ("created_at", "expires_at", "revoked_at", "last_used_at")
        return ("participant", "maker", "name", "ends_in", "scopes", *dates)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else tuple(self.get_fields(request, obj))

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"request": request})

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        participants = db_field.remote_field.model._default_manager.filter(is_active=True)
        kwargs["queryset"] = participants.filter(kind__in=["member", "agent"]).select_related("workspace")
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Token, form: Any, change: bool) -> None:
        token, secret = form.made
        obj.__dict__.update(token.__dict__)
        self.message_user(request, f"Copy the token now, it is not shown again: {secret}", messages.WARNING)

    @admin.display(description="Made by", ordering="made_by__handle")
    def maker(self, token: Token) -> str:
        return token.maker

    @admin.display(description="Ends in")
    def ends_in(self, token: Token) -> str:
        return f"…{token.hint}"

    @admin.action(description="Revoke…")
    def revoke(self, request: HttpRequest, rows: models.QuerySet[Token]) -> TemplateResponse | None:
        confirmation = self.confirmation_page(request, rows, action="revoke", question="Revoke these tokens?")
        if confirmation is None:
            still_valid = rows.filter(revoked_at=None).select_related("participant")
            revoked = len([revoke_token(token=token, by=admin_actor(request)) for token in still_valid])
            self.message_user(request, f"{revoked} revoked. They open nothing any more.", messages.SUCCESS)
        return confirmation


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(ReadOnlyAdmin):
    list_display = ("key", "participant", "status", "created_at")
    list_select_related = ("participant",)
    fields = ("key", "participant", "status", "created_at")
    search_fields = ("key", "participant__handle")
    ordering = ("-created_at",)
