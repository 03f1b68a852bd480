"""Verbs of episodes."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from memory.models import Episode
from openvibe.base.models import emit
from openvibe.base.problems import Conflict, Refused
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

LIFETIME = timedelta(days=90)


def _told(episode: Episode) -> None:
    message_id = episode.feedback.message_id if episode.feedback else None
    emit("feedback_changed", workspace_id=episode.agent.workspace_id, channel_id=episode.channel_id,
         thread_id=episode.thread_id, message_id=message_id)  # fmt: skip


def _may_settle(episode: Episode, by: Access) -> None:
    given_by_asker = episode.feedback is not None and episode.feedback.participant_id == by.participant_id
    if by.is_agent or by.workspace_id != episode.agent.workspace_id or not (given_by_asker or by.administers):
        raise Refused("Only an admin or the person who gave the feedback may settle it.")


@transaction.atomic
def mark_applied(*, episode: Episode, by: Access) -> Episode:
    """The feedback has been taken up: it leaves the agent's prompts with the next one."""
    current = Episode.objects.select_for_update(of=("self",)).select_related("agent", "feedback").get(pk=episode.pk)
    _may_settle(current, by)
    if current.applied_at is not None:
        raise Conflict("This feedback is settled already.", code="settled")
    current.applied_at, current.applied_by_id, current.applied_how = (
        timezone.now(),
        by.participant_id,
        "person",
    )
    current.save(update_fields=["applied_at", "applied_by", "applied_how"])
    _told(current)
    return current


@transaction.atomic
def reopen(*, episode: Episode, by: Access) -> Episode:
    """Settled too early: the feedback is open again."""
    current = Episode.objects.select_for_update(of=("self",)).select_related("agent", "feedback").get(pk=episode.pk)
    _may_settle(current, by)
    current.applied_at, current.applied_by, current.applied_how = None, None, ""
    current.save(update_fields=["applied_at", "applied_by", "applied_how"])
    _told(current)
    return current


@transaction.atomic
def delete_episode(*, episode: Episode, by: Access) -> None:
    """Gone for good. Feedback is deleted by the person who gave it or an admin; other kinds by admins."""
    _may_settle(episode, by)
    _told(episode)
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
        expires_at=now + LIFETIME,
    )
