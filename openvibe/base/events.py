"""Emits events: in the caller's transaction, tells open pages that something changed."""

from openvibe.base.models import Event

EVENT_RETENTION_HOURS = 48


def emit(
    kind: str,
    *,
    workspace_id: int,
    channel_id: int | None = None,
    thread_id: int | None = None,
    message_id: int | None = None,
    participant_id: int | None = None,
) -> None:
    """Tell open pages that something changed. Part of the caller's transaction: no commit, no event."""
    Event.objects.create(
        kind=kind,
        workspace_id=workspace_id,
        channel_id=channel_id,
        thread_id=thread_id,
        message_id=message_id,
        participant_id=participant_id,
    )
