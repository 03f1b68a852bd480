"""What people decide: on suggestions, on what supersedes what, on contradictions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from knowledge.models import Contradiction, Entry, Revision
from knowledge.services.adding import add_entry
from knowledge.services.changing import apply
from knowledge.services.linking import check_replaceable, close_pairs, make_way, put_aside
from knowledge.services.notices import withdraw_notices
from knowledge.services.revising import (
    check_version,
    decide,
    locked,
    locked_together,
    possible_owners,
    revise,
    values_of,
)
from knowledge.services.standing import archive_entry
from knowledge.services.worded import KEEP, Expiry
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

Status, Action = Entry.Status, Revision.Action


@transaction.atomic
def accept_entry(
    *,
    entry: Entry,
    by: Access,
    topic: str | None = None,
    content: str | None = None,
    kind: str | None = None,
    visibility: str | None = None,
    expires_at: Expiry = KEEP,
    tags: Iterable[str] | None = None,
    note: str = "",
    how: str = "page",
    based_on: int | None = None,
) -> Entry:
    """A suggestion holds from now on, as it is or in better words; what it supersedes is superseded with it.

    Raises Conflict when it was decided already, changed since version `based_on`, or when what it supersedes cannot
    be any more; Problem when its time is over; Refused when it supersedes what the asker may not read.
    """
    current, earlier = _suggestion(entry, by, based_on)
    before = values_of(current)
    given = {"topic": topic, "content": content, "kind": kind, "visibility": visibility, "tags": tags}
    apply(current, by, given, expires_at)
    if current.has_expired():
        raise Problem("Its time is over already. Give it another expiry.", code="expiry_past", field="expires_at")
    if earlier is not None:
        check_replaceable(earlier)
    current.status, current.reason, current.reason_note = Status.ACTIVE, "", ""
    decide(current, by)
    revise(current, before=before, action=Action.ACCEPTED, by=by, how=how, note=note)
    withdraw_notices(current)
    if earlier is not None:
        put_aside(earlier, by=by, how=how, note=note)
    return current


@transaction.atomic
def reject_entry(*, entry: Entry, by: Access, note: str = "", how: str = "page", based_on: int | None = None) -> Entry:
    """A suggestion never holds; it is archived, and supersedes nothing. Raises Conflict when it was decided already."""
    current = locked(entry, by, based_on)
    _check_waits(current)
    before = values_of(current)
    current.status, current.supersedes = Status.ARCHIVED, None
    revise(current, before=before, action=Action.REJECTED, by=by, how=how, note=note)
    withdraw_notices(current)
    return current


@transaction.atomic
def supersede_entry(
    *,
    entry: Entry,
    by: Access,
    successor: Entry | None = None,
    topic: str | None = None,
    content: str | None = None,
    kind: str | None = None,
    visibility: str | None = None,
    expires_at: datetime | None = None,
    tags: Iterable[str] | None = None,
    client_id: str = "",
    note: str = "",
    how: str = "page",
    based_on: int | None = None,
) -> Entry:
    """Another entry takes its place: `successor`, which holds already, or a new one of `content`. Returns that one.

    What is not given of a new one is as in the earlier entry; it never expires unless `expires_at` says so. Both get
    their revision in one transaction. Raises Missing, Refused, Problem, Conflict (stale; superseded already; itself;
    a circle; the successor does not hold or supersedes another entry already).
    """
    if successor is None:
        return _superseded_by_new(
            entry, by, based_on, topic=topic, content=content, kind=kind, visibility=visibility,
            expires_at=expires_at, tags=tags, client_id=client_id, note=note, how=how,
        )  # fmt: skip
    if successor.pk == entry.pk:
        raise Conflict("An entry cannot supersede itself.", code="circle")
    current, after = locked_together([entry, successor], by)
    check_version(current, based_on)
    if after.supersedes_id == current.pk and current.status == Status.SUPERSEDED:
        return after
    check_replaceable(current)
    _check_may_follow(after)
    make_way(current, by, how)
    before = values_of(after)
    after.supersedes = current
    revise(after, before=before, action=Action.EDITED, by=by, how=how, note=note)
    put_aside(current, by=by, how=how, note=note)
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
) -> Contradiction:
    """Say what is true of two entries that seem to contradict each other. Settled twice is settled once.

    `how`: "both_hold" (they do not contradict; it is found again only when the words of one change), or "superseded"
    or "archived": that happens to the other one, and `keep` stays. To mend the words of one, edit it. Raises Missing
    for who may not read both, Refused, Problem, Conflict.
    """
    pair = Contradiction.objects.select_related("first", "second").filter(pk=contradiction.pk).first()
    if pair is None:
        raise Missing
    first, second = locked_together([pair.first, pair.second], by)
    current = Contradiction.objects.select_for_update().get(pk=pair.pk)
    if current.settled_at is not None:
        return current
    if how == "both_hold":
        for entry in (first, second):
            before = values_of(entry)
            decide(entry, by)
            revise(entry, before=before, action=Action.SETTLED, by=by, how=door, note=note or "Both hold.")
        current.first_version, current.second_version = first.version, second.version
        current.settled_at, current.settled_by_id, current.settled_how = timezone.now(), by.participant_id, how
        current.save()
        return current
    if keep is None or keep.pk not in (first.pk, second.pk) or how not in ("superseded", "archived"):
        raise Problem(
            "Say both_hold, or superseded or archived with the entry to keep.", code="bad_settlement", field="how"
        )
    kept, other = (first, second) if keep.pk == first.pk else (second, first)
    if how == "superseded":
        supersede_entry(entry=other, by=by, successor=kept, note=note, how=door)
    else:
        archive_entry(entry=other, by=by, note=note, how=door)
    close_pairs(other, by, how)
    current.refresh_from_db()
    return current


# --- pieces -------------------------------------------------------------------------------------------------
def _suggestion(entry: Entry, by: Access, based_on: int | None) -> tuple[Entry, Entry | None]:
    """The suggestion and what it would supersede, both held."""
    earlier = Entry.objects.filter(successor__pk=entry.pk, workspace_id=by.workspace_id).first()
    if earlier is None:
        current = locked(entry, by, based_on)
        _check_waits(current)
        return current, None
    if not Entry.objects.visible_to(by).filter(pk=earlier.pk).exists():
        raise Refused("It would supersede an entry that you may not read. An admin has to decide.")
    current, held = locked_together([entry, earlier], by)
    check_version(current, based_on)
    _check_waits(current)
    return current, held if current.supersedes_id == held.pk else None


def _superseded_by_new(entry: Entry, by: Access, based_on: int | None, **given: Any) -> Entry:
    current = locked(entry, by, based_on)
    if given["content"] is None:
        raise Problem("Write what holds now, or name the entry that does.", code="empty", field="content")
    inherited = {"topic": current.topic, "kind": current.kind, "visibility": current.visibility, "tags": current.tags}
    chosen = {name: given[name] if given[name] is not None else value for name, value in inherited.items()}
    return add_entry(by=by, supersedes=current, owner=_owner_kept(current), **{**given, **chosen})


def _owner_kept(entry: Entry) -> Participant | None:
    """The earlier entry's owner while they are there, else whoever supersedes it."""
    return possible_owners(entry.workspace_id).filter(pk=entry.owner_id).first()


def _check_waits(entry: Entry) -> None:
    if entry.status != Status.PROPOSED:
        raise Conflict(f"This was decided already: {entry.get_status_display().lower()}.", code="decided")


def _check_may_follow(after: Entry) -> None:
    if after.status != Status.ACTIVE or after.has_expired():
        raise Conflict("Only an entry that holds can supersede another one.", code="not_active")
    if after.supersedes_id is not None:
        raise Conflict("That entry supersedes another one already. Archive this one instead.", code="superseded")
