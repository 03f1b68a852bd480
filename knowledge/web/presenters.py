"""Entries, revisions and their diffs as the templates show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import unified_diff
from typing import Literal, NamedTuple

from django.utils import timezone
from django.utils.safestring import SafeString

from knowledge.expiry import Freshness, compute_freshness, format_instant
from knowledge.models import Entry, Revision
from knowledge.search import EntryHit, NearCopy
from knowledge.tags import join_tags
from openvibe.engines.text.markdown import plain_text, render_markdown

EXCERPT_CHARACTERS = 220
_KIND_LABELS = {str(value): str(label) for value, label in Entry.Kind.choices}
_FIELD_LABELS = {
    "expires_at": "Expires",
    "is_pinned": "Kept when unused",
    "content": "Content",
    "supersedes": "Takes the place of",
    "reason": "Why it waits",
}


@dataclass(frozen=True)
class EntryRow:
    """An entry in a list: `text` is its beginning without Markdown signs."""

    entry: Entry
    freshness: Freshness
    text: str

    @property
    def html(self) -> SafeString:
        """The content as sanitised HTML (openvibe.engines.text.markdown)."""
        return SafeString(render_markdown(self.entry.content))  # its HTML is sanitised


def entry_row(entry: Entry, now: datetime | None = None) -> EntryRow:
    return EntryRow(entry, compute_freshness(entry, now), _excerpt(entry.content))


def _excerpt(content: str) -> str:
    text = plain_text(content, separator=" · ")
    return text if len(text) <= EXCERPT_CHARACTERS else f"{text[:EXCERPT_CHARACTERS].rstrip()}…"


class ListedEntry(NamedTuple):
    """The columns of an entry that the list shows, in the order of LISTED_COLUMNS; `owner`: the name."""

    pk: int
    topic: str
    content: str
    kind: str
    visibility: str
    status: str
    reason: str
    expires_at: datetime | None
    use_count: int
    tags: Sequence[str]
    owner: str


LISTED_COLUMNS = (*ListedEntry._fields[:-1], "owner__label")


class EntryItem(NamedTuple):
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


def entry_items(entries: Iterable[ListedEntry | Entry | EntryHit]) -> Iterator[EntryItem]:
    """Entries, or hits of a search with their near copies, as the list shows them."""
    now = timezone.now()
    for each in entries:
        if isinstance(each, EntryHit):
            yield _entry_item(_listed_entry(each.entry), now, each.copies)
        else:
            yield _entry_item(each if isinstance(each, ListedEntry) else _listed_entry(each), now)


def _listed_entry(entry: Entry) -> ListedEntry:
    return ListedEntry(
        pk=entry.pk,
        topic=entry.topic,
        content=entry.content,
        kind=entry.kind,
        visibility=entry.visibility,
        status=entry.status,
        reason=entry.reason,
        expires_at=entry.expires_at,
        use_count=entry.use_count,
        tags=entry.tags,
        owner=entry.owner.label,
    )


def _entry_item(entry: ListedEntry, now: datetime, copies: Sequence[NearCopy] = ()) -> EntryItem:
    return EntryItem(
        pk=entry.pk,
        topic=entry.topic,
        is_restricted=entry.visibility == Entry.Visibility.RESTRICTED,
        freshness=compute_freshness(entry, now),
        text=_excerpt(entry.content),
        kind=_KIND_LABELS[entry.kind],
        owner=entry.owner,
        use_count=entry.use_count,
        tags=tuple(entry.tags),
        copies=tuple((copy.pk, copy.topic) for copy in copies),
    )


def entry_rows(entries: Iterable[Entry]) -> list[EntryRow]:
    now = timezone.now()
    return [entry_row(entry, now) for entry in entries]


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
