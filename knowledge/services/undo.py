"""Taking back the last decision about an entry, with what it did to others."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q
from django.utils.dateparse import parse_datetime

from knowledge.models import Contradiction, Entry, Revision
from knowledge.services.revisions import (
    PROPOSED_REASON,
    check_version,
    entry_values,
    lock_entries,
    notify_owner,
    save_revision,
)
from openvibe.base.problems import Conflict
from openvibe.workspaces.access import Access

Action = Revision.Action
DECISIONS = (Action.RENEWED, Action.ARCHIVED, Action.RESTORED, Action.ACCEPTED, Action.REJECTED, Action.SETTLED)
"""What can be taken back, with *Keep this one* of a contradiction, which is an edit of its link."""
DECIDING = (*DECISIONS, Action.CREATED, Action.PINNED, Action.IMPORTED)
UNDOABLE_FIELDS = {"status", "reason", "expires_at", "supersedes"}


@transaction.atomic
def undo_decision(*, entry: Entry, by: Access, note: str = "", how: str = "page", based_on: int | None = None) -> Entry:
    """The entry waits again as it did before its newest revision, a decision of the asker's own; what that decision
    superseded, and the contradictions it settled, are as before, too. Undoing is a revision like any.

    Suggestions that lost what they would have superseded do not get it back. Raises Missing, Refused, Conflict (stale;
    `not_undoable`: somebody else's, no decision, or another entry changed since).
    """
    last = Revision.objects.filter(entry=entry).order_by("-number").first()
    other_ids = [] if last is None else _other_entry_ids(entry, last)
    current, *others = lock_entries([entry, *Entry.objects.filter(pk__in=other_ids)], by)
    check_version(current, based_on)
    revisions = {each.entry_id: each for each in _newest_revisions([current, *others])}
    newest = revisions[current.pk]
    if last is None or newest.pk != last.pk or not is_undoable(newest, by):
        raise Conflict("Only your own last decision about an entry can be undone.", code="not_undoable")
    settled_contradictions = Contradiction.objects.filter(
        Q(first=current) | Q(second=current), settled_by=by.participant_id, settled_at__gte=newest.created_at
    )
    reopened = list(settled_contradictions.select_for_update())
    for other in others:
        other_revision = revisions[other.pk]
        if other_revision.by_id != by.participant_id or other_revision.action not in (
            Action.SUPERSEDED,
            Action.SETTLED,
        ):
            words = f"“{other.topic}” was changed since, so this cannot be undone in one step. Open it instead."
            raise Conflict(words, code="not_undoable")
    if "supersedes" in newest.changes:  # the link goes before what it led to may hold again
        _reverse(current, newest, by, how, note)
    for other in others:
        _reverse(other, revisions[other.pk], by, how, note)
        settled_by_it = Contradiction.objects.filter(Q(first=other) | Q(second=other), settled_by=by.participant_id)
        reopened += settled_by_it.filter(settled_at__gte=revisions[other.pk].created_at)
    if "supersedes" not in newest.changes:
        _reverse(current, newest, by, how, note)
    Contradiction.objects.filter(pk__in=[pair.pk for pair in reopened]).update(
        settled_at=None, settled_by=None, settled_how=""
    )
    return current


def is_undoable(revision: Revision, by: Access) -> bool:
    """Whether it is a decision of the asker's own; it is undone only while it is the entry's newest.

    A link to what an entry supersedes is undone, the loss of one is not: what it superseded may hold again, or be
    superseded by another entry.
    """
    changes = revision.changes
    is_link = revision.action == Action.EDITED and changes.keys() == {"supersedes"} and changes["supersedes"][1]
    was_superseded = changes.get("status", [""])[0] == Entry.Status.SUPERSEDED
    is_decision = changes.keys() <= UNDOABLE_FIELDS and revision.action in DECISIONS and not was_superseded
    return revision.by_id == by.participant_id and bool(is_link or is_decision)


def _other_entry_ids(entry: Entry, last: Revision) -> list[int]:
    """Ids of the entries that the same decision changed: what it superseded, or the other half of a contradiction."""
    if last.action == Action.SETTLED:
        pairs = Contradiction.objects.filter(Q(first=entry) | Q(second=entry), settled_by=last.by_id)
        pairs = pairs.filter(settled_how="both_hold", settled_at__gte=last.created_at)
        return [pair.second_id if pair.first_id == entry.pk else pair.first_id for pair in pairs]
    replaced_id = last.changes.get("supersedes", [None, None])[1]
    if last.action == Action.ACCEPTED:
        replaced_id = entry.supersedes_id
    return [replaced_id] if isinstance(replaced_id, int) else []


def _newest_revisions(entries: list[Entry]) -> list[Revision]:
    rows = Revision.objects.filter(entry__in=entries).order_by("entry_id", "-number")
    return list(rows.distinct("entry_id"))


def _reverse(entry: Entry, revision: Revision, by: Access, how: str, note: str) -> None:
    """The values from before the revision. Who decided and when is told by the revisions before it."""
    before = entry_values(entry)
    old = {name: values[0] for name, values in revision.changes.items()}
    entry.status, entry.reason = old.get("status", entry.status), old.get("reason", entry.reason)
    if "expires_at" in old:
        entry.expires_at = parse_datetime(old["expires_at"]) if old["expires_at"] else None
    if "supersedes" in old:
        entry.supersedes_id = old["supersedes"]
    earlier = Revision.objects.filter(entry=entry, number__lt=revision.number)
    taken_back = [number - 1 for number in earlier.filter(action=Action.UNDONE).values_list("number", flat=True)]
    is_edit = Q(action=Action.EDITED, changes__has_any_keys=["topic", "content"])
    deciding = earlier.filter(Q(action__in=DECIDING) | is_edit).exclude(number__in=taken_back)
    deciding_revision = deciding.order_by("-number").first()
    entry.decided_by_id = deciding_revision.by_id if deciding_revision else None
    entry.decided_at = deciding_revision.created_at if deciding_revision else None
    if entry.status in (Entry.Status.PROPOSED, Entry.Status.NEEDS_REVIEW):
        why = earlier.filter(action__in=(Action.FLAGGED, Action.EXPIRED, Action.SUGGESTED)).order_by("-number").first()
        entry.reason_note = why.note if why else ""
        notify_owner(entry, entry.reason or PROPOSED_REASON, by=by)
    save_revision(entry, before=before, action=Action.UNDONE, by=by, how=how, note=note)
    since = earlier.filter(changes__has_key="status").order_by("-number").first()
    if since is not None:  # it keeps its place in the queue
        entry.status_since = since.created_at
        entry.save(update_fields=["status_since"])
