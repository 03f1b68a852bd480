"""Direct messages: the one conversation of two participants, a private channel that nobody else is ever added to."""

from django.db import IntegrityError, transaction

from openvibe.base.events import emit
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Channel, ChannelMembership, Thread
from openvibe.chat.services.threads import clean_thread_title
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

DIRECT_CHANNEL_NAME = "direct-message"


def open_direct_messages(*, by: Access, recipient: Participant) -> tuple[Thread, bool]:
    """The conversation of two, and whether it was begun now. The same two always have the same one.

    `recipient` must be known to `by`. Raises Refused for agents: people begin conversations; Problem for oneself."""
    if by.is_agent:
        raise Refused("Agents answer direct messages; people begin them.")
    if recipient.pk == by.participant_id:
        raise Problem("Choose somebody else: direct messages are between two.", code="to_yourself", field="to")
    direct_threads = Thread.objects.direct_between(by.participant_id, recipient.pk)
    if (existing := direct_threads.first()) is not None:
        return existing, False
    try:
        with transaction.atomic():
            return _create(by, recipient), True
    except IntegrityError:  # the other began it in the same moment
        existing = direct_threads.all().first()
        if existing is None:
            raise
        return existing, False


def _create(by: Access, recipient: Participant) -> Thread:
    asker = Participant.objects.get(pk=by.participant_id)
    first, second = sorted((asker, recipient), key=lambda one: one.pk)
    channel = Channel.objects.create(
        workspace_id=by.workspace_id,
        name=DIRECT_CHANNEL_NAME,
        is_private=True,
        created_by=asker,
        first_participant=first,
        second_participant=second,
    )
    for one in (first, second):
        ChannelMembership.objects.create(channel=channel, participant=one)
        emit("access_changed", workspace_id=channel.workspace_id, participant_id=one.pk)
    title = clean_thread_title(f"{asker.label} and {recipient.label}")
    return Thread.objects.create(workspace_id=by.workspace_id, channel=channel, title=title, created_by=asker)
