"""Services of context blocks and profile notes: update, clear, restore an earlier version; and from which threads."""

from __future__ import annotations

from django.db import transaction
from django.dispatch import Signal

from memory.blocks.context_blocks import ContextBlocks
from memory.blocks.models import CarriedVersion, ProfileNote
from memory.blocks.queries import (
    ProfileNotes,
    access_blocks,
    check_notes_readable,
    is_public_thread,
    may_write_blocks,
    to_profile_notes,
)
from memory.blocks.values import PROFILE_TOKEN_LIMIT, BlockAuthor, ContextBlock, block_missing
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.llm.tokens import count_tokens
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

# A person cleared what an agent noted about her. Sent inside that transaction, the earlier versions gone:
#   agent, person: Participant
# What else still holds those words goes, too.
notes_cleared = Signal()

NOT_PUBLIC_MESSAGE = (
    "This conversation is not open to everybody, and {what} stand in your prompts everywhere. So nothing of it is"
    " written there. What matters for this thread belongs into its progress log; an admin can write the rest."
)


def check_thread_is_public(thread_id: int, what: str) -> None:
    """For an agent's own writing in a thread. `what` it writes: your blocks, your notes. Raises Refused."""
    if not is_public_thread(thread_id):
        raise Refused(NOT_PUBLIC_MESSAGE.format(what=what), code="not_public")


def access_blocks_for_update(agent: Participant, by: Access, how: str) -> ContextBlocks:
    """To write as `by` through a door (`how`: page, api). Raises Refused for members who are no admins, and for other
    agents. Reading them is allowed too."""
    blocks = access_blocks(agent, by)
    if not may_write_blocks(agent, by):
        raise Refused("Only owners, admins and the agent itself may change what it carries.")
    blocks.author = BlockAuthor(by.participant_id, how, configures=by.administers)
    return blocks


def restore_block(*, agent: Participant, by: Access, label: str, number: int, seen: str, how: str) -> ContextBlock:
    """What the block said in an earlier version becomes its next one. Raises Missing, Refused, Conflict, Problem."""
    blocks = access_blocks_for_update(agent, by, how)
    version = CarriedVersion.objects.filter(block__agent=agent, block__label=label, number=number).first()
    if version is None:
        raise block_missing(label) if blocks.get(label) is None else Missing()
    return blocks.set(label, version.content, seen=seen)


MAX_NOTES_CHARACTERS = 20_000  # characters looked at before counting tokens


def store_notes(
    *, agent_id: int, person_id: int, text: str, by_id: int | None, how: str, version: int | None = None
) -> ProfileNote:
    """Replace the notes; every change leaves a version with its author. The same text again changes nothing.

    `version` is the number the writer saw (0: none yet): when it is not the current one any more, Conflict is raised.
    At most PROFILE_TOKEN_LIMIT tokens, else Problem; Missing when agent and person share no workspace.
    """
    content = clean_notes(text)
    with transaction.atomic():
        _check_same_workspace(agent_id, person_id)
        note = _lock_note(agent_id, person_id)
        if version is not None and version != (note.version if note else 0):
            raise Conflict("These notes were changed somewhere else meanwhile. Compare, then save again.", code="stale")
        if note is None:
            note = ProfileNote(agent_id=agent_id, person_id=person_id, version=0)
        elif note.content == content:
            return note
        note.content, note.tokens, note.version, note.changed_by_id = (
            content,
            count_tokens(content),
            note.version + 1,
            by_id,
        )
        note.save()
        CarriedVersion.objects.create(note=note, number=note.version, content=content, author_id=by_id, how=how)
    return note


def clean_notes(text: str) -> str:
    """The text as it is kept. Raises Problem: characters that cannot be kept, or too long."""
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Problem(
            "These notes hold a character that cannot be kept. Paste them again as plain text.",
            code="bad_text",
            field="text",
        )
    content = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    tokens = count_tokens(content) if len(content) <= MAX_NOTES_CHARACTERS else len(content)
    if tokens > PROFILE_TOKEN_LIMIT:
        raise Problem(
            f"These notes take {tokens:,} tokens; at most {PROFILE_TOKEN_LIMIT} fit. Shorten them.",
            code="too_long",
            field="text",
        )
    return content


def _check_same_workspace(agent_id: int, person_id: int) -> None:
    values = Participant.objects.filter(pk__in=[agent_id, person_id]).values_list("pk", "workspace_id", "kind")
    participants = {pk: (workspace_id, kind) for pk, workspace_id, kind in values}
    agent, person = participants.get(agent_id), participants.get(person_id)
    if agent is None or person is None or agent[0] != person[0] or agent[1] != Participant.Kind.AGENT:
        raise Missing


def _lock_note(agent_id: int, person_id: int) -> ProfileNote | None:
    """The note, locked; two first notes at once agree on one row."""
    notes = ProfileNote.objects.select_for_update(of=("self",)).filter(agent_id=agent_id, person_id=person_id)
    note = notes.first()
    if note is None:
        Participant.objects.select_for_update(of=("self",)).get(pk=agent_id)
        note = notes.first()
    return note


NOTES_CHANGED = "blocks_changed"
"""The event open pages hear of: notes stand beside the blocks."""


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
) -> ProfileNotes:
    """Replace the notes; "" clears them. Admins and the agent write, a member may only clear those about herself.

    `thread_id` says where an agent learned it: Refused where that is not open to everybody.
    Cleared by the person they are about, their earlier versions go too, and what reviews proposed. Raises Refused
    (also for a deactivated agent, unless they are cleared), Conflict when `version` is not the current one, Problem
    when they are too long.
    """
    check_notes_readable(agent, person, by)
    is_cleared = not text.strip()
    if by.participant_id == person.pk and not by.administers and not is_cleared:
        raise Refused("You may clear what an agent noted about you. Only admins and the agent itself change it.")
    if not agent.is_active and not is_cleared:
        raise Refused(f"@{agent.handle} is deactivated. Bring it back before changing its notes.")
    if is_cleared and not ProfileNote.objects.filter(agent=agent, person=person).exists():
        return to_profile_notes(agent, person, None)
    if by.is_agent and thread_id is not None and not is_cleared:
        check_thread_is_public(thread_id, "your notes")
    note = store_notes(
        agent_id=agent.pk, person_id=person.pk, text=text, by_id=by.participant_id, how=how, version=version
    )
    if is_cleared and by.participant_id == person.pk:
        note.versions.exclude(content="").delete()
        notes_cleared.send(sender=ProfileNote, agent=agent, person=person)
    emit(NOTES_CHANGED, workspace_id=agent.workspace_id)
    return to_profile_notes(agent, person, note)


def restore_notes(
    *, agent: Participant, person: Participant, by: Access, number: int, how: str, version: int | None = None
) -> ProfileNotes:
    """What the notes said in an earlier version becomes their next one. Raises Missing, and what `update_notes`
    does."""
    check_notes_readable(agent, person, by)
    previous = CarriedVersion.objects.filter(note__agent=agent, note__person=person, number=number).first()
    if previous is None:
        raise Missing
    return update_notes(agent=agent, person=person, by=by, text=previous.content, how=how, version=version)
