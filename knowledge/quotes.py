"""Entries that repeat a message: what knowledge adds to the places where a message's words may still stand."""

import json
from collections.abc import Iterator, Mapping, Sequence

from django.urls import reverse

from knowledge.models import Entry, Revision
from knowledge.services import erase_entry, may_erase
from openvibe.base.problems import Missing
from openvibe.base.quotation import Quotation
from openvibe.chat.models import Message
from openvibe.chat.wiring import QuoteKind, QuotePlace, QuotingText
from openvibe.workspaces.access import Access


def _quoting_entries(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
    """What entries say, and said in earlier versions, of those that were changed since the message."""
    since = quotation.since(message.created_at)
    entries = Entry.objects.filter(workspace=message.thread.workspace_id, updated_at__gte=since)
    revisions = Revision.objects.filter(entry__in=entries.order_by().values("pk"), created_at__gte=since)
    texts_by_entry: dict[int, list[str]] = {}
    for entry_id, changes, note in revisions.order_by().values_list("entry", "changes", "note").iterator(500):
        texts_by_entry.setdefault(entry_id, []).extend([*_texts(changes), note])
    for pk, topic, content, note, owner in entries.values_list(
        "pk", "topic", "content", "reason_note", "owner"
    ).iterator(500):
        yield QuotingText(pk, "\n\n".join([topic, content, note, *texts_by_entry.get(pk, ())]), owner)


def _texts(changes: Mapping[str, Sequence[object]]) -> list[str]:
    values = [value for field in ("topic", "content") for value in changes.get(field, ())]
    return [value if isinstance(value, str) else json.dumps(value) for value in values if value]


def _entry_places(access: Access, refs: Sequence[int], slug: str) -> Mapping[int, QuotePlace]:
    rows = Entry.objects.visible_to(access).filter(pk__in=refs).select_related("author")
    status = {Entry.Status.PROPOSED: "Suggested knowledge", Entry.Status.ARCHIVED: "Archived knowledge"}
    return {
        row.pk: QuotePlace(
            title=f"{status.get(Entry.Status(row.status), 'Knowledge')}: “{row.topic}”",
            href=reverse("knowledge-entry", args=[slug, row.pk]),
            may_delete=may_erase(row, access),
            advice="" if may_erase(row, access) else "Its author, its owner or an admin can delete it.",
        )
        for row in rows.defer("search")
    }


def _erase_quoting_entry(ref: int, by: Access) -> None:
    entry = Entry.objects.visible_to(by).filter(pk=ref).first()
    if entry is None:
        raise Missing
    erase_entry(entry=entry, by=by)


ENTRY_QUOTES = QuoteKind("entry", "Knowledge", _quoting_entries, _entry_places, _erase_quoting_entry)
