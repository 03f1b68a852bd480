"""Sessions: the one way in that asks whether the asker sees the thread."""

from memory.providers.base import Session
from openvibe.base.problems import Missing
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access


def open_session(access: Access, thread_id: int, *, before: int | None = None, person_id: int | None = None) -> Session:
    """The thread as the asker sees it. Raises Missing where there is none to see, or when it is for people only."""
    threads = Thread.objects.visible_to(access).exclude(access=Thread.Access.HUMAN_ONLY)
    if not threads.filter(pk=thread_id).exists():
        raise Missing
    return Session(thread_id, access, before, person_id)
