"""Services that create and update threads; read markers and drafts of their readers."""

import hashlib
from collections.abc import Iterable

from django.db import IntegrityError, connection, transaction
from django.db.models import Case, F, When
from django.utils import timezone

from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import MAX_PINNED_THREADS, Channel, Dive, Draft, ReadMarker, Thread, visibility_of
from openvibe.chat.services.permissions import check_not_direct, check_not_dive, may_manage_thread
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS, TextRefused, clean_title, text_version
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


def clean_thread_title(title: str) -> str:
    try:
        return clean_title(title)
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="title") from None


def emit_thread_changed(thread: Thread) -> None:
    emit("thread_changed", workspace_id=thread.workspace_id, channel_id=thread.channel_id, thread_id=thread.pk)


@transaction.atomic
def create_thread(
    *,
    channel: Channel,
    by: Access,
    title: str,
    access: str = Thread.Access.OPEN,
    allowed_agents: Iterable[Participant] = (),
    client_id: str = "",
) -> Thread:
    """A new, empty thread. The channel must be visible to `by` and not archived.

    The same `client_id` of the same person is the same thread of the channel, returned as it is."""
    cleaned = clean_thread_title(title)
    if channel.archived_at is not None:
        raise Refused("This channel is archived. Bring it back before writing in it.", code="archived")
    if by.is_agent and access != Thread.Access.OPEN:
        raise Refused("Only people may close a thread to agents.")
    thread = Thread(
        workspace_id=channel.workspace_id,
        channel=channel,
        title=cleaned,
        created_by_id=by.participant_id,
        external_id=form_external_id("thread", client_id, by.participant_id),
    )
    try:
        with transaction.atomic():
            thread.save(force_insert=True)
    except IntegrityError as error:
        existing = (
            Thread.objects.exclude(external_id="").filter(channel=channel, external_id=thread.external_id).first()
        )
        if existing is None:
            raise error from None
        return existing
    if access != Thread.Access.OPEN:
        set_thread_access(thread=thread, by=by, access=access, allowed_agents=allowed_agents)
    emit_thread_changed(thread)
    return thread


def form_external_id(kind: str, client_id: str, *made_by: int) -> str:
    """What a thread that a form made keeps as its `external_id`, without a key nothing: the database allows it once in
    a channel. `made_by`: numbers of what and who made it."""
    if not client_id:
        return ""
    return f"{kind}:{hashlib.sha256(' '.join([*map(str, made_by), client_id]).encode()).hexdigest()}"


@transaction.atomic
def update_thread(*, thread: Thread, by: Access, title: str | None = None, archived: bool | None = None) -> Thread:
    """Renames the thread, its dives with it, or archives it, which unpins it: the person who began it, or an admin."""
    check_not_dive(thread)
    check_not_direct(thread)
    if not may_manage_thread(thread, by):
        raise Refused("Only admins and the person who began a thread may change it.")
    _lock_pins(thread)
    if title is not None:
        thread.title = clean_thread_title(title)
    if archived is not None:
        thread.archived_at = timezone.now() if archived else None
        thread.pin_slot = None if archived else thread.pin_slot
    thread.save(update_fields=["title", "archived_at", "pin_slot", "updated_at"])
    if title is not None:
        for dive in Dive.objects.filter(parent=thread).select_related("agent"):
            Thread.objects.filter(pk=dive.thread_id).update(title=dive_title(dive.agent, thread))
    emit_thread_changed(thread)
    return thread


def dive_title(agent: Participant, parent: Thread) -> str:
    """What the thread of a dive is called: prompts and search show it."""
    return clean_title(f"Dive with @{agent.handle}: {parent.title}")


@transaction.atomic
def pin_thread(*, thread: Thread, by: Access, pinned: bool) -> Thread:
    """Shows the thread first in its channel, or no longer: the person who began it, or an admin. Raises Refused when
    the channel has MAX_PINNED_THREADS, or the thread is archived."""
    check_not_dive(thread)
    if not may_manage_thread(thread, by):
        raise Refused("Only admins and the person who began a thread may pin it.")
    _lock_pins(thread)
    if pinned == (thread.pin_slot is not None):
        return thread
    if pinned and thread.archived_at is not None:
        raise Refused("This thread is archived. Bring it back before you pin it.", code="archived")
    thread.pin_slot = _free_pin_slot(thread) if pinned else None
    thread.save(update_fields=["pin_slot", "updated_at"])
    emit_thread_changed(thread)
    return thread


