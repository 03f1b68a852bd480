"""Reads of direct messages: whom somebody may write to, and her conversation with them."""

from __future__ import annotations

from django.db.models import QuerySet

from openvibe.base.problems import Missing
from openvibe.chat.models import Thread, participants_known_to
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant
from openvibe.workspaces.queries import name_like


def list_recipients(access: Access, words: str = "") -> QuerySet[Participant]:
    """The people and agents whom the asker may write to: people and agents she knows, without herself, by name; with
    words, who has them in name or handle."""
    return participants_known_to(access).exclude(pk=access.participant_id).filter(name_like(words))


def access_recipient(by: Access, participant_id: int) -> Participant:
    """An active person or agent that the asker knows, other than herself. Raises Missing."""
    recipient = participants_known_to(by).exclude(pk=by.participant_id).filter(pk=participant_id).first()
    if recipient is None:
        raise Missing
    return recipient


def find_direct_thread(*, by: Access, participant_id: int) -> Thread | None:
    """The conversation of the asker with somebody, whether they are still there or not; None when there is none yet."""
    thread: Thread | None = Thread.objects.direct_between(by.participant_id, participant_id).first()
    return thread
