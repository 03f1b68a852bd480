"""What other pages show of knowledge: where a message is pinned, what waits for a review, what needs its owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from knowledge.models import LIVING, Entry, Notice
from knowledge.services.revising import may_manage
from knowledge.web.review import open_contradictions, waiting_for
from openvibe.chat.models import Message
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Workspace

NOTICES_SHOWN = 20
COUNTED = 100
_NEEDS = {
    "expired": "expired. Renew it, or let it go.",
    "contradiction": "may contradict another entry. Say what holds.",
    "wrong": "was said to be wrong. Mend it, or let it go.",
    "source_gone": "was made from something that was deleted. Say whether it still holds.",
    "unused": "was archived: nobody used it for 90 days. Bring it back if it is needed.",
    "asked": "needs a review.",
    "proposed": "was suggested. Accept or reject it.",
}


@dataclass(frozen=True)
class Pin:
    """An entry made from a message."""

    entry_id: int
    topic: str


@dataclass(frozen=True)
class InboxNote:
    """A line of the inbox: something that needs the reader, and where."""

    href: str
    text: str
    at: datetime


def pins_of(messages: Sequence[Message], access: Access) -> dict[int, dict[str, object]]:
    """`pins` for messages that stand in knowledge the asker may read. One query."""
    ids = [message.pk for message in messages if not message.is_deleted]
    if not ids or access.knowledge == "none":
        return {}
    found: dict[int, tuple[Pin, ...]] = {}
    entries = Entry.objects.visible_to(access).filter(source_message__in=ids, status__in=LIVING).order_by("id")
    for pk, topic, message_id in entries.values_list("pk", "topic", "source_message_id"):
        found[message_id] = (*found.get(message_id, ()), Pin(pk, topic))
    return {message_id: {"pins": pins} for message_id, pins in found.items()}


def shell_of(access: Access) -> dict[str, object]:
    """`to_review`: how many decisions wait that the asker may take; `notices`: how many the owner has not seen.

    At most a hundred of each are counted. Three queries.
    """
    if not may_manage(access):
        return {"to_review": 0, "notices": 0}
    entries = waiting_for(access, timezone.now()).order_by()[:COUNTED].count()
    pairs = open_contradictions(access).order_by()[:COUNTED].count()
    notices = _unseen(access).order_by()[:COUNTED].count()
    return {"to_review": min(entries + pairs, COUNTED), "notices": notices}


def inbox_of(access: Access) -> list[InboxNote]:
    """What needs the asker as an owner, the newest first. Two queries."""
    slug = Workspace.objects.values_list("slug", flat=True).get(pk=access.workspace_id)
    return [
        InboxNote(
            href=reverse("knowledge-entry", args=[slug, notice.entry_id]),
            text=f"“{notice.entry.topic}” {_NEEDS.get(notice.reason, _NEEDS['asked'])}",
            at=notice.created_at,
        )
        for notice in _unseen(access).select_related("entry")[:NOTICES_SHOWN]
    ]


def _unseen(access: Access) -> QuerySet[Notice]:
    """The asker's notices of entries they may still read."""
    unseen = Notice.objects.filter(participant_id=access.participant_id, seen_at=None)
    return unseen.filter(entry__in=Entry.objects.visible_to(access).order_by().values("pk"))
