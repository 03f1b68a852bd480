"""Services that create entries: written by hand, pinned from a result or a message, suggested by an agent, or many from
an import."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Required, TypedDict, Unpack

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from knowledge.models import LIVE_STATUSES, MAX_TOPIC_CHARACTERS, Entry, Notice, Revision
from knowledge.services.revisions import (
    PROPOSED_REASON,
    build_first_revision,
    check_replaceable,
    entry_values,
    insert_entry,
    lock_entry,
    lock_rows,
    mark_decided,
    mark_superseded,
    notify_owner,
    save_revision,
    successor_of,
    unlink_pending_successors,
    withdraw_notices,
)
from knowledge.services.validation import (
    check_may_manage,
    clean_client_id,
    clean_content,
    clean_expiry,
    clean_kind,
    clean_note,
    clean_owner,
    clean_tags,
    clean_topic,
    clean_visibility,
    possible_owners,
)
from knowledge.topics import guess_topic
from openvibe.base.models import Event
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, Participant

MAX_PENDING_SUGGESTIONS = 50
"""Suggestions of one agent that may wait at a time."""


class AlreadyPinned(Conflict):
    """`entry_id` is the entry that holds the result; None when the asker may not read it."""

    code = "already_pinned"

    def __init__(self, entry: Entry | None) -> None:
        location = f"in “{entry.topic}”" if entry else "in an entry that you may not read"
        super().__init__(f"This result is pinned {location} already. Edit or supersede that entry instead.")
        self.entry_id = entry.pk if entry else None


class EntryFields(TypedDict, total=False):
    """What a new entry says. `content` is Markdown of at most 2,000 tokens; `expires_at` without a zone is UTC.

    The same `client_id` from the same author is the same entry.
    """

    topic: Required[str]
    content: Required[str]
    kind: str
    visibility: str
    expires_at: datetime | None
    tags: Iterable[str]
    client_id: str


def create_entry(
    *,
    by: Access,
    owner: Participant | None = None,
    is_pinned: bool = False,
    supersedes: Entry | None = None,
    note: str = "",
    how: str = "page",
    **fields: Unpack[EntryFields],
) -> Entry:
    """Writes an entry by hand; it holds at once, as a shared fact that never expires where nothing else is said.

    With `supersedes` the earlier entry stops holding in the same transaction. Raises Refused (guest, agent), Missing,
    Problem (the field is named), Conflict (what it supersedes is superseded, archived, or only suggested).
    """
    check_may_manage(by)
    is_imported = how == "import"
    entry = _build_entry(by, Entry.Source.IMPORT if is_imported else Entry.Source.MANUAL, **fields)
    entry.owner, entry.is_pinned = clean_owner(owner, by), is_pinned
    action = Revision.Action.IMPORTED if is_imported else Revision.Action.CREATED
    return _create_once(entry, by, partial(_insert_active, entry, by, supersedes, action, how, note))


def pin_result(
    *,
    message: Message,
    by: Access,
    owner: Participant | None = None,
    is_pinned: bool = False,
    supersedes: Entry | None = None,
    note: str = "",
    how: str = "page",
    **fields: Unpack[EntryFields],
) -> Entry:
    """Pins a dive's result, or what somebody said, to the workspace's knowledge; a decision, unless `kind` says else.

    A result stands in one living entry at a time. Without `visibility` what comes from a private channel or a thread
    that is not open to every agent is restricted. Raises as `create_entry` does, AlreadyPinned (a Conflict that names
    the entry), and Missing for a message that is deleted or not visible.
    """
    check_may_manage(by)
    source = _source_kind(message)
    fields.setdefault("kind", Entry.Kind.DECISION)
    fields["visibility"] = fields.get("visibility") or default_visibility(message.thread)
    entry = _build_entry(by, source, message, **fields)
    entry.owner, entry.is_pinned = clean_owner(owner, by), is_pinned
    return _create_once(entry, by, partial(_insert_pinned, entry, message, by, supersedes, how, note))


def suggest_entry(
    *,
    by: Access,
    why: str = "",
    supersedes: Entry | None = None,
    source_message: Message | None = None,
    owner: Participant | None = None,
    how: str = "page",
    **fields: Unpack[EntryFields],
) -> Entry:
    """Suggests an entry. It is `proposed` and in no prompt until a person accepts it.

    Agents from level 2 and members may; `owner` decides on it, by default who wrote `source_message`, else the asker,
    else an owner of the workspace. The same suggestion that still waits is returned, not stored twice. Raises Refused
    (level, guest), Missing, Problem (the field is named, too many waiting), Conflict.
    """
    _check_may_suggest(by)
    if not fields.get("visibility"):
        fields["visibility"] = default_visibility(source_message.thread) if source_message else Entry.Visibility.SHARED
    entry = _build_entry(by, Entry.Source.SUGGESTION, source_message, **fields)
    entry.status, entry.reason_note = Entry.Status.PROPOSED, clean_note(why)
    entry.owner = clean_owner(owner, by) if owner else _default_owner(by, source_message)
    return _create_once(entry, by, partial(_insert_suggestion, entry, by, supersedes, how))


PUBLISHED_KEY = "published-"
"""How the `client_id` begins of what is suggested once a dive's result was published."""

