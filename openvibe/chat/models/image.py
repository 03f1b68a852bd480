"""Images attached to messages: one scaled copy of each, and a thumbnail, in rows of their own."""

from __future__ import annotations

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Now

from openvibe.chat.models.attachment import MAX_ATTACHMENT_NAME, MAX_ATTACHMENTS, visible_files
from openvibe.chat.models.message import Message
from openvibe.chat.models.thread import Thread
from openvibe.workspaces.access import Access

MAX_UPLOADED_IMAGE_BYTES = 20 * 1024 * 1024
"""Bytes of an image as it comes."""

MAX_IMAGE_SIDE, MAX_IMAGE_PIXELS = 1_568, 1_200_000
"""Pixels of the longer side, and of all, as it is kept: what the narrowest of the large providers reads without scaling
it once more."""

MAX_IMAGE_BYTES = 2 * 1024 * 1024
"""Bytes of the copy that is kept: noise of that many pixels, as a JPEG of the best quality that is tried."""

MAX_THUMBNAIL_SIDE = 480
"""Pixels of a thumbnail's longer side."""

MAX_DESCRIPTION = 1_000
"""Characters of what a person writes about an image."""


class ImageQuerySet(models.QuerySet["Image"]):
    def visible_to(self, access: Access) -> ImageQuerySet:
        """The images that the asker may see: see `visible_files`."""
        return visible_files(self, access)


class Image(models.Model):
    """An image of a message: pixels alone, scaled once when it came. Only its description ever changes, and it is gone
    when its message is deleted: triggers see to both.

    Leave `content` and `thumbnail` out of every query of more than a few rows.
    """

    class MediaType(models.TextChoices):
        PNG = "image/png", "PNG"
        JPEG = "image/jpeg", "JPEG"

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="images", db_index=False)
    thread = models.ForeignKey(
        Thread,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        editable=False,
        help_text="Its message's; the database fills it in.",
    )
    position = models.PositiveSmallIntegerField(help_text="Its place among the files of its message, from 1.")
    name = models.CharField(max_length=MAX_ATTACHMENT_NAME)
    media_type = models.CharField(max_length=20, choices=MediaType.choices, help_text="Of the copy that is kept.")
    width = models.PositiveIntegerField(help_text="Pixels of the copy that is kept.")
    height = models.PositiveIntegerField(help_text="Pixels of the copy that is kept.")
    content = models.BinaryField()
    thumbnail = models.BinaryField(help_text="WebP.")
    size = models.PositiveIntegerField(help_text="Bytes of the content.")
    sha256 = models.CharField(max_length=64, help_text="Of the content, hexadecimal.")
    description = models.CharField(
        max_length=MAX_DESCRIPTION, blank=True, default="", help_text="What a person wrote for those who cannot see it."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects: ClassVar[models.Manager[Image]] = ImageQuerySet.as_manager()

    class Meta:
        ordering = ["message", "position"]
        constraints = [
            models.UniqueConstraint(fields=["message", "position"], name="image_place_once"),
            models.CheckConstraint(
                condition=Q(position__gte=1, position__lte=MAX_ATTACHMENTS), name="image_place_bounded"
            ),
            models.CheckConstraint(condition=Q(size__gte=1, size__lte=MAX_IMAGE_BYTES), name="image_size_bounded"),
            models.CheckConstraint(
                condition=Q(size=Func(F("content"), function="octet_length", output_field=models.IntegerField())),
                name="image_size_counted",
            ),
            models.CheckConstraint(
                condition=Q(width__gte=1, width__lte=MAX_IMAGE_SIDE, height__gte=1, height__lte=MAX_IMAGE_SIDE),
                name="image_sides_bounded",
            ),
            models.CheckConstraint(condition=~Q(name=""), name="image_has_name"),
            models.CheckConstraint(
                condition=Q(media_type__in=["image/png", "image/jpeg"]), name="image_media_type_known"
            ),
        ]
        indexes = [models.Index(fields=["thread", "-message"], name="image_in_thread")]
        triggers = [
            pgtrigger.ReadOnly(name="image_is_final", exclude=["description"]),
            pgtrigger.Trigger(
                name="stands_in_its_thread",
                operation=pgtrigger.Insert,
                when=pgtrigger.Before,
                func="SELECT thread_id INTO NEW.thread_id FROM chat_message WHERE id = NEW.message_id; RETURN NEW;",
            ),
        ]

    def __str__(self) -> str:
        return self.name
