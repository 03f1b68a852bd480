"""A resumable import of conversations from elsewhere: in batches, the same conversation only once."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import islice

from django.db import connection, transaction
from django.db.models.functions import Greatest

from openvibe.base.events import emit
from openvibe.base.problems import Refused
from openvibe.chat.importing.readers import ImportedLine, ImportedThread, fingerprint
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services.threads import clean_thread_title, emit_thread_changed
from openvibe.chat.wiring import conversation_imported
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS, TextRefused, clean_body, clean_handle, remove_invisible
from openvibe.workspaces.models import IMPORTED_KINDS, Participant, Workspace
from openvibe.workspaces.services import generate_handle

BATCH_SIZE = 500
MAX_EXTERNAL_ID_CHARACTERS = 80
MAX_NAME_CHARACTERS = 80
NO_LIMIT = 2**40


@dataclass(frozen=True)
class ImportReport:
    """What one import did: messages written now, those of an earlier import that were there already, speakers met."""

    thread: Thread
    added: int
    present: int
    speakers: frozenset[int]


def import_thread(
    *, channel: Channel, imported: ImportedThread, progress: Callable[[int], None] | None = None
) -> ImportReport:
    """Writes a conversation into `channel`, or goes on where an earlier import of it stopped. Adds nothing twice.

    Speakers become participants of kind `imported`, or `assistant` where a line says so, one per display name, kind
    and workspace; never a member or an agent, whatever they are called.
    Each batch of messages is one transaction with the thread's counters. Lines without a time get the moment of the
    import, in order; lines too long for one message become several; nobody is notified and no agent answers.
    `progress` gets the number of messages of each batch. Raises Refused (archived channel), Problem (title), and
    whatever the reader raises in the middle: what was written by then stays.
    """
    if channel.archived_at is not None:
        raise Refused(f"#{channel.name} is archived. Bring it back before importing into it.", code="archived")
    thread = _get_or_create_thread(channel, imported)
    speaker_id = cache(partial(get_or_create_speaker, channel.workspace))
    speakers: set[int] = set()
    added = total = 0
    messages = enumerate(_split_into_messages(imported.lines), start=1)  # numbered the same way each time they are read
    try:
        while batch := list(islice(messages, BATCH_SIZE)):
            authors = {
                (line.author, line.is_assistant): speaker_id(
                    clean_speaker_name(line.author), is_assistant=line.is_assistant
                )
                for _, line in batch
            }
            speakers.update(authors.values())
            added += _insert_batch(thread, batch, authors)
            total += len(batch)
            if progress is not None:
                progress(len(batch))
    finally:
        if added:
            emit_thread_changed(thread)
            conversation_imported.send(sender=Thread, thread=thread)
    thread.refresh_from_db()
    return ImportReport(thread, added, total - added, frozenset(speakers))


def _get_or_create_thread(channel: Channel, imported: ImportedThread) -> Thread:
    _adopt_former_thread(channel, imported)
    external_id = imported.external_id
    if len(external_id) > MAX_EXTERNAL_ID_CHARACTERS:
        external_id = fingerprint(external_id)
    thread, created = Thread.objects.get_or_create(
        channel=channel,
        external_id=external_id,
        defaults={"workspace_id": channel.workspace_id, "title": clean_thread_title(imported.title)},
    )
    if created:
        thread.refresh_from_db()
    return thread


@transaction.atomic
def _adopt_former_thread(channel: Channel, imported: ImportedThread) -> None:
    """A thread that a version without files imported is this conversation's, and counts its messages as it is read now.

    Lines of files alone that stand before the last message there stay left out: there is no place between messages.
    """
    threads = Thread.objects.select_for_update(no_key=True).filter(channel=channel)
    former = threads.filter(external_id=imported.former_id).first() if imported.former_id else None
    if former is None or threads.filter(external_id=imported.external_id).exists():
        return
    former.external_id = imported.external_id
    former.imported_count = _count_with_files(imported.lines, former.imported_count)
    former.save(update_fields=["external_id", "imported_count"])


def _count_with_files(lines: Iterable[ImportedLine], former_count: int) -> int:
    """The number of messages that take the place of the first `former_count`, made without files."""
    former = count = 0
    for line in lines:
        if former >= former_count:
            break
        former += len(list(_split_body(line.text)))
        count += len(list(_split_body(_with_file_names(line))))
    return count - (former - former_count)  # it may have ended between two parts of a line, or the file be shorter now


def _split_into_messages(lines: Iterable[ImportedLine]) -> Iterator[ImportedLine]:
    """The lines, each as many as it takes messages to hold it."""
    return (replace(line, text=body) for line in lines for body in _split_body(_with_file_names(line)))


def _with_file_names(line: ImportedLine) -> str:
    """The text, and which files stood with it: an exported conversation names them, and has nothing more of them."""
    names = [" ".join(name.split()).replace("`", "'") for name in line.files]
    listed = "".join(f"\n- Attached, and not imported: `{name}`" for name in names if name)
    return f"{line.text}\n{listed}".strip() if listed else line.text


def _split_body(text: str) -> Iterator[str]:
    """The text as it is stored: whole, or in parts cut between lines or words when it is too long for one message."""
    try:
        remaining = clean_body(text, max_bytes=NO_LIMIT, max_characters=NO_LIMIT)
    except TextRefused:  # nothing in it can be seen
        return
    while len(remaining) > MAX_BODY_CHARACTERS:
        space = max(remaining.rfind("\n", 1, MAX_BODY_CHARACTERS), remaining.rfind(" ", 1, MAX_BODY_CHARACTERS))
        part_length = space if space > MAX_BODY_CHARACTERS // 2 else MAX_BODY_CHARACTERS
        if part := remaining[:part_length].strip():
            yield part
        remaining = remaining[part_length:].lstrip()
    if remaining:
        yield remaining


def clean_speaker_name(author: str) -> str:
    """A display name on one line, at most MAX_NAME_CHARACTERS."""
    return remove_invisible(author[: 20 * MAX_NAME_CHARACTERS])[:MAX_NAME_CHARACTERS].strip() or "Unknown"


@transaction.atomic
def get_or_create_speaker(workspace: Workspace, name: str, *, is_assistant: bool = False) -> int:
    """The id of the workspace's imported participant of this display name and kind, made when there is none."""
    kind = Participant.Kind.ASSISTANT if is_assistant else Participant.Kind.IMPORTED
    imported = Participant.objects.filter(workspace=workspace, kind=kind, name=name).order_by("pk")
    speaker = imported.first()
    if speaker is None:
        Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)  # two imports at once agree on one row
        speaker = imported.first()
    if speaker is None:
        handle = generate_handle(workspace, clean_handle(name))
        speaker = Participant.objects.create(workspace=workspace, kind=kind, handle=handle, name=name)
        emit("members_changed", workspace_id=workspace.pk)
    return speaker.pk


