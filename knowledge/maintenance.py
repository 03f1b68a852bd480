"""Knowledge kept in order: entries expire, are archived when unused, go to review without their source; integrity
checks.

Each job may run twice, at once, and die at any statement: every batch is one transaction, and rows that somebody holds
are left to the next run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from knowledge.models import LIVE_STATUSES, Contradiction, Entry, Revision
from knowledge.services.review import send_to_review
from knowledge.services.revisions import (
    entry_values,
    lock_rows,
    notify_owner,
    save_revision,
    settle_open_contradictions,
)
from openvibe.chat.models import Message
from openvibe.engines.llm.tokens import count_tokens

UNUSED_AFTER = timedelta(days=90)
BATCH_SIZE = 200
Status, Reason, Action = Entry.Status, Entry.Reason, Revision.Action
HUMAN_ACTIONS = (Action.ACCEPTED, Action.EDITED, Action.RENEWED, Action.RESTORED, Action.SETTLED)
"""Revisions that say somebody looked at the entry: it is left alone for another 90 days."""


def expire_entries(now: datetime | None = None) -> int:
    """Entries whose time is over wait for review, and their owners are told; how many.

    Prompts do without them from the very instant, whether or not this has run (`Entry.objects.current`).
    """
    at = now or timezone.now()
    expired = Entry.objects.filter(status=Status.ACTIVE, expires_at__lte=at)
    return _apply_in_batches(expired, lambda entry: send_to_review(entry, reason=Reason.EXPIRED))


def archive_unused(now: datetime | None = None) -> int:
    """Entries that nobody used for 90 days are archived, and listed in the review queue first for a week; how many.

    Not those that are pinned, younger than that, or that a person renewed, edited, accepted or brought back since.
    """
    at = now or timezone.now()
    cutoff = at - UNUSED_AFTER
    human_changes = Revision.objects.filter(entry=OuterRef("pk"), action__in=HUMAN_ACTIONS, created_at__gt=cutoff)
    unused_entries = (
        Entry.objects.filter(status=Status.ACTIVE, is_pinned=False, created_at__lte=cutoff)
        .annotate(last=Coalesce(F("last_used_at"), F("created_at")))
        .filter(~Exists(human_changes), last__lte=cutoff)
        .exclude(expires_at__lte=at)
    )
    return _apply_in_batches(unused_entries, _archive_unused_entry)


@transaction.atomic
def flag_entries_without_source(*, message: Message) -> int:
    """The message was deleted: the living entries made from it wait for review; how many."""
    entries = Entry.objects.filter(source_message=message, status__in=LIVE_STATUSES).exclude(reason=Reason.SOURCE_GONE)
    rows = [entry for entry in lock_rows(entries.values_list("pk", flat=True)) if entry.status in LIVE_STATUSES]
    for entry in rows:
        send_to_review(entry, reason=Reason.SOURCE_GONE)
    return len(rows)


def _archive_unused_entry(entry: Entry) -> None:
    before = entry_values(entry)
    entry.status, entry.reason, entry.reason_note = Status.ARCHIVED, Reason.UNUSED, ""
    save_revision(entry, before=before, action=Action.ARCHIVED, by=None, note="Nobody used it for 90 days.")
    notify_owner(entry, Reason.UNUSED)
    settle_open_contradictions(entry, None, "archived")


def _apply_in_batches(entries: QuerySet[Entry], change: Callable[[Entry], None]) -> int:
    """Changes every row, a batch to a transaction. `change` must make the row leave the selection."""
    changed_count = 0
    while True:
        with transaction.atomic():
            rows = entries.select_for_update(of=("self",), no_key=True, skip_locked=True)
            batch = list(rows.select_related("owner").order_by("pk")[:BATCH_SIZE])
            for entry in batch:
                change(entry)
        changed_count += len(batch)
        if len(batch) < BATCH_SIZE:
            return changed_count


def find_integrity_errors(workspace_id: int | None = None) -> Iterator[str]:
    """Sentences about broken entries of a workspace, or of all; none when all is well."""
    entries = Entry.objects.filter(workspace_id=workspace_id) if workspace_id else Entry.objects.all()
    revision_counts = entries.annotate(kept=Count("revisions"), newest=Max("revisions__number"))
    for pk in (
        revision_counts.exclude(kept=F("version"), newest=F("version")).order_by("pk").values_list("pk", flat=True)
    ):
        yield f"Entry {pk} has not one revision for each of its versions."
    orphans = entries.filter(status=Entry.Status.SUPERSEDED, successor=None)
    for pk in orphans.order_by("pk").values_list("pk", flat=True):
        yield f"Entry {pk} is superseded, but nothing supersedes it."
    both_active = entries.filter(status=Entry.Status.ACTIVE, supersedes__status=Entry.Status.ACTIVE)
    for pk, earlier in both_active.order_by("pk").values_list("pk", "supersedes"):
        yield f"Entry {pk} supersedes entry {earlier}, and both are active."
    is_across_workspaces = ~Q(first__workspace=F("workspace")) | ~Q(second__workspace=F("workspace"))
    for pk in Contradiction.objects.filter(is_across_workspaces, first__in=entries).values_list("pk", flat=True):
        yield f"Contradiction {pk} is between two workspaces."
    for pk, content, tokens in entries.order_by("pk").values_list("pk", "content", "tokens").iterator(chunk_size=500):
        if count_tokens(content) != tokens:
            yield f"Entry {pk} says that it has {tokens:,} tokens; it has {count_tokens(content):,}."
