"""Entries, revisions and their diffs as the templates show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import unified_diff
from typing import Literal

from django.utils import timezone
from django.utils.safestring import SafeString

from knowledge.expiry import Freshness, compute_freshness, format_instant
from knowledge.models import Entry, Revision
from knowledge.search import EntryHit, NearCopy
from knowledge.tags import join_tags
from openvibe.base.markdown import plain_text, render_markdown

EXCERPT_CHARACTERS = 220
_FIELD_LABELS = {
    "expires_at": "Expires",
    "is_pinned": "Kept when unused",
    "content": "Content",
    "supersedes": "Takes the place of",
    "reason": "Why it waits",
}


@dataclass(frozen=True)
class EntryRow:
    """An entry in a list: `text` is its beginning without Markdown signs, `copies` are those that say the same."""

    entry: Entry
    freshness: Freshness
    text: str
    copies: Sequence[NearCopy] = ()

    @property
    def html(self) -> SafeString:
        """The content as sanitised HTML (openvibe.base.markdown)."""
        return SafeString(render_markdown(self.entry.content))  # its HTML is sanitised


def entry_row(entry: Entry, now: datetime | None = None, copies: Sequence[NearCopy] = ()) -> EntryRow:
    text = plain_text(entry.content, separator=" · ")
    if len(text) > EXCERPT_CHARACTERS:
        text = f"{text[:EXCERPT_CHARACTERS].rstrip()}…"
    return EntryRow(entry, compute_freshness(entry, now), text, copies)


@dataclass(frozen=True)
class EntryItem:
    """What the list shows of an entry: plain values, by which its HTML is kept. `copies`: id and topic."""

    pk: int
    topic: str
    is_restricted: bool
    freshness: Freshness
    text: str
    kind: str
    owner: str
    use_count: int
    tags: tuple[str, ...]
    copies: tuple[tuple[int, str], ...]


def entry_item(row: EntryRow) -> EntryItem:
    entry = row.entry
    return EntryItem(
        pk=entry.pk,
        topic=entry.topic,
        is_restricted=entry.visibility == Entry.Visibility.RESTRICTED,
        freshness=row.freshness,
        text=row.text,
        kind=Entry.Kind(entry.kind).label,
        owner=entry.owner.name,
        use_count=entry.use_count,
        tags=tuple(entry.tags),
        copies=tuple((copy.pk, copy.topic) for copy in row.copies),
    )


def entry_rows(entries: Iterable[Entry | EntryHit]) -> list[EntryRow]:
    """Entries, or hits of a search with their near copies."""
    now = timezone.now()
    return [
        entry_row(each.entry, now, each.copies) if isinstance(each, EntryHit) else entry_row(each, now)
        for each in entries
    ]


@dataclass(frozen=True)
class DiffLine:
    """One line of a changed text."""

    sign: Literal["added", "removed", "same"]
    text: str


@dataclass(frozen=True)
class RevisionFieldChange:
    """One field of a revision. `lines` instead of before and after where a text of many lines changed."""

    label: str
    before: str
    after: str
    lines: tuple[DiffLine, ...] = ()


@dataclass(frozen=True)
class RevisionRow:
    revision: Revision
    changes: tuple[RevisionFieldChange, ...]


def revision_rows(revisions: Iterable[Revision], handles: Mapping[str, str]) -> list[RevisionRow]:
    """`handles` gives people's names by handle."""
    return [RevisionRow(revision, tuple(_field_changes(revision, handles))) for revision in revisions]


def _field_changes(revision: Revision, handles: Mapping[str, str]) -> Iterator[RevisionFieldChange]:
    first = revision.number == 1
    for name, (before, after) in revision.changes.items():
        if first and name not in ("expires_at", "supersedes", "content"):
            continue
        label = _FIELD_LABELS.get(name, name.replace("_", " ").capitalize())
        if name == "content":
            yield RevisionFieldChange(label, "", "", tuple(_diff_lines(before or "", after or "")))
        else:
            yield RevisionFieldChange(
                label, "" if first else _format_value(name, before, handles), _format_value(name, after, handles)
            )


def _diff_lines(before: str, after: str) -> Iterator[DiffLine]:
    for line in list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2))[2:]:
        if not line.startswith("@@"):
            yield DiffLine("added" if line[0] == "+" else "removed" if line[0] == "-" else "same", line[1:])


def _format_value(name: str, value: object, handles: Mapping[str, str]) -> str:
    """One value in words."""
    if value in (None, "", []):
        return "never" if name == "expires_at" else "none"
    match name, value:
        case "expires_at", str(moment):
            return format_instant(datetime.fromisoformat(moment))
        case "tags", list(tags):
            return join_tags(map(str, tags))
        case "is_pinned", bool(kept):
            return "yes" if kept else "no"
        case "owner", str(handle):
            return handles.get(handle, handle)
        case "supersedes", _:
            return f"entry {value}"
    choices = {"kind": Entry.Kind, "status": Entry.Status, "visibility": Entry.Visibility, "reason": Entry.Reason}
    labels = dict(choices[name].choices) if name in choices else {}
    return str(labels.get(str(value), value))
