"""A resumable import of conversations from elsewhere: in batches, the same conversation only once."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from django.db import connection, transaction
from django.db.models import Count
from django.db.models.functions import Greatest

from openvibe.base.problems import Problem, Refused
from openvibe.chat.importing.account import NOTHING_TO_SEE, Account
from openvibe.chat.importing.values import ImportedLine, ImportedThread, fingerprint
from openvibe.chat.models import MAX_EMOJI_OF_MESSAGE, Channel, Message, Reaction, Thread
from openvibe.chat.services.reactions import clean_emoji
from openvibe.chat.services.speakers import Speakers
from openvibe.chat.services.threads import clean_thread_title, emit_thread_changed
from openvibe.chat.wiring import conversation_imported
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS, TextRefused, clean_body
from openvibe.workspaces.models import IMPORTED_KINDS

BATCH_SIZE = 500
MAX_EXTERNAL_ID_CHARACTERS = 80
NO_LIMIT = 2**40


@dataclass(frozen=True)
class ImportReport:
    """What one import did: messages written now, those of an earlier import that were there already, speakers met."""

    thread: Thread
    added: int
    present: int
    speakers: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A line, or the part of one that a message holds. `number` counts from 1, the same way each time they are read."""

    number: int
    line: ImportedLine
    is_first: bool


def import_thread(
    *,
    channel: Channel,
    imported: ImportedThread,
    account: Account | None = None,
    speakers: Speakers | None = None,
    anywhere: bool = False,
    progress: Callable[[int], None] | None = None,
) -> ImportReport:
    """Writes a conversation into `channel`, or goes on where an earlier import of it stopped. Adds nothing twice.

    What is there already is known by its time where the conversation is timed, in threads of this channel or of the
    workspace (`anywhere`), and else by its place. Speakers become participants of kind `imported`, or `assistant` where
    a line says so, by their key or else by name; never a member or an agent, whatever they are called.
    Each batch of messages is one transaction with the thread's counters. Lines without a time get the moment of the
    import, in order; lines too long for one message become several; nobody is notified and no agent answers.
    `progress` gets the number of messages of each batch. Raises Refused (archived channel), Problem (title), and
    whatever the reader raises in the middle: what was written by then stays.
    """
    if channel.archived_at is not None:
        raise Refused(f"#{channel.name} is archived. Bring it back before importing into it.", code="archived")
    account = account or Account()
    speakers = speakers or Speakers(channel.workspace, account)
    target = _Target(channel, imported, anywhere=anywhere)
    if not imported.is_timed:
        target.create()
    met: set[int] = set()
    added = total = 0
    pieces = _split_into_messages(imported.lines, account, speakers)
    try:
        while batch := list(islice(pieces, BATCH_SIZE)):
            authors = [speakers.author_id(piece.line) for piece in batch]
            met.update(authors)
            for piece in batch:  # before any thread is locked
                for _, key, name in piece.line.reactions if piece.is_first else ():
                    speakers.person_id(key, name)
            added += _insert_batch(target, batch, authors, account, speakers)
            total += len(batch)
            if progress is not None:
                progress(len(batch))
    finally:
        if added and target.thread:
            emit_thread_changed(target.thread)
            conversation_imported.send(sender=Thread, thread=target.thread)
    thread = target.thread or target.former or target.create()
    thread.refresh_from_db()
    return ImportReport(thread, added, total - added, frozenset(met))


class _Target:
    """The thread that a conversation goes into, made when there is something to write, and those it was in before."""

    def __init__(self, channel: Channel, imported: ImportedThread, *, anywhere: bool) -> None:
        self._channel = channel
        self._imported = imported
        self._external_id = _clean_external_id(imported.external_id)
        self.is_timed = imported.is_timed
        self.last_time: tuple[datetime | None, int] = (None, 0)
        """The time of the last line, and how many lines had it so far."""
        self.thread: Thread | None = None
        self.former: Thread | None = None
        if not imported.is_timed:
            return
        threads = Thread.objects.filter(channel=channel)
        if anywhere:
            threads = Thread.objects.filter(workspace_id=channel.workspace_id, channel__archived_at=None)
        ids = [self._external_id, *filter(None, [imported.former_id])]
        found = {thread.external_id: thread for thread in threads.filter(external_id__in=ids).order_by("-pk")}
        self.thread = found.get(self._external_id)
        self.former = found.get(imported.former_id) if imported.former_id else None

    def create(self) -> Thread:
        """The thread, made when it is not there."""
        if self.thread is None:
            if not self.is_timed:
                _adopt_former_thread(self._channel, self._imported)
            self.thread, created = Thread.objects.get_or_create(
                channel=self._channel,
                external_id=self._external_id,
                defaults={
                    "workspace_id": self._channel.workspace_id,
                    "title": clean_thread_title(self._imported.title),
                },
            )
            if created:
                self.thread.refresh_from_db()
        return self.thread

    def find_present(self, batch: list[_Piece]) -> list[bool]:
        """Whether each piece, in the order of their times, is in the threads already: of several of one time, as
        many as are there."""
        thread_ids = [each.pk for each in (self.thread, self.former) if each]
        times = {piece.line.at for piece in batch if piece.line.at}
        rows = Message.objects.filter(thread__in=thread_ids, author__kind__in=IMPORTED_KINDS, created_at__in=times)
        counts = dict(rows.values_list("created_at").annotate(count=Count("pk")).order_by()) if thread_ids else {}
        present = []
        for piece in batch:
            at, before = self.last_time
            self.last_time = piece.line.at, before + 1 if piece.line.at == at else 1
            present.append(self.last_time[1] <= counts.get(piece.line.at, 0))
        return present


