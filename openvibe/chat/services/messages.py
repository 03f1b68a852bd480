"""Services that create, update and delete messages, replies and mentions."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.attachments import NewAttachment, NewFile, NewOriginal
from openvibe.chat.images import NewImage, clean_description
from openvibe.chat.models import (
    MAX_ATTACHMENTS,
    Attachment,
    Image,
    Mention,
    Message,
    MessageRevision,
    StoredFile,
    Thread,
    participants_nameable_by,
)
from openvibe.chat.services.erasure import begin_erasure
from openvibe.chat.services.permissions import check_agent_answers, check_dive_party, check_not_archived
from openvibe.chat.wiring import agent_posted, message_posted, message_revised, message_texts
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.search.lexemes import BODY, VERSION, make_tsvector
from openvibe.engines.text.cleaning import TextRefused, clean_body, has_visible_character
from openvibe.engines.text.mentions import mentioned_handles
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

# All of a message in one statement: every round trip to the database is a good part of what a message costs.
# What the database does by itself (models): the next seq of the thread, the event. Nothing is
# stored when the author said it before under the same client_id.
INSERT_MESSAGE = """
WITH said AS (
    INSERT INTO chat_message (thread_id, author_id, kind, state, body, call_id, client_id, token_count, search,
        lexemes_version)
    SELECT %(thread)s::bigint, %(author)s::bigint, %(kind)s::text, 'complete', %(body)s::text, %(call_id)s::text,
        %(client_id)s::text, %(tokens)s::int, %(search)s::tsvector, %(lexemes_version)s::smallint
    WHERE %(client_id)s::text = '' OR NOT EXISTS (
        SELECT FROM chat_message WHERE thread_id = %(thread)s::bigint AND author_id = %(author)s::bigint
        AND client_id = %(client_id)s::text AND client_id <> ''
    )
    RETURNING id, seq, created_at
), named AS (
    SELECT id, kind, array_position(%(handles)s::text[], handle::text) AS place FROM workspaces_participant
    WHERE workspace_id = %(workspace)s::bigint AND handle = ANY(%(handles)s::text[]) AND is_active
    AND kind IN ('member', 'agent')
    UNION SELECT id, kind, NULL FROM workspaces_participant
    WHERE id = ANY(%(direct)s::bigint[]) AND kind = 'agent' AND handle <> ALL(%(handles)s::text[])
), noted AS (
    INSERT INTO chat_mention (message_id, participant_id, note)
    SELECT said.id, named.id, '' FROM said, named ORDER BY place
), sent AS (
    DELETE FROM chat_draft USING said
    WHERE thread_id = %(thread)s::bigint AND participant_id = %(author)s::bigint AND %(by_person)s::bool
    AND (body = %(body)s::text OR left(encode(sha256(convert_to(body, 'UTF8')), 'hex'), 8) = %(draft_version)s::text)
), read AS (
    INSERT INTO chat_readmarker (thread_id, participant_id, last_read_seq)
    SELECT %(thread)s::bigint, %(author)s::bigint, seq FROM said WHERE %(by_person)s::bool
    ON CONFLICT (participant_id, thread_id) DO UPDATE
    SET last_read_seq = EXCLUDED.last_read_seq, marked_unread_seq = NULL
)
SELECT id, seq, created_at,
    ARRAY(SELECT id FROM named WHERE kind = 'agent' ORDER BY place),
    ARRAY(SELECT participant_id FROM chat_thread_following_agents WHERE thread_id = %(thread)s::bigint)
