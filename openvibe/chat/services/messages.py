"""Verbs of messages: post, reply, edit, delete."""

from collections.abc import Sequence
from datetime import datetime

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.markdown import mentioned_handles
from openvibe.chat.models import Mention, Message, MessageRevision, Thread
from openvibe.chat.signals import message_posted
from openvibe.chat.text import TextRefused, clean_body
from openvibe.llm.tokens import count
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

# One statement each: every round trip to the database is a good part of what a message costs.
STORE_MENTIONS = """
WITH named AS (
    SELECT * FROM workspaces_participant
    WHERE workspace_id = %(workspace)s AND handle = ANY(%(handles)s) AND is_active AND kind <> 'imported'
), stored AS (
    INSERT INTO chat_mention (message_id, participant_id, note)
    SELECT %(message)s, id, '' FROM named ORDER BY array_position(%(handles)s, handle::text)
    ON CONFLICT (message_id, participant_id) DO NOTHING
)
SELECT * FROM named
"""
SEEN_BY_AUTHOR = """
WITH sent AS (DELETE FROM chat_draft WHERE thread_id = %(thread)s AND participant_id = %(author)s)
INSERT INTO chat_readmarker (thread_id, participant_id, last_read_seq) VALUES (%(thread)s, %(author)s, %(seq)s)
ON CONFLICT (participant_id, thread_id) DO UPDATE SET last_read_seq = EXCLUDED.last_read_seq
"""

AGENT_KINDS = (Message.Kind.TEXT, Message.Kind.TOOL_CALL, Message.Kind.TOOL_RESULT)


def cleaned_body(body: str) -> str:
    try:
        return clean_body(body)
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="body") from None


def _may_write(thread: Thread) -> None:
    if thread.archived_at is not None or thread.channel.archived_at is not None:
        raise Refused("This conversation is archived. Your text is kept in the composer.", code="archived")


def _said_before(thread: Thread, by: Access, client_id: str) -> Message | None:
    if not client_id:
        return None
    return Message.objects.filter(thread=thread, author_id=by.participant_id, client_id=client_id).first()


def record_mentions(message: Message) -> tuple[Participant, ...]:
    """Store who is named in the message: active members and agents of the workspace, in order of appearance."""
    handles = mentioned_handles(message.body)
    if not handles:
        return ()
    found = {p.handle: p for p in Participant.objects.raw(STORE_MENTIONS, _named(message, handles))}
    return tuple(found[handle] for handle in handles if handle in found)


def _named(message: Message, handles: Sequence[str]) -> dict[str, object]:
    return {"message": message.pk, "workspace": message.thread.workspace_id, "handles": list(handles)}


def post_message(
    *,
    thread: Thread,
    by: Access,
    body: str,
    client_id: str = "",
    kind: str = Message.Kind.TEXT,
    call_id: str = "",
) -> Message:
    """Say something in a thread. The same `client_id` from the same author is the same message, returned again.

    `thread` must be visible to `by`. Message, mentions, events and, through `message_posted`, the runs it causes
    are one transaction. Raises Problem (empty, too long, NUL), Refused (archived).
    """
    text = cleaned_body(body)
    _may_write(thread)
    if kind not in AGENT_KINDS or (kind != Message.Kind.TEXT and not (by.is_agent and call_id)):
        raise Problem("Messages are of kind text; agents may also post tool_call and tool_result with a call_id.",
                      code="bad_kind", field="kind")  # fmt: skip
    if len(client_id) > 100 or len(call_id) > 100 or "\x00" in client_id + call_id:
        raise Problem("client_id and call_id are at most 100 plain characters.", code="bad_id", field="client_id")
    if (before := _said_before(thread, by, client_id)) is not None:
        return before
    try:
        with transaction.atomic():
            message = Message(
                thread=thread, author_id=by.participant_id, body=text, kind=kind, call_id=call_id,
                client_id=client_id, token_count=count(text),
            )  # fmt: skip
            message.save(force_insert=True)
            named = record_mentions(message)
            if not by.is_agent:
                message_posted.send(sender=Message, message=message, mentioned=named)
                _seen_by_author(message)
    except IntegrityError:
        before = _said_before(thread, by, client_id)  # the same message, posted twice at once
        if before is None:
            raise
        return before
    return message


