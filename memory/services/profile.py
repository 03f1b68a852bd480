"""Verbs of profile notes: what an agent noted about a person, and who may read and change that."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction

from memory.audience import refuse_unless_public
from memory.models import PROFILE_TOKEN_LIMIT, CarriedVersion, ProfileNote, Proposal
from memory.profile import store_notes
from openvibe.base.models import emit
from openvibe.base.problems import Missing, Refused
from openvibe.chat.models import Message, Thread
from openvibe.chat.querysets import participants_known_to
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

CHANGED = "blocks_changed"
"""The event open pages hear of: notes stand beside the blocks."""


@dataclass(frozen=True, slots=True)
class Noted:
    """The notes of `agent` about `person`. `version` is 0 and `text` empty while there are none. Sizes in tokens."""

    agent: str
    person: str
    text: str
    tokens: int
    version: int
    max_tokens: int = PROFILE_TOKEN_LIMIT


def person_known_to(by: Access, handle: str) -> Participant:
    """Somebody notes can be about: a member by handle. Raises Missing."""
    known = participants_known_to(by).filter(kind=Participant.Kind.MEMBER)
    found: Participant | None = known.filter(handle=handle).first() if "\x00" not in handle else None
    if found is None:
        raise Missing
    return found


def asker_of_thread(by: Access, thread_id: int) -> Participant:
    """The person who said something in the thread last. Raises Missing where `by` sees no thread, or nobody spoke."""
    if not Thread.objects.visible_to(by).filter(pk=thread_id).exists():
        raise Missing
    said = Message.objects.visible_to(by).filter(
        thread=thread_id, author__kind=Participant.Kind.MEMBER, deleted_at=None
    )
    newest: Message | None = said.select_related("author").order_by("-seq").first()
    if newest is None:
        raise Missing("Nobody has said anything in this thread yet.")
    return newest.author


def notes_read_by(*, agent: Participant, person: Participant, by: Access) -> Noted:
    """Admins read all, an agent its own, a member those about herself: else Refused."""
    _check_may_read(agent, person, by)
    note = ProfileNote.objects.filter(agent=agent, person=person).first()
    return _noted(agent, person, note)


@transaction.atomic
def write_notes(
    *, agent: Participant, person: Participant, by: Access, text: str, how: str, version: int | None = None,
    thread_id: int | None = None,
) -> Noted:  # fmt: skip
    """Replace the notes; "" clears them. Admins and the agent write, a member may only clear those about herself.

    `thread_id` says where an agent learned it: Refused where that is not open to everybody.
    Cleared by the person they are about, their earlier versions go too, and what reviews proposed. Raises Refused
    (also for a deactivated agent, unless they are cleared), Conflict when `version` is not the current one, Problem
    when they are too long.
    """
    _check_may_read(agent, person, by)
    is_cleared = not text.strip()
    if by.participant_id == person.pk and not by.administers and not is_cleared:
        raise Refused("You may clear what an agent noted about you. Only admins and the agent itself change it.")
    if not agent.is_active and not is_cleared:
        raise Refused(f"@{agent.handle} is deactivated. Bring it back before changing its notes.")
    if is_cleared and not ProfileNote.objects.filter(agent=agent, person=person).exists():
        return _noted(agent, person, None)
    if by.is_agent and thread_id is not None and not is_cleared:
        refuse_unless_public(thread_id, "your notes")
    note = store_notes(
        agent_id=agent.pk, person_id=person.pk, text=text, by_id=by.participant_id, how=how, version=version
    )
    if is_cleared and by.participant_id == person.pk:
        note.versions.exclude(content="").delete()
        Proposal.objects.filter(agent=agent, person=person).delete()
    emit(CHANGED, workspace_id=agent.workspace_id)
    return _noted(agent, person, note)


def restore_notes(
    *, agent: Participant, person: Participant, by: Access, number: int, how: str, version: int | None = None
) -> Noted:
    """What the notes said in an earlier version becomes their next one. Raises Missing, and what `write_notes` does."""
    _check_may_read(agent, person, by)
    earlier = CarriedVersion.objects.filter(note__agent=agent, note__person=person, number=number).first()
    if earlier is None:
        raise Missing
    return write_notes(agent=agent, person=person, by=by, text=earlier.content, how=how, version=version)


def _check_may_read(agent: Participant, person: Participant, by: Access) -> None:
    if by.workspace_id != agent.workspace_id or person.workspace_id != agent.workspace_id:
        raise Missing
    if not (by.administers or by.participant_id in (agent.pk, person.pk)):
        raise Refused("Only admins, the agent itself and the person it is about read these notes.")


def _noted(agent: Participant, person: Participant, note: ProfileNote | None) -> Noted:
    text, tokens, version = (note.content, note.tokens, note.version) if note else ("", 0, 0)
    return Noted(agent.handle, person.handle, text, tokens, version)