FROM said
"""
INSERT_MENTIONS = """
INSERT INTO chat_mention (message_id, participant_id, note)
SELECT %(message)s, id, '' FROM workspaces_participant
WHERE workspace_id = %(workspace)s AND handle = ANY(%(handles)s) AND is_active AND kind IN ('member', 'agent')
ORDER BY array_position(%(handles)s, handle::text)
ON CONFLICT (message_id, participant_id) DO NOTHING
"""

POSTABLE_KINDS = (Message.Kind.TEXT, Message.Kind.TOOL_CALL, Message.Kind.TOOL_RESULT)


def clean_message_body(body: str) -> str:
    try:
        return clean_body(body)
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="body") from None


def _get_by_client_id(thread: Thread, by: Access, client_id: str) -> Message:
    """Raises Message.DoesNotExist."""
    return Message.objects.exclude(client_id="").get(thread=thread, author_id=by.participant_id, client_id=client_id)


def _handles_to_name(message: Message, by: Access | None) -> list[str]:
    """The handles that the message names, in order of appearance: of a guest, those whom she may name there."""
    handles = list(mentioned_handles(message.body))
    if not handles or by is None or not by.is_guest:
        return handles
    nameable = participants_nameable_by(by, message.thread).filter(handle__in=handles)
    nameable_handles = set(nameable.values_list("handle", flat=True))
    return [handle for handle in handles if handle in nameable_handles]


def create_mentions(message: Message, by: Access | None = None) -> None:
    """Stores who is named in the message: active members and agents of the workspace, in order of appearance. `by`: who
    wrote it, None for an agent."""
    handles = _handles_to_name(message, by)
    if not handles:
        return
    values: dict[str, Any] = {"message": message.pk, "workspace": message.thread.workspace_id, "handles": handles}
    with connection.cursor() as cursor:
        cursor.execute(INSERT_MENTIONS, values)


def post_message(
    *,
    thread: Thread,
    by: Access,
    body: str,
    client_id: str = "",
    kind: str = Message.Kind.TEXT,
    call_id: str = "",
    files: Sequence[NewFile] = (),
    is_answered: bool = True,
    draft_version: str = "",
) -> Message:
    """Says something in a thread. The same `client_id` from the same author is the same message, returned again.

    `thread` must be visible to `by`. Message, files, mentions, events and, through `message_posted`, the runs it causes
    are one transaction. Without words, the names of the files are the message. Raises Problem (empty, too long, NUL, a
    file too many), Refused (archived, somebody else's dive, one that is over). Not `is_answered`: agents that it names
    are told, and none answers. A draft that reads the same, or is of `draft_version`, is done; of another tab's or
    device's nothing is lost.
    """
    text = clean_message_body(body if has_visible_character(body) or not files else _names_as_text(files))
    check_not_archived(thread)
    if kind not in POSTABLE_KINDS or (kind != Message.Kind.TEXT and not (by.is_agent and call_id)):
        raise Problem(
            "Messages are of kind text; agents may also post tool_call and tool_result with a call_id.",
            code="bad_kind",
            field="kind",
        )
    if len(files) > MAX_ATTACHMENTS or (files and kind != Message.Kind.TEXT):
        raise Problem(f"A message of kind text has at most {MAX_ATTACHMENTS} files.", code="bad_files", field="files")
    if len(client_id) > 100 or len(call_id) > 100 or "\x00" in client_id + call_id:
        raise Problem("client_id and call_id are at most 100 plain characters.", code="bad_id", field="client_id")
    message = Message(
        thread=thread,
        author_id=by.participant_id,
        body=text,
        kind=kind,
        call_id=call_id,
        client_id=client_id,
        token_count=count_tokens(text),
    )
    try:
        with transaction.atomic(savepoint=bool(client_id or thread.parent_id)):
            check_dive_party(thread, by)
            check_agent_answers(thread, by)
            is_new = _insert_message(message, by, files, is_answered=is_answered, draft_version=draft_version)
            return message if is_new else _get_by_client_id(thread, by, client_id)
    except IntegrityError as error:  # the same message, posted twice at once
        try:
            return _get_by_client_id(thread, by, client_id)
        except Message.DoesNotExist:
            raise error from None


def _names_as_text(files: Sequence[NewFile]) -> str:
    return ", ".join("`{}`".format(file.name.replace("`", "'")) for file in files)


def _insert_message(
    message: Message, by: Access, files: Sequence[NewFile] = (), *, is_answered: bool = True, draft_version: str = ""
) -> bool:
    """Stores the message, its files and whom it names; its author has read up to it, and its draft is done.

    False, with nothing stored, when it was said before.
    """
    values: dict[str, Any] = {
        "thread": message.thread_id,
        "author": message.author_id,
        "workspace": message.thread.workspace_id,
        "kind": str(message.kind),
        "body": message.body,
        "call_id": message.call_id,
        "client_id": message.client_id,
        "tokens": message.token_count,
        "search": make_tsvector((message.body, BODY)),
        "lexemes_version": VERSION,
        "handles": _handles_to_name(message, by),
        "by_person": not by.is_agent,
        "draft_version": draft_version[:8],
        "direct": [] if by.is_agent else message.thread.channel.direct_ids,  # an agent is meant without being named
    }
    rows = fetch_prepared(INSERT_MESSAGE, values)
    if not rows:
        return False
    message.pk, message.seq, message.created_at, mentioned_ids, follower_ids = rows[0]
    message._state.adding, message._state.db = False, connection.alias
    _insert_files(message, files)
    if not by.is_agent and is_answered:
        message_posted.send(
            sender=Message, message=message, mentioned_agents=tuple(mentioned_ids), following_agents=tuple(follower_ids)
        )
    elif by.is_agent and is_answered:
        agent_posted.send(sender=Message, message=message)
    return True


def _insert_files(message: Message, files: Sequence[NewFile]) -> None:
    """Texts and images, each at its place among all of them."""
    numbered_files = list(enumerate(files, start=1))
    texts = [(at, file) for at, file in numbered_files if isinstance(file, NewAttachment)]
    if texts:
        new_rows = [Attachment(message=message, position=at, **file.columns()) for at, file in texts]
        rows = Attachment.objects.bulk_create(new_rows)
        originals = [(row, file.original) for row, (_, file) in zip(rows, texts, strict=True) if file.original]
        if originals:
            StoredFile.objects.bulk_create(_stored_file(row, original) for row, original in originals)
    if any(isinstance(file, NewImage) for file in files):
        Image.objects.bulk_create(
            Image(message=message, position=at, **asdict(file))
            for at, file in numbered_files
            if isinstance(file, NewImage)
        )


def _stored_file(attachment: Attachment, original: NewOriginal) -> StoredFile:
    return StoredFile(
        attachment=attachment,
        size=len(original.content),
        sha256=hashlib.sha256(original.content).hexdigest(),
        content=original.content,
        preview=original.preview,
    )


def create_system_message(*, thread: Thread, author: Participant, body: str) -> Message:
    """A line that says what happens in a thread, in the caller's transaction. It rings nothing and is in no prompt but
    the one that answers it."""
    text = clean_message_body(body)
    message = Message.objects.create(
        thread=thread, author=author, kind=Message.Kind.SYSTEM, body=text, token_count=count_tokens(text)
    )
    message.refresh_from_db(fields=["seq", "created_at"])
    return message


@CompiledQuery
def _said_as(thread_id: int, author_id: int, client_id: str) -> QuerySet[Message]:
    return Message.objects.filter(thread=thread_id, author=author_id, client_id=client_id).order_by()[:1]


@CompiledQuery
def _locked_reply(reply_id: int) -> QuerySet[Message]:
    return Message.objects.select_for_update(no_key=True, of=("self",)).select_related("thread").filter(pk=reply_id)


def create_reply(*, thread: Thread, author: Participant, client_id: str, at: datetime | None = None) -> Message:
    """An empty message that an agent is about to fill (`state` writing). The same `client_id` gives the same row.

    Raises Conflict when that was deleted: nothing is written into a tombstone.
    """
    existing: Message | None = next(iter(_said_as.objects(thread.pk, author.pk, client_id)), None)
    if existing is not None:
        if existing.is_deleted:
            raise Conflict("The answer was deleted before it was written again. Ask anew.", code="deleted")
        Message.objects.filter(pk=existing.pk).update(body="", token_count=0, state=Message.State.WRITING)
        existing.refresh_from_db()
        return existing
    reply = Message(
        thread=thread, author=author, client_id=client_id, state=Message.State.WRITING, created_at=at or timezone.now()
    )
    reply.save(force_insert=True)
    return reply


def finish_reply(*, reply: Message, body: str, state: str) -> Message:
    """The last words of an agent's reply: counted, its mentions recorded (they are shown and trigger nothing)."""
    current: Message = _locked_reply.objects(reply.pk)[0]
    current.body, current.token_count, current.state = body, count_tokens(body), state
    current.save(update_fields=["body", "token_count", "state", "search", "lexemes_version"])
    create_mentions(current)
    return current


def replace_replies(reply_ids: Iterable[int]) -> None:
    """An agent gave another answer to the same message: these are earlier versions of it from now on, in the caller's
    transaction. They can still be read and are in no prompt, search or new summary."""
    earlier = Message.objects.filter(pk__in=list(reply_ids), deleted_at=None)
    earlier.exclude(state__in=(Message.State.WRITING, Message.State.REPLACED)).update(state=Message.State.REPLACED)


def restore_reply(reply_id: int, *, state: str) -> None:
    """The version after it was deleted: this one is the answer again, as it ended, in the caller's transaction."""
    replaced = Message.objects.filter(pk=reply_id, deleted_at=None, state=Message.State.REPLACED)
    replaced.update(state=state)


@transaction.atomic
def update_message(*, message: Message, by: Access, body: str, based_on: str | None = None) -> Message:
    """Replaces the text of one's own message, keeping the old one in its history. Starts no run.

    `based_on` is the text the editor began from: when it is not the current one any more, somebody (another tab)
    was faster, and Conflict is raised with nothing changed.
    """
    text = clean_message_body(body)
    current = (
        Message.objects.select_for_update(no_key=True, of=("self",))
        .select_related("thread__channel")
        .get(pk=message.pk)
    )
    if current.author_id != by.participant_id:
        raise Refused("You can edit only what you wrote.")
    if current.is_deleted:
        raise Missing("This message was deleted.")
    if current.kind != Message.Kind.TEXT or current.state == Message.State.WRITING:
        raise Refused("This message cannot be edited.")
    check_not_archived(current.thread)
    check_dive_party(current.thread, by)
    if based_on is not None and based_on != current.body:
        raise Conflict(
            "This message was changed somewhere else meanwhile. Your text is kept here: compare, then save again.",
            code="stale",
        )
    if text == current.body:
        return current
    MessageRevision.objects.create(message=current, body=current.body)
    former = current.body
    current.body, current.token_count, current.edited_at = text, count_tokens(text), timezone.now()
    current.save(update_fields=["body", "token_count", "edited_at", "search", "lexemes_version"])
    mentions = Mention.objects.filter(message=current).exclude(participant__handle__in=mentioned_handles(text))
    mentions.exclude(participant__in=current.thread.channel.direct_ids, participant__kind="agent").delete()
    create_mentions(current, by)
    begin_erasure(current, texts=[former], by=by)
    message_revised.send(sender=Message, message=current)
    return current


@transaction.atomic
def describe_image(*, image: Image, by: Access, description: str) -> Image:
    """Says what an image of one's own message shows, or nothing any more. What prompts and answers kept of the former
    words is rewritten. `image` must be visible to `by`."""
    text = clean_description(description)
    locked = Message.objects.select_for_update(no_key=True, of=("self",)).select_related("thread__channel")
    message = locked.get(pk=image.message_id)
    if message.author_id != by.participant_id:
        raise Refused("You can describe only images that you posted.")
    current = Image.objects.filter(pk=image.pk).defer("content", "thumbnail").first()
    if current is None:
        raise Missing("This image was deleted.")
    check_not_archived(message.thread)
    check_dive_party(message.thread, by)
    former = current.description
    if text == former:
        return current
    current.description = text
    current.save(update_fields=["description"])
    emit(
        "message_changed",
        workspace_id=message.thread.workspace_id,
        channel_id=message.thread.channel_id,
        thread_id=message.thread_id,
        message_id=message.pk,
    )
    if former:
        begin_erasure(message, texts=[former], by=by)
    return current


@transaction.atomic
def delete_message(*, message: Message, by: Access) -> Message:
    """Wipes the text, its history and mentions, and (triggers) its files and images; a tombstone keeps the place.

    For authors and admins. What was stored of the text elsewhere is rewritten by a job (`erasure`).
    """
    current = Message.objects.select_for_update(no_key=True, of=("self",)).select_related("author").get(pk=message.pk)
    if current.author_id != by.participant_id and not by.administers:
        raise Refused("You can delete only what you wrote.")
    if current.is_deleted:
        return current
    if current.state == Message.State.WRITING:
        raise Refused("This reply is still being written. Stop it first.", code="being_written")
    texts = message_texts(current)
    current.body, current.token_count, current.deleted_at = "", 0, timezone.now()
    current.save(update_fields=["body", "token_count", "deleted_at"])
    current.revisions.all().delete()
    current.mentions.all().delete()
    begin_erasure(current, texts=texts, by=by)
    message_revised.send(sender=Message, message=current)
    return current
