"""Verbs of an outside agent's own conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction

from memory.models import SessionInfo
from memory.providers.base import NewMessage, SessionManager
from memory.providers.opening import open_session
from memory.providers.registry import enabled_name, provider_for
from memory.providers.shared import cleaned_info, sessions_of
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import Channel
from openvibe.chat.services import create_thread
from openvibe.workspaces.access import Access

LONGEST_EXTERNAL_ID = 80  # characters


def begin_session(
    *, channel: Channel, by: Access, title: str, external_id: str = "", info: Mapping[str, Any] | None = None
) -> tuple[SessionInfo, bool]:
    """A new thread of the agent's own in a channel it sees, and whether it was made now.

    The same `external_id` of the same agent is the same session, returned as it is. Raises Refused for people (they
    write in threads), Problem (title, external id, info), Missing when the agent's session of that id is out of reach.
    """
    if not by.is_agent:
        raise Refused("Sessions are the conversations agents lead elsewhere. Begin a thread instead.")
    if len(external_id) > LONGEST_EXTERNAL_ID or not external_id.isprintable():
        raise Problem(f"An external_id is at most {LONGEST_EXTERNAL_ID} plain characters.",
                      code="bad_id", field="external_id")  # fmt: skip
    kept = cleaned_info(info or {})
    if external_id and _is_begun(by, external_id):
        return _begun(by, external_id), False
    try:
        with transaction.atomic():
            thread = create_thread(channel=channel, by=by, title=title)
            row = SessionInfo.objects.create(
                agent_id=by.participant_id, thread=thread, external_id=external_id, info=kept
            )
    except IntegrityError:  # begun twice at once
        return _begun(by, external_id), False
    return row, True


def _is_begun(by: Access, external_id: str) -> bool:
    return SessionInfo.objects.filter(agent_id=by.participant_id, external_id=external_id).exists()


def _begun(by: Access, external_id: str) -> SessionInfo:
    row = sessions_of(by).filter(external_id=external_id).select_related("thread").first()
    if row is None:
        raise Missing
    return row


def say_in_session(*, session: SessionInfo, by: Access, messages: Sequence[NewMessage]) -> list[int]:
    """Add to the conversation, all or nothing; the messages' numbers. A known external id is not stored again."""
    provider = provider_for(by.workspace_id)
    return provider.append(open_session(by, session.thread_id), messages)


def save_session_info(*, session: SessionInfo, by: Access, info: Mapping[str, Any]) -> None:
    """Replace what the agent keeps about its session. Raises Problem: too much, or a plugin that keeps none."""
    provider = provider_for(by.workspace_id)
    if not isinstance(provider, SessionManager):
        raise Problem(f"The memory plugin {enabled_name(by.workspace_id)} keeps no sessions.", code="no_sessions")
    provider.save_info(open_session(by, session.thread_id), info)
