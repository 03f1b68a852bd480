"""Who may know what was said in a thread: prompts everywhere hold only what was learned where everybody reads."""

from collections.abc import Mapping
from typing import Any

from memory.providers.base import Session
from openvibe.base.problems import Refused
from openvibe.chat.models import Thread

CARRIED_EVERYWHERE = (
    "This conversation is not open to everybody, and {what} stand in your prompts everywhere. So nothing of it is"
    " written there. What matters for this thread belongs into its progress log; an admin can write the rest."
)


def is_public(thread_id: int) -> bool:
    """Whether what is learned in a thread may be known in every other one."""
    return Thread.objects.filter(pk=thread_id, access=Thread.Access.OPEN, channel__is_private=False).exists()


def refuse_unless_public(thread_id: int, what: str) -> None:
    """For an agent's own writing in a thread. `what` it writes: your blocks, your notes. Raises Refused."""
    if not is_public(thread_id):
        raise Refused(CARRIED_EVERYWHERE.format(what=what), code="not_public")


def refuse_private_notes(session: Session, arguments: Mapping[str, Any]) -> None:
    """Before a call of the memory tool: notes about a person are written where everybody reads, cleared anywhere.

    Raises Refused.
    """
    if arguments.get("action") == "profile_update" and str(arguments.get("text") or "").strip():
        refuse_unless_public(session.thread_id, "your notes")
