"""How entries get in: written by hand, pinned from a result or a message, suggested by an agent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from knowledge.models import LIVING, Entry, Revision
from knowledge.services.linking import check_replaceable, make_way, put_aside, successor_of
from knowledge.services.notices import PROPOSED, tell_owner
from knowledge.services.revising import (
    begin,
    check_may_manage,
    checked_owner,
    decide,
    hold,
    locked,
    possible_owners,
)
from knowledge.services.worded import (
    known_client_id,
    known_kind,
    known_visibility,
    worded_content,
    worded_expiry,
    worded_note,
    worded_tags,
    worded_topic,
)
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, Participant

SUGGESTIONS = 50
"""Suggestions of one agent that may wait at a time."""


class AlreadyPinned(Conflict):
    """`entry_id` is the entry that holds the result; None when the asker may not read it."""

    code = "already_pinned"

    def __init__(self, entry: Entry | None) -> None:
        where = f"in “{entry.topic}”" if entry else "in an entry that you may not read"
        super().__init__(f"This result is pinned {where} already. Edit or supersede that entry instead.")
        self.entry_id = entry.pk if entry else None


@dataclass(frozen=True, slots=True)
class _Origin:
    source: str
    message: Message | None = None


def add_entry(
    *,
    by: Access,
    topic: str,
    content: str,
    kind: str = Entry.Kind.FACT,
    visibility: str = Entry.Visibility.SHARED,
    expires_at: datetime | None = None,
    tags: Iterable[str] = (),
    owner: Participant | None = None,
    is_pinned: bool = False,
    supersedes: Entry | None = None,
    client_id: str = "",
    note: str = "",
    how: str = "page",
) -> Entry:
    """Write an entry by hand; it holds at once. The same `client_id` from the same author is the same entry.

    `content` is Markdown of at most 2,000 tokens; `expires_at` without a zone is UTC. With `supersedes` the earlier
    entry stops holding in the same transaction. Raises Refused (guest, agent), Missing, Problem (the field is named),
    Conflict (what it supersedes is superseded, archived, or only suggested).
    """
    check_may_manage(by)
    source = Entry.Source.IMPORT if how == "import" else Entry.Source.MANUAL
    entry = _worded(by, _Origin(source), topic, content, kind, visibility, expires_at, tags, client_id)
    entry.owner, entry.is_pinned = checked_owner(owner, by), is_pinned
    action = Revision.Action.IMPORTED if how == "import" else Revision.Action.CREATED
    return _once(entry, by, partial(_let_in, entry, by, supersedes, action, how, note))


def pin_result(
    *,
    message: Message,
    by: Access,
    topic: str,
    content: str,
    kind: str = Entry.Kind.DECISION,
    visibility: str | None = None,
    expires_at: datetime | None = None,
    tags: Iterable[str] = (),
    owner: Participant | None = None,
    is_pinned: bool = False,
    supersedes: Entry | None = None,
    client_id: str = "",
    note: str = "",
    how: str = "page",
) -> Entry:
    """Pin a dive's result, or what somebody said, to the workspace's knowledge.

    A result stands in one living entry at a time. Without `visibility` what comes from a private channel or a thread
    that is not open to every agent is restricted. Raises as `add_entry` does, AlreadyPinned (a Conflict that names
    the entry), and Missing for a message that is deleted or not visible.
    """
    check_may_manage(by)
    entry = _worded(
        by, _Origin(_source_of(message), message), topic, content, kind,
        visibility or visibility_from(message.thread), expires_at, tags, client_id,
    )  # fmt: skip
    entry.owner, entry.is_pinned = checked_owner(owner, by), is_pinned
    return _once(entry, by, partial(_pin, entry, message, by, supersedes, how, note))


def suggest_entry(
    *,
    by: Access,
    topic: str,
    content: str,
    kind: str = Entry.Kind.FACT,
    visibility: str | None = None,
    expires_at: datetime | None = None,
    tags: Iterable[str] = (),
    why: str = "",
    supersedes: Entry | None = None,
    source_message: Message | None = None,
    owner: Participant | None = None,
    client_id: str = "",
    how: str = "page",
) -> Entry:
    """Suggest an entry. It is `proposed` and in no prompt until a person accepts it.

    Agents from level 2 and members may; `owner` decides on it, by default who wrote `source_message`, else the asker,
    else an owner of the workspace. The same suggestion that still waits is returned, not stored twice. Raises Refused
    (level, guest), Missing, Problem (the field is named, too many waiting), Conflict.
    """
    _check_may_suggest(by)
    thread = source_message.thread if source_message else None
    entry = _worded(
        by, _Origin(Entry.Source.SUGGESTION, source_message), topic, content, kind,
        visibility or (visibility_from(thread) if thread else Entry.Visibility.SHARED), expires_at, tags, client_id,
    )  # fmt: skip
    entry.status, entry.reason_note = Entry.Status.PROPOSED, worded_note(why)
    entry.owner = checked_owner(owner, by) if owner else _who_decides(by, source_message)
    return _once(entry, by, partial(_suggest, entry, by, supersedes, how))


def waiting_of(by: Access) -> QuerySet[Entry]:
    """The asker's own suggestions that nobody decided on yet."""
    return Entry.objects.filter(workspace_id=by.workspace_id, author_id=by.participant_id, status=Entry.Status.PROPOSED)


def too_many_suggestions() -> Problem:
    return Problem(
        f"{SUGGESTIONS} of your suggestions wait already. People have to decide on some first.", code="too_many"
    )