def _lock_pins(thread: Thread) -> None:
    """The thread's title, place and archive as they are now. They change one at a time in a channel."""
    Channel.objects.select_for_update(no_key=True).get(pk=thread.channel_id)
    thread.refresh_from_db(fields=["title", "pin_slot", "archived_at"])


def _free_pin_slot(thread: Thread) -> int:
    """The channel's lowest free place, its row locked."""
    pinned = Thread.objects.filter(channel=thread.channel_id, pin_slot__isnull=False)
    free = set(range(1, MAX_PINNED_THREADS + 1)) - set(pinned.values_list("pin_slot", flat=True))
    if not free:
        message = f"A channel has at most {MAX_PINNED_THREADS} pinned threads. Unpin another first."
        raise Refused(message, code="too_many_pinned")
    return min(free)


@transaction.atomic
def set_thread_access(*, thread: Thread, by: Access, access: str, allowed_agents: Iterable[Participant] = ()) -> Thread:
    """Says which agents may know of the thread. Holds from the very next prompt on."""
    check_not_dive(thread)
    check_not_direct(thread)
    if not may_manage_thread(thread, by):
        raise Refused("Only admins and the person who began a thread may change who reads it.")
    if access not in Thread.Access.values:
        raise Problem("Choose open, human_only or agent_restricted.", code="bad_access", field="access")
    agents = [a for a in allowed_agents if a.is_agent and a.workspace_id == thread.workspace_id]
    Thread.objects.select_for_update(no_key=True).filter(pk=thread.pk).first()
    thread.access = access
    thread.save(update_fields=["access", "updated_at"])
    thread.allowed_agents.set(agents if access == Thread.Access.AGENT_RESTRICTED else [])
    emit_thread_changed(thread)
    return thread


@transaction.atomic
def set_thread_followers(*, thread: Thread, by: Access, agents: Iterable[Participant]) -> Thread:
    """Sets which agents answer every message of the thread (L2 and above), not only mentions."""
    check_not_dive(thread)
    check_not_direct(thread)
    if not may_manage_thread(thread, by):
        raise Refused("Only admins and the person who began a thread may let agents follow it.")
    thread.following_agents.set([a for a in agents if a.is_agent and a.workspace_id == thread.workspace_id])
    emit_thread_changed(thread)
    return thread


def _emit_read_changed(thread: Thread, by: Access) -> None:
    emit(
        "read_changed",
        workspace_id=thread.workspace_id,
        channel_id=thread.channel_id,
        thread_id=thread.pk,
        participant_id=by.participant_id,
    )


@transaction.atomic
def mark_read(*, thread: Thread, by: Access, seq: int) -> int:
    """Everything up to `seq` is read. Never moves backwards, never past the last message. Returns the marker."""
    seq = max(0, min(seq, thread.last_seq))
    marker, created = ReadMarker.objects.get_or_create(
        thread=thread, participant_id=by.participant_id, defaults={"last_read_seq": seq}
    )
    if not created and marker.last_read_seq >= seq:
        return marker.last_read_seq
    if not created:  # what is left of a thread that was marked as unread stays marked
        mark = Case(When(marked_unread_seq=F("last_read_seq"), then=seq)) if seq < thread.last_seq else None
        moved = ReadMarker.objects.filter(pk=marker.pk, last_read_seq__lt=seq)
        if not moved.update(last_read_seq=seq, marked_unread_seq=mark):  # another page was quicker
            return ReadMarker.objects.get(pk=marker.pk).last_read_seq
    _emit_read_changed(thread, by)
    return seq


