"""Emits events: in the caller's transaction, tells open pages that something changed."""

from django.db.models import Max

from openvibe.base.models import Event
from openvibe.engines.database.prepared_statements import fetch_prepared

EVENT_RETENTION_HOURS = 48
INSERT_EVENT = """
INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, message_id, participant_id)
VALUES (%s::varchar, %s::bigint, %s::bigint, %s::bigint, %s::bigint, %s::bigint) RETURNING id
"""


def emit(
    kind: str,
    *,
    workspace_id: int,
    channel_id: int | None = None,
    thread_id: int | None = None,
    message_id: int | None = None,
    participant_id: int | None = None,
) -> None:
    """Tells open pages that something changed. Part of the caller's transaction: no commit, no event."""
    fetch_prepared(INSERT_EVENT, [kind, workspace_id, channel_id, thread_id, message_id, participant_id])


def newest_position(workspace_id: int) -> int:
    """The position of the workspace's last event; 0 without any."""
    return Event.objects.filter(workspace_id=workspace_id).aggregate(newest=Max("position"))["newest"] or 0
