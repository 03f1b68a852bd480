"""Import of knowledge from CSV or JSONL: rows taken in by chunks, and reported one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Literal

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from knowledge.exchange.csv_jsonl import IMPORTED_COLUMNS, Cells, TableRow, read_rows, unknown_columns
from knowledge.expiry import parse_expiry
from knowledge.models import Entry, Revision
from knowledge.services.create import (
    MAX_PENDING_SUGGESTIONS,
    bulk_create_entries,
    pending_suggestions,
    too_many_suggestions_error,
)
from knowledge.services.revisions import mark_decided
from knowledge.services.update import update_entry
from knowledge.services.validation import (
    check_may_manage,
    clean_client_id,
    clean_content,
    clean_kind,
    clean_tags,
    clean_topic,
    clean_visibility,
    possible_owners,
)
from knowledge.tags import split_tags
from openvibe.base.problems import Problem
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

Outcome = Literal["imported", "same", "updated", "refused"]
CHUNK_ROWS = 500
"""Rows of one transaction. Killed, an import leaves whole chunks; the same file again brings the rest."""

MAX_ATTEMPTS = 3
TRUE_WORDS = frozenset(("yes", "true", "1", "x", "y"))
FALSE_WORDS = frozenset(("", "no", "false", "0", "n", "none"))
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class RowReport:
    """What became of a row; `why` is a sentence, empty where there is nothing to say."""

    number: int
    outcome: Outcome
    why: str = ""
    entry_id: int | None = None
    place: str = ""
    """The file and heading that it came from, where it is no row of a table."""


@dataclass(frozen=True, slots=True)
class ImportReport:
    rows: Sequence[RowReport]
    unknown_columns: Sequence[str] = ()
    remark: str = ""
    """A sentence about what the file does not have any more; empty where there is nothing to say."""

    def count(self, outcome: Outcome) -> int:
        return sum(row.outcome == outcome for row in self.rows)

    @property
    def rows_with_reason(self) -> Sequence[RowReport]:
        """Rows with a reason, refused ones first: people look for these."""
        return sorted((row for row in self.rows if row.why), key=lambda row: row.outcome != "refused")

    @property
    def rows_without_reason(self) -> Sequence[RowReport]:
        return [row for row in self.rows if not row.why]

    @property
    def summary(self) -> str:
        """`3 imported, 1 there already, 2 refused`, and how many were updated where any was."""
        same_count, refused_count = self.count("same"), self.count("refused")
        updated = f" {self.count('updated'):,} updated," if self.count("updated") else ""
        return f"{self.count('imported'):,} imported,{updated} {same_count:,} there already, {refused_count:,} refused"

    @property
    def note(self) -> str:
        """A sentence about what was passed over; empty where nothing was."""
        if self.remark:
            return self.remark
        names = ", ".join(repr(name[:40]) if name else "one without a name" for name in self.unknown_columns[:10])
        more = " …" if len(self.unknown_columns) > 10 else ""
        return f"Not read: {names}{more}. Known are {', '.join(IMPORTED_COLUMNS)}." if names else ""


def import_entries(*, by: Access, raw: bytes, form: str = "") -> ImportReport:
    """Imports a CSV or JSONL file (`form`; left out, it is guessed), each row for itself.

    A row that is there already (its own key, or the same topic and content) changes nothing, so the same file twice
    imports once. Rows with status proposed become suggestions. The database is asked as often for a chunk of rows as
    for one row. Raises Refused (guests, agents), and Problem where the file as a whole cannot be read; nothing is
    imported then.
    """
    check_may_manage(by)
    rows = read_rows(raw, form)
    chunks = (rows[start : start + CHUNK_ROWS] for start in range(0, len(rows), CHUNK_ROWS))
    return ImportReport([report for chunk in chunks for report in _import_chunk(chunk, by)], unknown_columns(rows))


def import_rows(*, by: Access, rows: Sequence[TableRow], remark: str = "") -> ImportReport:
    """Imports rows that have keys of their own and whose words may be newer than those that stand: an entry of the same
    key is updated, unless somebody changed its words here. Raises Refused (guests, agents)."""
    check_may_manage(by)
    chunks = (rows[start : start + CHUNK_ROWS] for start in range(0, len(rows), CHUNK_ROWS))
    reports = [report for chunk in chunks for report in _import_chunk(chunk, by, updates=True)]
    return ImportReport(reports, remark=remark)


def _import_chunk(rows: Sequence[TableRow], by: Access, *, updates: bool = False) -> list[RowReport]:
    """One chunk, whole or not at all. Where somebody stored one of its keys at this moment it is looked at anew."""
    parsed_rows = [(row, _parse_row_text(row)) for row in rows]
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return _store_chunk(parsed_rows, by, updates=updates)
        except IntegrityError:
            continue
    return _store_chunk(parsed_rows, by, updates=updates)


@transaction.atomic
def _store_chunk(
    parsed_rows: Sequence[tuple[TableRow, _RowText | str]], by: Access, *, updates: bool
) -> list[RowReport]:
    state = _load_state(by, [words for _, words in parsed_rows if isinstance(words, _RowText)], updates=updates)
    fields = [_parse_row_fields(row, words, state) for row, words in parsed_rows]
    owners = {rest.owner for rest in fields if isinstance(rest, _RowFields)} - {""}
    state.owners = {one.handle: one for one in possible_owners(by.workspace_id).filter(handle__in=owners)}
    state.suggestions_left = MAX_PENDING_SUGGESTIONS - pending_suggestions(by).count()
    reports = [_prepare_row(row, words, rest, state) for (row, words), rest in zip(parsed_rows, fields, strict=True)]
    bulk_create_entries(state.new, by=by, how="import")
    return [report() for report in reports]


@dataclass(frozen=True, slots=True)
class _RowText:
    """What makes two rows the same. `key` is the row's own, or made of its words; `tokens` are those of the content."""

    topic: str
    content: str
    tokens: int
    key: str


