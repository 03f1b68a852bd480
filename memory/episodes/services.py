"""Services of feedback and episodes: give, withdraw, settle, delete."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from memory.episodes.models import PRAISE, Episode, Feedback
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.engines.text.cleaning import TextRefused, clean_body, has_visible_character
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

MAX_FEEDBACK_CHARACTERS = 2000


def _clean_feedback_text(text: str) -> str:
    if not has_visible_character(text):
        return ""
    try:
        return clean_body(text, max_characters=MAX_FEEDBACK_CHARACTERS)
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="text") from None


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
    message = _lock_message(message)
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
        _forget_praise(feedback)
        _record_feedback_episode(feedback, message)
    else:
        _withdraw_episode(feedback, by)
        _record_praise(feedback, message)
    _emit_feedback_changed(message)
    return feedback


def _lock_message(message: Message) -> Message:
    """The message, locked. All that becomes of verdicts on it happens one after the other."""
    rows = Message.objects.select_for_update(no_key=True, of=("self",)).select_related("author", "thread")
    return rows.get(pk=message.pk)


def _record_feedback_episode(feedback: Feedback, message: Message) -> None:
    """The agent's episode of this verdict: the person's words, else a bare sentence, with the tags. New words open it
    again."""
    labels = [str(Feedback.Tag(tag).label).lower() for tag in feedback.tags]
    summary = feedback.text or "This answer was not helpful."
    if labels:
        summary += f" ({', '.join(labels)})"
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
        episode.summary = summary
        _set_applied(episode, None, None, "")
        episode.save()


def _record_praise(feedback: Feedback, message: Message) -> None:
    """An answer that somebody found helpful is no routine. It is on record, and stands in no prompt."""
    comment = f": {feedback.text}" if feedback.text else "."
    record_completion(
        agent_id=message.author_id,
        thread=message.thread,
        subject=f"{PRAISE}{feedback.pk}",
        summary=f"{feedback.participant.label} found the answer in “{message.thread.title}” helpful{comment}",
    )


def _forget_praise(feedback: Feedback) -> None:
    forget_completion(f"{PRAISE}{feedback.pk}")


def _withdraw_episode(feedback: Feedback, by: Access) -> None:
    Episode.objects.filter(feedback=feedback, applied_at=None).update(
        applied_at=timezone.now(), applied_by=by.participant_id, applied_how="withdrawn", suggested_at=None
    )


@transaction.atomic
def withdraw_feedback(*, message: Message, by: Access) -> None:
    """Takes one's verdict back. The episode stays on record as withdrawn and leaves the prompts."""
    message = _lock_message(message)
    feedback = Feedback.objects.filter(message=message, participant_id=by.participant_id).first()
    if feedback is None:
        return
    _withdraw_episode(feedback, by)
    _forget_praise(feedback)
    feedback.delete()
    _emit_feedback_changed(message)


EPISODE_LIFETIME = timedelta(days=90)

MAX_SUMMARY_CHARACTERS = 2_000


def _lock_episode(episode: Episode, by: Access) -> Episode:
    """Raises Missing once it was taken back or was over, and Refused."""
    rows = Episode.objects.select_for_update(of=("self",)).select_related("agent", "feedback")
    current = rows.filter(pk=episode.pk).first()
    if current is None:
        raise Missing
    _check_may_settle(current, by)
    return current


def _check_may_settle(episode: Episode, by: Access) -> None:
    is_giver = episode.feedback is not None and episode.feedback.participant_id == by.participant_id
    if by.is_agent or by.workspace_id != episode.agent.workspace_id or not (is_giver or by.administers):
        raise Refused("Only an admin or the person who gave the feedback may settle it.")


def _set_applied(
    episode: Episode, at: datetime | None, by_id: int | None, how: str, soul_version: int | None = None
) -> None:
    episode.applied_at, episode.applied_by_id, episode.applied_how = at, by_id, how
    episode.soul_version, episode.suggested_at = soul_version, None


def _save_applied(
    episode: Episode, at: datetime | None, by_id: int | None, how: str, soul_version: int | None = None
) -> Episode:
    _set_applied(episode, at, by_id, how, soul_version)
    episode.save(update_fields=["applied_at", "applied_by", "applied_how", "soul_version", "suggested_at"])
    _emit_episode_changed(episode)
    return episode


def _emit_episode_changed(episode: Episode) -> None:
    emit(
        "feedback_changed",
        workspace_id=episode.agent.workspace_id,
        channel_id=episode.channel_id,
        thread_id=episode.thread_id,
        message_id=episode.feedback.message_id if episode.feedback else None,
    )


@transaction.atomic
def mark_applied(*, episode: Episode, by: Access) -> Episode:
    """The feedback has been taken up: it leaves the agent's prompts with the next one."""
    current = _lock_episode(episode, by)
    _check_open(current)
    return _save_applied(current, timezone.now(), by.participant_id, "person")


def _check_open(episode: Episode) -> None:
    if episode.applied_at is not None:
        raise Conflict("This feedback is settled already.", code="settled")


