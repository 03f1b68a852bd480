"""What every change of an entry has in common: row locks, its revision, notices to its owner, supersession links."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now
from django.utils import timezone

from knowledge.models import Contradiction, Entry, Notice, Revision
from knowledge.services.validation import check_may_manage, clean_note, possible_owners
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Missing
from openvibe.chat.models import Message
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member

EntryValues = dict[str, Any]
ERASED_CONTENT = "What this entry said was deleted."


def lock_entry(entry: Entry, by: Access, based_on: int | None = None) -> Entry:
    """The entry as it is now, held until the transaction ends, for somebody who may change it.

    Raises Missing (unseen), Refused (guest, agent), Conflict "stale" when it is not at version `based_on` any more.
    """
    current = lock_entries([entry], by)[0]
    check_version(current, based_on)
    return current


def check_version(entry: Entry, based_on: int | None) -> None:
    """Raises Conflict "stale" when the entry is not at the version that the writer saw; None is whichever it is at."""
    if based_on is not None and based_on != entry.version:
        raise Conflict(
            f"This entry was changed meanwhile: you began from version {based_on}, it is at version {entry.version}. "
            "Look at it as it is now, then try again.",
            code="stale",
        )


def check_not_erased(entry: Entry) -> None:
    """Raises Conflict for what was deleted with its history: it cannot hold again."""
    if entry.content == ERASED_CONTENT:
        raise Conflict("What this entry said was deleted, so there is nothing to bring back.", code="deleted")


def lock_entries(entries: Iterable[Entry], by: Access) -> list[Entry]:
    """Several entries, always locked in the order of their ids, so that writers never wait in a circle."""
    ids = [entry.pk for entry in entries]
    visible_ids = set(Entry.objects.visible_to(by).filter(pk__in=ids).values_list("pk", flat=True))
    if visible_ids != set(ids):
        raise Missing
    check_may_manage(by)
    rows_by_id = {row.pk: row for row in lock_rows(ids)}
    if rows_by_id.keys() != set(ids):
        raise Missing
    return [rows_by_id[pk] for pk in ids]


def lock_rows(ids: Iterable[int]) -> list[Entry]:
    """Rows as they are now, locked in the order of their ids."""
    rows = Entry.objects.select_for_update(of=("self",), no_key=True).select_related("owner", "author")
    return list(rows.filter(pk__in=list(ids)).order_by("pk"))


def entry_values(entry: Entry) -> EntryValues:
    """What a revision tells of, as JSON has it: people by handle, the entry it supersedes by id, instants ISO."""
    return {
        "topic": entry.topic,
        "content": entry.content,
        "kind": entry.kind,
        "visibility": entry.visibility,
        "status": entry.status,
        "reason": entry.reason,
        "expires_at": entry.expires_at.isoformat() if entry.expires_at else None,
        "tags": list(entry.tags),
        "is_pinned": entry.is_pinned,
        "owner": entry.owner.handle,
        "supersedes": entry.supersedes_id,
    }


def save_revision(
    entry: Entry, *, before: EntryValues, action: str, by: Access | None, how: str = "page", note: str = ""
) -> None:
    """Saves the entry and records what changed. `by` is None for a job. The caller holds the row.

    `before` is `entry_values` at the beginning. Raises Conflict where another live entry stands in the way.
    """
    after = entry_values(entry)
    if after["status"] != before["status"]:
        entry.status_since = timezone.now()
    entry.version += 1
    with _translate_integrity_errors():
        entry.save()
    notify_source_message(entry)
    Revision.objects.create(
        entry=entry,
        number=entry.version,
        action=action,
        by_id=by.participant_id if by else None,
        how=_revision_origin(by, how),
        note=clean_note(note),
        changes={name: [before[name], value] for name, value in after.items() if before[name] != value},
    )


def insert_entry(entry: Entry, *, action: str, by: Access, how: str, note: str) -> None:
    """Stores a new entry with its first revision, which holds what it began with."""
    with _translate_integrity_errors():
        entry.save(force_insert=True)
    notify_source_message(entry)
    build_first_revision(entry, action=action, by=by, how=how, note=note).save(force_insert=True)


def build_first_revision(entry: Entry, *, action: str, by: Access, how: str = "page", note: str = "") -> Revision:
    """What a new entry begins with; not stored yet. The entry has its id."""
    return Revision(
        entry=entry,
        number=entry.version,
        action=action,
        by_id=by.participant_id,
        how=_revision_origin(by, how),
        note=clean_note(note),
        changes={name: [None, value] for name, value in entry_values(entry).items() if value not in (None, "", [])},
    )


def notify_source_message(entry: Entry) -> None:
    """Pages that show the message it was made from show anew where that stands in knowledge."""
    if entry.source_message_id is None:
        return
    messages = Message.objects.filter(pk=entry.source_message_id).order_by()
    for thread_id, channel_id in messages.values_list("thread_id", "thread__channel_id"):
        emit(
            "pins_changed",
            workspace_id=entry.workspace_id,
            channel_id=channel_id,
            thread_id=thread_id,
            message_id=entry.source_message_id,
        )


def _revision_origin(by: Access | None, how: str) -> str:
    if by is None:
        return "job"
    return "agent" if by.is_agent else how


def mark_decided(entry: Entry, by: Access) -> None:
    """A person says that it holds."""
    entry.decided_by_id, entry.decided_at = by.participant_id, timezone.now()


@contextmanager
def _translate_integrity_errors() -> Iterator[None]:
    """What the database refuses, in words."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        message = str(error)
        if "circle" in message:
            raise Conflict("That would close a circle: entries cannot supersede each other.", code="circle") from None
        if "entry_result_pinned_once" in message:
            raise Conflict("This result is pinned in another entry already.", code="already_pinned") from None
        if "supersedes" in message:
            raise Conflict("Another entry supersedes it already.", code="superseded") from None
        raise


