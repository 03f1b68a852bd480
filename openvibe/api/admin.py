"""Tokens in the admin: made here, shown once, taken back here. Idempotency keys to look at."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import models
from django.db.models import Q
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from unfold.widgets import UnfoldAdminCheckboxSelectMultiple

from openvibe.api.models import SCOPES, IdempotencyKey, Token
from openvibe.base.admin import ReadOnlyAdmin, WorkspaceRowsAdmin, administered


class TokenForm(forms.ModelForm):  # type: ignore[type-arg]
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in SCOPES], widget=UnfoldAdminCheckboxSelectMultiple
    )

    class Meta:
        model = Token
        fields = ("participant", "name", "scopes", "expires_at")


@admin.register(Token)
class TokenAdmin(WorkspaceRowsAdmin):
    """A secret is shown once, in the message after saving. Admins make tokens for agents and for themselves."""

    workspace_path = "participant__workspace"
    may_add = True
    form = TokenForm
    list_display = (
        "name",
        "ends_in",
        "participant",
        "scopes",
        "created_at",
        "last_used_at",
        "expires_at",
        "revoked_at",
    )
    list_select_related = ("participant",)
    search_fields = ("name", "participant__handle")
    ordering = ("-created_at",)
    fields = ("participant", "name", "scopes", "expires_at")
    actions = ("revoke",)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        people = db_field.remote_field.model._default_manager.filter(is_active=True)
        user: Any = request.user
        if not user.is_superuser:
            own_or_agents = Q(kind="agent") | Q(member__user=user)
            people = people.filter(own_or_agents, workspace__in=administered(request))
        kwargs["queryset"] = people.exclude(kind="imported").select_related("workspace")
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Token, form: Any, change: bool) -> None:
        secret = Token.new_secret()
        obj.token_hash, obj.hint = Token.digest(secret), secret[-4:]
        obj.save()
        self.message_user(request, f"Copy the token now, it is not shown again: {secret}", messages.WARNING)

    @admin.display(description="Ends in")
    def ends_in(self, token: Token) -> str:
        return f"…{token.hint}"

    @admin.action(description="Revoke…")
    def revoke(self, request: HttpRequest, rows: models.QuerySet[Token]) -> TemplateResponse | None:
        asked = self.confirmed(request, rows, action="revoke", question="Revoke these tokens?")
        if asked is None:
            revoked = rows.filter(revoked_at=None).update(revoked_at=timezone.now())
            self.message_user(request, f"{revoked} revoked. They open nothing any more.", messages.SUCCESS)
        return asked


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(ReadOnlyAdmin):
    superusers_only = True
    list_display = ("key", "participant", "status", "created_at")
    list_select_related = ("participant",)
    fields = ("key", "participant", "status", "created_at")
    ordering = ("-created_at",)
