"""Rows by id, from among those the asker may see: anything else is Missing, unknown and foreign alike."""

from openvibe.base.problems import Missing
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.querysets import messages_for_pages, with_reading
from openvibe.chat.web.numbers import LARGEST_ID
from openvibe.workspaces.web.doors import WorkspaceRequest


def channel_of(request: WorkspaceRequest, channel_id: int) -> Channel:
    found = Channel.objects.visible_to(request.access).filter(pk=min(channel_id, LARGEST_ID)).first()
    if found is None:
        raise Missing
    return found


def thread_of(request: WorkspaceRequest, thread_id: int) -> Thread:
    """With its channel, `read_seq` and `unread`."""
    threads = Thread.objects.visible_to(request.access).filter(pk=min(thread_id, LARGEST_ID))
    found = with_reading(threads, request.access).select_related("channel", "created_by").first()
    if found is None:
        raise Missing
    return found


def message_of(request: WorkspaceRequest, message_id: int) -> Message:
    """With author, mentions, thread and channel."""
    messages = Message.objects.visible_to(request.access).filter(pk=min(message_id, LARGEST_ID))
    found = messages_for_pages(messages).select_related("author__agent", "thread__channel").first()
    if found is None:
        raise Missing
    return found