PROPOSED_REASON = "proposed"


def notify_owner(entry: Entry, reason: str, *, by: Access | None = None) -> None:
    """A notice for the owner, or for the admins where the owner is gone; none for whoever caused it.

    One a person, entry and reason as long as it is unseen.
    """
    create_notices(entry, reason, responsible_ids(entry) - {by.participant_id if by else 0})


def create_notices(entry: Entry, reason: str, participants: Collection[int]) -> None:
    notices = [Notice(participant_id=pk, entry=entry, reason=reason) for pk in sorted(participants)]
    Notice.objects.bulk_create(notices, ignore_conflicts=True)
    for notice in notices:
        emit("knowledge_noticed", workspace_id=entry.workspace_id, participant_id=notice.participant_id)


def responsible_ids(entry: Entry) -> set[int]:
    """Participant ids: the owner while they may own entries, else the admins."""
    if possible_owners(entry.workspace_id).filter(pk=entry.owner_id).exists():
        return {entry.owner_id}
    return admin_ids(entry.workspace_id)


def admin_ids(workspace_id: int) -> set[int]:
    """Participant ids of the workspace's owners and admins."""
    admins = possible_owners(workspace_id).filter(member__role__in=[Member.Role.OWNER, Member.Role.ADMIN])
    return set(admins.values_list("pk", flat=True))


def withdraw_notices(entry: Entry) -> None:
    """The entry needs nobody any more."""
    Notice.objects.filter(entry=entry, seen_at=None).update(seen_at=timezone.now())


def mark_notices_seen(*, by: Access, entry: Entry | None = None) -> int:
    """The asker has seen their notices, or those of one entry; how many were new."""
    unseen = Notice.objects.filter(participant_id=by.participant_id, seen_at=None)
    count = (unseen.filter(entry=entry) if entry else unseen).update(seen_at=timezone.now())
    if count:
        emit("knowledge_noticed", workspace_id=by.workspace_id, participant_id=by.participant_id)
    return count


def successor_of(entry: Entry) -> Entry | None:
    """What supersedes it, or is suggested to."""
    return Entry.objects.filter(supersedes=entry).select_related("owner").first()


def check_replaceable(entry: Entry) -> None:
    """Raises Conflict when nothing can supersede the entry now."""
    if entry.status == Entry.Status.SUPERSEDED:
        successor = successor_of(entry)
        by_what = f" by “{successor.topic}”" if successor and successor.visibility == Entry.Visibility.SHARED else ""
        raise Conflict(f"This entry is superseded{by_what} already. Supersede the newer one.", code="superseded")
    if entry.status == Entry.Status.PROPOSED:
        raise Conflict("This is only a suggestion. Accept or reject it.", code="proposed")
    if entry.status == Entry.Status.ARCHIVED:
        raise Conflict("This entry is archived. Bring it back first, or write a new one.", code="archived")


def unlink_pending_successors(entry: Entry, by: Access, how: str) -> None:
    """A suggestion that would have superseded the entry loses that link: somebody was faster."""
    pending_ids = Entry.objects.filter(supersedes=entry, status=Entry.Status.PROPOSED).values_list("pk", flat=True)
    for proposal in lock_rows(pending_ids):
        unlink_predecessor(
            proposal, by=by, how=how, note="The entry it was to supersede was superseded by another one."
        )


def unlink_predecessor(entry: Entry, *, by: Access, how: str, note: str) -> None:
    before = entry_values(entry)
    entry.supersedes = None
    save_revision(entry, before=before, action=Revision.Action.EDITED, by=by, how=how, note=note)


def mark_superseded(entry: Entry, *, by: Access, how: str, note: str) -> None:
    """The entry is superseded from now on. The caller holds it and has checked and linked its successor."""
    before = entry_values(entry)
    entry.status, entry.reason, entry.reason_note = Entry.Status.SUPERSEDED, "", ""
    save_revision(entry, before=before, action=Revision.Action.SUPERSEDED, by=by, how=how, note=note)
    withdraw_notices(entry)
    settle_open_contradictions(entry, by, "superseded")


def settle_open_contradictions(entry: Entry, by: Access | None, how: str) -> None:
    """The open contradictions of an entry that holds no more are settled by that."""
    pairs = Contradiction.objects.filter(Q(first=entry) | Q(second=entry), settled_at=None)
    ids = set(chain.from_iterable(pairs.values_list("first", "second")))
    if ids:
        pairs.update(settled_at=Now(), settled_by_id=by.participant_id if by else None, settled_how=how)
        withdraw_settled_notices(ids)


def withdraw_settled_notices(entry_ids: Collection[int]) -> None:
    """Nobody is told of contradictions any more where none is open; what a person sent to review stays."""
    open_pairs = Contradiction.objects.filter(settled_at=None).filter(
        Q(first=OuterRef("entry")) | Q(second=OuterRef("entry"))
    )
    notices = Notice.objects.filter(entry__in=entry_ids, reason=Entry.Reason.CONTRADICTION, seen_at=None)
    notices.exclude(entry__reason=Entry.Reason.CONTRADICTION).exclude(Exists(open_pairs)).update(seen_at=timezone.now())