def _clean_external_id(external_id: str) -> str:
    return external_id if len(external_id) <= MAX_EXTERNAL_ID_CHARACTERS else fingerprint(external_id)


@transaction.atomic
def _adopt_former_thread(channel: Channel, imported: ImportedThread) -> None:
    """A thread that a version without files imported is this conversation's, and counts its messages as it is read now.

    Lines of files alone that stand before the last message there stay left out: there is no place between messages.
    """
    threads = Thread.objects.select_for_update(no_key=True).filter(channel=channel)
    former = threads.filter(external_id=imported.former_id).first() if imported.former_id else None
    if former is None or threads.filter(external_id=imported.external_id).exists():
        return
    former.external_id = _clean_external_id(imported.external_id)
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


def _split_into_messages(lines: Iterable[ImportedLine], account: Account, speakers: Speakers) -> Iterator[_Piece]:
    """The lines, each as many as it takes messages to hold it."""
    number = 0
    for line in lines:
        is_first = True
        for body in _split_body(_with_file_names(replace(line, text=speakers.with_handles(line.text)))):
            number += 1
            yield _Piece(number, replace(line, text=body), is_first)
            is_first = False
        if is_first:
            account.leave_out(line.place, NOTHING_TO_SEE)


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


def _insert_batch(
    target: _Target, batch: list[_Piece], authors: list[int], account: Account, speakers: Speakers
) -> int:
    """Writes what of the batch is not there yet, and the thread's counters, in one transaction; returns how many were
    written. `authors`: participants, one for each piece."""
    with transaction.atomic():
        present = _lock_and_find_present(target, batch)
        rows: list[Message] = []
        first_rows: list[tuple[_Piece, Message]] = []
        if not all(present):
            current = Thread.objects.select_for_update(no_key=True).get(pk=target.create().pk)
            previous = _newest_import(current)
            for piece, author_id, is_present in zip(batch, authors, present, strict=True):
                if is_present:
                    continue
                previous = piece.line.at or previous + timedelta(microseconds=1)
                rows.append(_build_row(current, piece.line, author_id, current.last_seq + len(rows) + 1, previous))
                if piece.is_first:
                    first_rows.append((piece, rows[-1]))
            Message.objects.bulk_create(rows)
            _mark_read_by_all(current, rows[-1].seq)
            count = current.imported_count + len(rows) if target.is_timed else batch[-1].number
            latest = max(row.created_at for row in rows)
            Thread.objects.filter(pk=current.pk).update(
                last_seq=rows[-1].seq, last_message_at=Greatest("last_message_at", latest), imported_count=count
            )
            _insert_reactions(first_rows, account, speakers)
    for piece, is_present in zip(batch, present, strict=True):
        if piece.is_first:
            account.take_in(present=is_present)
            if is_present and piece.line.reactions:
                account.leave_out(piece.line.place, _NOT_AGAIN, "reaction", len(piece.line.reactions))
    return len(rows)


_NOT_AGAIN = "its message was there already; reactions come in with their message"


def _lock_and_find_present(target: _Target, batch: list[_Piece]) -> list[bool]:
    if target.is_timed:
        if target.thread:
            Thread.objects.select_for_update(no_key=True).get(pk=target.thread.pk)
        return target.find_present(batch)
    current = Thread.objects.select_for_update(no_key=True).get(pk=target.create().pk)
    return [piece.number <= current.imported_count for piece in batch]


def _build_row(thread: Thread, line: ImportedLine, author_id: int, seq: int, at: datetime) -> Message:
    return Message(
        thread=thread, seq=seq, author_id=author_id, body=line.text, token_count=count_tokens(line.text), created_at=at
    )


def _insert_reactions(rows: list[tuple[_Piece, Message]], account: Account, speakers: Speakers) -> None:
    reactions = []
    for piece, message in rows:
        emoji_of_message: set[str] = set()
        seen: set[tuple[str, int]] = set()
        for name, key, person in piece.line.reactions:
            try:
                emoji = clean_emoji(name)
            except Problem:
                account.leave_out(piece.line.place, "its emoji is none that is known", "reaction")
                continue
            who = speakers.person_id(key, person)
            if (emoji, who) in seen:
                account.leave_out(piece.line.place, "it stands there twice", "reaction")
            elif len(emoji_of_message | {emoji}) > MAX_EMOJI_OF_MESSAGE:
                account.leave_out(piece.line.place, "a message has at most 20 different emoji", "reaction")
            else:
                emoji_of_message.add(emoji)
                seen.add((emoji, who))
                reactions.append(Reaction(message=message, participant_id=who, emoji=emoji))
                account.take_in("reaction")
    Reaction.objects.bulk_create(reactions)


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
