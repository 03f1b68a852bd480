"""Decisions about an entry: accept, reject, send to review, archive, restore, supersede, settle a contradiction."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Unpack

import pgtrigger
from django.db import transaction
from django.db.models.functions import Now
from django.dispatch import Signal

from knowledge.models import Contradiction, Entry, Revision
from knowledge.services.create import create_entry
from knowledge.services.revisions import (
    ERASED_CONTENT,
    check_not_erased,
    check_replaceable,
    check_version,
    entry_values,
    lock_entries,
    lock_entry,
    lock_rows,
    mark_decided,
    mark_superseded,
    notify_owner,
    save_revision,
    settle_open_contradictions,
    unlink_pending_successors,
    unlink_predecessor,
    withdraw_notices,
    withdraw_settled_notices,
)
from knowledge.services.update import EntryChanges, apply_changes
from knowledge.services.validation import KEEP, ExpiryChange, clean_note, possible_owners
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

Status, Reason, Action = Entry.Status, Entry.Reason, Revision.Action

# An entry was erased, its history included. Sent inside that transaction, with `entry`: Entry.
# What else was stored of its words goes, too.
entry_erased = Signal()

REVIEW_REASONS = (Reason.WRONG, Reason.ASKED, Reason.CONTRADICTION)
"""Reasons for a review that people give; jobs and deletions have their own."""


@transaction.atomic
def archive_entry(*, entry: Entry, by: Access, note: str = "", how: str = "page", based_on: int | None = None) -> Entry:
    """Archives the entry: it holds no more and stays readable. Archived twice is archived once.

    Raises Missing, Refused, Conflict (stale; a suggestion, which is rejected; superseded).
    """
    current = lock_entry(entry, by, based_on)
    if current.status == Status.ARCHIVED and current.reason != Reason.UNUSED:
        return current
    if current.status == Status.PROPOSED:
        raise Conflict("This is only a suggestion. Reject it.", code="proposed")
    if current.status == Status.SUPERSEDED:
        raise Conflict("This entry is superseded: it holds no more already.", code="superseded")
    before = entry_values(current)
    current.status, current.reason, current.reason_note = Status.ARCHIVED, "", ""
    save_revision(current, before=before, action=Action.ARCHIVED, by=by, how=how, note=note)
    withdraw_notices(current)
    settle_open_contradictions(current, by, "archived")
    return current


@transaction.atomic
def restore_entry(*, entry: Entry, by: Access, note: str = "", how: str = "page", based_on: int | None = None) -> Entry:
    """An archived entry holds again (a rejected suggestion waits again; what expired meanwhile waits for review).

    A superseded entry comes back only when its successor is archived; the link between them is cut. Raises Missing,
    Refused, Conflict (stale; not archived; what it said was deleted; its successor stands; its result is pinned
    elsewhere by now).
    """
    current = lock_entry(entry, by, based_on)
    check_not_erased(current)
    if current.status not in (Status.ARCHIVED, Status.SUPERSEDED):
        raise Conflict("This entry is not archived.", code="not_archived")
    if current.status == Status.SUPERSEDED:
        _unlink_from_successor(current, by, how)
    before = entry_values(current)
    current.status, current.reason, current.reason_note = Status.ACTIVE, "", ""
    if current.source == Entry.Source.SUGGESTION and current.decided_at is None:
        current.status = Status.PROPOSED
    else:
        mark_decided(current, by)
        if current.has_expired():
            current.status, current.reason = Status.NEEDS_REVIEW, Reason.EXPIRED
    save_revision(current, before=before, action=Action.RESTORED, by=by, how=how, note=note)
    withdraw_notices(current)
    return current


@transaction.atomic
def flag_entry(
    *,
    entry: Entry,
    by: Access,
    reason: str = Reason.ASKED,
    note: str = "",
    how: str = "page",
    based_on: int | None = None,
) -> Entry:
    """Sends it to review: from now on it is in no prompt, until somebody renews, edits or archives it.

    `reason` is wrong, asked or contradiction. Said again without anything new it is said once. Raises Missing,
    Refused, Problem, Conflict (stale; a suggestion; archived; superseded).
    """
    if reason not in REVIEW_REASONS:
        raise Problem(f"A reason is one of {', '.join(REVIEW_REASONS)}.", code="bad_reason", field="reason")
    current = lock_entry(entry, by, based_on)
    cleaned_note = clean_note(note)
    if current.status == Status.NEEDS_REVIEW and current.reason == reason and cleaned_note in ("", current.reason_note):
        return current
    if current.status not in (Status.ACTIVE, Status.NEEDS_REVIEW):
        raise Conflict(f"This entry is {current.get_status_display().lower()}: it is in no prompt.", code="not_active")
    send_to_review(current, reason=reason, note=cleaned_note, by=by, how=how)
    return current


def send_to_review(entry: Entry, *, reason: str, note: str = "", by: Access | None = None, how: str = "job") -> None:
    """The caller holds the row. The owner is told unless it was them."""
    before = entry_values(entry)
    if entry.status != Status.PROPOSED:
        entry.status = Status.NEEDS_REVIEW
    entry.reason, entry.reason_note = reason, note
    action = Action.EXPIRED if reason == Reason.EXPIRED else Action.FLAGGED
    save_revision(entry, before=before, action=action, by=by, how=how, note=note)
    notify_owner(entry, reason, by=by)


def _unlink_from_successor(entry: Entry, by: Access, how: str) -> None:
    for successor in lock_rows(Entry.objects.filter(supersedes=entry).values_list("pk", flat=True)):
        if successor.status != Status.ARCHIVED:
            raise Conflict(
                "The entry that supersedes this one is not archived. Archive it first, then bring this one back.",
                code="superseded",
            )
        unlink_predecessor(successor, by=by, how=how, note="What it superseded was brought back.")


@transaction.atomic
def accept_entry(
    *,
    entry: Entry,
    by: Access,
    expires_at: ExpiryChange = KEEP,
    is_pinned: bool | None = None,
    note: str = "",
    how: str = "page",
    based_on: int | None = None,
    **changes: Unpack[EntryChanges],
) -> Entry:
    """A suggestion holds from now on, as it is or in better words; what it supersedes is superseded with it, unless
    that was archived meanwhile. `is_pinned` None leaves that as it is.

    Raises Conflict when it was decided already, changed since version `based_on`, or when what it supersedes cannot
    be any more; Problem when its time is over; Refused when it supersedes what the asker may not read.
    """
    current, earlier = _lock_suggestion(entry, by, based_on)
    before = entry_values(current)
    apply_changes(current, by, changes, expires_at)
    if is_pinned is not None:
        current.is_pinned = is_pinned
    if current.has_expired():
        raise Problem("Its time is over already. Give it another expiry.", code="expiry_past", field="expires_at")
    if earlier is not None and earlier.status == Status.ARCHIVED:  # it holds no more: nothing is left to supersede
        current.supersedes, earlier = None, None
    if earlier is not None:
        check_replaceable(earlier)
    current.status, current.reason, current.reason_note = Status.ACTIVE, "", ""
    mark_decided(current, by)
    save_revision(current, before=before, action=Action.ACCEPTED, by=by, how=how, note=note)
    withdraw_notices(current)
    if earlier is not None:
        mark_superseded(earlier, by=by, how=how, note=note)
    return current


@transaction.atomic
def reject_entry(*, entry: Entry, by: Access, note: str = "", how: str = "page", based_on: int | None = None) -> Entry:
    """A suggestion never holds; it is archived, and supersedes nothing. Raises Conflict when it was decided already."""
    current = lock_entry(entry, by, based_on)
    _check_pending(current)
    before = entry_values(current)
    current.status, current.supersedes = Status.ARCHIVED, None
    save_revision(current, before=before, action=Action.REJECTED, by=by, how=how, note=note)
    withdraw_notices(current)
    return current


@transaction.atomic
def supersede_entry(
    *,
    entry: Entry,
    by: Access,
    successor: Entry | None = None,
    expires_at: datetime | None = None,
    client_id: str = "",
    note: str = "",
    how: str = "page",
    based_on: int | None = None,
    **changes: Unpack[EntryChanges],
) -> Entry:
    """Another entry takes its place: `successor`, which holds already, or a new one of `content`. Returns that one.

    What is not given of a new one is as in the earlier entry; it never expires unless `expires_at` says so. Both get
    their revision in one transaction. Raises Missing, Refused, Problem, Conflict (stale; superseded already; itself;
    a circle; the successor does not hold or supersedes another entry already).
    """
    if successor is None:
        return _supersede_with_new(
            entry, by, based_on, changes, expires_at=expires_at, client_id=client_id, note=note, how=how
        )
    if successor.pk == entry.pk:
        raise Conflict("An entry cannot supersede itself.", code="circle")
    current, after = lock_entries([entry, successor], by)
    check_version(current, based_on)
    if after.supersedes_id == current.pk and current.status == Status.SUPERSEDED:
        return after
    check_replaceable(current)
    _check_successor(after)
    unlink_pending_successors(current, by, how)
    before = entry_values(after)
    after.supersedes = current
    save_revision(after, before=before, action=Action.EDITED, by=by, how=how, note=note)
    mark_superseded(current, by=by, how=how, note=note)
    return after


@transaction.atomic
def settle_contradiction(
    *,
    contradiction: Contradiction,
    by: Access,
    how: str = "both_hold",
    keep: Entry | None = None,
    note: str = "",
    door: str = "page",
    based_on: tuple[int | None, int | None] = (None, None),
) -> Contradiction:
    """Settles what is true of two entries that seem to contradict each other. Settled twice is settled once.

    `based_on`: the versions of the two that were read.

    `how`: "both_hold" (they do not contradict; it is found again only when the words of one change), or "superseded"
    or "archived": that happens to the other one, and `keep` stays. To mend the words of one, edit it. Raises Missing
    for who may not read both, Refused, Problem, Conflict ("settled" otherwise already, or stale).
    """
    pair = Contradiction.objects.select_related("first", "second").filter(pk=contradiction.pk).first()
    if pair is None:
        raise Missing
    first, second = lock_entries([pair.first, pair.second], by)
    current = Contradiction.objects.select_for_update().get(pk=pair.pk)
    if current.settled_at is not None:
        other = None if keep is None or how == "both_hold" else first if keep.pk == second.pk else second
        _check_settled_so(current, how, other)
        return current
    for entry, version in zip((first, second), based_on, strict=True):
        check_version(entry, version)
    if how == "both_hold":
        for entry in (first, second):
            before = entry_values(entry)
            mark_decided(entry, by)
            save_revision(entry, before=before, action=Action.SETTLED, by=by, how=door, note=note or "Both hold.")
        current.first_version, current.second_version = first.version, second.version
        current.settled_by_id, current.settled_how = by.participant_id, how
        current.save()
        Contradiction.objects.filter(pk=current.pk).update(settled_at=Now())  # by the clock of the revisions
        withdraw_settled_notices((first.pk, second.pk))
        current.refresh_from_db()
        return current
    if keep is None or keep.pk not in (first.pk, second.pk) or how not in ("superseded", "archived"):
        raise Problem(
            "Say both_hold, or superseded or archived with the entry to keep.", code="bad_settlement", field="how"
        )
    kept_entry, other_entry = (first, second) if keep.pk == first.pk else (second, first)
    if how == "superseded":
        supersede_entry(entry=other_entry, by=by, successor=kept_entry, note=note, how=door)
    else:
        archive_entry(entry=other_entry, by=by, note=note, how=door)
    settle_open_contradictions(other_entry, by, how)
    current.refresh_from_db()
    return current


def _check_settled_so(contradiction: Contradiction, how: str, other: Entry | None) -> None:
    """Raises Conflict when the pair was settled otherwise: `other` is the entry that was not to be kept."""
    if contradiction.settled_how != how or (other is not None and other.status != how):
        raise Conflict("This was settled meanwhile, and otherwise. Look at both as they are now.", code="settled")


def _lock_suggestion(entry: Entry, by: Access, based_on: int | None) -> tuple[Entry, Entry | None]:
    """The suggestion and what it would supersede, both held."""
    earlier = Entry.objects.filter(successor__pk=entry.pk, workspace_id=by.workspace_id).first()
    if earlier is None:
        current = lock_entry(entry, by, based_on)
        _check_pending(current)
        return current, None
    if not Entry.objects.visible_to(by).filter(pk=earlier.pk).exists():
        raise Refused("It would supersede an entry that you may not read. An admin has to decide.")
    current, locked_earlier = lock_entries([entry, earlier], by)
    check_version(current, based_on)
    _check_pending(current)
    return current, locked_earlier if current.supersedes_id == locked_earlier.pk else None


def _supersede_with_new(entry: Entry, by: Access, based_on: int | None, changes: EntryChanges, **options: Any) -> Entry:
    """What is not given is inherited; so is the owner while they are there, else whoever supersedes it owns it."""
    current = lock_entry(entry, by, based_on)
    if changes.get("content") is None:
        raise Problem("Write what holds now, or name the entry that does.", code="empty", field="content")
    inherited_fields = {
        "topic": current.topic,
        "kind": current.kind,
        "visibility": current.visibility,
        "tags": current.tags,
    }
    fields: dict[str, Any] = {
        **inherited_fields,
        **{name: value for name, value in changes.items() if value is not None},
    }
    owner = possible_owners(current.workspace_id).filter(pk=current.owner_id).first()
    return create_entry(by=by, supersedes=current, owner=owner, **fields, **options)


def _check_pending(entry: Entry) -> None:
    if entry.status != Status.PROPOSED:
        raise Conflict(f"This was decided already: {entry.get_status_display().lower()}.", code="decided")


def _check_successor(after: Entry) -> None:
    if after.status != Status.ACTIVE or after.has_expired():
        raise Conflict("Only an entry that holds can supersede another one.", code="not_active")
    if after.supersedes_id is not None:
        raise Conflict("That entry supersedes another one already. Archive this one instead.", code="superseded")


def may_erase(entry: Entry, by: Access) -> bool:
    """Admins, its author and its owner; of what an agent wrote, any member."""
    is_of_agent = entry.author.kind == Participant.Kind.AGENT
    return by.administers or is_of_agent or by.participant_id in (entry.author_id, entry.owner_id)


@transaction.atomic
def erase_entry(*, entry: Entry, by: Access, how: str = "page") -> Entry:
    """What the entry says and ever said is gone, its history included; that there was one, and who did what, stays.

    Only for its author, its owner and admins: everybody else may archive it, which can be taken back. Raises Missing,
    Refused. Erased twice is erased once.
    """
    current = lock_entry(entry, by)
    if not may_erase(current, by):
        raise Refused(
            "Only its author, its owner or an admin can delete knowledge with its history. You can archive it."
        )
    if current.content != ERASED_CONTENT:
        before, topics = {**entry_values(current), "topic": None, "content": None}, _topics_ever(current)
        current.topic, current.content = f"Deleted {current.pk}", ERASED_CONTENT
        current.tokens = count_tokens(ERASED_CONTENT)
        if current.status == Status.PROPOSED:  # what it superseded, a person finds and brings back through the link
            current.supersedes = None
        current.status, current.reason, current.reason_note = Status.ARCHIVED, "", ""
        save_revision(current, before=before, action=Action.ARCHIVED, by=by, how=how)
        with pgtrigger.ignore("knowledge.Revision:final"):
            for revision in current.revisions.exclude(number=current.version):
                kept_changes = {
                    name: change for name, change in revision.changes.items() if name not in ("topic", "content")
                }
                Revision.objects.filter(pk=revision.pk).update(changes=kept_changes, note="")
        withdraw_notices(current)
        settle_open_contradictions(current, by, "archived")
        unlink_pending_successors(current, by, how)
        entry_erased.send(sender=Entry, entry=current, topics=topics)
    return current


def _topics_ever(entry: Entry) -> set[str]:
    changes = entry.revisions.values_list("changes", flat=True)
    return {entry.topic, *(topic for change in changes for topic in change.get("topic", ()) if topic)}
