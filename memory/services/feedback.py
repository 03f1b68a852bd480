"""Verbs of feedback: a person's verdict becomes the agent's episode."""

from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from memory.models import Episode, Feedback
from openvibe.base.models import emit
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Message
from openvibe.chat.text import TextRefused, clean_body
from openvibe.workspaces.access import Access

TEXT_LIMIT = 2000


def _cleaned(text: str) -> str:
    if not text.strip():
        return ""
    try:
        return clean_body(text, max_characters=TEXT_LIMIT)
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="text") from None


def _summary(feedback: Feedback) -> str:
    """What the agent is told: the person's words, else the tags, else the bare verdict."""
    labels = [str(Feedback.Tag(tag).label).lower() for tag in feedback.tags]
    said = feedback.text or "This answer was not helpful."
    return f"{said} ({', '.join(labels)})" if labels else said


def _told(message: Message) -> None:
    thread = message.thread
    emit("feedback_changed", workspace_id=thread.workspace_id, channel_id=thread.channel_id,
         thread_id=thread.pk, message_id=message.pk)  # fmt: skip


@transaction.atomic
def give_feedback(*, message: Message, by: Access, verdict: str, text: str = "", tags: Sequence[str] = ()) -> Feedback:
    """One verdict per person and message; giving another changes it.

    A thumbs down is an open `feedback_received` episode of the agent from this transaction on; changing it to
    thumbs up withdraws that episode. Raises Refused when the message is not an agent's.
    """
    if verdict not in Feedback.Verdict.values:
        raise Problem("A verdict is up or down.", code="bad_verdict", field="verdict")
    unknown = [tag for tag in tags if tag not in Feedback.Tag.values]
    if unknown:
        raise Problem(f"Tags are {', '.join(Feedback.Tag.values)}.", code="bad_tag", field="tags")
    cleaned = _cleaned(text)
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
        _remember(feedback, message)
    else:
        _withdraw(feedback, by)
    _told(message)
    return feedback


def _remember(feedback: Feedback, message: Message) -> None:
    """The agent's episode of this verdict; new words open it again."""
    summary = _summary(feedback)
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


def _withdraw(feedback: Feedback, by: Access) -> None:
    Episode.objects.filter(feedback=feedback, applied_at=None).update(
        applied_at=timezone.now(), applied_by=by.participant_id, applied_how="withdrawn"
    )


@transaction.atomic
def withdraw_feedback(*, message: Message, by: Access) -> None:
    """Take one's verdict back. The episode stays on record as withdrawn and leaves the prompts."""
    feedback = Feedback.objects.filter(message=message, participant_id=by.participant_id).first()
    if feedback is None:
        return
    _withdraw(feedback, by)
    feedback.delete()
    _told(message)