def _seen_by_author(message: Message) -> None:
    """Who posts has read up to the own message; the draft it came from is done."""
    with connection.cursor() as cursor:
        cursor.execute(SEEN_BY_AUTHOR, {"thread": message.thread_id, "author": message.author_id, "seq": message.seq})


def write_reply(*, thread: Thread, author: Participant, client_id: str, at: datetime | None = None) -> Message:
    """An empty message that an agent is about to fill (`state` writing). The same `client_id` gives the same row."""
    found = Message.objects.filter(thread=thread, author=author, client_id=client_id).first()
    if found is not None:
        Message.objects.filter(pk=found.pk).update(body="", token_count=0, state=Message.State.WRITING)
        found.refresh_from_db()
        return found
    reply = Message(
        thread=thread,
        author=author,
        client_id=client_id,
        state=Message.State.WRITING,
        created_at=at or timezone.now(),
    )
    reply.save(force_insert=True)
    return reply


def finish_reply(*, reply: Message, body: str, state: str) -> Message:
    """The last words of an agent's reply: counted, its mentions recorded (they are shown and trigger nothing)."""
    written = Message.objects.select_for_update(of=("self",)).select_related("thread").get(pk=reply.pk)
    written.body, written.token_count, written.state = body, count(body), state
    written.save(update_fields=["body", "token_count", "state"])
    record_mentions(written)
    return written


@transaction.atomic
def edit_message(*, message: Message, by: Access, body: str, based_on: str | None = None) -> Message:
    """Replace the text of one's own message, keeping the old one in its history. Starts no run.

    `based_on` is the text the editor began from: when it is not the current one any more, somebody (another tab)
    was faster, and Conflict is raised with nothing changed.
    """
    text = cleaned_body(body)
    current = Message.objects.select_for_update(of=("self",)).select_related("thread__channel").get(pk=message.pk)
    if current.author_id != by.participant_id:
        raise Refused("You can edit only what you wrote.")
    if current.is_deleted:
        raise Missing("This message was deleted.")
    if current.kind != Message.Kind.TEXT or current.state == Message.State.WRITING:
        raise Refused("This message cannot be edited.")
    _may_write(current.thread)
    if based_on is not None and based_on != current.body:
        raise Conflict(
            "This message was changed somewhere else meanwhile. Your text is kept here: compare, then save again.",
            code="stale",
        )
    if text == current.body:
        return current
    MessageRevision.objects.create(message=current, body=current.body)
    current.body, current.token_count, current.edited_at = text, count(text), timezone.now()
    current.save(update_fields=["body", "token_count", "edited_at"])
    Mention.objects.filter(message=current).exclude(participant__handle__in=mentioned_handles(text)).delete()
    record_mentions(current)
    return current


@transaction.atomic
def delete_message(*, message: Message, by: Access) -> Message:
    """Wipe the text, its history and its mentions; a tombstone keeps the place. Authors and admins."""
    current = Message.objects.select_for_update(of=("self",)).select_related("author").get(pk=message.pk)
    if current.author_id != by.participant_id and not by.administers:
        raise Refused("You can delete only what you wrote.")
    if current.is_deleted:
        return current
    if current.state == Message.State.WRITING:
        raise Refused("This reply is still being written. Stop it first.", code="being_written")
    current.body, current.token_count, current.deleted_at = "", 0, timezone.now()
    current.save(update_fields=["body", "token_count", "deleted_at"])
    current.revisions.all().delete()
    current.mentions.all().delete()
    return current
