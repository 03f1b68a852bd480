"""How a person arranged her sidebar: what she folded, in which order channels stand, and her favourites."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from openvibe.chat.models.channel import Channel
from openvibe.workspaces.models import Participant

MAX_FAVOURITES = 100
"""The most favourites of a person: all of them stand in her sidebar."""


class SidebarSection(models.TextChoices):
    """Sections that can be folded."""

    FAVOURITES = "favourites", "Favourites"
    DIRECT = "direct", "Direct messages"
    AGENTS = "agents", "Agents"
    CHANNELS = "channels", "Channels"
    PEOPLE = "people", "People"


class SidebarOrder(models.TextChoices):
    """Order of the channels; within `unread`, those that name the reader first."""

    NAME = "name", "By name"
    UNREAD = "unread", "Unread first"


class SidebarSettings(models.Model):
    """A participant's choices; without a row nothing is folded, and channels stand by name."""

    participant = models.OneToOneField(Participant, on_delete=models.CASCADE, related_name="+")
    folded = ArrayField(models.CharField(max_length=10, choices=SidebarSection.choices), default=list, blank=True)
    order = models.CharField(max_length=6, choices=SidebarOrder.choices, default=SidebarOrder.NAME)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(folded__contained_by=["favourites", "direct", "agents", "channels", "people"]),
                name="sidebar_folds_known",
            ),
            models.CheckConstraint(condition=Q(order__in=["name", "unread"]), name="sidebar_order_known"),
        ]

    def __str__(self) -> str:
        return f"Sidebar of {self.participant}"


class Favourite(models.Model):
    """A channel, or somebody's direct messages, that a person keeps on top of her sidebar. Nobody else knows of it."""

    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+", db_index=False)
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["participant", "channel"], name="favourite_once")]

    def __str__(self) -> str:
        return f"{self.channel} of {self.participant}"