_MARK_ALL_READ = """
WITH unread AS (
    SELECT t.id, t.last_seq FROM chat_thread t
    LEFT JOIN chat_readmarker r ON r.thread_id = t.id AND r.participant_id = %(asker)s
    WHERE t.channel_id = ANY(%(channels)s::bigint[]) AND t.parent_id IS NULL
        AND t.last_seq > coalesce(r.last_read_seq, 0)
)
INSERT INTO chat_readmarker (thread_id, participant_id, last_read_seq)
SELECT id, %(asker)s, last_seq FROM unread ORDER BY id
ON CONFLICT (participant_id, thread_id) DO UPDATE
SET last_read_seq = greatest(chat_readmarker.last_read_seq, excluded.last_read_seq), marked_unread_seq = NULL
"""


@transaction.atomic
def mark_all_read(*, by: Access) -> int:
    """Everything said so far in every thread the asker sees is read; dives count nowhere. How many threads that was."""
    with connection.cursor() as cursor:
        cursor.execute(_MARK_ALL_READ, {"asker": by.participant_id, "channels": visibility_of(by).channels})
        count: int = cursor.rowcount
    if count:
        emit("read_changed", workspace_id=by.workspace_id, participant_id=by.participant_id)
    return count


@transaction.atomic
def mark_unread_from(*, thread: Thread, by: Access, seq: int) -> int:
    """The message `seq` and all after it count as unread again."""
    seq = max(1, min(seq, thread.last_seq))
    ReadMarker.objects.update_or_create(
        thread=thread,
        participant_id=by.participant_id,
        defaults={"last_read_seq": seq - 1, "marked_unread_seq": seq - 1},
    )
    _emit_read_changed(thread, by)
    return seq - 1


class DraftChanged(Conflict):
    """Another tab or device of the writer's saved `text` meanwhile."""

    code = "draft_changed"

    def __init__(self, text: str) -> None:
        super().__init__("In another tab or on another device you wrote something else here.")
        self.text = text


@transaction.atomic
def save_draft(
    *, thread: Thread, by: Access, body: str, version: str = "", sent: str = "", leaves: bool = False
) -> str:
    """Stores what stands in the composer and returns its version; an empty text removes the draft.

    `version` is the one that the composer began from, `sent` what it tried to save since without having heard of it.
    Another text that stands is not written over: DraftChanged, or, where the page `leaves` and nobody is left to
    choose, both are kept, one below the other.
    """
    body = body.replace("\x00", "")
    body = body if body.strip() else ""
    _check_draft_length(body)
    own = {"thread": thread, "participant_id": by.participant_id}
    drafts = Draft.objects.select_for_update()
    draft = drafts.get_or_create(**own, defaults={"body": body})[0] if body else drafts.filter(**own).first()
    if draft is None:
        return text_version("")
    known = {text_version(body), version, text_version(sent.replace("\x00", ""))}
    if text_version(draft.body) not in known:
        if not leaves:
            raise DraftChanged(draft.body)
        body = _both_texts(draft.body, body)
        if len(body) > MAX_BODY_CHARACTERS:
            raise DraftChanged(draft.body)
    if not body:
        draft.delete()
    elif body != draft.body:
        draft.body = body
        draft.save(update_fields=["body", "updated_at"])
    return text_version(body)


def _both_texts(stored: str, body: str) -> str:
    longer, shorter = sorted((stored, body), key=len, reverse=True)
    return longer if shorter in longer else f"{stored}\n\n{body}"


def _check_draft_length(body: str) -> None:
    if len(body) > MAX_BODY_CHARACTERS:
        raise Problem(
            f"A draft holds at most {MAX_BODY_CHARACTERS:,} characters; the last saved version is kept.",
            code="too_long",
            field="body",
        )


def audit_thread_export(thread: Thread, by: Access, form: str) -> None:
    """Records who takes a thread out as a file. What a private one is called is for those in it."""
    place = "of a private channel" if thread.channel.is_private else f"“{thread.title}” of #{thread.channel.name}"
    subject = f"thread {thread.pk} {place}"
    record_audit(AuditAction.EXPORT, workspace_id=thread.workspace_id, by=by, subject=subject, after=f"as {form}")
