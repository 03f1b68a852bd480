"""Channels and dives in the admin. What was said is read in the app, where every reader's own access decides."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from unfold.admin import TabularInline
from unfold.widgets import UnfoldBooleanSwitchWidget

from openvibe.base.admin import BaseAdmin, ReadOnlyAdmin, SameWorkspaceForm, admin_actor, as_form_error
from openvibe.base.events import emit
from openvibe.chat.models import Channel, ChannelMembership, Dive
from openvibe.chat.services import audit_membership, revoke_outsiders_tokens
from openvibe.workspaces.models import IMPORTED_KINDS, Participant
from openvibe.workspaces.services import clean_instructions


class ChannelForm(SameWorkspaceForm):
    is_archived = forms.BooleanField(
        required=False, label="Archived", widget=UnfoldBooleanSwitchWidget, help_text="It can be read, not written to."
    )

    class Meta:
        model = Channel
        fields = ("workspace", "name", "description", "instructions", "is_private")
        labels: ClassVar = {"is_private": "Private"}
        help_texts: ClassVar = {
            "name": "Small letters, digits, - and _.",
            "is_private": "Only people and agents who are added read it.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["is_archived"] = self.instance.archived_at is not None

    def clean(self) -> dict[str, Any] | None:
        """Cleans the form: of the constraint on names Django looks at no more than the form holds."""
        cleaned = super().clean()
        name, workspace_id = self.cleaned_data.get("name"), self._workspace_id()
        namesakes = Channel.objects.filter(workspace_id=workspace_id, name=name, first_participant=None)
        if name and namesakes.exclude(pk=self.instance.pk).exists():
            self.add_error("name", f"There is a channel #{name} already.")
        return cleaned

    def _workspace_id(self) -> int:
        return int(self.instance.workspace_id or getattr(self.cleaned_data.get("workspace"), "pk", 0))

    def clean_instructions(self) -> str:
        with as_form_error():
            return clean_instructions(self.cleaned_data["instructions"], workspace_id=self._workspace_id())


class MembershipInline(TabularInline):  # type: ignore[misc]  # the library has no types
    model = ChannelMembership
    extra = 0
    per_page = 50  # Django takes no form of more than a thousand fields, and each row has two
    ordering = ("id",)
    fields = ("participant", "added_at")
    readonly_fields = ("added_at",)
    verbose_name = "member or agent"
    verbose_name_plural = "members and agents added to it"

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        rows: models.QuerySet[Any] = super().get_queryset(request)
        return rows.select_related("participant", "channel")

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        channel_id = request.resolver_match.kwargs.get("object_id") if request.resolver_match else None
        people = Participant.objects.filter(is_active=True).exclude(kind__in=IMPORTED_KINDS)
        home = Channel.objects.filter(pk=channel_id or 0).values_list("workspace_id", flat=True)
        kwargs["queryset"] = people.filter(workspace_id__in=home)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is not None and bool(super().has_add_permission(request, obj))


@admin.register(Channel)
class ChannelAdmin(BaseAdmin):
    may_add = may_change = True
    form = ChannelForm
    list_display = ("name", "workspace", "is_private", "created_at", "archived_at")
    list_filter = ("is_private",)
    list_select_related = ("workspace",)
    search_fields = ("name", "description")
    ordering = ("workspace", "name")
    inlines = (MembershipInline,)

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        """Direct messages are nobody's but the two's."""
        rows: models.QuerySet[Any] = super().get_queryset(request)
        return rows.filter(first_participant=None)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("workspace",) if obj else ()

    def save_model(self, request: HttpRequest, obj: Channel, form: Any, change: bool) -> None:
        if "is_archived" in form.changed_data:
            obj.archived_at = timezone.now() if form.cleaned_data["is_archived"] else None
        super().save_model(request, obj, form, change)
        emit("channel_changed", workspace_id=obj.workspace_id, channel_id=obj.pk)

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        """Saves the rows; open pages of those added or removed learn of it, and tokens end as they do in the app: also
        where the channel has just become private."""
        formset.save()
        for membership in [*formset.new_objects, *formset.deleted_objects]:
            emit("access_changed", workspace_id=form.instance.workspace_id, participant_id=membership.participant_id)
            verb = "added" if membership in formset.new_objects else "taken out"
            audit_membership(form.instance, membership.participant, admin_actor(request), verb)
        revoke_outsiders_tokens(form.instance, admin_actor(request))


@admin.register(Dive)
class DiveAdmin(ReadOnlyAdmin):
    """An admin that shows whose dives there are and how they stand. No titles and no texts: threads are read in the
    app, with the reader's own access."""

    list_display = ("created_at", "parent_id", "started_by", "agent", "state", "ended_at", "ended_by")
    list_filter = ("state",)
    list_select_related = ("parent", "started_by", "agent", "ended_by")
    search_fields = ("=parent__id", "started_by__handle", "agent__handle")
    ordering = ("-id",)
    fields = ("parent_id", "started_by", "agent", "state", "created_at", "ended_at", "ended_by", "its_page")
    readonly_fields = ("parent_id", "its_page")

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        rows: models.QuerySet[Any] = super().get_queryset(request)
        return rows.filter(parent__channel__first_participant=None)

    @admin.display(description="Thread", ordering="parent")
    def parent_id(self, dive: Dive) -> int:
        return dive.parent_id

    @admin.display(description="Its page")
    def its_page(self, dive: Dive) -> str:
        address = reverse("dive", args=[dive.parent.workspace.slug, dive.pk])
        return self.app_link(dive, dive.parent.workspace, address, "Read it")
