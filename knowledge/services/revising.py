"""The one way an entry changes: locked, checked against what the writer saw, saved with its revision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from knowledge.models import Entry, Revision
from knowledge.services.worded import worded_note
from openvibe.base.models import emit
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Message
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, Participant

FIELDS = (
    "topic", "content", "kind", "visibility", "status", "reason", "expires_at", "tags", "is_pinned", "owner",
    "supersedes",
)  # fmt: skip
"""What a revision tells of, in this order."""

Values = dict[str, Any]


def may_manage(by: Access) -> bool:
    """Members, admins and owners; guests and agents read."""
    return not by.is_agent and by.role in ("owner", "admin", "member")


def check_may_manage(by: Access) -> None:
    """Raises Refused for who only reads knowledge."""
    if by.is_agent:
        raise Refused("Only people change knowledge. Suggest an entry instead.", code="people_only")
    if not may_manage(by):
        raise Refused("Guests read knowledge, they do not change it. Ask a member.")


def locked(entry: Entry, by: Access, based_on: int | None = None) -> Entry:
    """The entry as it is now, held until the transaction ends, for somebody who may change it.

    Raises Missing (unseen), Refused (guest, agent), Conflict "stale" when it is not at version `based_on` any more.
    """
    found = locked_together([entry], by)[0]
    check_version(found, based_on)
    return found


def check_version(entry: Entry, based_on: int | None) -> None:
    """Raises Conflict "stale" when the entry is not at the version that the writer saw; None is whichever it is at."""
    if based_on is not None and based_on != entry.version:
        raise Conflict(
            f"This entry was changed meanwhile: you began from version {based_on}, it is at version {entry.version}. "
            "Your text is kept here: compare, then save again.",
            code="stale",
        )


def locked_together(entries: Iterable[Entry], by: Access) -> list[Entry]:
    """Several entries, always locked in the order of their ids, so that writers never wait in a circle."""
    ids = [entry.pk for entry in entries]
    seen = set(Entry.objects.visible_to(by).filter(pk__in=ids).values_list("pk", flat=True))
    if seen != set(ids):
        raise Missing
    check_may_manage(by)
    found = {row.pk: row for row in hold(ids)}
    if set(found) != set(ids):
        raise Missing
    return [found[pk] for pk in ids]


def hold(ids: Iterable[int]) -> list[Entry]:
    """Rows as they are now, locked in the order of their ids."""
    rows = Entry.objects.select_for_update(of=("self",), no_key=True).select_related("owner", "author")
    return list(rows.filter(pk__in=list(ids)).order_by("pk"))


def values_of(entry: Entry) -> Values:
    """What a revision compares, as JSON has it: people by handle, the entry it supersedes by id, instants ISO."""
    found = {name: getattr(entry, name) for name in FIELDS if name not in ("owner", "supersedes", "expires_at")}
    found["tags"] = list(entry.tags)
    found["expires_at"] = entry.expires_at.isoformat() if entry.expires_at else None
    found["owner"] = entry.owner.handle
    found["supersedes"] = entry.supersedes_id
    return {name: found[name] for name in FIELDS}


def revise(
    entry: Entry, *, before: Values, action: str, by: Access | None, how: str = "page", note: str = ""
) -> Revision:
    """Save the entry and say what changed. `by` is None for a job. The caller holds the row.

    `before` is `values_of` at the beginning. Raises Conflict where another live entry stands in the way.
    """
    after = values_of(entry)
    if after["status"] != before["status"]:
        entry.status_since = timezone.now()
    entry.version += 1
    with _explained():
        entry.save()
    tell_source(entry)
    return Revision.objects.create(
        entry=entry, number=entry.version, action=action, by_id=by.participant_id if by else None,
        how=told_how(by, how), note=worded_note(note),
        changes={name: [before[name], after[name]] for name in FIELDS if before[name] != after[name]},
    )  # fmt: skip


def begin(entry: Entry, *, action: str, by: Access, how: str = "page", note: str = "") -> Revision:
    """Store a new entry with its first revision, which holds what it began with."""
    with _explained():
        entry.save(force_insert=True)
    tell_source(entry)
    revision = first_revision(entry, action=action, by=by, how=how, note=note)
    revision.save(force_insert=True)
    return revision


def first_revision(entry: Entry, *, action: str, by: Access, how: str = "page", note: str = "") -> Revision:
    """What a new entry begins with; not stored yet. The entry has its id."""
    changes = {name: [None, value] for name, value in values_of(entry).items() if value not in (None, "", [])}
    return Revision(
        entry=entry, number=entry.version, action=action, by_id=by.participant_id, how=told_how(by, how),
        note=worded_note(note), changes=changes,
    )  # fmt: skip


def tell_source(entry: Entry) -> None:
    """Pages that show the message it was made from show anew where that stands in knowledge."""
    messages = Message.objects.filter(pk=entry.source_message_id) if entry.source_message_id else Message.objects.none()
    for thread_id, channel_id in messages.order_by().values_list("thread_id", "thread__channel_id"):
        emit("pins_changed", workspace_id=entry.workspace_id, channel_id=channel_id, thread_id=thread_id,
             message_id=entry.source_message_id)  # fmt: skip


def told_how(by: Access | None, how: str) -> str:
    if by is None:
        return "job"
    return "agent" if by.is_agent else how


def decide(entry: Entry, by: Access, at: datetime | None = None) -> None:
    """A person says that it holds."""
    entry.decided_by_id, entry.decided_at = by.participant_id, at or timezone.now()


def possible_owners(workspace_id: int) -> QuerySet[Participant]:
    """Who may own entries: members of the workspace who are there and no guests."""
    members = Member.objects.filter(workspace_id=workspace_id, removed_at=None, user__is_active=True)
    return Participant.objects.filter(pk__in=members.exclude(role=Member.Role.GUEST).values("participant"))


def checked_owner(owner: Participant | None, by: Access) -> Participant:
    """Who is told when it needs a review: one of `possible_owners`, by default the asker. Raises Problem."""
    if owner is None:
        return Participant.objects.get(pk=by.participant_id)
    if not possible_owners(by.workspace_id).filter(pk=owner.pk).exists():
        raise Problem("An owner is a member of this workspace, and no guest.", code="bad_owner", field="owner")
    return owner


@contextmanager
def _explained() -> Iterator[None]:
    """What the database refuses, in words."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        said = str(error)
        if "circle" in said:
            raise Conflict("That would close a circle: entries cannot supersede each other.", code="circle") from None
        if "entry_result_pinned_once" in said:
            raise Conflict("This result is pinned in another entry already.", code="already_pinned") from None
        if "supersedes" in said:
            raise Conflict("Another entry supersedes it already.", code="superseded") from None
        raise
