"""Knowledge as a file, exported with where it comes from. `knowledge.importing` takes one in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from knowledge.models import Entry
from knowledge.sheets import Cells, csv_lines, jsonl_lines
from openvibe.base.problems import Problem
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.access import Access


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