def visibility_from(thread: Thread) -> str:
    """Shared where everybody in the workspace may read the conversation anyway, else restricted."""
    is_open = thread.access == Thread.Access.OPEN and not thread.channel.is_private
    return Entry.Visibility.SHARED if is_open else Entry.Visibility.RESTRICTED


# --- pieces -------------------------------------------------------------------------------------------------
def _worded(
    by: Access, origin: _Origin, topic: str, content: str, kind: str, visibility: str,
    expires_at: datetime | None, tags: Iterable[str], client_id: str,
) -> Entry:  # fmt: skip
    cleaned, tokens = worded_content(content)
    message = origin.message
    return Entry(
        workspace_id=by.workspace_id, author_id=by.participant_id, source=origin.source, topic=worded_topic(topic),
        content=cleaned, tokens=tokens, kind=known_kind(kind), visibility=known_visibility(visibility),
        expires_at=worded_expiry(expires_at), tags=worded_tags(tags), client_id=known_client_id(client_id),
        source_message=message, source_thread_id=message.thread_id if message else None,
    )  # fmt: skip


def _once(entry: Entry, by: Access, write: partial[Entry]) -> Entry:
    """What was stored under the same key before, or what `write` stores now, even when two do at once."""
    mine = Entry.objects.exclude(client_id="").filter(
        workspace_id=by.workspace_id, author_id=by.participant_id, client_id=entry.client_id
    )
    before = mine.first()
    if before is not None:
        return before
    try:
        with transaction.atomic():
            return write()
    except IntegrityError:
        before = mine.first()
        if before is None:
            raise
        return before


def _let_in(entry: Entry, by: Access, supersedes: Entry | None, action: str, how: str, note: str) -> Entry:
    earlier = locked(supersedes, by) if supersedes is not None else None
    if earlier is not None:
        check_replaceable(earlier)
        make_way(earlier, by, how)
        _follow(entry, earlier)
    decide(entry, by)
    begin(entry, action=action, by=by, how=how, note=note)
    if earlier is not None:
        put_aside(earlier, by=by, how=how, note=note)
    return entry


def _pin(entry: Entry, message: Message, by: Access, supersedes: Entry | None, how: str, note: str) -> Entry:
    _hold_source(message, by)
    if entry.source == Entry.Source.RESULT:
        _check_not_pinned(message, by)
    return _let_in(entry, by, supersedes, Revision.Action.PINNED, how, note)


def _suggest(entry: Entry, by: Access, supersedes: Entry | None, how: str) -> Entry:
    if entry.source_message is not None:
        _hold_source(entry.source_message, by)
    waiting = waiting_of(by)
    same = waiting.filter(topic=entry.topic, content=entry.content).first()
    if same is not None:
        return same
    if waiting.count() >= SUGGESTIONS:
        raise too_many_suggestions()
    if supersedes is not None:
        _follow(entry, _to_replace(supersedes, by))
    begin(entry, action=Revision.Action.SUGGESTED, by=by, how=how, note=entry.reason_note)
    tell_owner(entry, PROPOSED, by=by)
    return entry


def _follow(entry: Entry, earlier: Entry) -> None:
    """It takes the other's place, and without a source of its own comes from there too: what was said where no agent
    reads along reaches none by being said anew."""
    entry.supersedes = earlier
    if entry.source_thread_id is None:
        entry.source_thread_id = earlier.source_thread_id


def _to_replace(supersedes: Entry, by: Access) -> Entry:
    """What a suggestion is to supersede once it is accepted; until then nothing changes for it."""
    if not Entry.objects.visible_to(by).filter(pk=supersedes.pk).exists():
        raise Missing
    earlier = hold([supersedes.pk])[0]
    check_replaceable(earlier)
    if successor_of(earlier) is not None:
        raise Conflict("Another suggestion to supersede this entry waits already.", code="superseded")
    return earlier


def _source_of(message: Message) -> str:
    if message.kind == Message.Kind.DIVE_RESULT:
        return Entry.Source.RESULT
    if message.kind != Message.Kind.TEXT or message.state == Message.State.WRITING:
        raise Refused("Only results and finished messages can be pinned.")
    return Entry.Source.MESSAGE


def _hold_source(message: Message, by: Access) -> None:
    """Held: whoever deletes it at this moment waits, and then finds the entry made from it. Raises Missing."""
    seen = Message.objects.visible_to(by).filter(pk=message.pk).order_by().values("pk")
    held = Message.objects.select_for_update(no_key=True).filter(pk__in=seen, deleted_at=None).first()
    if held is None:
        raise Missing("The message was deleted, or is not visible to you.")


def _check_not_pinned(message: Message, by: Access) -> None:
    pinned = Entry.objects.filter(source_message=message, source=Entry.Source.RESULT, status__in=LIVING)
    found = pinned.first()
    if found is not None:
        raise AlreadyPinned(pinned.visible_to(by).first())


def _check_may_suggest(by: Access) -> None:
    if not by.is_agent:
        check_may_manage(by)
    elif (by.level or 0) < 2:
        raise Refused("Agents suggest knowledge from level 2 on. An admin can raise yours.", code="level_too_low")


def _who_decides(by: Access, message: Message | None) -> Participant:
    possible = possible_owners(by.workspace_id)
    asked = [message.author_id if message else 0, by.participant_id]
    found = possible.in_bulk(asked)
    chosen: Participant | None = next((found[pk] for pk in asked if pk in found), None)
    chosen = chosen or possible.filter(member__role=Member.Role.OWNER).order_by("member").first()
    if chosen is None:
        raise Problem("This workspace has no owner who could decide on it.", code="no_owner")
    return chosen
