"""Export of knowledge as CSV or JSONL: what the asker may read, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from knowledge.exchange.csv_jsonl import Cells, csv_lines, jsonl_lines
from knowledge.models import Entry
from openvibe.base.audit import AuditAction, record_audit
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
    entries = Entry.objects.visible_to(access).select_related("owner", "author", "decided_by").defer("search")
    after = f"{', '.join(statuses) if statuses else 'all'} entries that they may read, as {form}"
    record_audit(AuditAction.EXPORT, workspace_id=access.workspace_id, by=access, subject="knowledge", after=after)
    if statuses:
        entries = entries.filter(status__in=statuses)
    rows = (_export_row(entry, access) for entry in entries.order_by("pk").iterator(chunk_size=500))
    return csv_lines(rows) if form == "csv" else jsonl_lines(rows)


def _export_row(entry: Entry, access: Access) -> Cells:
    thread, message = _visible_source(entry, access)
    return {
        "id": entry.pk,
        "client_id": entry.client_id,
        "topic": entry.topic,
        "content": entry.content,
        "kind": entry.kind,
        "visibility": entry.visibility,
        "status": entry.status,
        "tags": list(entry.tags),
        "expires_at": _iso_instant(entry.expires_at),
        "owner": entry.owner.handle,
        "pinned": entry.is_pinned,
        "source": entry.source,
        "author": entry.author.handle,
        "decided_by": entry.decided_by.handle if entry.decided_by else None,
        "decided_at": _iso_instant(entry.decided_at),
        "created_at": _iso_instant(entry.created_at),
        "source_thread": thread,
        "source_message": message,
        "supersedes": entry.supersedes_id,
        "use_count": entry.use_count,
        "last_used_at": _iso_instant(entry.last_used_at),
        "version": entry.version,
    }


def _visible_source(entry: Entry, access: Access) -> tuple[int | None, int | None]:
    """Ids of the thread and message it was made from, as far as the asker sees them."""
    if entry.source_thread_id is None:
        return None, None
    if not Thread.objects.visible_to(access).filter(pk=entry.source_thread_id).exists():
        return None, None
    is_visible = Message.objects.visible_to(access).filter(pk=entry.source_message_id or 0).exists()
    return entry.source_thread_id, entry.source_message_id if is_visible else None


def _iso_instant(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
