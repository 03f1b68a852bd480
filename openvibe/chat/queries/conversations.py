"""Reads of conversations: querysets, pages, and `access_*` lookups. Every one starts from what the asker may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any, TypeVar

from django.contrib.postgres.aggregates import ArrayAgg
from django.contrib.postgres.expressions import ArraySubquery
from django.db import models
from django.db.models import Exists, F, FilteredRelation, Func, Min, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, JSONObject
from django.utils import timezone

from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing
from openvibe.chat.attachments import Excerpt, cut_excerpt, find_text
from openvibe.chat.models import (
    AccessQuery,
    Attachment,
    Channel,
    Dive,
    Image,
    Mention,
    Message,
    NotificationPreference,
    Reaction,
    ReadMarker,
    SavedMessage,
    StoredFile,
    Thread,
)
from openvibe.chat.pages import PagedText, paged_text
from openvibe.engines.llm.offline.drafts import EXTRACTED_NOTE, ResultDraft, extract_draft, parse_draft
from openvibe.engines.search.expressions import parse_expression
from openvibe.engines.search.lexeme_fields import matches_tsquery
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

Row = TypeVar("Row", bound=models.Model)
ATTACHMENT_FIELDS = (
    *("id", "name", "media_type", "format", "size", "token_count", "sha256"),
    *("page_count", "problem", "preview_width", "preview_height"),
)
IMAGE_FIELDS = ("id", "name", "media_type", "width", "height", "size", "sha256", "description")
"""What pages and the API show of a file besides its content."""

MENTION_FIELDS = {"participant_id": "participant_id", "handle": "participant__handle", "note": "note"}

MAX_REACTION_NAMES = 10
"""The number of those who put one emoji on a message, with the message; `Reaction` has all."""

HIT_START, HIT_END = "\ue000", "\ue001"
"""The marks around the words a search found: private-use characters, so that the text can be escaped before they are
replaced."""


def messages_mentioning(access: Access) -> QuerySet[Message]:
    """Messages outside dives, which are between two, that name the asker, newest first, with `unseen`."""
    messages: QuerySet[Message] = Message.objects.visible_to(access)
    read_markers = ReadMarker.objects.filter(
        thread=OuterRef("thread"), participant_id=access.participant_id, last_read_seq__gte=OuterRef("seq")
    )
    return (
        messages.filter(mentions__participant_id=access.participant_id, deleted_at=None, thread__parent=None)
        .annotate(unseen=~Exists(read_markers))
        .select_related("thread__channel", "author__agent")
        .order_by("-id")
    )


def saved_messages(access: Access) -> QuerySet[Message]:
    """Messages the asker saved and may still see, the last saved first, with `saved_id` and `saved_at`."""
    own = FilteredRelation("saved", condition=Q(saved__participant_id=access.participant_id))
    messages = Message.objects.visible_to(access).annotate(own=own).filter(own__isnull=False)
    return messages.annotate(saved_id=F("own__id"), saved_at=F("own__created_at")).order_by("-saved_id")


def token_owners(access: Access) -> QuerySet[Participant]:
    """The participants whose tokens an admin manages: her own, and those of agents that read no private channel she is
    not in, because a token of an agent opens what the agent reads. What people write to an agent directly counts as no
    such channel: else nobody could manage the tokens of an agent that two people write to."""
    if not access.administers:
        return Participant.objects.none()
    participants = Participant.objects.filter(workspace_id=access.workspace_id, is_active=True)
    closed = Channel.objects.filter(workspace_id=access.workspace_id, is_private=True, first_participant=None)
    closed = closed.exclude(participants=access.participant_id)
    agents = Q(kind=Participant.Kind.AGENT)
    return participants.filter(agents | Q(pk=access.participant_id)).exclude(agents, channels__in=closed)


def with_last_read_seq(threads: QuerySet[Thread], access: Access) -> QuerySet[Thread]:
    """Threads with how far the asker has read each, 0 for not at all."""
    marker = ReadMarker.objects.filter(thread=OuterRef("pk"), participant_id=access.participant_id)
    return threads.annotate(last_read_seq=Coalesce(Subquery(marker.values("last_read_seq")), 0))


def with_authors_and_mentions(messages: QuerySet[Message]) -> QuerySet[Message]:
    """Messages with author and level, in `mentioned` whom they name, in `attached` the files, in `pictured` the images,
    in `reacted` the emoji and in `savers` who saved them: all in the one query."""
    mentions = Mention.objects.filter(message=OuterRef("pk")).order_by("id")
    files = Attachment.objects.filter(message=OuterRef("pk")).order_by("position")
    images = Image.objects.filter(message=OuterRef("pk")).order_by("position")
    return messages.select_related("author__agent").annotate(
        **{
            "mentioned": ArraySubquery(mentions.values(row=JSONObject(**MENTION_FIELDS))),
            "savers": ArraySubquery(SavedMessage.objects.filter(message=OuterRef("pk")).values("participant_id")),
            "reacted": ArraySubquery(_emoji_of_message()),
            "attached": ArraySubquery(files.values(row=JSONObject(**_attachment_values()))),
            "pictured": ArraySubquery(images.values(row=JSONObject(**{name: name for name in IMAGE_FIELDS}))),
        }
    )


def _attachment_values() -> dict[str, Any]:
    """What messages say of a file; `file_size` in bytes as it came."""
    return {**{name: name for name in ATTACHMENT_FIELDS}, "file_size": Coalesce("original__size", "size")}


def _emoji_of_message() -> QuerySet[Any, Any]:
    """Each emoji of a message, once: who put it there, and the names of the first of them."""
    names = ArrayAgg("participant__label", order_by="id")
    values = {
        "emoji": F("emoji"),
        "people": ArrayAgg("participant_id", order_by="id"),
        "names": Func(names, template=f"(%(expressions)s)[1:{MAX_REACTION_NAMES}]"),
    }
    by_emoji = Reaction.objects.filter(message=OuterRef("pk")).values("emoji").annotate(first=Min("id"))
    return by_emoji.annotate(row=JSONObject(**values)).order_by("first").values("row")


def list_messages(
    access: Access,
    thread_id: int,
    *,
    after_seq: int = 0,
    before_seq: int = MAX_ID,
    limit: int,
    newest_first: bool = False,
) -> list[Message]:
    """Messages of a thread between two places, with authors and mentions. Empty where the asker does not see it."""
    return _messages_between.objects(access, thread_id, after_seq, before_seq, limit=limit, newest_first=newest_first)


@AccessQuery
def _messages_between(
    access: Access, thread_id: int, after_seq: int, before_seq: int, *, limit: int, newest_first: bool
) -> QuerySet[Message]:
    messages = with_authors_and_mentions(Message.objects.visible_to(access))
    between = messages.filter(thread_id=thread_id, seq__gt=after_seq, seq__lt=before_seq)
    return between.defer("search").order_by("-seq" if newest_first else "seq")[:limit]


@dataclass(frozen=True)
class MessagePage:
    """A stretch of a thread: `rows` in order, `before` the message just ahead of them (None at the start)."""

    rows: list[Message]
    before: Message | None
    has_newer: bool


def message_page(
    thread: Thread,
    access: Access,
    *,
    before_seq: int | None = None,
    after_seq: int | None = None,
    around_seq: int | None = None,
    size: int = 50,
) -> MessagePage:
    """The newest `size` messages, or those before, after or around a place. One query for the messages."""
    read_messages = partial(list_messages, access, thread.pk, limit=size + 1)
    if around_seq is not None:
        first = max(1, around_seq - size // 2)
        window = read_messages(after_seq=first - 2, before_seq=first + size)
    elif after_seq is not None:
        first = after_seq + 1
        window = read_messages(after_seq=after_seq - 1)
    else:
        window = read_messages(before_seq=MAX_ID if before_seq is None else before_seq, newest_first=True)[::-1]
        first = window[1].seq if len(window) > size else 1
    before = next((m for m in window if m.seq < first), None)
    rows = [m for m in window if m.seq >= first]
    return MessagePage(rows, before, bool(rows) and rows[-1].seq < thread.last_seq)


def search_messages(
    access: Access,
    words: str,
    *,
    channel_id: int | None = None,
    thread_id: int | None = None,
    author: str = "",
    kind: str = "",
    since: date | None = None,
    until: date | None = None,
) -> QuerySet[Message]:
    """Messages that hold all the words, in the syntax of search expressions, newest first. `since` and `until` are the
    first and the last day."""
    messages: QuerySet[Message] = Message.objects.visible_to(access).filter(deleted_at=None)
    filters: dict[str, Any] = {
        "thread__channel_id": channel_id,
        "thread_id": thread_id,
        "kind": kind or None,
        "created_at__gte": since and day_start(since),
        "created_at__lt": until and day_start(until + timedelta(days=1)) if until != date.max else None,
    }
    if handle := author.lstrip("@").lower():  # a number, not a join: an index then gives the author's newest
        author_ids = Participant.objects.filter(workspace_id=access.workspace_id, handle=handle).values("pk")
        filters["author_id"] = Subquery(author_ids[:1])
    messages = messages.filter(**{name: value for name, value in filters.items() if value is not None})
    if words:
        tsquery = parse_expression(words).all_words
        messages = messages.filter(matches_tsquery("search", tsquery)) if tsquery else messages.none()
    return messages.select_related("thread__channel", "author__agent").order_by("-created_at", "-id")


def day_start(day: date) -> datetime:
    """The beginning of the day in the zone of the request."""
    return timezone.make_aware(datetime.combine(day, time.min))


def _one_or_missing(rows: Sequence[Row]) -> Row:
    if not rows:
        raise Missing
    return rows[0]


def access_channel(access: Access, channel_id: int) -> Channel:
    """The channel with `notify_level`: what the asker chose to be notified of in it, empty where nothing."""
    rows: list[Channel] = _channel_by_id.objects(access, min(channel_id, MAX_ID))
    return _one_or_missing(rows)


@AccessQuery
def _channel_by_id(access: Access, channel_id: int) -> QuerySet[Channel]:
    preferences = NotificationPreference.objects.filter(channel=OuterRef("pk"), participant_id=access.participant_id)
    channels = Channel.objects.visible_to(access).filter(pk=channel_id)
    return channels.annotate(notify_level=Coalesce(Subquery(preferences.values("level")[:1]), Value("")))


def access_thread(access: Access, thread_id: int) -> Thread:
    """The thread with its channel and `read_seq`: up to where the asker has read, 0 when she never opened it."""
    rows: list[Thread] = _thread_by_id.objects(access, min(thread_id, MAX_ID))
    return _one_or_missing(rows)


def channel_id_of(thread_id: int) -> int | None:
    """The id of the channel that a thread stands in."""
    return Thread.objects.filter(pk=thread_id).order_by().values_list("channel_id", flat=True).first()


@AccessQuery
def _thread_by_id(access: Access, thread_id: int) -> QuerySet[Thread]:
    markers = ReadMarker.objects.filter(thread=OuterRef("pk"), participant_id=access.participant_id)
    threads = Thread.objects.visible_to(access).filter(pk=thread_id)
    read_seq = Coalesce(Subquery(markers.values("last_read_seq")[:1]), 0)
    people = ("channel__first_participant", "channel__second_participant", "created_by")
    return threads.annotate(read_seq=read_seq).select_related("channel", *people)


def access_message(access: Access, message_id: int) -> Message:
    """The message with author, mentions, thread and channel."""
    rows: list[Message] = _message_by_id.objects(access, min(message_id, MAX_ID))
    return _one_or_missing(rows)


@AccessQuery
def _message_by_id(access: Access, message_id: int) -> QuerySet[Message]:
    messages = with_authors_and_mentions(Message.objects.visible_to(access)).filter(pk=message_id)
    return messages.select_related("thread__channel")


def access_attachment(access: Access, attachment_id: int) -> Attachment:
    """The attachment with its content."""
    rows: list[Attachment] = _attachment_by_id.objects(access, min(attachment_id, MAX_ID))
    return _one_or_missing(rows)


@AccessQuery
def _attachment_by_id(access: Access, attachment_id: int) -> QuerySet[Attachment]:
    return Attachment.objects.visible_to(access).filter(pk=attachment_id)


def access_original(access: Access, attachment_id: int) -> StoredFile | None:
    """The file as it came; None where the attachment's content is all of it. Raises Missing where
    the asker sees no such attachment."""
    files = Attachment.objects.visible_to(access).filter(pk=min(attachment_id, MAX_ID))
    if not files.exists():
        raise Missing
    return StoredFile.objects.filter(attachment__in=files).first()


def access_image(access: Access, image_id: int) -> Image:
    """The image with its pixels, its message and thread. Raises Missing for one that the asker does not see."""
    rows: list[Image] = _image_by_id.objects(access, min(image_id, MAX_ID))
    return _one_or_missing(rows)


@AccessQuery
def _image_by_id(access: Access, image_id: int) -> QuerySet[Image]:
    return Image.objects.visible_to(access).filter(pk=image_id).select_related("message__thread__channel")


def attachments_of_thread(access: Access, thread_id: int) -> QuerySet[Attachment]:
    """Files that an agent answering in a thread may read, without content, the newest first: those said in it and, of
    a dive, those of the message it started from."""
    source = Dive.objects.filter(thread=thread_id).values("source")[:1]
    is_seen = Exists(Thread.objects.visible_to(access).filter(pk=thread_id))  # whoever sees a dive sees its source
    files = Attachment.objects.filter(is_seen, Q(thread=thread_id) | Q(message=Subquery(source)))
    return files.filter(message__kind=Message.Kind.TEXT).defer("content").order_by("-message_id", "position")


def has_attachments(access: Access, thread_id: int) -> bool:
    """Whether `attachments_of_thread` gives any."""
    return bool(_any_attachment.rows(access, thread_id))


@AccessQuery
def _any_attachment(access: Access, thread_id: int) -> QuerySet[Any, Any]:
    return attachments_of_thread(access, thread_id).order_by().values_list("pk")[:1]


def read_attachment(
    attachment: Attachment, *, offset: int, limit: int, words: str = "", page: int | None = None
) -> Excerpt:
    """An excerpt of at most `limit` tokens of the file as agents read it, without secrets, from character `offset` on,
    or from where `page` begins; of `words`, from the next line that holds them. Raises Missing where none does, or
    there is no such page."""
    paged = paged_text(attachment.content, attachment.format)
    if page is not None:
        if not 0 < page <= max(len(paged.starts), 1):
            raise Missing(_no_page(attachment, paged, page))
        offset = max(offset, paged.starts[page - 1] if paged.starts else 0)
    place = find_text(paged.text, words, offset) if words else offset
    if place is None:
        raise Missing(f"“{words}” is not in this file from character {offset:,} on.")
    excerpt = cut_excerpt(paged.text, place, limit)
    return replace(excerpt, page=paged.page_at(excerpt.start))


def _no_page(attachment: Attachment, paged: PagedText, page: int) -> str:
    count = len(paged.starts)
    if not count:
        return f"This file has no {paged.word}s by number. Read it by offset."
    return f"There is no {paged.word} {page:,}: of “{attachment.name}” {paged.word}s 1 to {count:,} can be read."


def access_dive(access: Access, dive_id: int) -> Dive:
    """The dive with everything its panel shows."""
    rows: list[Dive] = _dive_by_id.objects(access, min(dive_id, MAX_ID))
    return _one_or_missing(rows)


@AccessQuery
def _dive_by_id(access: Access, dive_id: int) -> QuerySet[Dive]:
    dives = Dive.objects.visible_to(access).filter(pk=dive_id)
    conversations = ("thread__channel", "parent__channel")
    people = ("agent__agent", "started_by", "ended_by", "source__author__agent", "result__dive_result__published_by")
    return dives.select_related(*conversations, *people)


MAX_REPLIES = 8
"""Replies since the draft was asked for: a person may have had it changed since."""
FINISHED_STATES = (Message.State.COMPLETE, Message.State.STOPPED)


@dataclass(frozen=True)
class AgentDraft:
    """What the agent drafted. `request_seq` is the seq of the message that asked for it, None when nobody did.

    `draft` is None while the reply is awaited; `is_extracted` when the reply was no result: sentences picked from it.
    """

    request_seq: int | None = None
    draft: ResultDraft | None = None
    is_extracted: bool = False


def newest_agent_draft(dive: Dive) -> AgentDraft:
    """The newest draft from the replies to the last request for a draft: the newest that is one, else sentences of the
    first."""
    messages = Message.objects.filter(thread_id=dive.thread_id, deleted_at=None)
    request_seq = messages.filter(kind=Message.Kind.SYSTEM).order_by("-seq").values_list("seq", flat=True).first()
    if request_seq is None:
        return AgentDraft()
    replies = messages.filter(
        seq__gt=request_seq, author_id=dive.agent_id, kind=Message.Kind.TEXT, state__in=FINISHED_STATES
    )
    bodies = [body for body in replies.order_by("-seq").values_list("body", flat=True)[:MAX_REPLIES] if body.strip()]
    for body in bodies:
        draft = parse_draft(body)
        if draft is not None:
            return AgentDraft(request_seq, draft)
    if not bodies:
        return AgentDraft(request_seq)
    return AgentDraft(request_seq, extract_draft([("", bodies[-1])], note=EXTRACTED_NOTE), is_extracted=True)


def has_channel(workspace_id: int, name: str, by: Access | None) -> bool:
    """Whether the workspace has a channel of this name that `by` sees (None: at all)."""
    channels = Channel.objects.all() if by is None else Channel.objects.visible_to(by)
    return channels.filter(workspace=workspace_id, name__iexact=name).exists()


def has_thread(workspace_id: int, pk: int, by: Access | None) -> bool:
    """Whether the workspace has this thread and `by` sees it (None: has it at all)."""
    threads = Thread.objects.all() if by is None else Thread.objects.visible_to(by)
    return threads.filter(workspace=workspace_id, pk=min(pk, MAX_ID)).exists()
