"""Bringing conversations in from elsewhere: in batches, resumable, the same conversation only once."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from django.db import transaction
from django.db.models.functions import Greatest

from openvibe.base.models import emit
from openvibe.base.problems import Refused
from openvibe.chat.importing import ImportedLine, ImportedThread
from openvibe.chat.importing.base import fingerprint
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services.threads import cleaned_title, told
from openvibe.chat.text import MAX_BODY_CHARACTERS, TextRefused, clean_body, clean_handle
from openvibe.llm.tokens import count
from openvibe.workspaces.models import Participant, Workspace
from openvibe.workspaces.services import free_handle

BATCH = 500
LONGEST_EXTERNAL_ID = 80
LONGEST_NAME = 80
NO_LIMIT = 2**40

Progress = Callable[[int], None]


@dataclass(frozen=True)
class ImportReport:
    """What one import did: messages written now, those of an earlier import that were there already, speakers met."""

    thread: Thread
    added: int
    present: int
    speakers: frozenset[int]


@dataclass(frozen=True)
class _Piece:
    """One message to be: the `number` counts a conversation's messages from 1, the same way each time it is read."""

    number: int
    author: str
    body: str
    at: datetime | None


def import_thread(*, channel: Channel, imported: ImportedThread, progress: Progress | None = None) -> ImportReport:
    """Write a conversation into `channel`, or go on where an earlier import of it stopped. Adds nothing twice.

    Speakers become participants of kind `imported`, one per display name and workspace, never a member or an agent.
    Each batch of messages is one transaction with the thread's counters. Lines without a time get the moment of the
    import, in order; lines too long for one message become several; nobody is notified and no agent answers.
    `progress` is told how many messages each batch brought. Raises Refused (archived channel), Problem (title), and
    whatever the reader raises in the middle: what was written by then stays.
    """
    if channel.archived_at is not None:
        raise Refused(f"#{channel.name} is archived. Bring it back before importing into it.", code="archived")
    thread = _thread_of(channel, imported)
    speakers = _Speakers(channel.workspace)
    added = total = 0
    pieces = _pieces(imported.lines)
    try:
        while batch := list(islice(pieces, BATCH)):
            written = _write(thread, batch, speakers)
            added += written
            total += len(batch)
            if progress is not None:
                progress(len(batch))
    finally:
        if added:
            told(thread)
    thread.refresh_from_db()
    return ImportReport(thread, added, total - added, frozenset(speakers.met))


def _thread_of(channel: Channel, imported: ImportedThread) -> Thread:
    external_id = imported.external_id
    if len(external_id) > LONGEST_EXTERNAL_ID:
        external_id = fingerprint(external_id)
    thread, made = Thread.objects.get_or_create(
        channel=channel,
        external_id=external_id,
        defaults={"workspace_id": channel.workspace_id, "title": cleaned_title(imported.title)},
    )
    if made:
        thread.refresh_from_db()
    return thread


def _pieces(lines: Iterable[ImportedLine]) -> Iterator[_Piece]:
    number = 0
    for line in lines:
        for body in _bodies(line.text):
            number += 1
            yield _Piece(number, line.author, body, line.at)


def _bodies(text: str) -> Iterator[str]:
    """The text as it is stored: whole, or in parts cut between lines or words when it is too long for one message."""
    try:
        rest = clean_body(text, max_bytes=NO_LIMIT, max_characters=NO_LIMIT)
    except TextRefused:  # nothing in it can be seen
        return
    while len(rest) > MAX_BODY_CHARACTERS:
        space = max(rest.rfind("\n", 1, MAX_BODY_CHARACTERS), rest.rfind(" ", 1, MAX_BODY_CHARACTERS))
        cut = space if space > MAX_BODY_CHARACTERS // 2 else MAX_BODY_CHARACTERS
        if part := rest[:cut].strip():
            yield part
        rest = rest[cut:].lstrip()
    if rest:
        yield rest


class _Speakers:
    """Imported participants of one workspace by display name, made when first met."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._known: dict[str, int] = {}
        self.met: set[int] = set()

    def __getitem__(self, author: str) -> int:
        name = speaker_name(author)
        if name not in self._known:
            self._known[name] = imported_speaker(self._workspace, name)
        self.met.add(self._known[name])
        return self._known[name]


def speaker_name(author: str) -> str:
    """A display name on one line, at most LONGEST_NAME characters."""
    return " ".join(author.split())[:LONGEST_NAME].strip() or "Unknown"


@transaction.atomic
def imported_speaker(workspace: Workspace, name: str) -> int:
    """The id of the workspace's imported participant of this display name, made when there is none."""
    imported = Participant.objects.filter(workspace=workspace, kind=Participant.Kind.IMPORTED, name=name).order_by("pk")
    found = imported.first()
    if found is None:
        Workspace.objects.select_for_update().get(pk=workspace.pk)  # two imports at once agree on one row
        found = imported.first()
    if found is None:
        handle = free_handle(workspace, clean_handle(name))
        found = Participant.objects.create(
            workspace=workspace, kind=Participant.Kind.IMPORTED, handle=handle, name=name
        )
        emit("members_changed", workspace_id=workspace.pk)
    return found.pk


def _write(thread: Thread, batch: list[_Piece], speakers: _Speakers) -> int:
    """Write what of the batch is not there yet, and the thread's counters, in one transaction."""
    authors = {piece.author: speakers[piece.author] for piece in batch}
    with transaction.atomic():
        current = Thread.objects.select_for_update().get(pk=thread.pk)
        done, previous = _written_before(current)
        rows: list[Message] = []
        for piece in batch:
            if piece.number <= done:
                continue
            previous = piece.at or previous + timedelta(microseconds=1)
            rows.append(
                Message(
                    thread=current,
                    seq=current.last_seq + len(rows) + 1,
                    author_id=authors[piece.author],
                    body=piece.body,
                    client_id=_client_id(current, piece.number),
                    token_count=count(piece.body),
                    created_at=previous,
                )
            )
        if rows:
            Message.objects.bulk_create(rows)
            latest = max(row.created_at for row in rows)
            Thread.objects.filter(pk=current.pk).update(
                last_seq=rows[-1].seq, last_message_at=Greatest("last_message_at", latest)
            )
    return len(rows)


def _written_before(thread: Thread) -> tuple[int, datetime]:
    """How many of the conversation's messages are there already, and the time of the last one."""
    prefix = _client_id(thread, "")
    last = (
        Message.objects.filter(thread=thread, author__kind=Participant.Kind.IMPORTED, client_id__startswith=prefix)
        .order_by("-seq")
        .values_list("client_id", "created_at")
        .first()
    )
    if last is None:
        return 0, thread.created_at
    return int(last[0].removeprefix(prefix)), last[1]


def _client_id(thread: Thread, number: int | str) -> str:
    return f"import:{thread.external_id}:{number}"
