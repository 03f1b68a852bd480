"""What people said in a thread since one of its messages, as a prompt is told of it."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from openvibe.chat.models import Attachment, Image, Mention, Message
from openvibe.engines.database.compiled_queries import CompiledQuery, array_literal, row_columns

MEMBER, AGENT = "member", "agent"  # kinds of participants
MAX_MESSAGES, MAX_FILE_NAMES = 30, 5
"""The most messages that are read at once, the oldest first, and files of one that are named with it, images too."""


class MessageSaid(NamedTuple):
    """A message of a person, and the names of what came with it."""

    pk: int
    seq: int
    kind: str
    body: str
    token_count: int
    created_at: datetime
    state: str
    author_id: int
    author: str
    author_kind: str
    file_names: list[str]
    image_names: list[str]


_COLUMNS = row_columns(MessageSaid, author="author__label", author_kind="author__kind")


def said_since(thread_id: int, after_seq: int, *, to: int | None) -> list[MessageSaid]:
    """What people said after message `after_seq`, the oldest first, but what names other agents than participant `to`
    alone; None: all of it. One query."""
    rows = _since.rows(thread_id, after_seq) if to is None else _since_to.rows(thread_id, after_seq, to)
    return list(map(MessageSaid._make, rows))


def count_said_since(thread_id: int, after_seq: int, *, to: int | None) -> int:
    """How much that is, without a limit. One query."""
    rows = _count.rows(thread_id, after_seq) if to is None else _count_to.rows(thread_id, after_seq, to)
    return sum(count for (count,) in rows)


def said_messages(message_ids: Iterable[int]) -> list[MessageSaid]:
    """Those of these messages that still stand, as they are now. One query."""
    return list(map(MessageSaid._make, _by_id.rows(array_literal(message_ids))))


def has_deleted(message_ids: Iterable[int]) -> bool:
    """Whether any of these messages was deleted. One query."""
    return Message.objects.filter(pk__in=message_ids, deleted_at__isnull=False).exists()


def _said() -> QuerySet[Message]:
    """What people said, as prompts may hold it."""
    said = Message.objects.filter(kind=Message.Kind.TEXT, author__kind=MEMBER, deleted_at=None)
    return said.filter(state=Message.State.COMPLETE).exclude(body="").order_by("seq")


def _is_said_to(participant_id: int) -> Q:
    named = Mention.objects.filter(message=OuterRef("pk")).order_by()
    agents = named.filter(participant__kind=AGENT)
    return Q(Exists(named.filter(participant=participant_id))) | ~Q(Exists(agents))


def _rows(messages: QuerySet[Message]) -> QuerySet[Any, Any]:
    files = Attachment.objects.filter(message=OuterRef("pk")).order_by("pk").values("name")[:MAX_FILE_NAMES]
    images = Image.objects.filter(message=OuterRef("pk")).order_by("pk").values("name")[:MAX_FILE_NAMES]
    named = messages.annotate(file_names=ArraySubquery(files), image_names=ArraySubquery(images))
    return named.values_list(*_COLUMNS)


def _counts(messages: QuerySet[Message]) -> QuerySet[Any, Any]:
    return messages.order_by().values("thread").annotate(count=Count("pk")).values_list("count")


@CompiledQuery
def _since(thread_id: int, after_seq: int) -> QuerySet[Any, Any]:
    return _rows(_said().filter(thread=thread_id, seq__gt=after_seq))[:MAX_MESSAGES]


@CompiledQuery
def _since_to(thread_id: int, after_seq: int, participant_id: int) -> QuerySet[Any, Any]:
    said = _said().filter(_is_said_to(participant_id), thread=thread_id, seq__gt=after_seq)
    return _rows(said)[:MAX_MESSAGES]


@CompiledQuery
def _count(thread_id: int, after_seq: int) -> QuerySet[Any, Any]:
    return _counts(_said().filter(thread=thread_id, seq__gt=after_seq))


@CompiledQuery
def _count_to(thread_id: int, after_seq: int, participant_id: int) -> QuerySet[Any, Any]:
    return _counts(_said().filter(_is_said_to(participant_id), thread=thread_id, seq__gt=after_seq))


@CompiledQuery
def _by_id(ids: int) -> QuerySet[Any, Any]:
    return _rows(_said().filter(pk__any_of=ids))
