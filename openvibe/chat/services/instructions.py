"""Instructions for agents in a channel or a thread: trusted. Only admins write them; whoever reads there sees them."""

from django.db import transaction

from openvibe.base.events import emit
from openvibe.base.problems import Refused
from openvibe.chat.models import Channel, Thread
from openvibe.chat.services.permissions import check_not_dive
from openvibe.workspaces.access import Access
from openvibe.workspaces.services import check_instructions_version, clean_instructions


@transaction.atomic
def set_instructions(*, scope: Channel | Thread, by: Access, text: str, version: str | None = None) -> None:
    """What agents are told in a channel or a thread, and in its dives; empty takes it away. From the next prompt on.

    `version` is that of the text that was read. Raises Refused for all but admins and for a dive, Conflict where
    another text stands there now, Problem like `clean_instructions`.
    """
    if not by.administers or by.workspace_id != scope.workspace_id:
        raise Refused("Only owners and admins write instructions for agents: they are trusted. Ask one of them.")
    if isinstance(scope, Thread):
        check_not_dive(scope)
    rows = type(scope)._default_manager.select_for_update(no_key=True).values_list("instructions", flat=True)
    check_instructions_version(rows.get(pk=scope.pk), version)
    scope.instructions = clean_instructions(text, workspace_id=scope.workspace_id)
    scope.save(update_fields=["instructions", "updated_at"])
    is_thread = isinstance(scope, Thread)
    emit(
        "thread_changed" if is_thread else "channel_changed",
        workspace_id=scope.workspace_id,
        channel_id=scope.channel_id if isinstance(scope, Thread) else scope.pk,
        thread_id=scope.pk if is_thread else None,
    )
