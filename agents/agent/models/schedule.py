"""Schedules: when an agent speaks without being asked."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from agents.agent.models.agent import Agent
from openvibe.chat.models import Channel, Thread
from openvibe.engines.database.models import TimestampedModel
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    def visible_to(self, access: Access) -> ScheduleQuerySet:
        """Schedules that post where the asker reads."""
        in_threads = Q(thread__in=Thread.objects.visible_to(access))
        in_channels = Q(thread=None, channel__in=Channel.objects.visible_to(access))
        return self.filter(in_threads | in_channels, agent__workspace=access.workspace_id)


class Schedule(TimestampedModel):
    """A time at which an agent speaks without being asked: a cron line in a time zone, and what it is told then.

    It posts in `thread`, or else in a new thread of `channel` each time. `next_due_at` is when it is due next;
    `note` says why it did not run the last time it was due, or was switched off.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="schedules")
    name = models.CharField(max_length=80)
    cron = models.CharField(max_length=100)
    time_zone = models.CharField(max_length=64)
    prompt = models.TextField(max_length=4_000)
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="+")
    thread = models.ForeignKey(Thread, null=True, on_delete=models.CASCADE, related_name="+")
    is_active = models.BooleanField(default=True)
    next_due_at = models.DateTimeField(null=True)
    last_due_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=300, blank=True)
    author = models.ForeignKey(Participant, on_delete=models.PROTECT, related_name="+")

    objects: ClassVar[models.Manager[Schedule]] = ScheduleQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(condition=Q(name__regex=r"\S", prompt__regex=r"\S"), name="schedule_not_empty"),
            models.CheckConstraint(
                condition=Q(is_active=False, next_due_at=None) | Q(is_active=True, next_due_at__isnull=False),
                name="schedule_active_is_due",
            ),
        ]
        indexes = [models.Index(fields=["next_due_at"], condition=Q(is_active=True), name="schedule_due")]

    def __str__(self) -> str:
        return self.name
