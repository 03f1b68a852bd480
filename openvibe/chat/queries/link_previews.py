"""What a link to something of OpenVibe's own says, to whom may see it. Asked for by the page that shows the link, so
that the HTML of a message stays the same for all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Q
from django.db.models.functions import Left

from openvibe.base.params import MAX_ID
from openvibe.chat.models import Attachment, Image, Message, Thread
from openvibe.chat.queries.thread_lists import PREVIEW_CHARACTERS, message_preview
from openvibe.chat.wiring import LINK_KINDS, LinkPreview
from openvibe.workspaces.access import Access

MAX_LINKS = 50
"""The most links of one page that are shown with a preview."""
_REFERENCE = re.compile(r"([a-z]+)-([0-9]{1,18})(?:-([0-9]{1,18}))?")


@dataclass(frozen=True)
class _Reference:
    text: str
    kind: str
    pk: int
    seq: int | None


def read_link_previews(access: Access, references: Sequence[str]) -> dict[str, LinkPreview]:
    """The previews of what the asker may see, by reference (`thread-12`, `thread-12-3` for its message 3, `message-34`,
    `file-6`, `image-7`, `knowledge-5`); what is no reference, or not hers to see, is left out. One query a kind."""
    parsed_references = [_parse(text) for text in dict.fromkeys(references[:MAX_LINKS])]
    links = [one for one in parsed_references if one is not None]
    previews = _thread_previews(access, [one for one in links if one.kind == "thread" and one.seq is None])
    previews |= _message_previews(access, [one for one in links if one.kind == "message" or one.seq is not None])
    previews |= _file_previews(access, [one for one in links if one.kind == "file"])
    previews |= _image_previews(access, [one for one in links if one.kind == "image"])
    for kind in LINK_KINDS:
        text_by_pk = {one.pk: one.text for one in links if one.kind == kind.name}
        if text_by_pk:
            previews |= {text_by_pk[pk]: preview for pk, preview in kind.read(access, list(text_by_pk)).items()}
    return previews


def _parse(text: str) -> _Reference | None:
    match = _REFERENCE.fullmatch(text)
    if match is None:
        return None
    return _Reference(text, match[1], min(int(match[2]), MAX_ID), int(match[3]) if match[3] else None)


def _thread_previews(access: Access, references: Sequence[_Reference]) -> dict[str, LinkPreview]:
    if not references:
        return {}
    rows = Thread.objects.visible_to(access).filter(pk__in=[one.pk for one in references])
    threads: Mapping[int, Thread] = {row.pk: row for row in rows.select_related("channel", "created_by")}
    return {
        one.text: LinkPreview(
            title=thread.title, author=thread.created_by.label if thread.created_by else "", words=str(thread.channel)
        )
        for one in references
        if (thread := threads.get(one.pk)) is not None
    }


def _message_previews(access: Access, references: Sequence[_Reference]) -> dict[str, LinkPreview]:
    if not references:
        return {}
    is_referenced = Q(pk__in=[one.pk for one in references if one.kind == "message"])
    for one in references:
        if one.seq is not None and one.kind == "thread":
            is_referenced |= Q(thread_id=one.pk, seq=one.seq)
    rows = Message.objects.visible_to(access).filter(is_referenced).annotate(words=Left("body", 400))
    columns = ("pk", "thread_id", "seq", "thread__title", "author__label", "words", "kind", "state", "deleted_at")
    previews: dict[tuple[int, ...], LinkPreview] = {}
    for pk, thread_id, seq, title, author, words, kind, state, deleted_at, at in rows.order_by().values_list(
        *columns, "created_at"
    ):
        said = message_preview(words, kind, state, is_deleted=deleted_at is not None)
        preview = LinkPreview(title, author, said, at)
        previews[pk,] = previews[thread_id, seq] = preview
    keys = {one.text: (one.pk,) if one.kind == "message" else (one.pk, one.seq or 0) for one in references}
    return {text: previews[key] for text, key in keys.items() if key in previews}


def _file_previews(access: Access, references: Sequence[_Reference]) -> dict[str, LinkPreview]:
    """A file's name, who attached it and when, and what it begins with."""
    if not references:
        return {}
    rows = Attachment.objects.visible_to(access).filter(pk__in=[one.pk for one in references]).order_by()
    columns = rows.values_list("pk", "name", "message__author__label", Left("extract", 400), "message__created_at")
    previews = {
        pk: LinkPreview(name, author, " ".join(words.split())[:PREVIEW_CHARACTERS], at)
        for pk, name, author, words, at in columns
    }
    return {one.text: previews[one.pk] for one in references if one.pk in previews}


def _image_previews(access: Access, references: Sequence[_Reference]) -> dict[str, LinkPreview]:
    if not references:
        return {}
    rows = Image.objects.visible_to(access).filter(pk__in=[one.pk for one in references]).order_by()
    columns = rows.values_list("pk", "name", "message__author__label", "description", "message__created_at")
    previews = {
        pk: LinkPreview(name, author, words[:PREVIEW_CHARACTERS], at) for pk, name, author, words, at in columns
    }
    return {one.text: previews[one.pk] for one in references if one.pk in previews}