MAX_TOPICS_READ = 500


def suggest_result(*, by: Access, message: Message, visibility: str, publisher: Access | None) -> Entry:
    """Asks whether a published result should be knowledge: suggests its headline and key points, under the topic the
    workspace has for it, as far as the publisher sees, else under how the headline begins. Asked once for a result,
    whatever was decided on it; and once for the same words, while they wait, hold, or were declined: where that entry
    reaches whom this one would, it is returned.

    Raises like `suggest_entry`.
    """
    result = message.dive_result
    bullets = "\n".join(f"- {bullet}" for bullet in result.bullets)
    content = f"{result.headline}\n\n{bullets}"
    held = Entry.objects.filter(
        workspace_id=by.workspace_id,
        status=Entry.Status.ACTIVE,
        content=clean_content(content)[0],
        visibility=visibility,
    )
    if visibility != Entry.Visibility.SHARED:
        held = held.filter(source_thread_id=message.thread_id)
    if (entry := held.first()) is not None:
        return entry
    topic = guess_topic(result.headline, _shared_topics(publisher) if publisher else ()) or result.headline
    return suggest_entry(
        by=by,
        topic=topic[:MAX_TOPIC_CHARACTERS].strip(),
        content=content,
        kind=Entry.Kind.DECISION,
        visibility=visibility,
        why=f"Should I add this to workspace knowledge under “{topic[:MAX_TOPIC_CHARACTERS].strip()}”?",
        source_message=message,
        client_id=f"{PUBLISHED_KEY}{message.pk}",
        how="agent",
    )


def _shared_topics(by: Access) -> Iterable[str]:
    """Topics in use that everybody may read, the most used first."""
    entries = Entry.objects.visible_to(by).filter(status=Entry.Status.ACTIVE, visibility=Entry.Visibility.SHARED)
    return entries.order_by("-use_count", "-id").values_list("topic", flat=True)[:MAX_TOPICS_READ]


def pending_suggestions(by: Access) -> QuerySet[Entry]:
    """The asker's own suggestions that nobody decided on yet."""
    return Entry.objects.filter(workspace_id=by.workspace_id, author_id=by.participant_id, status=Entry.Status.PROPOSED)


def declined_suggestions(by: Access) -> QuerySet[Entry]:
    """The asker's own suggestions that people declined: the same is not asked again."""
    own = Entry.objects.filter(workspace_id=by.workspace_id, author_id=by.participant_id, status=Entry.Status.ARCHIVED)
    return own.filter(source=Entry.Source.SUGGESTION, decided_at=None)


def too_many_suggestions_error() -> Problem:
    return Problem(
        f"{MAX_PENDING_SUGGESTIONS} of your suggestions wait already. People have to decide on some first.",
        code="too_many",
    )


def default_visibility(thread: Thread) -> str:
    """Shared where everybody in the workspace may read the conversation anyway, else restricted."""
    is_open = thread.access == Thread.Access.OPEN and not thread.channel.is_private
    return Entry.Visibility.SHARED if is_open else Entry.Visibility.RESTRICTED


