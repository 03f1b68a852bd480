"""What a person is notified of in a channel or a thread, where she chose something else than her default; and which
mentions were mailed to her."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from openvibe.chat.models.channel import Channel
from openvibe.chat.models.message import Message
from openvibe.chat.models.thread import Thread
from openvibe.workspaces.models import NotificationLevel, Participant


class NotificationPreference(models.Model):
    """A participant's choice for one channel or one thread. A thread's wins over its channel's, that one over
    `Member.notify_level`. `nothing` mutes: what is new there is not marked as new."""

    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+", db_index=False)
    channel = models.ForeignKey(Channel, null=True, on_delete=models.CASCADE, related_name="+")
    thread = models.ForeignKey(Thread, null=True, on_delete=models.CASCADE, related_name="+")
    level = models.CharField(max_length=8, choices=NotificationLevel.choices)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["participant", "channel"], name="notification_once_per_channel"),
            models.UniqueConstraint(fields=["participant", "thread"], name="notification_once_per_thread"),
            models.CheckConstraint(
                condition=Q(channel=None, thread__isnull=False) | Q(channel__isnull=False, thread=None),
                name="notification_of_channel_or_thread",
            ),
            models.CheckConstraint(
                condition=Q(level__in=["all", "mentions", "nothing"]), name="notification_level_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.level} of {self.channel or self.thread}"


class MailedMention(models.Model):
    """A mention that was mailed, or is about to be: committed before the e-mail leaves. Of the message, not of its
    `Mention`: an edit makes that anew."""

    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+", db_index=False)
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["participant", "message"], name="mention_mailed_once")]
