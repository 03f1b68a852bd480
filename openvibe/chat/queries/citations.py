"""What messages cite, for pages and for the API; and what is asked of messages and files that are cited."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from django.db.models import Exists, OuterRef, Q, Subquery

from openvibe.chat.models import Attachment, Image, Message
from openvibe.chat.wiring import CITATIONS, Citation
from openvibe.workspaces.access import Access


def read_citations(messages: Sequence[Message], access: Access) -> Mapping[int, Sequence[Citation]]:
    """What these messages cite and the asker may see, by message id. One query, none where no agent
    wrote."""
    ids = [message.pk for message in messages if message.author.is_agent and not message.is_deleted]
    citations: dict[int, Sequence[Citation]] = {}
    for read in CITATIONS if ids else ():
        citations |= read(ids, access)
    return citations


def is_message_seen(access: Access) -> Exists:
    """The condition that the asker sees the row's `message`."""
    return Exists(Message.objects.visible_to(access).filter(pk=OuterRef("message")).order_by())


def file_name(message: str, ref: str) -> Subquery:
    """The name of the file of a row's message, by the columns that name both; empty once it is gone."""
    files = Attachment.objects.filter(pk=OuterRef(ref), message=OuterRef(message)).order_by()
    return Subquery(files.values("name")[:1])


def image_name(message: str, ref: str) -> Subquery:
    """The same for an image."""
    images = Image.objects.filter(pk=OuterRef(ref), message=OuterRef(message)).order_by()
    return Subquery(images.values("name")[:1])


def file_names(ids: Collection[int]) -> dict[int, str]:
    """Names of files, by id. One query, none without ids."""
    return dict(Attachment.objects.filter(pk__in=ids).order_by().values_list("pk", "name")) if ids else {}


def image_names(ids: Collection[int]) -> dict[int, str]:
    """Names of images, by id. One query, none without ids."""
    return dict(Image.objects.filter(pk__in=ids).order_by().values_list("pk", "name")) if ids else {}


class NumberedMessage(NamedTuple):
    pk: int
    thread_id: int
    seq: int
    author: str


def numbered_messages(places: Iterable[tuple[int, int]], workspace_id: int) -> list[NumberedMessage]:
    """The messages that are not deleted with these numbers, each a thread and a `seq`. One query, none without
    places."""
    is_there = Q()
    for thread_id, seq in sorted(places):
        is_there |= Q(thread=thread_id, seq=seq)
    if not is_there:
        return []
    rows = Message.objects.filter(is_there, thread__workspace=workspace_id, deleted_at=None).order_by()
    return list(map(NumberedMessage._make, rows.values_list("pk", "thread_id", "seq", "author__name")))


def messages_of_files(ids: Collection[int], thread_id: int) -> dict[int, int]:
    """The messages that files of a thread came with, and of the one it started from, by the files' ids. One query, none
    without ids."""
    is_here = Q(thread=thread_id) | Q(message__dives_from_here__thread=thread_id)
    files = Attachment.objects.filter(is_here, pk__in=ids).order_by()
    return dict(files.values_list("pk", "message_id")) if ids else {}


def messages_by(participant_id: int, ids: Collection[int]) -> set[int]:
    """Those of the messages that somebody wrote. One query, none without ids."""
    messages = Message.objects.filter(pk__in=ids, author=participant_id).order_by()
    return set(messages.values_list("pk", flat=True)) if ids else set()
