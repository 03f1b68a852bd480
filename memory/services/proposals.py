"""Deciding on what an agent proposed to learn: accept, reject, take back. And forgetting what it rested on."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from memory.audience import is_public
from memory.models import CarriedVersion, Episode, ProfileNote, Proposal
from memory.profile import read_notes, store_notes
from memory.services.episodes import LIFETIME
from openvibe.base.problems import Conflict, Missing, Refused
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.access import Access

IN_FORCE_ONCE = (Proposal.State.ACCEPTED, Proposal.State.UNDONE)


def accept_proposal(*, proposal: Proposal, by: Access) -> Proposal:
    """It takes effect: an episode for 90 days, or new profile notes. Admins who see where it was learned.

    Raises Conflict when it was decided already, or when the notes were changed since it was proposed.
    """
    with transaction.atomic():
        current = _decidable(proposal, by)
        if current.state != Proposal.State.PROPOSED:
            raise Conflict(f"This was decided already: {current.get_state_display().lower()}.", code="decided")
        if current.thread.access == Thread.Access.HUMAN_ONLY:
            raise Refused("The conversation is for people only by now, so nothing is learned from it. Reject this.")
        if current.kind == Proposal.Kind.EPISODE:
            current.episode = _episode(current)
        else:
            _note(current, by)
        return _decided(current, by, Proposal.State.ACCEPTED)


def reject_proposal(*, proposal: Proposal, by: Access) -> Proposal:
    """It never takes effect, and is not proposed again in the same words."""
    with transaction.atomic():
        current = _decidable(proposal, by)
        if current.state != Proposal.State.PROPOSED:
            raise Conflict(f"This was decided already: {current.get_state_display().lower()}.", code="decided")
        return _decided(current, by, Proposal.State.REJECTED)


def undo_proposal(*, proposal: Proposal, by: Access) -> Proposal:
    """Take back what was accepted: the episode is gone, the notes say what they said before.

    Raises Conflict when it is not in effect, or when somebody changed the notes since.
    """
    with transaction.atomic():
        current = _decidable(proposal, by)
        if current.state != Proposal.State.ACCEPTED:
            raise Conflict("Only what was accepted can be undone.", code="not_accepted")
        _take_back(current, by)
        return _decided(current, by, Proposal.State.UNDONE)


def _decidable(proposal: Proposal, by: Access) -> Proposal:
    """The row, locked, as it is now. Raises Missing and Refused."""
    rows = Proposal.objects.select_for_update(of=("self",)).select_related("thread__channel", "agent", "person")
    current = rows.filter(pk=proposal.pk, agent__workspace_id=by.workspace_id).first()
    if current is None or not Thread.objects.visible_to(by).filter(pk=current.thread_id).exists():
        raise Missing
    if by.is_agent or not by.administers:
        raise Refused("Only owners and admins decide what an agent learns.")
    return current


def _decided(current: Proposal, by: Access, state: str) -> Proposal:
    current.state, current.decided_by_id, current.decided_at = state, by.participant_id, timezone.now()
    current.save(update_fields=["state", "decided_by", "decided_at", "episode"])
    return current


def _episode(current: Proposal) -> Episode:
    now = timezone.now()
    return Episode.objects.create(
        agent=current.agent,
        kind=Episode.Kind.LEARNING_ACQUIRED,
        summary=current.text,
        channel_id=current.thread.channel_id,
        thread=current.thread,
        created_at=now,
        expires_at=now + LIFETIME,
    )


def _note(current: Proposal, by: Access) -> None:
    assert current.person_id is not None
    if not is_public(current.thread_id):
        raise Refused(
            "The conversation is not open to everybody any more, and profile notes are used everywhere. Reject this."
        )
    if read_notes(current.agent_id, current.person_id) != current.before:
        raise Conflict(
            "The notes about this person were changed after this was proposed, and accepting would undo that change."
            " Edit the notes by hand, or reject this.",
            code="notes_changed",
        )
    store_notes(
        agent_id=current.agent_id, person_id=current.person_id, text=current.text, by_id=by.participant_id,
        how="review",
    )  # fmt: skip


def _take_back(current: Proposal, by: Access) -> None:
    if current.kind == Proposal.Kind.EPISODE:
        episode, current.episode = current.episode, None
        if episode is not None:
            episode.delete()
        return
    assert current.person_id is not None
    if read_notes(current.agent_id, current.person_id) != current.text:
        raise Conflict(
            "The notes about this person were changed after this was accepted, so they are left as they are."
            " Edit them by hand; every version is kept.",
            code="notes_changed",
        )
    store_notes(
        agent_id=current.agent_id, person_id=current.person_id, text=current.before, by_id=by.participant_id,
        how="review",
    )  # fmt: skip


@transaction.atomic
def forget_learned(*, message: Message) -> None:
    """A message was deleted: what was proposed or learned from it goes with it. Notes written since stay."""
    citing = Proposal.objects.select_for_update().filter(
        thread_id=message.thread_id, since_seq__lt=message.seq, upto_seq__gte=message.seq,
        because__regex=rf"^Messages? [0-9, ]*\m{message.seq}\M",
    )  # fmt: skip
    for proposal in citing:
        if proposal.episode_id is not None:
            Episode.objects.filter(pk=proposal.episode_id).delete()
        if proposal.kind == Proposal.Kind.PROFILE and proposal.state in IN_FORCE_ONCE:
            _forget_notes(proposal)
        proposal.delete()


def _forget_notes(proposal: Proposal) -> None:
    """Those notes are in force no more, are no earlier version, and no later proposal brings them back."""
    assert proposal.person_id is not None
    whose = {"agent": proposal.agent_id, "person": proposal.person_id}
    if ProfileNote.objects.filter(**whose, content=proposal.text).exists():
        store_notes(
            agent_id=proposal.agent_id, person_id=proposal.person_id, text=proposal.before, by_id=None, how="review"
        )
    CarriedVersion.objects.filter(
        note__agent=proposal.agent_id, note__person=proposal.person_id, content=proposal.text
    ).delete()
    Proposal.objects.filter(**whose, before=proposal.text).update(before=proposal.before)
