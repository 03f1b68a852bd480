"""Threads: titled conversations in a channel, which agents may know of them, read markers and drafts."""

from __future__ import annotations

from typing import ClassVar

import pgtrigger
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce

from openvibe.base.name_field import NameField
from openvibe.chat.models.channel import Channel
from openvibe.chat.models.visibility import visible_threads
from openvibe.engines.database.models import TimestampedModel
from openvibe.engines.search.lexeme_fields import LexemesField, LexemesVersionField, loses_lexemes
from openvibe.engines.search.lexemes import HEADING
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace

MAX_PINNED_THREADS = 10
"""The most pinned threads of one channel."""


class ThreadQuerySet(models.QuerySet["Thread"]):
    def visible_to(self, access: Access) -> ThreadQuerySet:
        """Threads the asker sees, as `visible_threads` has it."""
        return self.filter(visible_threads(access))

    def exclude_dives(self) -> ThreadQuerySet:
        """Threads of their own: what lists of threads show."""
        return self.filter(parent=None)

    def direct_between(self, one_id: int, other_id: int) -> ThreadQuerySet:
        """The one thread of two participants' direct messages, if there is any."""
        first, second = sorted((one_id, other_id))
        return self.filter(channel__first_participant=first, channel__second_participant=second, parent=None)


class Thread(TimestampedModel):
    class Access(models.TextChoices):
        OPEN = "open", "Open to the channel's agents"
        HUMAN_ONLY = "human_only", "People only"
        AGENT_RESTRICTED = "agent_restricted", "Only the agents listed"

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="threads")
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="threads")
    parent = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        editable=False,
        on_delete=models.CASCADE,
        related_name="side_threads",
        help_text="For a dive: the thread it started in.",
    )
    title = NameField(max_length=200)
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
    imported_count = models.PositiveBigIntegerField(
        default=0, db_default=0, editable=False, help_text="Messages of the imported conversation that are there."
    )

    pin_slot = models.PositiveSmallIntegerField(
        null=True, blank=True, editable=False, help_text="Its place among the pinned ones of its channel."
    )

    search = LexemesField(sources={"title": HEADING})
    lexemes_version = LexemesVersionField()

    objects: ClassVar[models.Manager[Thread]] = ThreadQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(access__in=["open", "human_only", "agent_restricted"]), name="thread_access_known"
            ),
            models.UniqueConstraint(
                fields=["channel", "external_id"], condition=~Q(external_id=""), name="thread_imported_once"
            ),
            models.UniqueConstraint(
                fields=["channel", "pin_slot"], condition=Q(pin_slot__isnull=False), name="thread_pin_slot_once"
            ),
            models.CheckConstraint(
                condition=Q(pin_slot=None) | Q(pin_slot__gte=1, pin_slot__lte=MAX_PINNED_THREADS, parent=None),
                name="thread_pin_slot_bounded",
            ),
        ]
        indexes = [
            models.Index(
                "channel",
                Coalesce("last_message_at", "created_at").desc(),
                F("id").desc(),
                condition=Q(parent=None, archived_at=None),
                name="thread_recent",
            ),
            models.Index(
                "channel",
                Coalesce("last_message_at", "created_at").desc(),
                F("id").desc(),
                condition=Q(parent=None, archived_at__isnull=False),
                name="thread_archived",
            ),
            models.Index(fields=["created_at"], condition=Q(imported_count__gt=0), name="thread_imported_at"),
            GinIndex(fields=["search"], name="thread_search"),
            models.Index(fields=["-id"], condition=Q(lexemes_version=0), name="thread_lexemes_due"),
        ]
        triggers = [
            loses_lexemes("title"),
            pgtrigger.Trigger(
                name="dive_stands_in_its_thread",
                operation=pgtrigger.Insert,
                when=pgtrigger.Before,
                condition=pgtrigger.Q(new__parent_id__isnull=False),
                declare=[("above", "record")],
                func=(
                    "SELECT parent_id, access, channel_id, workspace_id INTO above FROM chat_thread"
                    " WHERE id = NEW.parent_id FOR SHARE;"
                    " IF above.parent_id IS NOT NULL THEN RAISE EXCEPTION 'There is no dive inside a dive.'"
                    " USING ERRCODE = 'check_violation'; END IF;"
                    " NEW.access := above.access; NEW.channel_id := above.channel_id;"
                    " NEW.workspace_id := above.workspace_id;"
                    " RETURN NEW;"
                ),
            ),
            pgtrigger.Trigger(
                name="dives_follow_their_thread",
                operation=pgtrigger.UpdateOf("access", "channel_id"),
                when=pgtrigger.After,
                condition=pgtrigger.Q(new__parent_id__isnull=True),
                func=(
                    "UPDATE chat_thread SET access = NEW.access, channel_id = NEW.channel_id"
                    " WHERE parent_id = NEW.id AND (access, channel_id) IS DISTINCT FROM (NEW.access, NEW.channel_id);"
                    " RETURN NULL;"
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.title


class ReadMarker(models.Model):
    """The mark of the message up to which somebody has read a thread.

    `marked_unread_seq`: what `last_read_seq` became when she marked the thread as unread; she has read on once the two
    differ."""

    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="read_markers")
    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="read_markers", db_index=False)
    last_read_seq = models.PositiveBigIntegerField(default=0)
    marked_unread_seq = models.PositiveBigIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["participant", "thread"], name="read_marker_once")]
        indexes = [
            models.Index(
                fields=["participant"], condition=Q(marked_unread_seq__isnull=False), name="read_marker_marked_unread"
            )
        ]


class Draft(models.Model):
    """Text in a composer, kept on the server so that nothing typed is lost."""

    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="drafts")
    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="drafts", db_index=False)
    body = models.TextField()
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["participant", "thread"], name="draft_once")]
