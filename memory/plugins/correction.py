"""Correcting what a plugin's summary says: members who see the thread."""

from memory.plugins.base import Corrector, Explorer, SummaryDescription
from memory.plugins.compaction import request_compaction
from memory.plugins.models import Compaction
from memory.plugins.registry import provider_for
from memory.plugins.sessions import open_session
from openvibe.base.problems import Missing, Refused
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access


def correct_summary(
    *, thread: Thread, by: Access, summary_id: int, content: str, version: int
) -> tuple[SummaryDescription, Compaction | None]:
    """The summary as it stands now, and a request to write anew what was made of it, for the caller to send to a
    worker.

    Raises Missing, Refused (agents, guests), Problem for the text, and Conflict for a version that is not current.
    """
    session, provider = open_session(by, thread.pk), provider_for(thread.workspace_id)
    if not (isinstance(provider, Corrector) and isinstance(provider, Explorer)):
        raise Missing
    provider.describe(session, summary_id)  # raises Missing
    if by.is_agent or by.is_guest:
        raise Refused("Only members may correct a summary.")
    description = provider.correct(session, summary_id, content=content, version=version)
    if description.container is None:
        return description, None
    return description, request_compaction(thread=thread, trigger=Compaction.Trigger.CHANGED)
