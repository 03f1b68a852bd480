"""People and workspaces in the admin. Whatever has a rule goes through the same verbs as the pages."""

from typing import Any, ClassVar

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from allauth.usersessions.models import UserSession
from django import forms
from django.contrib import admin, messages
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from unfold.widgets import UnfoldAdminPasswordWidget

from openvibe.base.admin import AuditedAdmin, BaseAdmin, ReadOnlyAdmin, SameWorkspaceForm, as_form_error
from openvibe.base.audit import AuditAction
from openvibe.base.problems import Problem
from openvibe.workspaces.models import Invitation, Member, Participant, Snippet, Spending, User, Workspace
from openvibe.workspaces.queries import admin_access
from openvibe.workspaces.services import (
    BUDGET_CHECK,
    WORKSPACE_CHECK,
    clean_instructions,
    create_snippet,
    update_member_role,
    update_snippet,
)

# Addresses are changed with the account, below; the rest is allauth's to write, and holds secrets.
for allauth_model in (EmailAddress, Authenticator, SocialAccount, SocialApp, SocialToken, UserSession):
    if admin.site.is_registered(allauth_model):
        admin.site.unregister(allauth_model)


class WorkspaceForm(SameWorkspaceForm):
    class Meta:
        model = Workspace
        fields = ("name", "description", "instructions", "budgets", "daily_token_budget")

    def clean_instructions(self) -> str:
        with as_form_error():
            return clean_instructions(self.cleaned_data["instructions"], workspace_id=self.instance.pk)

    def clean_budgets(self) -> dict[str, Any]:
        """The rule lives upstairs, beside the stack it is about."""
        budgets = self.cleaned_data["budgets"] or {}
        try:
            BUDGET_CHECK.only()(budgets)
        except ValueError as error:
            raise ValidationError(str(error)) from None
        return dict(budgets)

    def clean(self) -> dict[str, Any] | None:
        """What is told agents and what they may read have to go together."""
        cleaned = super().clean()
        if not self.errors and {"instructions", "budgets"} & set(self.changed_data):
            for name in ("instructions", "budgets"):
                setattr(self.instance, name, self.cleaned_data[name])
            try:
                WORKSPACE_CHECK.only()(self.instance)
            except Problem as problem:
                self.add_error("budgets" if "budgets" in self.changed_data else "instructions", problem.message)
        return cleaned


@admin.register(Workspace)
class WorkspaceAdmin(AuditedAdmin):
    audit_action = AuditAction.SETTINGS
    may_change = True
    form = WorkspaceForm
    list_display = ("name", "slug", "daily_token_budget", "created_at")
    search_fields = ("name", "slug")
    ordering = ("name",)
    readonly_fields = ("slug", "created_at")

    def audit_action_of(self, field: str) -> AuditAction:
        return AuditAction.BUDGET if "budget" in field else AuditAction.SETTINGS

    def workspace_id_of(self, row: Any) -> int | None:
        return int(row.pk)

    fieldsets = (
        (None, {"fields": ("name", "slug", "description", "created_at")}),
        (
            "What agents are told",
            {
                "fields": ("instructions",),
                "description": "Stands in the system message of every agent's prompt, after its SOUL.",
            },
        ),
        (
            "Token budgets",
            {
                "fields": ("daily_token_budget", "budgets"),
                "description": 'By task type, for example {"thread": {"ceiling": 12000, "P3": 1500}}. '
                "Parts left out keep their defaults.",
            },
        ),
    )