def _build_entry(
    by: Access,
    source: str,
    message: Message | None = None,
    *,
    topic: str,
    content: str,
    kind: str = Entry.Kind.FACT,
    visibility: str = Entry.Visibility.SHARED,
    expires_at: datetime | None = None,
    tags: Iterable[str] = (),
    client_id: str = "",
) -> Entry:
    cleaned_content, tokens = clean_content(content)
    return Entry(
        workspace_id=by.workspace_id,
        author_id=by.participant_id,
        source=source,
        topic=clean_topic(topic),
        content=cleaned_content,
        tokens=tokens,
        kind=clean_kind(kind),
        visibility=clean_visibility(visibility),
        expires_at=clean_expiry(expires_at),
        tags=clean_tags(tags),
        client_id=clean_client_id(client_id),
        source_message=message,
        source_thread_id=message.thread_id if message else None,
    )


def _create_once(entry: Entry, by: Access, write: partial[Entry]) -> Entry:
    """What was stored under the same key before, or what `write` stores now, even when two do at once."""
    own_entries = Entry.objects.exclude(client_id="").filter(
        workspace_id=by.workspace_id, author_id=by.participant_id, client_id=entry.client_id
    )
    existing = own_entries.first()
    if existing is not None:
        return existing
    try:
        with transaction.atomic():
            return write()
    except IntegrityError:
        existing = own_entries.first()
        if existing is None:
            raise
        return existing


def _insert_active(entry: Entry, by: Access, supersedes: Entry | None, action: str, how: str, note: str) -> Entry:
    earlier = lock_entry(supersedes, by) if supersedes is not None else None
    if earlier is not None:
        check_replaceable(earlier)
        unlink_pending_successors(earlier, by, how)
        _link_predecessor(entry, earlier)
    mark_decided(entry, by)
    insert_entry(entry, action=action, by=by, how=how, note=note)
    if earlier is not None:
        mark_superseded(earlier, by=by, how=how, note=note)
    return entry


def _insert_pinned(entry: Entry, message: Message, by: Access, supersedes: Entry | None, how: str, note: str) -> Entry:
    _lock_source_message(message, by)
    if entry.source == Entry.Source.RESULT:
        pinned = Entry.objects.filter(source_message=message, source=Entry.Source.RESULT, status__in=LIVE_STATUSES)
        if pinned.first() is not None:
            raise AlreadyPinned(pinned.visible_to(by).first())
    _withdraw_question(message, by, how)
    return _insert_active(entry, by, supersedes, Revision.Action.PINNED, how, note)


def _withdraw_question(message: Message, by: Access, how: str) -> None:
    """A person pinned the result: nobody has to be asked any more whether it should be knowledge."""
    questions = Entry.objects.select_for_update(no_key=True, of=("self",)).filter(
        source_message=message, status=Entry.Status.PROPOSED, client_id=f"{PUBLISHED_KEY}{message.pk}"
    )
    for question in questions:
        before = entry_values(question)
        question.status, question.supersedes = Entry.Status.ARCHIVED, None
        save_revision(question, before=before, action=Revision.Action.REJECTED, by=by, how=how, note="Pinned instead.")
        withdraw_notices(question)


def _insert_suggestion(entry: Entry, by: Access, supersedes: Entry | None, how: str) -> Entry:
    if entry.source_message is not None:
        _lock_source_message(entry.source_message, by)
    Participant.objects.select_for_update(no_key=True).get(pk=by.participant_id)  # one suggestion of theirs at a time
    pending = pending_suggestions(by)
    same: dict[str, Any] = {"topic": entry.topic, "content": entry.content, "visibility": entry.visibility}
    if entry.visibility != Entry.Visibility.SHARED:  # who reads along in one place does not in another
        same["source_thread_id"] = entry.source_thread_id
    duplicate = pending.filter(**same).first() or declined_suggestions(by).filter(**same).first()
    if duplicate is not None:
        return duplicate
    if pending.count() >= MAX_PENDING_SUGGESTIONS:
        raise too_many_suggestions_error()
    if supersedes is not None:
        _link_predecessor(entry, _lock_replaceable(supersedes, by))
    insert_entry(entry, action=Revision.Action.SUGGESTED, by=by, how=how, note=entry.reason_note)
    notify_owner(entry, PROPOSED_REASON, by=by)
    return entry


