"""What knowledge plugs into lower floors: message decorators, sidebar counts, inbox notes, vectors, chat's signal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, QuerySet, When
from django.dispatch import receiver
from django.urls import reverse
from django.utils import timezone

from knowledge.maintenance import flag_entries_without_source
from knowledge.models import LIVE_STATUSES, Entry, Notice
from knowledge.queries import entries_to_review, open_contradictions
from knowledge.quotes import ENTRY_QUOTES
from knowledge.search import ENTRY_VECTORS
from knowledge.services.create import PUBLISHED_KEY
from knowledge.services.validation import may_manage
from openvibe.chat.models import Message
from openvibe.chat.queries import AccessQuery
from openvibe.chat.wiring import (
    INBOX_NOTES,
    LINK_KINDS,
    MESSAGE_DECORATORS,
    PERSON_EXTRAS,
    PERSONAL_MESSAGE_VIEWS,
    PLACE_SOURCES,
    QUOTE_KINDS,
    SIDEBAR_EXTRAS,
    InboxNote,
    LinkKind,
    LinkPreview,
    Place,
    PlaceQuery,
    message_revised,
)
from openvibe.engines.database.compiled_queries import array_literal
from openvibe.engines.search.indexing import VECTOR_TABLES
from openvibe.engines.search.lexeme_fields import matches_tsquery
from openvibe.engines.text.markdown import plain_text
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

MAX_INBOX_NOTES = 5  # the newest, beside the way to all there is to review
MAX_SIDEBAR_COUNT = 100
MAX_CARD_PINS = 3
PREVIEW_CHARACTERS = 160
_NOTICE_TEXTS = {
    "expired": "expired. Renew it, or let it go.",
    "contradiction": "may contradict another entry. Say what holds.",
    "wrong": "was said to be wrong. Mend it, or let it go.",
    "source_gone": "was made from something that was deleted. Say whether it still holds.",
    "unused": "was archived: nobody used it for 90 days. Bring it back if it is needed.",
    "asked": "needs a review.",
    "proposed": "was suggested. Accept or reject it.",
}


def wire() -> None:
    MESSAGE_DECORATORS.add(pins_by_message)
    PERSONAL_MESSAGE_VIEWS.add(pin_keepers)
    SIDEBAR_EXTRAS.add(sidebar_counts)
    PERSON_EXTRAS.add(latest_pins)
    INBOX_NOTES.add(inbox_notes)
    PLACE_SOURCES.add(entry_places)
    LINK_KINDS.add(LinkKind("knowledge", entry_previews))
    VECTOR_TABLES.add(ENTRY_VECTORS)
    QUOTE_KINDS.add(ENTRY_QUOTES)


@dataclass(frozen=True)
class EntryPin:
    """An entry made from a message, accepted by somebody or only proposed. Rendered messages are cached by it."""

    entry_id: int
    topic: str
    is_proposed: bool
    is_question: bool = False
    """Whether it is what an agent asks after publishing: should this be knowledge?"""


def pins_by_message(messages: Sequence[Message], access: Access) -> dict[int, dict[str, object]]:
    """`pins` for messages that stand in knowledge the asker may read. One query."""
    ids = [message.id for message in messages if not message.is_deleted]
    if not ids or access.knowledge == "none":
        return {}
    pins_by_id: dict[int, tuple[EntryPin, ...]] = {}
    for pk, topic, message_id, status, client_id in _live_pins.rows(access, array_literal(ids)):
        is_proposed = status == Entry.Status.PROPOSED
        pin = EntryPin(pk, topic, is_proposed, is_proposed and client_id.startswith(PUBLISHED_KEY))
        pins_by_id[message_id] = (*pins_by_id.get(message_id, ()), pin)
    return {message_id: {"pins": pins} for message_id, pins in pins_by_id.items()}


@AccessQuery
def _live_pins(access: Access, ids: int) -> QuerySet[Any, Any]:
    entries = Entry.objects.visible_to(access).filter(source_message__id__any_of=ids, status__in=LIVE_STATUSES)
    return entries.order_by("id").values_list("pk", "topic", "source_message_id", "status", "client_id")


def pin_keepers(messages: Sequence[Message]) -> dict[int, set[int]]:
    """The participants who wrote or own the restricted entries made from each message: they see them whatever their
    role. One query."""
    entries = Entry.objects.filter(source_message__in=messages, visibility=Entry.Visibility.RESTRICTED)
    keepers: defaultdict[int, set[int]] = defaultdict(set)
    for message_id, *people in entries.order_by().values_list("source_message_id", "author_id", "owner_id"):
        keepers[message_id].update(filter(None, people))
    return keepers


def sidebar_counts(access: Access) -> dict[str, object]:
    """`to_review`: how many decisions wait that the asker may take; `notices`: how many the owner has not seen.

    More than a hundred to review are "100+", as many notices are counted as a hundred. One query.
    """
    if not may_manage(access):
        return {"to_review": 0, "notices": 0}
    entries, pairs, notices = _waiting_ids.rows(access)[0]
    count = len(entries) + len(pairs)
    to_review = count if count <= MAX_SIDEBAR_COUNT else f"{MAX_SIDEBAR_COUNT}+"
    return {"to_review": to_review, "notices": min(len(notices), MAX_SIDEBAR_COUNT)}


@AccessQuery
def _waiting_ids(access: Access) -> QuerySet[Any, Any]:
    queues = entries_to_review(access, timezone.now()), open_contradictions(access), _unseen_notices(access)
    ids = [ArraySubquery(rows.order_by().values("pk")[: MAX_SIDEBAR_COUNT + 1]) for rows in queues]
    return Participant.objects.filter(pk=access.participant_id).values_list(*ids)


@dataclass(frozen=True)
class LatestPin:
    """An entry that somebody wrote or pinned."""

    pk: int
    topic: str
    at: datetime


def latest_pins(who: Participant, access: Access) -> dict[str, object]:
    """`pins`: the newest MAX_CARD_PINS entries in use that somebody pinned or wrote and the asker may read. One query,
    none for askers without knowledge."""
    if access.knowledge == "none":
        return {"pins": ()}
    entries = Entry.objects.visible_to(access).filter(author=who, status=Entry.Status.ACTIVE)
    rows = entries.order_by("-id").values_list("pk", "topic", "created_at")[:MAX_CARD_PINS]
    return {"pins": [LatestPin(*row) for row in rows]}


def entry_previews(access: Access, ids: Sequence[int]) -> dict[int, LinkPreview]:
    """What links to entries say, of those the asker may read. One query."""
    rows = Entry.objects.visible_to(access).filter(pk__in=ids).select_related("author")
    return {
        row.pk: LinkPreview(
            row.topic, row.author.label, plain_text(row.content)[:PREVIEW_CHARACTERS], row.decided_at or row.created_at
        )
        for row in rows
    }


def inbox_notes(access: Access) -> list[InboxNote]:
    """What needs the asker as an owner, the newest first. One query."""
    return [
        InboxNote(
            href=reverse("knowledge-entry", args=[slug, entry_id]),
            text=f"“{topic}” {_NOTICE_TEXTS.get(reason, _NOTICE_TEXTS['asked'])}",
            at=created_at,
        )
        for slug, entry_id, topic, reason, created_at in _notice_rows.rows(access)
    ]


@AccessQuery
def _notice_rows(access: Access) -> QuerySet[Any, Any]:
    columns = ("entry__workspace__slug", "entry_id", "entry__topic", "reason", "created_at")
    return _unseen_notices(access).values_list(*columns)[:MAX_INBOX_NOTES]


def _unseen_notices(access: Access) -> QuerySet[Notice]:
    """The asker's notices of entries they may still read."""
    unseen = Notice.objects.filter(participant_id=access.participant_id, seen_at=None)
    return unseen.filter(entry__in=Entry.objects.visible_to(access).order_by().values("pk"))


def entry_places(access: Access, query: PlaceQuery) -> list[Place]:
    """Entries in use or waiting whose topic is asked for, the recent ones first. One query, none without words or
    recent entries."""
    recent = query.recent_ids("k")
    if not (query.like_patterns or recent):
        return []
    entries = Entry.objects.visible_to(access).filter(status__in=LIVE_STATUSES)
    if query.like_patterns:
        entries = entries.filter(matches_tsquery("search", query.tsquery))
        entries = entries.order_by(Case(When(pk__in=recent, then=0), default=1), "-use_count", "-pk")
    else:
        entries = entries.filter(pk__in=recent)
    rows = entries.values_list("pk", "topic")[: query.limit]
    return [
        Place(f"k{pk}", topic, "Knowledge", reverse("knowledge-entry", args=[query.slug, pk])) for pk, topic in rows
    ]


@receiver(message_revised, dispatch_uid="knowledge.source_gone")
def on_message_revised(sender: type[Message], message: Message, **_: Any) -> None:
    if message.is_deleted:
        flag_entries_without_source(message=message)
