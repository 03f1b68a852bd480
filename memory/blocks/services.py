"""Services of context blocks and profile notes: update, clear, restore an earlier version; and from which threads."""

from __future__ import annotations

from django.db import transaction
from django.dispatch import Signal

from memory.blocks.context_blocks import BLOCKS, BLOCKS_CHANGED, NOTES, ContextBlocks, lock_agent, save_version
from memory.blocks.models import ProfileNote
from memory.blocks.queries import access_blocks, access_notes, check_notes_readable, is_public_thread, may_write_blocks
from memory.blocks.values import BlockAuthor, ContextBlock, check_active, check_version, clean_notes
from openvibe.base.events import emit
from openvibe.base.problems import Missing, Refused
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

# A person cleared what an agent noted about her. Sent inside that transaction, the earlier versions gone:
#   agent, person: Participant
# What else still holds those words goes, too.
notes_cleared = Signal()


def check_thread_is_public(thread_id: int, what: str) -> None:
    """Raises Refused where an agent writes in a thread that is not public. `what` it writes: your blocks, your
    notes."""
    if not is_public_thread(thread_id):
        raise Refused(
            f"This conversation is not open to everybody, and {what} stand in your prompts everywhere. So nothing of it"
            " is written there. What matters for this thread belongs into its progress log; an admin can write the"
            " rest.",
            code="not_public",
        )


def access_blocks_for_update(agent: Participant, by: Access, how: str) -> ContextBlocks:
    """The blocks of an agent, to write as `by` through a door (`how`: page, api). Raises Refused for members who are no
    admins, and for other agents. Reading them is allowed too."""
    blocks = access_blocks(agent, by)
    if not may_write_blocks(agent, by):
        raise Refused("Only owners, admins and the agent itself may change what it carries.")
    blocks.author = BlockAuthor(by.participant_id, how, configures=by.administers)
    return blocks


def restore_block(*, agent: Participant, by: Access, label: str, number: int, based_on: str, how: str) -> ContextBlock:
    """What the block said in an earlier version becomes its next one. Raises Missing, Refused, Conflict, Problem."""
    blocks = access_blocks_for_update(agent, by, how)
    version = BLOCKS.versions(agent.pk, label).filter(number=number).first()
    if version is None:
        blocks.access(label)
        raise Missing
    return blocks.set(label, version.content, based_on=based_on)


def store_notes(
    *, agent_id: int, person_id: int, text: str, by_id: int | None, how: str, version: int | None = None
) -> ProfileNote:
    """Replaces the notes; every change leaves a version with its author. The same text again changes nothing.

    `version` is the number the writer saw (0: none yet): when it is not the current one any more, Conflict is raised.
    At most PROFILE_TOKEN_LIMIT tokens, else Problem; Missing when agent and person share no workspace.
    """
    content = clean_notes(text)
    with transaction.atomic():
        workspace_id = lock_agent(agent_id)
        if not Participant.objects.filter(pk=person_id, workspace_id=workspace_id).exists():
            raise Missing
        note = NOTES.find_or_new(agent_id, person_id)
        check_version(note.version, version, "These notes were")
        if note.pk is None or note.content != content:
            save_version(note, content=content, tokens=count_tokens(content), author=BlockAuthor(by_id, how))
    return note


@transaction.atomic
def update_notes(
    *,
    agent: Participant,
    person: Participant,
    by: Access,
    text: str,
    how: str,
    version: int | None = None,
    thread_id: int | None = None,
) -> ProfileNote:
    """Replaces the notes; "" clears them. Admins and the agent write, a member may only clear those about herself.

    `thread_id` says where an agent learned it: Refused where that is not open to everybody.
    Cleared by the person they are about, their earlier versions go too, and what reviews proposed. Raises Refused
    (also for a deactivated agent, unless they are cleared), Conflict when `version` is not the current one, Problem
    when they are too long.
    """
    check_notes_readable(agent, person, by)
    is_cleared = not text.strip()
    if by.participant_id == person.pk and not by.administers and not is_cleared:
        raise Refused("You may clear what an agent noted about you. Only admins and the agent itself change it.")
    check_active(agent.handle, agent.is_active or is_cleared, "its notes")
    if is_cleared and not (empty := access_notes(agent=agent, person=person, by=by)).version:
        return empty
    if by.is_agent and thread_id is not None and not is_cleared:
        check_thread_is_public(thread_id, "your notes")
    note = store_notes(
        agent_id=agent.pk, person_id=person.pk, text=text, by_id=by.participant_id, how=how, version=version
    )
    if is_cleared and by.participant_id == person.pk:
        note.versions.exclude(content="").delete()
        notes_cleared.send(sender=ProfileNote, agent=agent, person=person)
    emit(BLOCKS_CHANGED, workspace_id=agent.workspace_id)
    note.agent, note.person = agent, person
    return note


def restore_notes(
    *, agent: Participant, person: Participant, by: Access, number: int, how: str, version: int | None = None
) -> ProfileNote:
    """What the notes said in an earlier version becomes their next one. Raises Missing, and what `update_notes`
    does."""
    check_notes_readable(agent, person, by)
    previous = NOTES.versions(agent.pk, person.pk).filter(number=number).first()
    if previous is None:
        raise Missing
    return update_notes(agent=agent, person=person, by=by, text=previous.content, how=how, version=version)
