"""Services of feedback, episodes and proposals: give, withdraw, settle, delete; accept, reject, undo."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from memory.blocks.models import CarriedVersion, ProfileNote
from memory.blocks.queries import is_public_thread, read_notes
from memory.blocks.services import store_notes
from memory.episodes.models import Episode, Feedback, Proposal
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.base.text import TextRefused, clean_body
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

MAX_FEEDBACK_CHARACTERS = 2000


def _clean_feedback_text(text: str) -> str:
    if not text.strip():
        return ""
    try:
        return clean_body(text, max_characters=MAX_FEEDBACK_CHARACTERS)
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="text") from None


def _episode_summary(feedback: Feedback) -> str:
    """What the agent is told: the person's words, else the tags, else the bare verdict."""
    labels = [str(Feedback.Tag(tag).label).lower() for tag in feedback.tags]
    text = feedback.text or "This answer was not helpful."
    return f"{text} ({', '.join(labels)})" if labels else text


def _emit_feedback_changed(message: Message) -> None:
    thread = message.thread
    emit(
        "feedback_changed",
        workspace_id=thread.workspace_id,
        channel_id=thread.channel_id,
        thread_id=thread.pk,
        message_id=message.pk,
    )


@transaction.atomic
def give_feedback(*, message: Message, by: Access, verdict: str, text: str = "", tags: Sequence[str] = ()) -> Feedback:
    """One verdict per person and message; giving another changes it.

    A thumbs down is an open `feedback_received` episode of the agent from this transaction on; changing it to
    thumbs up withdraws that episode. Raises Refused when the message is not an agent's.
    """
    if verdict not in Feedback.Verdict.values:
        raise Problem("A verdict is up or down.", code="bad_verdict", field="verdict")
    unknown_tags = [tag for tag in tags if tag not in Feedback.Tag.values]
    if unknown_tags:
        raise Problem(f"Tags are {', '.join(Feedback.Tag.values)}.", code="bad_tag", field="tags")
    cleaned = _clean_feedback_text(text)
    message = Message.objects.select_for_update(of=("self",)).select_related("author", "thread").get(pk=message.pk)
    if by.is_agent or not message.author.is_agent or message.is_deleted:
        raise Refused("Feedback is for people to give on an agent's message.")
    feedback, _ = Feedback.objects.update_or_create(
        message=message,
        participant_id=by.participant_id,
        defaults={
            "verdict": verdict,
            "tags": sorted(set(tags)) if verdict == Feedback.Verdict.DOWN else [],
            "text": cleaned,
        },
    )
    if verdict == Feedback.Verdict.DOWN:
        _record_feedback_episode(feedback, message)
    else:
        _withdraw_episode(feedback, by)
    _emit_feedback_changed(message)
    return feedback


def _record_feedback_episode(feedback: Feedback, message: Message) -> None:
    """The agent's episode of this verdict; new words open it again."""
    summary = _episode_summary(feedback)
    episode = Episode.objects.filter(feedback=feedback).first()
    if episode is None:
        Episode.objects.create(
            agent=message.author,
            kind=Episode.Kind.FEEDBACK_RECEIVED,
            summary=summary,
            feedback=feedback,
            channel_id=message.thread.channel_id,
            thread=message.thread,
        )
    elif episode.summary != summary or episode.applied_how == "withdrawn":
        episode.summary, episode.applied_at, episode.applied_by, episode.applied_how = summary, None, None, ""
        episode.save(update_fields=["summary", "applied_at", "applied_by", "applied_how"])


def _withdraw_episode(feedback: Feedback, by: Access) -> None:
    Episode.objects.filter(feedback=feedback, applied_at=None).update(
        applied_at=timezone.now(), applied_by=by.participant_id, applied_how="withdrawn"
    )


@transaction.atomic
def withdraw_feedback(*, message: Message, by: Access) -> None:
    """Take one's verdict back. The episode stays on record as withdrawn and leaves the prompts."""
    feedback = Feedback.objects.filter(message=message, participant_id=by.participant_id).first()
    if feedback is None:
        return
    _withdraw_episode(feedback, by)
    feedback.delete()
    _emit_feedback_changed(message)


EPISODE_LIFETIME = timedelta(days=90)


def _emit_episode_changed(episode: Episode) -> None:
    message_id = episode.feedback.message_id if episode.feedback else None
    emit(
        "feedback_changed",
        workspace_id=episode.agent.workspace_id,
        channel_id=episode.channel_id,
        thread_id=episode.thread_id,
        message_id=message_id,
    )


def _check_may_settle(episode: Episode, by: Access) -> None:
    is_giver = episode.feedback is not None and episode.feedback.participant_id == by.participant_id
    if by.is_agent or by.workspace_id != episode.agent.workspace_id or not (is_giver or by.administers):
        raise Refused("Only an admin or the person who gave the feedback may settle it.")