def _link_predecessor(entry: Entry, earlier: Entry) -> None:
    """Puts the entry in the other's place; an entry without a source of its own takes the other's: what was said where
    no agent reads along reaches none by being said anew."""
    entry.supersedes = earlier
    if entry.source_thread_id is None:
        entry.source_thread_id = earlier.source_thread_id


def _lock_replaceable(supersedes: Entry, by: Access) -> Entry:
    """What a suggestion is to supersede once it is accepted; until then nothing changes for it."""
    if not Entry.objects.visible_to(by).filter(pk=supersedes.pk).exists():
        raise Missing
    earlier = lock_rows([supersedes.pk])[0]
    check_replaceable(earlier)
    if successor_of(earlier) is not None:
        raise Conflict("Another suggestion to supersede this entry waits already.", code="superseded")
    return earlier


def _source_kind(message: Message) -> str:
    if message.kind == Message.Kind.DIVE_RESULT:
        return Entry.Source.RESULT
    if message.kind != Message.Kind.TEXT or message.state == Message.State.WRITING:
        raise Refused("Only results and finished messages can be pinned.")
    return Entry.Source.MESSAGE


def _lock_source_message(message: Message, by: Access) -> None:
    """Locks the message: whoever deletes it at this moment waits, and then finds the entry made from it. Raises
    Missing."""
    visible_ids = Message.objects.visible_to(by).filter(pk=message.pk).order_by().values("pk")
    if not Message.objects.select_for_update(no_key=True).filter(pk__in=visible_ids, deleted_at=None).first():
        raise Missing("The message was deleted, or is not visible to you.")


def _check_may_suggest(by: Access) -> None:
    if not by.is_agent:
        check_may_manage(by)
    elif (by.level or 0) < 2:
        raise Refused("Agents suggest knowledge from level 2 on. An admin can raise yours.", code="level_too_low")


def _default_owner(by: Access, message: Message | None) -> Participant:
    """The person who asked, where they may own entries; else an owner of the workspace, and for what was said in a
    private channel somebody who is in it."""
    candidates = possible_owners(by.workspace_id)
    preferred_ids = [message.author_id if message else 0, by.participant_id]
    candidates_by_id = candidates.in_bulk(preferred_ids)
    owner: Participant | None = next((candidates_by_id[pk] for pk in preferred_ids if pk in candidates_by_id), None)
    if message is not None and message.thread.channel.is_private:
        candidates = candidates.filter(channel_memberships__channel=message.thread.channel_id)
    else:
        candidates = candidates.filter(member__role=Member.Role.OWNER)
    owner = owner or candidates.order_by("member").first()
    if owner is None:
        raise Problem("Nobody who could decide on it reads this conversation.", code="no_owner")
    return owner


def bulk_create_entries(entries: Sequence[Entry], *, by: Access, how: str) -> None:
    """Stores new entries, each with its first revision, and notifies the owners of suggestions, but for whoever asks.

    The caller has checked every one of them, owners too, and decides what a key that was stored meanwhile means: then
    IntegrityError is raised and nothing is stored.
    """
    Entry.objects.bulk_create(entries)
    Revision.objects.bulk_create(
        build_first_revision(
            one,
            action=Revision.Action.SUGGESTED if one.status == Entry.Status.PROPOSED else Revision.Action.IMPORTED,
            by=by,
            how=how,
        )
        for one in entries
    )
    proposals = [one for one in entries if one.status == Entry.Status.PROPOSED and one.owner_id != by.participant_id]
    notices = [Notice(participant_id=one.owner_id, entry=one, reason=PROPOSED_REASON) for one in proposals]
    Notice.objects.bulk_create(notices, ignore_conflicts=True)
    Event.objects.bulk_create(
        Event(kind="knowledge_noticed", workspace_id=by.workspace_id, participant_id=pk)
        for pk in sorted({one.owner_id for one in proposals})
    )