@dataclass(frozen=True, slots=True)
class _RowFields:
    """The rest of a row. `owner` is a handle, empty for whoever imports."""

    status: str
    kind: str
    visibility: str
    expires_at: datetime | None
    tags: list[str]
    owner: str
    is_pinned: bool


@dataclass(slots=True)
class _ImportState:
    """What a row may meet: what stands already, and `new`, what the rows before it bring. Of two with the same words
    the newest is met."""

    by: Access
    importer: Participant
    by_key: dict[str, Entry]
    by_words: dict[tuple[str, str], Entry]
    owners: dict[str, Participant] = field(default_factory=dict)
    suggestions_left: int = 0
    updates: bool = False
    new: list[Entry] = field(default_factory=list)

    def find_existing(self, words: _RowText) -> Entry | None:
        """The entry of that key, else one with the same words."""
        return self.by_key.get(words.key) or self.by_words.get((words.topic, words.content))

    def add(self, entry: Entry) -> None:
        self.new.append(entry)
        self.by_key[entry.client_id] = self.by_words[entry.topic, entry.content] = entry


def _load_state(by: Access, words: Sequence[_RowText], *, updates: bool) -> _ImportState:
    """What of these words stands already. Two files of one person come in one after the other: each sees what the
    other brought, and neither waits for the other in a circle."""
    importer = Participant.objects.select_for_update(no_key=True).get(pk=by.participant_id)
    own_entries = Entry.objects.filter(workspace_id=by.workspace_id, author_id=by.participant_id)
    if updates:  # whoever brought it in before
        own_entries = Entry.objects.visible_to(by).filter(source=Entry.Source.IMPORT)
    entries_with_keys = own_entries.filter(client_id__in={one.key for one in words})
    same_text = Entry.objects.visible_to(by).filter(
        topic__in={one.topic for one in words}, content__in={one.content for one in words}
    )
    columns = ("topic", "content", "client_id")
    return _ImportState(
        by,
        importer,
        {entry.client_id: entry for entry in entries_with_keys.only(*columns)},
        {(entry.topic, entry.content): entry for entry in same_text.order_by("pk").only(*columns)},
        updates=updates,
    )


def _parse_row_text(row: TableRow) -> _RowText | str:
    """What the row says, or why it cannot be kept."""
    try:
        return _parse_text(row.cells) if not row.why else row.why
    except Problem as problem:
        return problem.message


def _parse_row_fields(row: TableRow, words: _RowText | str, state: _ImportState) -> _RowFields | str:
    """The rest of a row, or why it cannot be kept."""
    if isinstance(words, str):
        return ""
    try:
        return _parse_fields(row.cells, is_known=state.find_existing(words) is not None)
    except Problem as problem:
        return problem.message


def _prepare_row(
    row: TableRow, words: _RowText | str, rest: _RowFields | str, state: _ImportState
) -> Callable[[], RowReport]:
    """What reports on the row once the chunk is stored: only then its entries have their ids."""
    if isinstance(words, str):
        return partial(RowReport, row.number, "refused", words)
    existing = state.find_existing(words)
    if existing is not None and (existing.topic, existing.content) == (words.topic, words.content):
        why = f"{rest} The entry stays as it is." if isinstance(rest, str) else ""
        return lambda: RowReport(row.number, "same", why, existing.pk)
    if existing is not None and state.updates:
        return partial(_update_existing, row, words, existing, state.by)
    if existing is not None:
        conflict = f"has the client_id {words.key!r} and other words. Edit it, or use another key."
        return lambda: RowReport(row.number, "refused", f"Entry {existing.pk} {conflict}")
    if isinstance(rest, str):
        return partial(RowReport, row.number, "refused", rest)
    if rest.status == Entry.Status.PROPOSED:
        if state.suggestions_left <= 0:
            return partial(RowReport, row.number, "refused", too_many_suggestions_error().message)
        state.suggestions_left -= 1
    entry = _build_entry(words, rest, state)
    state.add(entry)
    is_unknown_owner = rest.owner and rest.owner not in state.owners
    note = f"@{rest.owner[:40]} is no member here, so you own it." if is_unknown_owner else ""
    return lambda: RowReport(row.number, "imported", note, entry.pk)


