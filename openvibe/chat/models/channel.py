"""Channels: public (every member reads them) or private (only who was added); and direct messages, which are a private
channel of two with one thread."""

from __future__ import annotations

from typing import ClassVar

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from openvibe.chat.models.visibility import visibility_of
from openvibe.engines.database.models import TimestampedModel
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace

validate_channel_name = RegexValidator(
    r"^[a-z0-9][a-z0-9_-]{0,39}\Z", "Use 1 to 40 of a-z, 0-9, - and _, starting with a letter or digit."
)


class ChannelQuerySet(models.QuerySet["Channel"]):
    def visible_to(self, access: Access) -> ChannelQuerySet:
        """Channels the asker was added to, and her workspace's public ones where her role or level reads them. Direct
        messages are in no list of channels and have no settings: their threads are visible as all are."""
        rooms = self.filter(first_participant=None)
        return rooms.filter(workspace_id=access.workspace_id, pk__any_of=visibility_of(access).channels)

    def open(self) -> ChannelQuerySet:
        return self.filter(archived_at=None)


class Channel(TimestampedModel):
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="channels")
    name = models.CharField(max_length=40, validators=[validate_channel_name])
    description = models.TextField(blank=True, max_length=1000)
    instructions = models.TextField(
        blank=True, help_text="Trusted instructions for agents in this channel; admins only."
    )
    is_private = models.BooleanField(default=False)
    added_agents_only = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Only agents that were added answer here; else also those whose level reads every public channel.",
    )
    agent_tools = ArrayField(
        models.TextField(),
        null=True,
        blank=True,
        help_text="What agents may use here at most: OpenVibe's own tools by name, mcp:server, mcp:server/tool, "
        "call:kind of agents elsewhere. Null: all that they may use.",
    )
    daily_token_budget = models.PositiveIntegerField(
        null=True, blank=True, help_text="Tokens that agents may use here in one UTC day. Null: no limit of its own."
    )
    archived_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")
    participants = models.ManyToManyField(Participant, through="ChannelMembership", related_name="channels")
    first_participant = models.ForeignKey(
        Participant,
        null=True,
        editable=False,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="Of direct messages: the two, in the order of their ids.",
        db_index=False,
    )
    second_participant = models.ForeignKey(
        Participant, null=True, editable=False, on_delete=models.CASCADE, related_name="+"
    )

    objects: ClassVar[models.Manager[Channel]] = ChannelQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"],
                condition=Q(first_participant=None),
                name="channel_name_unique",
                violation_error_message="There is a channel of this name already.",
            ),
            models.UniqueConstraint(
                fields=["first_participant", "second_participant"], name="direct_messages_once_for_two"
            ),
            models.CheckConstraint(
                condition=Q(first_participant=None, second_participant=None)
                | Q(first_participant__lt=F("second_participant"), is_private=True),
                name="direct_messages_of_two",
            ),
            models.CheckConstraint(
                condition=Q(first_participant=None)
                | Q(added_agents_only=False, agent_tools=None, daily_token_budget=None),
                name="direct_messages_have_no_limits",
            ),
        ]

    def __str__(self) -> str:
        return "Direct message" if self.is_direct else f"#{self.name}"

    @property
    def is_direct(self) -> bool:
        """Whether these are the direct messages of two participants."""
        return self.first_participant_id is not None

    def allows_tool(self, *names: str) -> bool:
        """Whether agents may use here what goes by one of these names, as far as their own level and settings do."""
        return self.agent_tools is None or not set(names).isdisjoint(self.agent_tools)

    @property
    def direct_ids(self) -> list[int]:
        """The two whose direct messages these are; empty for a channel."""
        return [pk for pk in (self.first_participant_id, self.second_participant_id) if pk is not None]


class ChannelMembership(models.Model):
    """Somebody was added to a channel: a member or an agent, in the same way."""

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="memberships")
    participant = models.ForeignKey(
        Participant, on_delete=models.CASCADE, related_name="channel_memberships", db_index=False
    )
    added_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["participant", "channel"], name="channel_membership_once")]
        triggers = [
            pgtrigger.Trigger(
                name="direct_messages_have_two_members",
                operation=pgtrigger.Insert | pgtrigger.Update,
                when=pgtrigger.Before,
                func=(
                    "IF EXISTS (SELECT FROM chat_channel c WHERE c.id = NEW.channel_id AND c.first_participant_id"
                    " IS NOT NULL AND NEW.participant_id NOT IN (c.first_participant_id, c.second_participant_id))"
                    " THEN RAISE EXCEPTION 'Direct messages are between two.' USING ERRCODE = 'check_violation';"
                    " END IF; RETURN NEW;"
                ),
            )
        ]

    def __str__(self) -> str:
        return f"{self.participant} in {self.channel}"
