"""Entries and their revisions made ready for pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import unified_diff
from typing import Literal

from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

from knowledge.freshness import Freshness, freshness
from knowledge.models import Entry, Revision
from knowledge.presets import shown
from openvibe.chat.markdown import plain_text, render

EXCERPT = 220
_LABELS = {
    "expires_at": "Expires",
    "is_pinned": "Kept when unused",
    "content": "Content",
    "supersedes": "Takes the place of",
    "reason": "Why it waits",
}


@dataclass(frozen=True)
class EntryShown:
    """An entry in a list: `text` is its beginning without Markdown signs."""

    entry: Entry
    freshness: Freshness
    text: str

    @property
    def html(self) -> SafeString:
        """The content as sanitised HTML (openvibe.chat.markdown)."""
        return mark_safe(render(self.entry.content))


def entry_shown(entry: Entry, now: datetime | None = None) -> EntryShown:
    text = plain_text(entry.content, between=" · ")
    return EntryShown(entry, freshness(entry, now), text if len(text) <= EXCERPT else f"{text[:EXCERPT].rstrip()}…")


def entries_shown(entries: Iterable[Entry]) -> list[EntryShown]:
    now = timezone.now()
    return [entry_shown(entry, now) for entry in entries]


@dataclass(frozen=True)
class Line:
    """One line of a changed text."""

    sign: Literal["added", "removed", "same"]
    text: str


@dataclass(frozen=True)
class Change:
    """One field of a revision. `lines` instead of before and after where a text of many lines changed."""

    label: str
    before: str
    after: str
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True)
class RevisionShown:
    revision: Revision
    changes: tuple[Change, ...]


def revisions_shown(revisions: Iterable[Revision], handles: Mapping[str, str]) -> list[RevisionShown]:
    """`handles` gives people's names by handle."""
    return [RevisionShown(revision, tuple(_changes(revision, handles))) for revision in revisions]


def _changes(revision: Revision, handles: Mapping[str, str]) -> Iterator[Change]:
    first = revision.number == 1
    for name, (before, after) in revision.changes.items():
        if first and name not in ("expires_at", "supersedes", "content"):
            continue
        label = _LABELS.get(name, name.replace("_", " ").capitalize())
        if name == "content":
            yield Change(label, "", "", tuple(_lines(before or "", after or "")))
        else:
            yield Change(label, "" if first else _said(name, before, handles), _said(name, after, handles))


def _lines(before: str, after: str) -> Iterator[Line]:
    for line in list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2))[2:]:
        if not line.startswith("@@"):
            yield Line("added" if line[0] == "+" else "removed" if line[0] == "-" else "same", line[1:])


def _said(name: str, value: object, handles: Mapping[str, str]) -> str:
    """One value in words."""
    if value in (None, "", []):
        return "never" if name == "expires_at" else "none"
    match name, value:
        case "expires_at", str(moment):
            return shown(datetime.fromisoformat(moment))
        case "tags", list(tags):
            return ", ".join(map(str, tags))
        case "is_pinned", bool(kept):
            return "yes" if kept else "no"
        case "owner", str(handle):
            return handles.get(handle, handle)
        case "supersedes", _:
            return f"entry {value}"
    choices = {"kind": Entry.Kind, "status": Entry.Status, "visibility": Entry.Visibility, "reason": Entry.Reason}
    labels = dict(choices[name].choices) if name in choices else {}
    return str(labels.get(str(value), value))
