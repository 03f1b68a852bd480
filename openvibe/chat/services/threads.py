"""Verbs of threads."""

from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone

from openvibe.base.models import emit
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Channel, Thread
from openvibe.chat.services.writing import is_no_dive
from openvibe.chat.text import TextRefused, clean_title
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


def cleaned_title(title: str) -> str:
    try:
        return clean_title(title)
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="title") from None


def told(thread: Thread, kind: str = "thread_changed") -> None:
    emit(kind, workspace_id=thread.workspace_id, channel_id=thread.channel_id, thread_id=thread.pk)


def _may_change(thread: Thread, by: Access) -> bool:
    return by.administers or (not by.is_agent and thread.created_by_id == by.participant_id)


@transaction.atomic
def create_thread(
    *,
    channel: Channel,
    by: Access,
    title: str,
    access: str = Thread.Access.OPEN,
    allowed_agents: Iterable[Participant] = (),
) -> Thread:
    """A new, empty thread. The channel must be visible to `by` and not archived."""
    cleaned = cleaned_title(title)
    if channel.archived_at is not None:
        raise Refused("This channel is archived. Bring it back before writing in it.", code="archived")
    if by.is_agent and access != Thread.Access.OPEN:
        raise Refused("Only people may close a thread to agents.")
    thread = Thread.objects.create(
        workspace_id=channel.workspace_id, channel=channel, title=cleaned, created_by_id=by.participant_id
    )
    if access != Thread.Access.OPEN:
        set_thread_access(thread=thread, by=by, access=access, allowed_agents=allowed_agents)
    told(thread)
    return thread


@transaction.atomic
def edit_thread(*, thread: Thread, by: Access, title: str | None = None, archived: bool | None = None) -> Thread:
    """Rename or archive: the person who began it, or an admin."""
    is_no_dive(thread)
    if not _may_change(thread, by):
        raise Refused("Only admins and the person who began a thread may change it.")
    if title is not None:
        thread.title = cleaned_title(title)
    if archived is not None:
        thread.archived_at = timezone.now() if archived else None
    thread.save(update_fields=["title", "archived_at", "updated_at"])
    told(thread)
    return thread


@transaction.atomic
def set_thread_access(*, thread: Thread, by: Access, access: str, allowed_agents: Iterable[Participant] = ()) -> Thread:
    """Say which agents may know of the thread. Holds from the very next prompt on."""
    is_no_dive(thread)
    if not _may_change(thread, by):
        raise Refused("Only admins and the person who began a thread may change who reads it.")
    if access not in Thread.Access.values:
        raise Problem("Choose open, human_only or agent_restricted.", code="bad_access", field="access")
    agents = [a for a in allowed_agents if a.is_agent and a.workspace_id == thread.workspace_id]
    Thread.objects.select_for_update().filter(pk=thread.pk).first()
    thread.access = access
    thread.save(update_fields=["access", "updated_at"])
    thread.allowed_agents.set(agents if access == Thread.Access.AGENT_RESTRICTED else [])
    told(thread)
    return thread


@transaction.atomic
def set_thread_followers(*, thread: Thread, by: Access, agents: Iterable[Participant]) -> Thread:
    """Which agents answer every message of the thread (L2 and above), not only mentions."""
    is_no_dive(thread)
    if not _may_change(thread, by):
        raise Refused("Only admins and the person who began a thread may let agents follow it.")
    thread.following_agents.set([a for a in agents if a.is_agent and a.workspace_id == thread.workspace_id])
    told(thread)
    return thread
