"""Whether an entry holds: archive, bring back, send to review."""

from __future__ import annotations

from django.db import transaction

from knowledge.models import Entry, Revision
from knowledge.services.linking import close_pairs, successor_of, unlink
from knowledge.services.notices import tell_owner, withdraw_notices
from knowledge.services.revising import decide, hold, locked, revise, values_of
from knowledge.services.worded import worded_note
from openvibe.base.problems import Conflict, Problem
from openvibe.workspaces.access import Access

Status, Reason, Action = Entry.Status, Entry.Reason, Revision.Action
FOR_PEOPLE = (Reason.WRONG, Reason.ASKED, Reason.CONTRADICTION)
"""Reasons for a review that people give; jobs and deletions have their own."""


@transaction.atomic
def archive_entry(*, entry: Entry, by: Access, note: str = "", how: str = "page", based_on: int | None = None) -> Entry:
    """It holds no more and stays readable. Archived twice is archived once.

    Raises Missing, Refused, Conflict (stale; a suggestion, which is rejected; superseded).
    """
    current = locked(entry, by, based_on)
    if current.status == Status.ARCHIVED and current.reason != Reason.UNUSED:
        return current
    if current.status == Status.PROPOSED:
        raise Conflict("This is only a suggestion. Reject it.", code="proposed")
    if current.status == Status.SUPERSEDED:
        raise Conflict("This entry is superseded: it holds no more already.", code="superseded")
    before = values_of(current)
    current.status, current.reason, current.reason_note = Status.ARCHIVED, "", ""
    revise(current, before=before, action=Action.ARCHIVED, by=by, how=how, note=note)
    withdraw_notices(current)
    close_pairs(current, by, "archived")
    return current


@transaction.atomic
def restore_entry(*, entry: Entry, by: Access, note: str = "", how: str = "page", based_on: int | None = None) -> Entry:
    """An archived entry holds again (a rejected suggestion waits again; what expired meanwhile waits for review).

    A superseded entry comes back only when its successor is archived; the link between them is cut. Raises Missing,
    Refused, Conflict (stale; not archived; its successor stands; its result is pinned elsewhere by now).
    """
    current = locked(entry, by, based_on)
    if current.status not in (Status.ARCHIVED, Status.SUPERSEDED):
        raise Conflict("This entry is not archived.", code="not_archived")
    if current.status == Status.SUPERSEDED:
        _cut_from_successor(current, by, how)
    before = values_of(current)
    current.status, current.reason, current.reason_note = Status.ACTIVE, "", ""
    if current.source == Entry.Source.SUGGESTION and current.decided_at is None:
        current.status = Status.PROPOSED
    else:
        decide(current, by)
        if current.has_expired():
            current.status, current.reason = Status.NEEDS_REVIEW, Reason.EXPIRED
    revise(current, before=before, action=Action.RESTORED, by=by, how=how, note=note)
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
    """Send it to review: from now on it is in no prompt, until somebody renews, edits or archives it.

    `reason` is wrong, asked or contradiction. Said again without anything new it is said once. Raises Missing,
    Refused, Problem, Conflict (stale; a suggestion; archived; superseded).
    """
    if reason not in FOR_PEOPLE:
        raise Problem(f"A reason is one of {', '.join(FOR_PEOPLE)}.", code="bad_reason", field="reason")
    current = locked(entry, by, based_on)
    said = worded_note(note)
    if current.status == Status.NEEDS_REVIEW and current.reason == reason and said in ("", current.reason_note):
        return current
    if current.status not in (Status.ACTIVE, Status.NEEDS_REVIEW):
        raise Conflict(f"This entry is {current.get_status_display().lower()}: it is in no prompt.", code="not_active")
    send_to_review(current, reason=reason, note=said, by=by, how=how)
    return current


def send_to_review(entry: Entry, *, reason: str, note: str = "", by: Access | None = None, how: str = "job") -> None:
    """The caller holds the row. The owner is told unless it was them."""
    before = values_of(entry)
    if entry.status != Status.PROPOSED:
        entry.status = Status.NEEDS_REVIEW
    entry.reason, entry.reason_note = reason, note
    action = Action.EXPIRED if reason == Reason.EXPIRED else Action.FLAGGED
    revise(entry, before=before, action=action, by=by, how=how, note=note)
    tell_owner(entry, reason, by=by)


def _cut_from_successor(entry: Entry, by: Access, how: str) -> None:
    after = successor_of(entry)
    if after is None:
        return
    for successor in hold([after.pk]):
        if successor.status != Status.ARCHIVED:
            raise Conflict(
                "The entry that supersedes this one is not archived. Archive it first, then bring this one back.",
                code="superseded",
            )
        unlink(successor, by=by, how=how, note="What it superseded was brought back.")
