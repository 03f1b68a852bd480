"""Services that update an entry: they edit its words and values, renew its expiry, change its owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from django.db import transaction
from django.utils import timezone

from knowledge.models import Entry, Revision
from knowledge.services.revisions import (
    check_not_erased,
    entry_values,
    lock_entry,
    mark_decided,
    notify_owner,
    save_revision,
    withdraw_notices,
)
from knowledge.services.validation import (
    KEEP,
    ExpiryChange,
    Keep,
    clean_content,
    clean_expiry,
    clean_kind,
    clean_owner,
    clean_tags,
    clean_topic,
    clean_visibility,
)
from openvibe.base.problems import Conflict, Refused
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

Status, Reason, Action = Entry.Status, Entry.Reason, Revision.Action
FIELD_CLEANERS: Mapping[str, Callable[[Any], Any]] = {
    "topic": clean_topic,
    "kind": clean_kind,
    "visibility": clean_visibility,
    "tags": clean_tags,
}


class EntryChanges(TypedDict, total=False):
    """What an entry shall say; what is left out or None stays as it is."""

    topic: str | None
    content: str | None
    kind: str | None
    visibility: str | None
    tags: Iterable[str] | None


@transaction.atomic
def update_entry(
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
    """Changes what is given; KEEP leaves the expiry as it is. Nothing changed, no revision.

    An entry that waits for review holds again once its words are new, unless its time is over; a suggestion stays
    one. Raises Missing, Refused, Problem (the field is named), Conflict: "stale" when it is not at version `based_on`
    any more, "archived" or "superseded" when it is.
    """
    current = lock_entry(entry, by, based_on)
    _check_editable(current)
    before = entry_values(current)
    if is_pinned is not None:
        current.is_pinned = is_pinned
    apply_changes(current, by, changes, expires_at)
    after = entry_values(current)
    if after == before:
        return current
    if current.status != Status.PROPOSED and (after["topic"], after["content"]) != (before["topic"], before["content"]):
        mark_decided(current, by)
        _reactivate(current)
    elif current.reason == Reason.EXPIRED:
        _reactivate(current)
    save_revision(current, before=before, action=Action.EDITED, by=by, how=how, note=note)
    if current.status == Status.ACTIVE:
        withdraw_notices(current)
    return current


@transaction.atomic
def renew_entry(
    *,
    entry: Entry,
    by: Access,
    expires_at: datetime | None,
    note: str = "",
    how: str = "page",
    based_on: int | None = None,
) -> Entry:
    """Renews the entry: it still holds, until `expires_at` (UTC; None: for ever). An archived entry comes back by that.

    Raises Missing, Refused, Problem (past), Conflict (stale; a suggestion; superseded; what it said was deleted).
    """
    current = lock_entry(entry, by, based_on)
    check_not_erased(current)
    if current.status == Status.PROPOSED:
        raise Conflict("This is only a suggestion. Accept or reject it.", code="proposed")
    if current.status == Status.SUPERSEDED:
        raise Conflict("This entry is superseded. Renew the newer one.", code="superseded")
    before = entry_values(current)
    current.expires_at = clean_expiry(expires_at)
    current.status, current.reason, current.reason_note = Status.ACTIVE, "", ""
    mark_decided(current, by)
    save_revision(current, before=before, action=Action.RENEWED, by=by, how=how, note=note)
    withdraw_notices(current)
    return current


@transaction.atomic
def change_owner(*, entry: Entry, by: Access, owner: Participant, note: str = "", how: str = "page") -> Entry:
    """Somebody else is told from now on when it needs a review. Raises Problem for guests, agents and strangers."""
    current = lock_entry(entry, by)
    if owner.pk == current.owner_id:
        return current
    before = entry_values(current)
    current.owner = clean_owner(owner, by)
    save_revision(current, before=before, action=Action.EDITED, by=by, how=how, note=note)
    withdraw_notices(current)
    if current.status == Status.NEEDS_REVIEW:
        notify_owner(current, current.reason, by=by)
    return current


def apply_changes(entry: Entry, by: Access, changes: EntryChanges, expires_at: ExpiryChange) -> None:
    """Puts cleaned values on the entry, in memory. Raises Problem, and Refused for who would lose sight of it."""
    for name, value in changes.items():
        if value is not None and name != "content":
            setattr(entry, name, FIELD_CLEANERS[name](value))
    if (content := changes.get("content")) is not None:
        entry.content, entry.tokens = clean_content(content)
    if not isinstance(expires_at, Keep) and expires_at != entry.expires_at:
        entry.expires_at = clean_expiry(expires_at)
    keeps_access = by.knowledge == "restricted" or by.participant_id in (entry.author_id, entry.owner_id)
    if entry.visibility == Entry.Visibility.RESTRICTED and not keeps_access:
        raise Refused("Only admins, its author and its owner may restrict an entry.")


def _check_editable(entry: Entry) -> None:
    """Raises Conflict for what is archived or superseded: it is brought back before it is changed."""
    if entry.status == Status.SUPERSEDED:
        raise Conflict("This entry is superseded. Change the newer one.", code="superseded")
    if entry.status == Status.ARCHIVED:
        raise Conflict("This entry is archived. Bring it back before changing it.", code="archived")


def _reactivate(entry: Entry) -> None:
    """Takes the entry out of review, unless its time is over."""
    if entry.status != Status.NEEDS_REVIEW:
        return
    if entry.has_expired(timezone.now()):
        entry.reason, entry.reason_note = Reason.EXPIRED, ""
    else:
        entry.status, entry.reason, entry.reason_note = Status.ACTIVE, "", ""
