"""Files attached to messages: their text, in rows of their own so that messages stay small, and of what is no plain
text the file itself."""

from __future__ import annotations

import secrets
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
"""Bytes of one file's text, as it is kept (UTF-8)."""

MAX_STORED_BYTES = 25 * 1024 * 1024
"""Bytes of one file that is kept as it came: what an operator may allow at most."""

MAX_PREVIEW_SIDE = 480
"""Pixels of a preview's longer side."""

MAX_PREVIEW_BYTES = 200_000

MAX_PROBLEM = 300
"""Characters of the sentence that says why agents cannot read a file, or all of it."""

PAGE_BREAK = "\f"
"""Stands between the pages of a file's text."""

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
    """A file of a message. It never changes, and is gone when its message is deleted: triggers see to both.

    Of a text file `content` is all of it. Of any other (`original` has it as it came) it is what agents read of it:
    without secrets, its pages apart by PAGE_BREAK, empty where `problem` says why there is nothing.

    Leave `content` out of every query of more than one row: it may have MAX_ATTACHMENT_BYTES.
    """

    class Format(models.TextChoices):
        TEXT = "text", "Text"
        PDF = "pdf", "PDF"
        DOCX = "docx", "Word document"
        PPTX = "pptx", "PowerPoint slides"
        XLSX = "xlsx", "Excel workbook"
        ODT = "odt", "OpenDocument text"
        ODP = "odp", "OpenDocument slides"
        ODS = "ods", "OpenDocument sheets"
        EPUB = "epub", "E-book"
        HTML = "html", "Web page"
        RTF = "rtf", "Rich text"
        OFFICE = "office", "Office file"

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
    media_type = models.CharField(max_length=100, help_text="Of a text guessed from its name; else by what is in it.")
    format = models.CharField(
        max_length=8, choices=Format.choices, default=Format.TEXT, db_default=Format.TEXT, help_text="By what is in it."
    )
    content = models.TextField(blank=True)
    size = models.PositiveIntegerField(help_text="Bytes of the content in UTF-8.")
    page_count = models.PositiveIntegerField(
        null=True, help_text="Pages, slides, sheets or chapters, as the file says; null where it has none."
    )
    problem = models.CharField(
        max_length=MAX_PROBLEM,
        blank=True,
        default="",
        db_default="",
        help_text="Why agents can read nothing of it, or not all.",
    )
    preview_width = models.PositiveSmallIntegerField(default=0, db_default=0, help_text="Pixels; 0 without a preview.")
    preview_height = models.PositiveSmallIntegerField(default=0, db_default=0, help_text="Pixels; 0 without a preview.")
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
                condition=(Q(size__gte=1) | ~Q(problem="")) & Q(size__lte=MAX_ATTACHMENT_BYTES),
                name="attachment_size_bounded",
            ),
            models.CheckConstraint(
                condition=Q(size=Func(F("content"), function="octet_length", output_field=models.IntegerField())),
                name="attachment_size_counted",
            ),
            models.CheckConstraint(condition=~Q(name=""), name="attachment_has_name"),
            models.CheckConstraint(
                condition=Q(token_count__gte=1) | (Q(size=0) & ~Q(problem="")), name="attachment_has_tokens"
            ),
            models.CheckConstraint(
                condition=Q(preview_width__lte=MAX_PREVIEW_SIDE, preview_height__lte=MAX_PREVIEW_SIDE),
                name="attachment_preview_bounded",
            ),
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
            pgtrigger.Trigger(
                name="loses_its_file",
                operation=pgtrigger.Delete,
                when=pgtrigger.Before,
                func=(
                    "DELETE FROM chat_storedfile WHERE attachment_id = OLD.id AND NOT is_elsewhere;"
                    " UPDATE chat_storedfile SET attachment_id = NULL, content = NULL, preview = ''"
                    " WHERE attachment_id = OLD.id;"
                    " RETURN OLD;"
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.name


def new_storage_name() -> str:
    """A name that nobody can guess, in a folder of its first two letters."""
    token = secrets.token_hex(16)
    return f"files/{token[:2]}/{token}"


class StoredFile(models.Model):
    """A file as it came. It comes into the database with its message, in one transaction; where the operator has
    another place for files (`STORAGES["files"]`), a job takes it there, and `is_elsewhere` is so from before it begins
    until the file is deleted there. One without an attachment was deleted, and waits for that.

    Leave `content` and `preview` out of every query of more than a few rows.
    """

    attachment = models.OneToOneField(Attachment, null=True, on_delete=models.SET_NULL, related_name="original")
    name = models.CharField(max_length=100, unique=True, default=new_storage_name, help_text="In the other place.")
    size = models.PositiveIntegerField(help_text="Bytes of the file as it came.")
    sha256 = models.CharField(max_length=64, help_text="Of the file as it came, hexadecimal.")
    content = models.BinaryField(null=True, help_text="Null once it is in the other place.")
    preview = models.BinaryField(blank=True, default=bytes, help_text="WebP; empty for none.")
    is_elsewhere = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects: ClassVar[models.Manager[StoredFile]] = models.Manager()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.CheckConstraint(condition=Q(size__gte=1, size__lte=MAX_STORED_BYTES), name="storedfile_bounded"),
            models.CheckConstraint(
                condition=Q(content=None)
                | Q(size=Func(F("content"), function="octet_length", output_field=models.IntegerField())),
                name="storedfile_size_counted",
            ),
            models.CheckConstraint(
                condition=Q(is_elsewhere=True) | Q(content__isnull=False), name="storedfile_is_somewhere"
            ),
            models.CheckConstraint(
                condition=Q(is_elsewhere=True) | Q(attachment__isnull=False), name="storedfile_belongs_to_a_file"
            ),
        ]
        indexes = [
            models.Index(fields=["id"], name="storedfile_deleted", condition=Q(attachment=None)),
            models.Index(fields=["id"], name="storedfile_here", condition=Q(content__isnull=False)),
        ]
        triggers = [pgtrigger.ReadOnly(name="storedfile_is_final", fields=["name", "size", "sha256"])]

    def __str__(self) -> str:
        return self.name
