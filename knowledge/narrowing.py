"""The filters of knowledge, the same for the page, the API and search."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q
from django.utils import timezone

from knowledge.freshness import EXPIRING
from knowledge.models import Entry, EntryQuerySet


def narrowed(
    entries: EntryQuerySet, *, topic: str = "", tag: str = "", status: str = "", owner_id: int | None = None,
    kind: str = "", source: str = "", freshness: str = "", now: datetime | None = None,
) -> EntryQuerySet:  # fmt: skip
    """Entries with all of these; what is empty does not narrow. An unknown word finds nothing.

    `topic` is the whole topic whatever its case, `freshness` one of `knowledge.freshness.STATES`.
    """
    asked = {
        "topic__iexact": topic, "tags__contains": [tag.lower().lstrip("#")] if tag else "", "status": status,
        "owner_id": owner_id, "kind": kind, "source": source,
    }  # fmt: skip
    entries = entries.filter(**{name: value for name, value in asked.items() if value not in ("", None)})
    return entries.filter(is_as_fresh(freshness, now or timezone.now())) if freshness else entries


def is_as_fresh(state: str, now: datetime) -> Q:
    """The rows of which `knowledge.freshness.freshness` says this."""
    past = Q(expires_at__lte=now, reason__in=["", Entry.Reason.EXPIRED])
    soon = Q(expires_at__gt=now, expires_at__lte=now + EXPIRING)
    living = Q(status__in=[Entry.Status.ACTIVE, Entry.Status.NEEDS_REVIEW])
    match state:
        case "expired":
            return living & past
        case "needs_review":
            return Q(status=Entry.Status.NEEDS_REVIEW) & ~_surely(past)
        case "expiring":
            return Q(status=Entry.Status.ACTIVE) & soon
        case "fresh":
            return Q(status=Entry.Status.ACTIVE) & (Q(expires_at=None) | Q(expires_at__gt=now + EXPIRING))
        case "proposed" | "superseded" | "archived":
            return Q(status=state)
    return Q(pk__in=[])


def _surely(past: Q) -> Q:
    """`past`, false where there is no date at all: so that it can be turned around."""
    return Q(expires_at__isnull=False) & past
