"""Knowledge as a file: imported row by row with a report, exported with where it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Literal

from django.utils import timezone

from knowledge.models import Entry
from knowledge.presets import expiry_of
from knowledge.services import add_entry, suggest_entry
from knowledge.services.revising import check_may_manage, possible_owners
from knowledge.services.worded import worded_content, worded_topic
from knowledge.sheets import Cells, Row, csv_lines, jsonl_lines, read_rows
from openvibe.base.problems import Problem
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

Outcome = Literal["imported", "same", "refused"]
YES = frozenset(("yes", "true", "1", "x", "y"))
NO = frozenset(("", "no", "false", "0", "n", "none"))
_UNKEEPABLE = re.compile(r"[\x00\ud800-\udfff]")


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
    def summary(self) -> str:
        """`3 imported, 1 there already, 2 refused`."""
        return (
            f"{self.count('imported'):,} imported, {self.count('same'):,} there already, "
            f"{self.count('refused'):,} refused"
        )


def import_entries(*, by: Access, raw: bytes, form: str = "") -> ImportReport:
    """Import a CSV or JSONL file (`form`; left out, it is guessed), each row for itself.

    A row that is there already (its own key, or the same topic and content) changes nothing, so the same file twice
    imports once. Rows with status proposed become suggestions. Raises Refused (guests, agents), and Problem where
    the file as a whole cannot be read; nothing is imported then.
    """
    check_may_manage(by)
    return ImportReport([_import(row, by) for row in read_rows(raw, form)])


def export_entries(access: Access, form: str = "csv", *, statuses: Sequence[str] = ()) -> Iterator[str]:
    """The lines of a CSV or JSONL file with what the asker may read, the oldest entry first.

    All statuses unless some are named. Raises Problem for another format or an unknown status.
    """
    if form not in ("csv", "jsonl"):
        raise Problem("A file is csv or jsonl.", code="bad_format", field="format")
    if not set(statuses) <= set(Entry.Status.values):
        raise Problem(f"A status is one of {', '.join(Entry.Status.values)}.", code="bad_status", field="status")
    rows = (_exported(entry, access) for entry in _readable(access, statuses))
    return csv_lines(rows) if form == "csv" else jsonl_lines(rows)


# --- a row comes in -----------------------------------------------------------------------------------------
def _import(row: Row, by: Access) -> RowReport:
    if row.why:
        return RowReport(row.number, "refused", row.why)
    try:
        return _imported(row, by)
    except Problem as problem:
        return RowReport(row.number, "refused", problem.message)


def _imported(row: Row, by: Access) -> RowReport:
    topic, content = _said(row.cells, "topic"), _said(row.cells, "content")
    topic, (content, _tokens) = worded_topic(topic), worded_content(content)
    key = _said(row.cells, "client_id").strip() or f"import:{_fingerprint(topic, content)}"
    there = _there(by, key, topic, content)
    if there is not None:
        if (there.topic, there.content) == (topic, content):
            return RowReport(row.number, "same", "", there.pk)
        raise Problem(f"Entry {there.pk} has the client_id {key!r} and other words. Edit it, or use another key.")
    status = _said(row.cells, "status").strip().lower() or Entry.Status.ACTIVE
    owner, note = _owner(_said(row.cells, "owner"), by)
    values = {
        "kind": _said(row.cells, "kind").strip().lower() or Entry.Kind.FACT,
        "visibility": _said(row.cells, "visibility").strip().lower() or Entry.Visibility.SHARED,
        "expires_at": expiry_of(_said(row.cells, "expires_at"), now=timezone.now()),
    }
    tags = _tags(row.cells.get("tags"))
    is_pinned = _is_yes(row.cells.get("pinned"))
    if status == Entry.Status.PROPOSED:
        entry = suggest_entry(by=by, topic=topic, content=content, tags=tags, owner=owner, client_id=key, how="import",
                              **values)  # type: ignore[arg-type]  # fmt: skip
    elif status == Entry.Status.ACTIVE:
        entry = add_entry(by=by, topic=topic, content=content, tags=tags, owner=owner, client_id=key, how="import",
                          is_pinned=is_pinned, **values)  # type: ignore[arg-type]  # fmt: skip
    else:
        raise Problem(f"An entry that is {status[:40]} is not imported; active and proposed ones are.")
    return RowReport(row.number, "imported", note, entry.pk)


def _there(by: Access, key: str, topic: str, content: str) -> Entry | None:
    """The entry of that key, else one with the same words."""
    mine = Entry.objects.filter(workspace_id=by.workspace_id, author_id=by.participant_id, client_id=key).first()
    return mine or Entry.objects.visible_to(by).filter(topic=topic, content=content).first()


def _said(cells: Cells, name: str) -> str:
    value = cells.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        if _UNKEEPABLE.search(value):
            raise Problem(f"{name} holds a NUL or half of a character, which cannot be kept.")
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise Problem(f"{name} has to be a text.")


def _tags(value: object) -> list[str]:
    if isinstance(value, list):
        if not all(isinstance(tag, str) for tag in value):
            raise Problem("Tags are texts.")
        return value
    return str(value or "").replace(";", ",").split(",")


def _is_yes(value: object) -> bool:
    said = str(value if value is not None else "").strip().lower()
    if said in YES or said in NO:
        return said in YES
    raise Problem("pinned is yes or no.")


def _owner(handle: str, by: Access) -> tuple[Participant | None, str]:
    """The owner named in the row; where they are not here, whoever imports, with a sentence that says so."""
    name = handle.strip().lstrip("@").lower()
    if not name:
        return None, ""
    owner = possible_owners(by.workspace_id).filter(handle=name).first()
    return (owner, "") if owner else (None, f"@{name[:40]} is no member here, so you own it.")


def _fingerprint(topic: str, content: str) -> str:
    return sha256(f"{topic}\n{content}".encode()).hexdigest()[:32]


# --- rows go out --------------------------------------------------------------------------------------------
def _readable(access: Access, statuses: Sequence[str]) -> Iterator[Entry]:
    entries = Entry.objects.visible_to(access).select_related("owner", "author", "decided_by").defer("search")
    if statuses:
        entries = entries.filter(status__in=statuses)
    return entries.order_by("pk").iterator(chunk_size=500)


def _exported(entry: Entry, access: Access) -> Cells:
    thread, message = _source(entry, access)
    return {
        "id": entry.pk, "client_id": entry.client_id, "topic": entry.topic, "content": entry.content,
        "kind": entry.kind, "visibility": entry.visibility, "status": entry.status, "tags": list(entry.tags),
        "expires_at": _instant(entry.expires_at), "owner": entry.owner.handle, "pinned": entry.is_pinned,
        "source": entry.source, "author": entry.author.handle,
        "decided_by": entry.decided_by.handle if entry.decided_by else None, "decided_at": _instant(entry.decided_at),
        "created_at": _instant(entry.created_at), "source_thread": thread, "source_message": message,
        "supersedes": entry.supersedes_id, "use_count": entry.use_count,
        "last_used_at": _instant(entry.last_used_at), "version": entry.version,
    }  # fmt: skip


def _source(entry: Entry, access: Access) -> tuple[int | None, int | None]:
    """Ids of the thread and message it was made from, as far as the asker sees them."""
    if entry.source_thread_id is None:
        return None, None
    if not Thread.objects.visible_to(access).filter(pk=entry.source_thread_id).exists():
        return None, None
    seen = Message.objects.visible_to(access).filter(pk=entry.source_message_id or 0).exists()
    return entry.source_thread_id, entry.source_message_id if seen else None


def _instant(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
