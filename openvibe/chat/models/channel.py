"""Channels: public (every member reads them) or private (only who was added)."""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import RegexValidator
from django.db import models
from django.db.models.functions import Now

from openvibe.base.models import Timestamped
from openvibe.chat.models.reach import reach_of
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace

validate_channel_name = RegexValidator(
    r"^[a-z0-9][a-z0-9_-]{0,39}\Z", "Use 1 to 40 of a-z, 0-9, - and _, starting with a letter or digit."
)


class ChannelQuerySet(models.QuerySet["Channel"]):
    def visible_to(self, access: Access) -> ChannelQuerySet:
        """Channels the asker was added to, and her workspace's public ones where her role or level reads them."""
        return self.filter(workspace_id=access.workspace_id, pk__any_of=reach_of(access).channels)

    def open(self) -> ChannelQuerySet:
        return self.filter(archived_at=None)


class Channel(Timestamped):
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="channels")
    name = models.CharField(max_length=40, validators=[validate_channel_name])
    description = models.TextField(blank=True, max_length=1000)
    instructions = models.TextField(
        blank=True, help_text="Trusted instructions for agents in this channel; admins only."
    )
    is_private = models.BooleanField(default=False)
    archived_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")
    participants = models.ManyToManyField(Participant, through="ChannelMembership", related_name="channels")

    objects: ClassVar[models.Manager[Channel]] = ChannelQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"],
                name="channel_name_unique",
                violation_error_message="There is a channel of this name already.",
            )
        ]

    def __str__(self) -> str:
        return f"#{self.name}"


class ChannelMembership(models.Model):
    """Somebody was added to a channel: a member or an agent, in the same way."""

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="memberships")
    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="channel_memberships")
    added_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["participant", "channel"], name="channel_membership_once")]

    def __str__(self) -> str:
        return f"{self.participant} in {self.channel}"