def _insert_batch(
    thread: Thread, batch: list[tuple[int, ImportedLine]], authors: Mapping[tuple[str, bool], int]
) -> int:
    """Writes what of the batch is not there yet, and the thread's counters, in one transaction; returns how many were
    written.

    `authors` maps display names, and whether they are an assistant's, to participants.
    """
    with transaction.atomic():
        current = Thread.objects.select_for_update(no_key=True).get(pk=thread.pk)
        if batch[-1][0] <= current.imported_count:
            return 0
        previous = _newest_import(current)
        rows: list[Message] = []
        for number, line in batch:
            if number <= current.imported_count:
                continue
            previous = line.at or previous + timedelta(microseconds=1)
            rows.append(
                Message(
                    thread=current,
                    seq=current.last_seq + len(rows) + 1,
                    author_id=authors[line.author, line.is_assistant],
                    body=line.text,
                    token_count=count_tokens(line.text),
                    created_at=previous,
                )
            )
        if rows:
            Message.objects.bulk_create(rows)
            latest = max(row.created_at for row in rows)
            _mark_read_by_all(current, rows[-1].seq)
            Thread.objects.filter(pk=current.pk).update(
                last_seq=rows[-1].seq, last_message_at=Greatest("last_message_at", latest), imported_count=batch[-1][0]
            )
    return len(rows)


_MARK_READ = """
INSERT INTO chat_readmarker (thread_id, participant_id, last_read_seq)
SELECT %(thread)s, p.id, %(seq)s FROM workspaces_participant p
WHERE p.workspace_id = %(workspace)s AND p.is_active AND p.kind IN ('member', 'agent')
AND (%(before)s = 0 OR EXISTS (
    SELECT FROM chat_readmarker r WHERE r.thread_id = %(thread)s AND r.participant_id = p.id
))
ON CONFLICT (participant_id, thread_id) DO UPDATE SET last_read_seq = EXCLUDED.last_read_seq
WHERE chat_readmarker.last_read_seq >= %(before)s
"""


def _mark_read_by_all(thread: Thread, seq: int) -> None:
    """Nobody has what was imported up to `seq` as unread. What people said in the thread before stays unread to whoever
    has not read it, and with it what is behind it. `thread` is as it was before, and locked."""
    values = {"thread": thread.pk, "workspace": thread.workspace_id, "seq": seq, "before": thread.last_seq}
    with connection.cursor() as cursor:
        cursor.execute(_MARK_READ, values)


def _newest_import(thread: Thread) -> datetime:
    """The time of the last message an import wrote; the thread's own before the first."""
    imported = Message.objects.filter(thread=thread, author__kind__in=IMPORTED_KINDS)
    return imported.order_by("-seq").values_list("created_at", flat=True).first() or thread.created_at
