"""Through whose eyes a conversation is compacted. The context is shared; a session only asks for somebody."""

from collections.abc import Iterator

from memory.providers.base import Session
from memory.providers.opening import open_session
from openvibe.base.problems import Missing
from openvibe.chat.models import Thread
from openvibe.chat.querysets import agents_reading, people_reading
from openvibe.workspaces.models import Participant
from openvibe.workspaces.services import access_of_participant


def session_on(thread: Thread, asked_by: Participant | None = None) -> Session | None:
    """The thread as whoever asked sees it, else an agent that reads it, else a person who does.

    None when it is for people only, or nobody reads it.
    """
    if thread.access == Thread.Access.HUMAN_ONLY:
        return None
    for participant in _readers(thread, asked_by):
        access = access_of_participant(participant)
        if access is None:
            continue
        try:
            return open_session(access, thread.pk)
        except Missing:
            continue
    return None


def _readers(thread: Thread, asked_by: Participant | None) -> Iterator[Participant]:
    if asked_by is not None:
        yield asked_by
    yield from agents_reading(thread)
    yield from people_reading(thread.channel)