class SnippetForm(SameWorkspaceForm):
    """`version` is the one that was shown. `request` is set by the admin, for each request a class of its own."""

    request: ClassVar[HttpRequest]

    class Meta:
        model = Snippet
        fields = ("workspace", "name", "text", "version")
        widgets: ClassVar = {"version": forms.HiddenInput}

    def clean(self) -> dict[str, Any] | None:
        """Cleans the form by a save that is tried, and taken back: what cannot be saved is said beside the form."""
        cleaned = super().clean()
        if not self.errors:
            with as_form_error(), transaction.atomic():
                self.write_snippet()
                transaction.set_rollback(True)
        return cleaned

    def write_snippet(self) -> Snippet:
        fields = self.cleaned_data
        snippet = Snippet.objects.select_related("workspace").filter(pk=self.instance.pk).first()
        workspace = snippet.workspace if snippet is not None else fields["workspace"]
        by = admin_access(self.request, workspace.pk)
        if snippet is None:
            return create_snippet(workspace=workspace, by=by, name=fields["name"], text=fields["text"])
        return update_snippet(snippet=snippet, by=by, text=fields["text"], version=fields["version"])


@admin.register(Snippet)
class SnippetAdmin(BaseAdmin):
    """Snippets are deleted in the app, where it says what includes them."""

    may_add = may_change = True
    form = SnippetForm
    list_display = ("name", "workspace", "version", "changed_by", "updated_at")
    list_select_related = ("workspace", "changed_by")
    search_fields = ("name", "text")
    ordering = ("workspace", "name")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("workspace", "name") if obj else ()

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"request": request})

    def save_model(self, request: HttpRequest, obj: Snippet, form: Any, change: bool) -> None:
        obj.pk = form.write_snippet().pk


@admin.register(Participant)
class ParticipantAdmin(ReadOnlyAdmin):
    list_display = ("handle", "name", "kind", "workspace", "is_active")
    list_filter = ("kind", "is_active")
    list_select_related = ("workspace",)
    search_fields = ("handle", "name")
    ordering = ("workspace", "handle")


@admin.register(Member)
class MemberAdmin(BaseAdmin):
    """Roles are changed here; members are removed in the app, and join by invitation."""

    may_change = True
    list_display = ("participant", "user", "role", "workspace", "joined_at", "removed_at")
    list_filter = ("role",)
    list_select_related = ("participant", "user", "workspace")
    search_fields = ("participant__handle", "participant__name", "user__email")
    ordering = ("workspace", "participant__handle")
    fields = ("participant", "user", "workspace", "role", "joined_at", "removed_at")
    readonly_fields = ("participant", "user", "workspace", "joined_at", "removed_at")

    def save_model(self, request: HttpRequest, obj: Member, form: Any, change: bool) -> None:
        if "role" not in form.changed_data:
            return
        role = obj.role
        stored = Member.objects.get(pk=obj.pk)
        try:
            update_member_role(member=stored, role=role, by=admin_access(request, stored.workspace_id))
        except Problem as problem:
            obj.role = stored.role
            request._refused = True  # type: ignore[attr-defined]  # kept for the request
            self.message_user(request, problem.message, messages.ERROR)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None if getattr(request, "_refused", False) else super().log_change(request, obj, message)

    def message_user(
        self, request: HttpRequest, message: Any, level: Any = messages.INFO, *rest: Any, **more: Any
    ) -> None:
        """A refusal is not followed by "changed successfully"."""
        if getattr(request, "_refused", False) and level == messages.SUCCESS:
            return
        super().message_user(request, message, level, *rest, **more)


@admin.register(Invitation)
class InvitationAdmin(AuditedAdmin):
    """Links are made in the app, where they are shown once; here they are looked at and taken back."""

    audit_action = AuditAction.INVITATION
    list_display = ("role", "workspace", "created_by", "created_at", "expires_at", "uses_left", "revoked_at")
    list_filter = ("role",)
    list_select_related = ("workspace", "created_by")
    search_fields = ("workspace__name", "created_by__handle", "created_by__name")
    ordering = ("-created_at",)
    fields = ("workspace", "role", "created_by", "created_at", "expires_at", "uses_left", "revoked_at")
    readonly_fields = fields
    actions = ("take_back",)

    @admin.action(description="Take back…")
    def take_back(self, request: HttpRequest, rows: models.QuerySet[Invitation]) -> TemplateResponse | None:
        question = "Take these invitations back?"
        confirmation = self.confirmation_page(request, rows, action="take_back", question=question)
        if confirmation is None:
            revoked = self._revoke(request, rows)
            self.message_user(request, f"{revoked} taken back. Their links open nothing any more.", messages.SUCCESS)
        return confirmation

    @transaction.atomic
    def _revoke(self, request: HttpRequest, rows: models.QuerySet[Invitation]) -> int:
        """How many were open still."""
        still_open = list(rows.select_for_update(of=("self",)).filter(revoked_at=None))
        for invitation in still_open:
            self.audit(request, invitation, after="taken back")
        return rows.filter(pk__in=[one.pk for one in still_open]).update(revoked_at=timezone.now())


class UserForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs alone
    new_password = forms.CharField(
        required=False, widget=UnfoldAdminPasswordWidget, help_text="At least 10 characters. Empty keeps the old one."
    )

    class Meta:
        model = User
        fields = ("name", "email", "is_active", "is_superuser")
        labels: ClassVar = {"is_active": "Active", "is_superuser": "Superuser"}
        help_texts: ClassVar = {
            "is_active": "Off: nobody signs in with this account any more. What was said stays.",
            "is_superuser": "Opens these pages: sees and changes everything on this server, in every workspace.",
        }

    def clean_email(self) -> str:
        email = str(self.cleaned_data["email"]).lower()
        if User.objects.filter(email__iexact=email).exclude(pk=self.instance.pk).exists():
            raise ValidationError("There is an account with this address already.")
        return email

    def clean(self) -> dict[str, Any] | None:
        """A server that nobody can administer any more is mended at its command line alone."""
        cleaned = super().clean()
        superusers = User.objects.filter(is_active=True, is_superuser=True)
        stays = all(self.cleaned_data.get(name) for name in ("is_active", "is_superuser"))
        others = superusers.exclude(pk=self.instance.pk)
        if not stays and superusers.filter(pk=self.instance.pk).exists() and not others.exists():
            raise ValidationError("Nobody else can administer this server. Make another superuser first.")
        return cleaned

    def clean_new_password(self) -> str:
        password = str(self.cleaned_data["new_password"])
        if not password and self.instance.pk is None:
            raise ValidationError("A new account needs a password.")
        if password:
            validate_password(password, self.instance)
        return password


@admin.register(Spending)
class SpendingAdmin(ReadOnlyAdmin):
    """What models were asked when nobody waited for them, and what that cost."""

    list_display = (
        "created_at",
        "workspace",
        "purpose",
        "agent",
        "model",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
    )
    list_filter = ("purpose",)
    list_select_related = ("workspace", "agent")
    search_fields = ("model", "agent__handle")
    ordering = ("-id",)
    fields = ("workspace", "purpose", "agent", "model", "input_tokens", "cached_tokens", "output_tokens", "created_at")


@admin.register(User)
class UserAdmin(AuditedAdmin):
    """Accounts belong to the server, not to a workspace."""

    audit_action = AuditAction.ACCOUNT
    may_add = may_change = True
    form = UserForm
    list_display = ("email", "name", "is_active", "is_superuser", "date_joined")
    list_filter = ("is_active", "is_superuser")
    search_fields = ("email", "name")
    ordering = ("email",)
    fields = ("name", "email", "new_password", "is_active", "is_superuser")

    actions = ("remove_second_factors",)

    @admin.action(description="Remove second factors (the person lost them)")
    def remove_second_factors(self, request: HttpRequest, users: models.QuerySet[User]) -> None:
        """The password alone signs in again; whoever is signed in stays so."""
        with transaction.atomic():
            for user in users:
                self.audit(request, user, what="second factors", after="removed")
            Authenticator.objects.filter(user__in=users).delete()
        messages.success(request, "Removed. Make sure that it was really they who asked.")

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        if form.cleaned_data["new_password"]:
            obj.set_password(form.cleaned_data["new_password"])
        super().save_model(request, obj, form, change)
        # An address of before must not sign in or reset the password any more.
        EmailAddress.objects.filter(user=obj).exclude(email=obj.email).delete()
