"""Services of proposals, what an agent would learn from a conversation: accept, reject, undo, delete."""

from django.db import transaction
from django.utils import timezone

from memory.blocks.models import CarriedVersion, ProfileNote
from memory.blocks.queries import is_public_thread, read_notes
from memory.blocks.services import store_notes
from memory.episodes.models import Episode, Proposal
from memory.episodes.services import create_episode
from openvibe.base.problems import Conflict, Missing, Refused
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.access import Access

APPLIED_STATES = (Proposal.State.ACCEPTED, Proposal.State.UNDONE)


@transaction.atomic
def accept_proposal(*, proposal: Proposal, by: Access) -> Proposal:
    """Accepts the proposal, which becomes an episode for 90 days, or new profile notes. Admins who see where it was
    learned.

    Raises Conflict when it was decided already, or when the notes were changed since it was proposed.
    """
    current = _lock_waiting_proposal(proposal, by)
    if current.thread.access == Thread.Access.HUMAN_ONLY:
        raise Refused("The conversation is for people only by now, so nothing is learned from it. Reject this.")
    if current.kind == Proposal.Kind.EPISODE:
        current.episode = create_episode(current.agent, current.thread, Episode.Kind.LEARNING_ACQUIRED, current.text)
    else:
        _accept_notes(current, by)
    return _save_decision(current, by, Proposal.State.ACCEPTED)


@transaction.atomic
def reject_proposal(*, proposal: Proposal, by: Access) -> Proposal:
    """Rejects the proposal: it never takes effect, and is not proposed again in the same words."""
    return _save_decision(_lock_waiting_proposal(proposal, by), by, Proposal.State.REJECTED)


@transaction.atomic
def delete_proposal(*, proposal: Proposal, by: Access) -> None:
    """Deletes the proposal for good, its words with it. Raises Missing, Refused, and Conflict for what is in force."""
    current = _lock_proposal(proposal, by)
    if current.state == Proposal.State.ACCEPTED:
        raise Conflict("It is in force. Undo it first.", code="in_force")
    current.delete()


@transaction.atomic
def undo_proposal(*, proposal: Proposal, by: Access) -> Proposal:
    """Takes back what was accepted: the episode is gone, the notes say what they said before.

    Raises Conflict when it is not in effect, or when somebody changed the notes since.
    """
    current = _lock_proposal(proposal, by)
    if current.state != Proposal.State.ACCEPTED:
        raise Conflict("Only what was accepted can be undone.", code="not_accepted")
    if current.kind == Proposal.Kind.PROFILE:
        _replace_notes(
            current,
            current.text,
            current.before,
            by,
            "The notes about this person were changed after this was accepted, so they are left as they are."
            " Edit them by hand; every version is kept.",
        )
    elif current.episode is not None:
        episode, current.episode = current.episode, None
        episode.delete()
    return _save_decision(current, by, Proposal.State.UNDONE)


def _lock_proposal(proposal: Proposal, by: Access) -> Proposal:
    """The row, locked, as it is now. Raises Missing and Refused."""
    rows = Proposal.objects.select_for_update(of=("self",)).select_related("thread__channel", "agent", "person")
    current = rows.filter(pk=proposal.pk, agent__workspace_id=by.workspace_id).first()
    if current is None or not Thread.objects.visible_to(by).filter(pk=current.thread_id).exists():
        raise Missing
    if by.is_agent or not by.administers:
        raise Refused("Only owners and admins decide what an agent learns.")
    return current


def _lock_waiting_proposal(proposal: Proposal, by: Access) -> Proposal:
    current = _lock_proposal(proposal, by)
    if current.state != Proposal.State.PROPOSED:
        raise Conflict(f"This was decided already: {current.get_state_display().lower()}.", code="decided")
    return current


def _save_decision(current: Proposal, by: Access, state: str) -> Proposal:
    current.state, current.decided_by_id, current.decided_at = state, by.participant_id, timezone.now()
    current.save(update_fields=["state", "decided_by", "decided_at", "episode"])
    return current


def _accept_notes(current: Proposal, by: Access) -> None:
    if not is_public_thread(current.thread_id):
        raise Refused(
            "The conversation is not open to everybody any more, and profile notes are used everywhere. Reject this."
        )
    _replace_notes(
        current,
        current.before,
        current.text,
        by,
        "The notes about this person were changed after this was proposed, and accepting would undo that change."
        " Edit the notes by hand, or reject this.",
    )


def _replace_notes(proposal: Proposal, before: str, after: str, by: Access, conflict: str) -> None:
    """Notes that say `before` say `after` from now on. Raises Conflict with the sentence when they say something
    else."""
    agent_id, person_id = proposal.agent_id, proposal.person_id
    assert person_id is not None
    if read_notes(agent_id, person_id) != before:
        raise Conflict(conflict, code="notes_changed")
    store_notes(agent_id=agent_id, person_id=person_id, text=after, by_id=by.participant_id, how="review")


@transaction.atomic
def delete_learned_from(*, message: Message) -> None:
    """A message was deleted: what was proposed or learned from it goes with it. Notes written since stay."""
    citing_proposals = Proposal.objects.select_for_update().filter(
        thread_id=message.thread_id,
        since_seq__lt=message.seq,
        upto_seq__gte=message.seq,
        because__regex=rf"^Messages? [0-9, ]*\m{message.seq}\M",
    )
    for proposal in citing_proposals:
        if proposal.episode_id is not None:
            Episode.objects.filter(pk=proposal.episode_id).delete()
        if proposal.kind == Proposal.Kind.PROFILE and proposal.state in APPLIED_STATES:
            _delete_learned_notes(proposal)
        proposal.delete()


def _delete_learned_notes(proposal: Proposal) -> None:
    """Those notes are in force no more, are no earlier version, and no later proposal brings them back."""
    assert proposal.person_id is not None
    agent_and_person = {"agent": proposal.agent_id, "person": proposal.person_id}
    if ProfileNote.objects.filter(**agent_and_person, content=proposal.text).exists():
        store_notes(
            agent_id=proposal.agent_id, person_id=proposal.person_id, text=proposal.before, by_id=None, how="review"
        )
    CarriedVersion.objects.filter(
        note__agent=proposal.agent_id, note__person=proposal.person_id, content=proposal.text
    ).delete()
    Proposal.objects.filter(**agent_and_person, before=proposal.text).update(before=proposal.before)