def _update_existing(row: TableRow, words: _RowText, entry: Entry, by: Access) -> RowReport:
    """Puts the newer words in, unless somebody changed the entry here."""
    edits = Revision.objects.filter(entry=entry).exclude(how="import")
    if edits.filter(Q(changes__has_key="content") | Q(changes__has_key="topic")).exists():
        why = f"Entry {entry.pk} was changed here since. Take the words over by hand, or archive it and import again."
        return RowReport(row.number, "refused", why, entry.pk)
    try:
        with transaction.atomic():
            update_entry(entry=entry, by=by, topic=words.topic, content=words.content, how="import")
    except Problem as problem:
        return RowReport(row.number, "refused", problem.message, entry.pk)
    return RowReport(row.number, "updated", "", entry.pk)


def _build_entry(words: _RowText, rest: _RowFields, state: _ImportState) -> Entry:
    """The entry as it will be stored; where the owner named is not here, whoever imports it owns it."""
    is_suggested = rest.status == Entry.Status.PROPOSED
    entry = Entry(
        workspace_id=state.by.workspace_id,
        author_id=state.by.participant_id,
        status=rest.status,
        source=Entry.Source.SUGGESTION if is_suggested else Entry.Source.IMPORT,
        topic=words.topic,
        content=words.content,
        tokens=words.tokens,
        client_id=words.key,
        kind=rest.kind,
        visibility=rest.visibility,
        expires_at=rest.expires_at,
        tags=rest.tags,
        owner=state.owners.get(rest.owner, state.importer),
        is_pinned=rest.is_pinned and not is_suggested,
    )
    if not is_suggested:
        mark_decided(entry, state.by)
    return entry


def _parse_text(cells: Cells) -> _RowText:
    """Topic, content and key. Raises Problem in words for a report."""
    topic, content = _text_cell(cells, "topic"), _text_cell(cells, "content")
    topic, (content, tokens) = clean_topic(topic), clean_content(content)
    fingerprint = sha256(f"{topic}\n{content}".encode()).hexdigest()[:32]
    key = _text_cell(cells, "client_id").strip() or f"import:{fingerprint}"
    return _RowText(topic, content, tokens, clean_client_id(key))


def _parse_fields(cells: Cells, *, is_known: bool) -> _RowFields:
    """Everything else. Raises Problem in words for a report; not for what an export of known entries holds."""
    status = _keyword_cell(cells, "status") or Entry.Status.ACTIVE
    fields = _RowFields(
        status=status,
        owner=_keyword_cell(cells, "owner").lstrip("@"),
        kind=clean_kind(_keyword_cell(cells, "kind") or Entry.Kind.FACT),
        visibility=clean_visibility(_keyword_cell(cells, "visibility") or Entry.Visibility.SHARED),
        expires_at=_expiry_cell(cells, is_known=is_known),
        tags=clean_tags(_tags_cell(cells)),
        is_pinned=_bool_cell(cells.get("pinned")),
    )
    if status not in (Entry.Status.values if is_known else (Entry.Status.ACTIVE, Entry.Status.PROPOSED)):
        raise Problem(f"An entry that is {status[:40]} is not imported; active and proposed ones are.")
    return fields


def _text_cell(cells: Cells, name: str) -> str:
    value = cells.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        if _UNSTORABLE.search(value):
            raise Problem(f"{name} holds a NUL or half of a character, which cannot be kept.")
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise Problem(f"{name} has to be a text.")


def _keyword_cell(cells: Cells, name: str) -> str:
    return _text_cell(cells, name).strip().lower()


def _expiry_cell(cells: Cells, *, is_known: bool) -> datetime | None:
    try:
        return parse_expiry(_text_cell(cells, "expires_at"), now=timezone.now())
    except Problem as problem:
        if is_known and problem.code == "expiry_past":
            return None
        raise


def _tags_cell(cells: Cells) -> list[str]:
    value = cells.get("tags")
    if isinstance(value, list):
        if not all(isinstance(tag, str) for tag in value):
            raise Problem("Tags are texts.")
        return value
    return split_tags(_text_cell(cells, "tags"))


def _bool_cell(value: object) -> bool:
    word = str(value if value is not None else "").strip().lower()
    if word in TRUE_WORDS or word in FALSE_WORDS:
        return word in TRUE_WORDS
    raise Problem("pinned is yes or no.")
