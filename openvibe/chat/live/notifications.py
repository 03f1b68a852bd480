"""Who is shown a desktop notification of a live event: the one place of this rule."""

from django.utils import timezone

from openvibe.chat.live.batch import EventBatch, LiveEvent
from openvibe.chat.live.viewers import Viewer
from openvibe.workspaces.models import NotificationLevel


def is_notified(viewer: Viewer, event: LiveEvent, batch: EventBatch) -> bool:
    """Whether a notification of the event, which the viewer sees, is shown to her."""
    message = event.message
    if message is None or not event.announces or message.author_id == viewer.participant_id:
        return False
    level = _chosen_level(viewer, event, batch) or viewer.notify_level
    is_named = viewer.participant_id in message.named
    is_wanted = level == NotificationLevel.ALL or (level == NotificationLevel.MENTIONS and is_named)
    return is_wanted and viewer.do_not_disturb.ends_at(timezone.now()) is None


def is_muted(viewer: Viewer, event: LiveEvent, batch: EventBatch) -> bool:
    """Whether the viewer muted the place where the event's message stands."""
    return _chosen_level(viewer, event, batch) == NotificationLevel.NOTHING


def _chosen_level(viewer: Viewer, event: LiveEvent, batch: EventBatch) -> str:
    """What the viewer chose for the thread, else for its channel; empty where she has her default."""
    levels, thread = batch.notification_levels, event.thread
    return levels.get((viewer.participant_id, None, event.thread_id)) or (
        levels.get((viewer.participant_id, thread.channel_id, None), "") if thread else ""
    )
