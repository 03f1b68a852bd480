"""Knowledge that does not rot: what the jobs do. Each may run twice, at once, and die at any statement.

Every batch is one transaction, and rows that somebody holds are left to the next run.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from knowledge.models import LIVING, Entry, Revision
from knowledge.services.linking import close_pairs
from knowledge.services.notices import tell_owner
from knowledge.services.revising import hold, revise, values_of
from knowledge.services.standing import send_to_review
from openvibe.chat.models import Message

UNUSED = timedelta(days=90)
BATCH = 200
Status, Reason, Action = Entry.Status, Entry.Reason, Revision.Action
CARED_FOR = (Action.ACCEPTED, Action.EDITED, Action.RENEWED, Action.RESTORED, Action.SETTLED)
"""Revisions that say somebody looked at the entry: it is left alone for another 90 days."""


def expire_entries(now: datetime | None = None) -> int:
    """Entries whose time is over wait for review, and their owners are told; how many.

    Prompts do without them from the very instant, whether or not this has run (`Entry.objects.holding`).
    """
    at = now or timezone.now()
    over = Entry.objects.filter(status=Status.ACTIVE, expires_at__lte=at)
    return _in_batches(over, lambda entry: send_to_review(entry, reason=Reason.EXPIRED))


def archive_unused(now: datetime | None = None) -> int:
    """Entries that nobody used for 90 days are archived, and listed in the review queue first for a week; how many.

    Not those that are pinned, younger than that, or that a person renewed, edited, accepted or brought back since.
    """
    at = now or timezone.now()
    since = at - UNUSED
    cared = Revision.objects.filter(entry=OuterRef("pk"), action__in=CARED_FOR, created_at__gt=since)
    unused = (
        Entry.objects.filter(status=Status.ACTIVE, is_pinned=False, created_at__lte=since)
        .annotate(last=Coalesce(F("last_used_at"), F("created_at")))
        .filter(~Exists(cared), last__lte=since)
        .exclude(expires_at__lte=at)
    )
    return _in_batches(unused, _archive)


@transaction.atomic
def review_what_lost_its_source(*, message: Message) -> int:
    """The message was deleted: the living entries made from it wait for review; how many."""
    made = Entry.objects.filter(source_message=message, status__in=LIVING).exclude(reason=Reason.SOURCE_GONE)
    rows = [entry for entry in hold(made.values_list("pk", flat=True)) if entry.status in LIVING]
    for entry in rows:
        send_to_review(entry, reason=Reason.SOURCE_GONE)
    return len(rows)


def _archive(entry: Entry) -> None:
    before = values_of(entry)
    entry.status, entry.reason, entry.reason_note = Status.ARCHIVED, Reason.UNUSED, ""
    revise(entry, before=before, action=Action.ARCHIVED, by=None, note="Nobody used it for 90 days.")
    tell_owner(entry, Reason.UNUSED)
    close_pairs(entry, None, "archived")


def _in_batches(entries: QuerySet[Entry], change: Callable[[Entry], None]) -> int:
    """Change every row, a batch to a transaction. `change` must make the row leave the selection."""
    done = 0
    while True:
        with transaction.atomic():
            rows = entries.select_for_update(of=("self",), no_key=True, skip_locked=True)
            batch = list(rows.select_related("owner").order_by("pk")[:BATCH])
            for entry in batch:
                change(entry)
        done += len(batch)
        if len(batch) < BATCH:
            return done
