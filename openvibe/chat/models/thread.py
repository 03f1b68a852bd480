"""Threads: titled conversations in a channel, and which agents may know of them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from openvibe.base.models import Timestamped
from openvibe.chat.models.channel import Channel
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace


class ThreadQuerySet(models.QuerySet["Thread"]):
    def visible_to(self, access: Access) -> ThreadQuerySet:
        """Threads in channels the asker sees; for agents without people-only ones and those that do not list them."""
        channels = Channel.objects.visible_to(access)
        threads = self.filter(workspace_id=access.workspace_id, channel__in=channels)
        if not access.is_agent:
            return threads
        listed = Thread.allowed_agents.through.objects.filter(participant_id=access.participant_id)
        return threads.filter(
            Q(access=Thread.Access.OPEN) | Q(access=Thread.Access.AGENT_RESTRICTED, pk__in=listed.values("thread_id"))
        )


class Thread(Timestamped):
    class Access(models.TextChoices):
        OPEN = "open", "Open to the channel's agents"
        HUMAN_ONLY = "human_only", "People only"
        AGENT_RESTRICTED = "agent_restricted", "Only the agents listed"

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="threads")
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="threads")
    title = models.CharField(max_length=200)
    access = models.CharField(max_length=16, choices=Access.choices, default=Access.OPEN)
    allowed_agents = models.ManyToManyField(Participant, blank=True, related_name="+")
    following_agents = models.ManyToManyField(Participant, blank=True, related_name="followed_threads")
    instructions = models.TextField(
        blank=True, help_text="Trusted instructions for agents in this thread; admins only."
    )
    created_by = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")
    archived_at = models.DateTimeField(null=True, blank=True)
    last_seq = models.PositiveBigIntegerField(default=0, editable=False)
    last_message_at = models.DateTimeField(null=True, editable=False)
    external_id = models.CharField(max_length=80, blank=True, editable=False, help_text="Where it was imported from.")

    objects: ClassVar[models.Manager[Thread]] = ThreadQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(access__in=["open", "human_only", "agent_restricted"]), name="thread_access_known"
            ),
            models.UniqueConstraint(
                fields=["channel", "external_id"], condition=~Q(external_id=""), name="thread_imported_once"
            ),
        ]
        indexes = [models.Index(fields=["channel", "-last_message_at"], name="thread_recent")]

    def __str__(self) -> str:
        return self.title
