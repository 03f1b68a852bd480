"""Files attached to messages: text, in rows of their own so that messages stay small."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import pgtrigger
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Now

from openvibe.chat.models.message import Message
from openvibe.chat.models.thread import Thread
from openvibe.chat.models.visibility import visible_threads
from openvibe.workspaces.access import Access

MAX_ATTACHMENTS = 5
"""Files of one message."""

MAX_ATTACHMENT_BYTES = 5 * 1024 * 1024
"""Bytes of one file, as it comes and as it is kept (UTF-8)."""

MAX_ATTACHMENT_NAME = 120
"""Characters of a file's name."""

EXTRACT_TOKENS = 200
"""Tokens of a file's first lines that stand for it in prompts; of a file with no more, all of it."""


Files = TypeVar("Files", bound="models.QuerySet[Any]")


def visible_files(files: Files, access: Access) -> Files:
    """Files or images of messages that the asker sees, as `MessageQuerySet.visible_to` has it."""
    files = files.filter(visible_threads(access, "thread__"))
    return files if access.reads_dive_results else files.exclude(message__kind=Message.Kind.DIVE_RESULT)


class AttachmentQuerySet(models.QuerySet["Attachment"]):
    def visible_to(self, access: Access) -> AttachmentQuerySet:
        """The files that the asker may see: see `visible_files`."""
        return visible_files(self, access)


class Attachment(models.Model):
    """A text file of a message. It never changes, and is gone when its message is deleted: triggers see to both.

    Leave `content` out of every query of more than one row: it may have MAX_ATTACHMENT_BYTES.
    """

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="attachments", db_index=False)
    thread = models.ForeignKey(
        Thread,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        editable=False,
        help_text="Its message's; the database fills it in.",
    )
    position = models.PositiveSmallIntegerField(help_text="Counts from 1 in its message.")
    name = models.CharField(max_length=MAX_ATTACHMENT_NAME)
    media_type = models.CharField(max_length=100, help_text="Guessed from the name; it is always given as plain text.")
    content = models.TextField()
    size = models.PositiveIntegerField(help_text="Bytes of the content in UTF-8.")
    token_count = models.PositiveIntegerField(help_text="Tokens of the content (o200k_base), counted at write.")
    extract = models.TextField(help_text="Its first lines, as prompts show them: about 200 tokens, secrets masked.")
    sha256 = models.CharField(max_length=64, help_text="Of the content in UTF-8, hexadecimal.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects: ClassVar[models.Manager[Attachment]] = AttachmentQuerySet.as_manager()

    class Meta:
        ordering = ["message", "position"]
        constraints = [
            models.UniqueConstraint(fields=["message", "position"], name="attachment_place_once"),
            models.CheckConstraint(
                condition=Q(position__gte=1, position__lte=MAX_ATTACHMENTS), name="attachment_place_bounded"
            ),
            models.CheckConstraint(
                condition=Q(size__gte=1, size__lte=MAX_ATTACHMENT_BYTES), name="attachment_size_bounded"
            ),
            models.CheckConstraint(
                condition=Q(size=Func(F("content"), function="octet_length", output_field=models.IntegerField())),
                name="attachment_size_counted",
            ),
            models.CheckConstraint(condition=~Q(name=""), name="attachment_has_name"),
            models.CheckConstraint(condition=Q(token_count__gte=1), name="attachment_has_tokens"),
        ]
        indexes = [models.Index(fields=["thread", "-message"], name="attachment_in_thread")]
        triggers = [
            pgtrigger.Protect(name="attachment_is_final", operation=pgtrigger.Update),
            pgtrigger.Trigger(
                name="stands_in_its_thread",
                operation=pgtrigger.Insert,
                when=pgtrigger.Before,
                func="SELECT thread_id INTO NEW.thread_id FROM chat_message WHERE id = NEW.message_id; RETURN NEW;",
            ),
        ]

    def __str__(self) -> str:
        return self.name
