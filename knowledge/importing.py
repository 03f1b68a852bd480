"""Knowledge from a file: taken in by chunks of rows, reported row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from django.db import IntegrityError, transaction

from knowledge.cells import Particulars, Words, particulars_in, words_in
from knowledge.models import Entry
from knowledge.services.adding import SUGGESTIONS, too_many_suggestions, waiting_of
from knowledge.services.revising import check_may_manage, decide, possible_owners
from knowledge.services.together import begin_together
from knowledge.sheets import Row, read_rows
from openvibe.base.problems import Problem
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

Outcome = Literal["imported", "same", "refused"]
CHUNK = 500
"""Rows of one transaction. Killed, an import leaves whole chunks; the same file again brings the rest."""

TRIES = 3


@dataclass(frozen=True, slots=True)
class RowReport:
    """What became of a row; `why` is a sentence, empty where there is nothing to say."""

    number: int
    outcome: Outcome
    why: str = ""
    entry_id: int | None = None


@dataclass(frozen=True, slots=True)
class ImportReport:
    rows: Sequence[RowReport]

    def count(self, outcome: Outcome) -> int:
        return sum(row.outcome == outcome for row in self.rows)

    @property
    def told(self) -> Sequence[RowReport]:
        """The rows that there is something to say of, refused ones first: people look for these."""
        return sorted((row for row in self.rows if row.why), key=lambda row: row.outcome != "refused")

    @property
    def untold(self) -> Sequence[RowReport]:
        return [row for row in self.rows if not row.why]

    @property
    def summary(self) -> str:
        """`3 imported, 1 there already, 2 refused`."""
        return (
            f"{self.count('imported'):,} imported, {self.count('same'):,} there already, "
            f"{self.count('refused'):,} refused"
        )


def import_entries(*, by: Access, raw: bytes, form: str = "") -> ImportReport:
    """Import a CSV or JSONL file (`form`; left out, it is guessed), each row for itself.

    A row that is there already (its own key, or the same topic and content) changes nothing, so the same file twice
    imports once. Rows with status proposed become suggestions. The database is asked as often for a chunk of rows as
    for one row. Raises Refused (guests, agents), and Problem where the file as a whole cannot be read; nothing is
    imported then.
    """
    check_may_manage(by)
    rows = read_rows(raw, form)
    chunks = (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))
    return ImportReport([report for chunk in chunks for report in _import_together(chunk, by)])


def _import_together(rows: Sequence[Row], by: Access) -> list[RowReport]:
    """One chunk, whole or not at all. Where somebody stored one of its keys at this moment it is looked at anew."""
    read = [(row, _words_of(row)) for row in rows]
    for _ in range(TRIES - 1):
        try:
            return _imported(read, by)
        except IntegrityError:
            continue
    return _imported(read, by)


@transaction.atomic
def _imported(read: Sequence[tuple[Row, Words | str]], by: Access) -> list[RowReport]:
    known = _known(by, [words for _, words in read if isinstance(words, Words)])
    wanted = [_rest_of(row, words, known) for row, words in read]
    owners = {rest.owner for rest in wanted if isinstance(rest, Particulars)} - {""}
    known.owners = {one.handle: one for one in possible_owners(by.workspace_id).filter(handle__in=owners)}
    known.room = SUGGESTIONS - waiting_of(by).count()
    verdicts = [_verdict(row, words, rest, known) for (row, words), rest in zip(read, wanted, strict=True)]
    begin_together(known.new, by=by, how="import")
    return [verdict.report() for verdict in verdicts]


# --- pieces -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Verdict:
    """What becomes of a row. `entry` has its id once the chunk is stored; `key` is one that another entry has."""

    number: int
    outcome: Outcome
    why: str = ""
    entry: Entry | None = None
    key: str = ""

    def report(self) -> RowReport:
        entry_id = self.entry.pk if self.entry else None
        if not self.key:
            return RowReport(self.number, self.outcome, self.why, entry_id)
        why = f"Entry {entry_id} has the client_id {self.key!r} and other words. Edit it, or use another key."
        return RowReport(self.number, self.outcome, why)


@dataclass(slots=True)
class _Known:
    """What a row may meet: what stands already, and `new`, what the rows before it bring. Of two with the same words
    the newest is met."""

    by: Access
    importer: Participant
    by_key: dict[str, Entry]
    by_words: dict[tuple[str, str], Entry]
    owners: dict[str, Participant] = field(default_factory=dict)
    room: int = 0
    new: list[Entry] = field(default_factory=list)

    def there(self, words: Words) -> Entry | None:
        """The entry of that key, else one with the same words."""
        return self.by_key.get(words.key) or self.by_words.get((words.topic, words.content))

    def add(self, entry: Entry) -> None:
        self.new.append(entry)
        self.by_key[entry.client_id] = self.by_words[entry.topic, entry.content] = entry


def _known(by: Access, words: Sequence[Words]) -> _Known:
    """What of these words stands already. Two files of one person come in one after the other: each sees what the
    other brought, and neither waits for the other in a circle."""
    importer = Participant.objects.select_for_update(no_key=True).get(pk=by.participant_id)
    mine = Entry.objects.filter(workspace_id=by.workspace_id, author_id=by.participant_id)
    keyed = mine.filter(client_id__in={one.key for one in words})
    same = Entry.objects.visible_to(by).filter(
        topic__in={one.topic for one in words}, content__in={one.content for one in words}
    )
    read = ("topic", "content", "client_id")
    return _Known(
        by,
        importer,
        {entry.client_id: entry for entry in keyed.only(*read)},
        {(entry.topic, entry.content): entry for entry in same.order_by("pk").only(*read)},
    )


def _words_of(row: Row) -> Words | str:
    """What the row says, or why it cannot be kept."""
    try:
        return words_in(row.cells) if not row.why else row.why
    except Problem as problem:
        return problem.message


def _rest_of(row: Row, words: Words | str, known: _Known) -> Particulars | str:
    """The rest of a row that is not there already, or why it is refused."""
    if isinstance(words, str) or known.there(words):
        return ""
    try:
        return particulars_in(row.cells)
    except Problem as problem:
        return problem.message


def _verdict(row: Row, words: Words | str, rest: Particulars | str, known: _Known) -> _Verdict:
    if isinstance(words, str):
        return _Verdict(row.number, "refused", words)
    there = known.there(words)
    if there is not None and (there.topic, there.content) == (words.topic, words.content):
        return _Verdict(row.number, "same", "", there)
    if there is not None:
        return _Verdict(row.number, "refused", "", there, words.key)
    if isinstance(rest, str):
        return _Verdict(row.number, "refused", rest)
    if rest.status == Entry.Status.PROPOSED:
        if known.room <= 0:
            return _Verdict(row.number, "refused", too_many_suggestions().message)
        known.room -= 1
    entry = _entry_of(words, rest, known)
    known.add(entry)
    is_told = rest.owner and rest.owner not in known.owners
    note = f"@{rest.owner[:40]} is no member here, so you own it." if is_told else ""
    return _Verdict(row.number, "imported", note, entry)


def _entry_of(words: Words, rest: Particulars, known: _Known) -> Entry:
    """The entry as it will be stored; where the owner named is not here, whoever imports it owns it."""
    is_suggested = rest.status == Entry.Status.PROPOSED
    entry = Entry(
        workspace_id=known.by.workspace_id, author_id=known.by.participant_id, status=rest.status,
        source=Entry.Source.SUGGESTION if is_suggested else Entry.Source.IMPORT,
        topic=words.topic, content=words.content, tokens=words.tokens, client_id=words.key,
        kind=rest.kind, visibility=rest.visibility, expires_at=rest.expires_at, tags=rest.tags,
        owner=known.owners.get(rest.owner, known.importer), is_pinned=rest.is_pinned and not is_suggested,
    )  # fmt: skip
    if not is_suggested:
        decide(entry, known.by)
    return entry
