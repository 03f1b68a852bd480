"""What a reader has seen, and what they were typing."""

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest

from openvibe.base.models import emit
from openvibe.base.problems import Problem
from openvibe.chat.models import Draft, ReadMarker, Thread
from openvibe.chat.text import MAX_BODY_CHARACTERS
from openvibe.workspaces.access import Access


def _told(thread: Thread, by: Access) -> None:
    emit("read_changed", workspace_id=thread.workspace_id, channel_id=thread.channel_id,
         thread_id=thread.pk, participant_id=by.participant_id)  # fmt: skip


@transaction.atomic
def mark_read(*, thread: Thread, by: Access, seq: int) -> int:
    """Everything up to `seq` is read. Never moves backwards, never past the last message. Returns the marker."""
    seq = max(0, min(seq, thread.last_seq))
    marker, made = ReadMarker.objects.get_or_create(
        thread=thread, participant_id=by.participant_id, defaults={"last_read_seq": seq}
    )
    if not made and marker.last_read_seq >= seq:
        return marker.last_read_seq
    if not made:
        ReadMarker.objects.filter(pk=marker.pk).update(last_read_seq=Greatest(F("last_read_seq"), seq))
    _told(thread, by)
    return seq


@transaction.atomic
def mark_unread_from(*, thread: Thread, by: Access, seq: int) -> int:
    """The message `seq` and all after it count as unread again."""
    seq = max(1, min(seq, thread.last_seq))
    ReadMarker.objects.update_or_create(
        thread=thread, participant_id=by.participant_id, defaults={"last_read_seq": seq - 1}
    )
    _told(thread, by)
    return seq - 1


def save_draft(*, thread: Thread, by: Access, body: str) -> None:
    """Keep what stands in the composer; an empty text removes the draft."""
    body = body.replace("\x00", "")
    if len(body) > MAX_BODY_CHARACTERS:
        raise Problem(
            f"A draft holds at most {MAX_BODY_CHARACTERS:,} characters; the last saved version is kept.",
            code="too_long",
            field="body",
        )
    if not body.strip():
        Draft.objects.filter(thread=thread, participant_id=by.participant_id).delete()
        return
    Draft.objects.update_or_create(thread=thread, participant_id=by.participant_id, defaults={"body": body})