@transaction.atomic
def suggest_always(*, episode: Episode, by: Access) -> Episode:
    """Suggests that the agent's SOUL says it from now on, by whoever gave the feedback; admins find it on the agent's
    page.

    Suggested twice is suggested once. Raises Refused, Conflict when it is settled already.
    """
    current = _lock_episode(episode, by)
    if current.feedback is None or current.feedback.participant_id != by.participant_id:
        raise Refused("Only the person who gave the feedback may suggest it for the SOUL.")
    _check_open(current)
    current.suggested_at = current.suggested_at or timezone.now()
    current.save(update_fields=["suggested_at"])
    _emit_episode_changed(current)
    return current


def apply_to_soul(*, agent_id: int, episode_ids: Collection[int], by: Access, soul_version: int) -> None:
    """A version of the agent's SOUL says what this feedback asked for; with the next prompt the SOUL alone says it.

    Inside the transaction that saves the version. Raises Missing for what is no feedback to the agent that the asker
    may read, Refused, Conflict when some is settled already.
    """
    threads = Thread.objects.visible_to(by)
    feedback = Episode.objects.filter(agent=agent_id, kind=Episode.Kind.FEEDBACK_RECEIVED, archived_at=None)
    feedback = feedback.filter(pk__in=episode_ids, thread__in=threads).select_for_update(of=("self",))
    episodes = list(feedback.select_related("agent", "feedback").order_by("pk"))
    if len(episodes) != len(set(episode_ids)):
        raise Missing
    for episode in episodes:
        _check_may_settle(episode, by)
        _check_open(episode)
        _save_applied(episode, timezone.now(), by.participant_id, "soul", soul_version)


def reopen_applied_since(*, agent_id: int, soul_version: int) -> None:
    """An earlier version of the SOUL is back: feedback that a later one applied is open again. In its transaction."""
    rows = Episode.objects.select_for_update(of=("self",)).select_related("agent", "feedback")
    for episode in rows.filter(agent=agent_id, soul_version__gt=soul_version).order_by("pk"):
        _save_applied(episode, None, None, "")


@transaction.atomic
def reopen_episode(*, episode: Episode, by: Access) -> Episode:
    """Opens feedback again that was settled too early."""
    return _save_applied(_lock_episode(episode, by), None, None, "")


@transaction.atomic
def delete_episode(*, episode: Episode, by: Access) -> None:
    """Deletes the episode for good. Feedback is deleted by the person who gave it or an admin; other kinds by
    admins."""
    current = _lock_episode(episode, by)
    _emit_episode_changed(current)
    current.delete()


def record_failure(*, agent: Participant, thread: Thread, summary: str) -> Episode:
    """A task that failed for a reason of the agent's own, remembered for 90 days."""
    return create_episode(agent, thread, Episode.Kind.TASK_FAILED, summary[:MAX_SUMMARY_CHARACTERS])


def record_completion(*, agent_id: int, thread: Thread, subject: str, summary: str) -> Episode:
    """A task of weight that was done, in the caller's transaction. Told twice it is remembered once."""
    return _record_subject(agent_id, thread, Episode.Kind.TASK_COMPLETED, subject, summary)


def forget_completion(subject: str) -> None:
    """Forgets a completion: what was done is not done any more, or its words may stand nowhere."""
    Episode.objects.filter(kind=Episode.Kind.TASK_COMPLETED, subject=subject).delete()


def record_trust_check(*, agent_id: int, thread: Thread | None, subject: str, summary: str) -> Episode:
    """What its trust level, or a person, decided about what it may do, in the caller's transaction.

    One of each subject, in its newest words; the same words about the same thread are remembered once, as of now.
    Without a thread it may be known everywhere.
    """
    kind, now = Episode.Kind.TRUST_CHECK, timezone.now()
    same = Episode.objects.of(agent_id).filter(kind=kind, thread=thread, summary=summary[:MAX_SUMMARY_CHARACTERS])
    previous_check = same.exclude(subject=subject).select_for_update(of=("self",)).first()
    if previous_check is None:
        return _record_subject(agent_id, thread, kind, subject, summary)
    previous_check.created_at, previous_check.expires_at = now, now + EPISODE_LIFETIME
    previous_check.save(update_fields=["created_at", "expires_at"])
    return previous_check


def _record_subject(agent_id: int, thread: Thread | None, kind: str, subject: str, summary: str) -> Episode:
    now = timezone.now()
    episode, _ = Episode.objects.update_or_create(
        agent_id=agent_id,
        kind=kind,
        subject=subject,
        defaults={
            "summary": summary[:MAX_SUMMARY_CHARACTERS],
            "channel_id": thread.channel_id if thread else None,
            "thread": thread,
            "created_at": now,
            "expires_at": now + EPISODE_LIFETIME,
        },
    )
    return episode


def create_episode(agent: Participant, thread: Thread, kind: Episode.Kind, summary: str) -> Episode:
    """One of 90 days, in the caller's transaction."""
    now = timezone.now()
    return Episode.objects.create(
        agent=agent,
        kind=kind,
        summary=summary,
        channel_id=thread.channel_id,
        thread=thread,
        created_at=now,
        expires_at=now + EPISODE_LIFETIME,
    )
