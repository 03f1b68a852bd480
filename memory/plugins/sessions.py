"""Sessions of memory plugins: open a thread as somebody sees it, and the conversations that outside agents lead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction

from memory.blocks.services import check_thread_is_public
from memory.plugins.base import NewMessage, Session, SessionManager
from memory.plugins.models import SessionInfo
from memory.plugins.records import clean_session_info, visible_sessions
from memory.plugins.registry import active_plugin_name, provider_for
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import Channel, Thread
from openvibe.chat.queries import agents_with_access, members_with_access
from openvibe.chat.services import create_thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant
from openvibe.workspaces.queries import participant_access


def open_session(access: Access, thread_id: int, *, before: int | None = None, person_id: int | None = None) -> Session:
    """The thread as the asker sees it. Raises Missing where there is none to see, or when it is for people only."""
    threads = Thread.objects.visible_to(access).exclude(access=Thread.Access.HUMAN_ONLY)
    if not threads.filter(pk=thread_id).exists():
        raise Missing
    return Session(thread_id, access, before, person_id)


def session_for_thread(thread: Thread, requested_by: Participant | None = None) -> Session | None:
    """The thread as whoever asked sees it, else an agent that reads it, else a person who does.

    None when it is for people only, or nobody reads it.
    """
    if thread.access == Thread.Access.HUMAN_ONLY:
        return None
    for participant in _candidate_readers(thread, requested_by):
        access = participant_access(participant)
        if access is None:
            continue
        try:
            return open_session(access, thread.pk)
        except Missing:
            continue
    return None


def _candidate_readers(thread: Thread, requested_by: Participant | None) -> Iterator[Participant]:
    if requested_by is not None:
        yield requested_by
    yield from agents_with_access(thread)
    yield from members_with_access(thread.channel)


MAX_SESSION_ID_CHARACTERS = 80  # characters


def create_session(
    *, channel: Channel, by: Access, title: str, external_id: str = "", info: Mapping[str, Any] | None = None
) -> tuple[SessionInfo, bool]:
    """A new thread of the agent's own in a channel it sees, and whether it was made now.

    The same `external_id` of the same agent is the same session, returned as it is. Raises Refused for people (they
    write in threads), Problem (title, external id, info), Missing when the agent's session of that id is out of reach.
    """
    if not by.is_agent:
        raise Refused("Sessions are the conversations agents lead elsewhere. Begin a thread instead.")
    if len(external_id) > MAX_SESSION_ID_CHARACTERS or not external_id.isprintable():
        raise Problem(
            f"An external_id is at most {MAX_SESSION_ID_CHARACTERS} plain characters.",
            code="bad_id",
            field="external_id",
        )
    clean_info = clean_session_info(info or {})
    if external_id and _session_exists(by, external_id):
        return _access_own_session(by, external_id), False
    try:
        with transaction.atomic():
            thread = create_thread(channel=channel, by=by, title=title)
            row = SessionInfo.objects.create(
                agent_id=by.participant_id, thread=thread, external_id=external_id, info=clean_info
            )
    except IntegrityError:  # begun twice at once
        return _access_own_session(by, external_id), False
    return row, True


def _session_exists(by: Access, external_id: str) -> bool:
    return SessionInfo.objects.filter(agent_id=by.participant_id, external_id=external_id).exists()


def _access_own_session(by: Access, external_id: str) -> SessionInfo:
    row = visible_sessions(by).filter(external_id=external_id).select_related("thread").first()
    if row is None:
        raise Missing
    return row


def append_to_session(*, session: SessionInfo, by: Access, messages: Sequence[NewMessage]) -> list[int]:
    """Add to the conversation, all or nothing; the messages' numbers. A known external id is not stored again."""
    provider = provider_for(by.workspace_id)
    return provider.append(open_session(by, session.thread_id), messages)


def update_session_info(*, session: SessionInfo, by: Access, info: Mapping[str, Any]) -> None:
    """Replace what the agent keeps about its session. Raises Problem: too much, or a plugin that keeps none."""
    provider = provider_for(by.workspace_id)
    if not isinstance(provider, SessionManager):
        raise Problem(f"The memory plugin {active_plugin_name(by.workspace_id)} keeps no sessions.", code="no_sessions")
    provider.save_info(open_session(by, session.thread_id), info)


def check_profile_update(session: Session, arguments: Mapping[str, Any]) -> None:
    """Before a call of the memory tool: notes about a person are written where everybody reads, cleared anywhere.

    Raises Refused.
    """
    if arguments.get("action") == "profile_update" and str(arguments.get("text") or "").strip():
        check_thread_is_public(session.thread_id, "your notes")
