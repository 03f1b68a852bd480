"""What a push says, read when it is sent: only what its reader sees then, wants to be told and has not read yet."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten

from django.db.models import F
from django.db.models.functions import Left
from django.urls import reverse
from django.utils import timezone

from openvibe.chat.live.batch import NOTICE_CHARACTERS, EventBatch, EventRow, LiveEvent, make_batch
from openvibe.chat.live.viewers import Viewer, is_notified, refresh_viewers
from openvibe.chat.models import Channel, Message, PushDelivery, ReadMarker
from openvibe.engines.text.markdown import plain_text
from openvibe.engines.text.masking import mask_secrets

MAX_TITLE = 120  # characters
HIDDEN_WORDS = "Open OpenVibe to read it."


@dataclass(frozen=True)
class Push:
    """A delivery, and what its browser is told."""

    delivery: PushDelivery
    payload: bytes
    is_named: bool
    """Whether the message names its reader: such pushes are urgent."""


def make_pushes(deliveries: Sequence[PushDelivery]) -> list[Push]:
    """What may be sent of these, each with its subscription's user; the others are not wanted any more. As many queries
    for many as for one of each workspace.

    Messages are read first, then access: what a push holds was there before any access was taken."""
    messages = _read_messages({delivery.message_id for delivery in deliveries})
    viewers = _read_viewers(deliveries, messages)
    events = _read_events(messages)
    read_seqs = _read_seqs(viewers, messages)
    pushes = []
    for delivery in deliveries:
        message, viewer = messages.get(delivery.message_id), viewers.get(delivery.pk)
        if message is None or viewer is None or viewer.access is None or not _holds(delivery):
            continue
        batch, event = events[message.pk]
        is_read = read_seqs.get((viewer.participant_id, message.thread_id), 0) >= message.seq
        if not is_read and viewer.sees(event) and is_notified(viewer, event, batch):
            is_named = event.message is not None and viewer.participant_id in event.message.named
            payload = _payload(message, shows_private=delivery.subscription.shows_private)
            pushes.append(Push(delivery, payload, is_named))
    return pushes


def _holds(delivery: PushDelivery) -> bool:
    """Whether the password is still the one that the subscription's session was opened with."""
    user = delivery.subscription.user
    return delivery.subscription.auth_hash in (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())


def _read_messages(ids: Collection[int]) -> dict[int, Message]:
    rows = Message.objects.filter(deleted_at=None).annotate(beginning=Left("body", 8 * NOTICE_CHARACTERS))
    rows = rows.annotate(slug=F("thread__channel__workspace__slug"))
    return rows.select_related("author", "thread__channel").defer("body", "search").in_bulk(ids)


def _read_viewers(deliveries: Sequence[PushDelivery], messages: Mapping[int, Message]) -> dict[int, Viewer]:
    viewers = {
        delivery.pk: Viewer(
            messages[delivery.message_id].thread.channel.workspace_id,
            delivery.participant_id,
            session_key=delivery.subscription.session_key,
        )
        for delivery in deliveries
        if delivery.message_id in messages
    }
    if viewers:
        refresh_viewers(viewers.values())
    return viewers


def _read_events(messages: Mapping[int, Message]) -> dict[int, tuple[EventBatch, LiveEvent]]:
    """The news of each message as it is now, as if it were posted now: what waited is as wanted as it was."""
    now = timezone.now()
    events: dict[int, tuple[EventBatch, LiveEvent]] = {}
    for workspace_id in {message.thread.channel.workspace_id for message in messages.values()}:
        rows = [
            EventRow(0, "message_posted", m.thread.channel_id, m.thread_id, m.pk, None, now)
            for m in messages.values()
            if m.thread.channel.workspace_id == workspace_id
        ]
        batch = make_batch(workspace_id, rows)
        events |= {event.message_id: (batch, event) for event in batch.events if event.message_id}
    return events


def _read_seqs(viewers: Mapping[int, Viewer], messages: Mapping[int, Message]) -> dict[tuple[int, int], int]:
    participants = {viewer.participant_id for viewer in viewers.values()}
    markers = ReadMarker.objects.filter(
        participant__in=participants, thread__in={message.thread_id for message in messages.values()}
    )
    rows = markers.order_by().values_list("participant_id", "thread_id", "last_read_seq")
    return {(participant_id, thread_id): seq for participant_id, thread_id, seq in rows}


def _payload(message: Message, *, shows_private: bool) -> bytes:
    """What the service worker (`static/js/service_worker.js`) reads."""
    channel, slug = message.thread.channel, vars(message)["slug"]
    title, body = _hidden_title(channel), HIDDEN_WORDS
    if shows_private or not channel.is_private:
        place = message.author.label if channel.is_direct else f"{message.author.label} · {message.thread.title}"
        title = shorten(place, MAX_TITLE, placeholder=" …")
        words = mask_secrets(plain_text(vars(message)["beginning"]))
        body = shorten(words, NOTICE_CHARACTERS, placeholder=" …")
    said = {
        "title": title[:MAX_TITLE],
        "body": body[:NOTICE_CHARACTERS],
        "tag": f"openvibe-{message.pk}",
        "thread": reverse("thread", args=[slug, message.thread_id]),
        "url": reverse("message", args=[slug, message.pk]),
        "at": int(message.created_at.timestamp() * 1000),
    }
    return json.dumps(said, ensure_ascii=False).encode()


def _hidden_title(channel: Channel) -> str:
    return "A direct message to you" if channel.is_direct else "Something new in a private channel"
