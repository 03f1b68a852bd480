"""Services that save messages for oneself, and no longer."""

from django.db import transaction

from openvibe.base.events import emit
from openvibe.base.problems import Missing, Refused
from openvibe.chat.models import Message, SavedMessage
from openvibe.workspaces.access import Access


@transaction.atomic
def save_message(*, message: Message, by: Access) -> None:
    """Saves a message that `by` sees among her saved ones; saved already, it stays where it is there. Raises Refused
    for agents, Missing when it was deleted meanwhile."""
    check_saves(by)
    if not Message.objects.select_for_update(no_key=True).filter(pk=message.pk, deleted_at=None).exists():
        raise Missing("This message was deleted.")
    _, is_new = SavedMessage.objects.get_or_create(message=message, participant_id=by.participant_id)
    if is_new:
        _emit_saved_changed(message, by)


@transaction.atomic
def unsave_message(*, message: Message, by: Access) -> None:
    """Takes a message from one's saved ones; not there, nothing happens."""
    check_saves(by)
    if SavedMessage.objects.filter(message=message, participant_id=by.participant_id).delete()[0]:
        _emit_saved_changed(message, by)


def check_saves(by: Access) -> None:
    """Raises Refused."""
    if by.is_agent:
        raise Refused("Only people save messages.", code="people_only")


def _emit_saved_changed(message: Message, by: Access) -> None:
    """Emits what is told to the pages of that person alone."""
    emit(
        "saved_changed",
        workspace_id=by.workspace_id,
        channel_id=message.thread.channel_id,
        thread_id=message.thread_id,
        message_id=message.pk,
        participant_id=by.participant_id,
    )