@transaction.atomic
def mark_applied(*, episode: Episode, by: Access) -> Episode:
    """The feedback has been taken up: it leaves the agent's prompts with the next one."""
    current = Episode.objects.select_for_update(of=("self",)).select_related("agent", "feedback").get(pk=episode.pk)
    _check_may_settle(current, by)
    if current.applied_at is not None:
        raise Conflict("This feedback is settled already.", code="settled")
    current.applied_at, current.applied_by_id, current.applied_how = (timezone.now(), by.participant_id, "person")
    current.save(update_fields=["applied_at", "applied_by", "applied_how"])
    _emit_episode_changed(current)
    return current


@transaction.atomic
def reopen_episode(*, episode: Episode, by: Access) -> Episode:
    """Settled too early: the feedback is open again."""
    current = Episode.objects.select_for_update(of=("self",)).select_related("agent", "feedback").get(pk=episode.pk)
    _check_may_settle(current, by)
    current.applied_at, current.applied_by, current.applied_how = None, None, ""
    current.save(update_fields=["applied_at", "applied_by", "applied_how"])
    _emit_episode_changed(current)
    return current


@transaction.atomic
def delete_episode(*, episode: Episode, by: Access) -> None:
    """Gone for good. Feedback is deleted by the person who gave it or an admin; other kinds by admins."""
    _check_may_settle(episode, by)
    _emit_episode_changed(episode)
    episode.delete()


def record_failure(*, agent: Participant, thread: Thread, summary: str) -> Episode:
    """A task that failed for a reason of the agent's own, remembered for 90 days."""
    now = timezone.now()
    return Episode.objects.create(
        agent=agent,
        kind=Episode.Kind.TASK_FAILED,
        summary=summary[:2000],
        channel_id=thread.channel_id,
        thread=thread,
        created_at=now,
        expires_at=now + EPISODE_LIFETIME,
    )


APPLIED_STATES = (Proposal.State.ACCEPTED, Proposal.State.UNDONE)


def accept_proposal(*, proposal: Proposal, by: Access) -> Proposal:
    """It takes effect: an episode for 90 days, or new profile notes. Admins who see where it was learned.

    Raises Conflict when it was decided already, or when the notes were changed since it was proposed.
    """
    with transaction.atomic():
        current = _lock_proposal(proposal, by)
        if current.state != Proposal.State.PROPOSED:
            raise Conflict(f"This was decided already: {current.get_state_display().lower()}.", code="decided")
        if current.thread.access == Thread.Access.HUMAN_ONLY:
            raise Refused("The conversation is for people only by now, so nothing is learned from it. Reject this.")
        if current.kind == Proposal.Kind.EPISODE:
            current.episode = _create_learning_episode(current)
        else:
            _apply_notes(current, by)
        return _save_decision(current, by, Proposal.State.ACCEPTED)


def reject_proposal(*, proposal: Proposal, by: Access) -> Proposal:
    """It never takes effect, and is not proposed again in the same words."""
    with transaction.atomic():
        current = _lock_proposal(proposal, by)
        if current.state != Proposal.State.PROPOSED:
            raise Conflict(f"This was decided already: {current.get_state_display().lower()}.", code="decided")
        return _save_decision(current, by, Proposal.State.REJECTED)


def undo_proposal(*, proposal: Proposal, by: Access) -> Proposal:
    """Take back what was accepted: the episode is gone, the notes say what they said before.

    Raises Conflict when it is not in effect, or when somebody changed the notes since.
    """
    with transaction.atomic():
        current = _lock_proposal(proposal, by)
        if current.state != Proposal.State.ACCEPTED:
            raise Conflict("Only what was accepted can be undone.", code="not_accepted")
        _revert_proposal(current, by)
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


def _save_decision(current: Proposal, by: Access, state: str) -> Proposal:
    current.state, current.decided_by_id, current.decided_at = state, by.participant_id, timezone.now()
    current.save(update_fields=["state", "decided_by", "decided_at", "episode"])
    return current


def _create_learning_episode(current: Proposal) -> Episode:
    now = timezone.now()
    return Episode.objects.create(
        agent=current.agent,
        kind=Episode.Kind.LEARNING_ACQUIRED,
        summary=current.text,
        channel_id=current.thread.channel_id,
        thread=current.thread,
        created_at=now,
        expires_at=now + EPISODE_LIFETIME,
    )


def _apply_notes(current: Proposal, by: Access) -> None:
    assert current.person_id is not None
    if not is_public_thread(current.thread_id):
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
        agent_id=current.agent_id, person_id=current.person_id, text=current.text, by_id=by.participant_id, how="review"
    )


def _revert_proposal(current: Proposal, by: Access) -> None:
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
        agent_id=current.agent_id,
        person_id=current.person_id,
        text=current.before,
        by_id=by.participant_id,
        how="review",
    )


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
