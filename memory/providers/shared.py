"""What every plugin does the same way, because all work on the same messages: storing what was said, reading it back,
notes about people, and what an agent keeps about its sessions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from memory.models import SessionInfo
from memory.profile import read_notes, store_notes
from memory.providers.base import LONGEST, Entry, NewMessage, Session
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.chat.services.importing import imported_speaker, speaker_name
from openvibe.chat.services.messages import cleaned_body
from openvibe.llm.tokens import count
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Workspace

LONGEST_ID = 100  # characters of an external id and of a call id
MOST_AT_ONCE = 500  # messages
INFO_BYTES = 8_000
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

_KINDS = {"user": Message.Kind.TEXT, "assistant": Message.Kind.TEXT, "tool_call": Message.Kind.TOOL_CALL,
          "tool_result": Message.Kind.TOOL_RESULT}  # fmt: skip
_ENTRY = (
    "seq", "kind", "body", "token_count", "created_at", "pk", "author_id", "author__name", "author__kind", "call_id",
)  # fmt: skip


# --- storing ------------------------------------------------------------------------------------------------------


def store(session: Session, messages: Sequence[NewMessage]) -> list[int]:
    """Put an outside agent's messages into its thread, all or nothing; their numbers, in the order given.

    A message whose external id its author used in this thread before is there already: it gives the number it has.
    Roles other than `user` speak as the session's agent; `user` as the session's person, else as an imported speaker
    called `name`. Nobody is notified and no agent answers. Raises Problem (text, ids), Refused (archived), Missing.
    """
    if len(messages) > MOST_AT_ONCE:
        raise Problem(f"At most {MOST_AT_ONCE} messages at once.", code="too_many", field="messages")
    bodies = [_checked(message) for message in messages]
    with transaction.atomic():
        authors = _authors(session, messages)
        thread = _writable(session)
        known = _said_already(thread, messages)
        rows: list[Message] = []
        places: list[int | Message] = []
        for message, body, author in zip(messages, bodies, authors, strict=True):
            key = (author, message.external_id)
            place = known.get(key) if message.external_id else None
            if place is None:
                place = _row(thread, author, message, body)
                rows.append(place)
                known[key] = place
            places.append(place)
        Message.objects.bulk_create(rows)
        numbers = dict(Message.objects.filter(pk__in=[row.pk for row in rows]).values_list("pk", "seq"))
    return [place if isinstance(place, int) else numbers[place.pk] for place in places]


def _checked(message: NewMessage) -> str:
    if message.role not in _KINDS:
        raise Problem("A role is user, assistant, tool_call or tool_result.", code="bad_role", field="role")
    is_tool = message.role in ("tool_call", "tool_result")
    if is_tool != bool(message.call_id):
        raise Problem("A tool_call and its tool_result, and only these, carry the same call_id.",
                      code="bad_id", field="call_id")  # fmt: skip
    ids = (message.external_id, message.call_id)
    if any(len(one) > LONGEST_ID or not one.isprintable() for one in ids):
        raise Problem(f"An external_id and a call_id are at most {LONGEST_ID} plain characters.",
                      code="bad_id", field="external_id")  # fmt: skip
    if not message.name.isprintable():
        raise Problem("A name is plain text on one line.", code="bad_name", field="name")
    return cleaned_body(message.text)


def _writable(session: Session) -> Thread:
    """The thread, locked: numbers are given under this lock, so that messages appear in their order."""
    threads = Thread.objects.select_for_update(of=("self",)).select_related("channel")
    thread = threads.filter(pk=session.thread_id, workspace_id=session.access.workspace_id).first()
    if thread is None:
        raise Missing
    if thread.archived_at is not None or thread.channel.archived_at is not None:
        raise Refused("This conversation is archived. Bring it back before writing in it.", code="archived")
    return thread


def _authors(session: Session, messages: Sequence[NewMessage]) -> list[int]:
    """Who says each of them. Asked before the thread is locked: making a speaker takes the workspace's lock."""
    own = session.access.participant_id
    workspace = Workspace.objects.get(pk=session.access.workspace_id)
    if session.person_id is not None:
        if not workspace.participants.filter(pk=session.person_id).exists():
            raise Missing
        return [session.person_id if message.role == "user" else own for message in messages]
    names = {speaker_name(message.name or "User") for message in messages if message.role == "user"}
    speakers = {name: imported_speaker(workspace, name) for name in sorted(names)}
    return [speakers[speaker_name(m.name or "User")] if m.role == "user" else own for m in messages]


def _said_already(thread: Thread, messages: Iterable[NewMessage]) -> dict[tuple[int, str], int | Message]:
    ids = {message.external_id for message in messages} - {""}
    said = Message.objects.filter(thread=thread, client_id__in=ids).values_list("author_id", "client_id", "seq")
    return {(author, external_id): seq for author, external_id, seq in said}


def _row(thread: Thread, author: int, message: NewMessage, body: str) -> Message:
    return Message(
        thread=thread, author_id=author, kind=_KINDS[message.role], body=body, call_id=message.call_id,
        client_id=message.external_id, token_count=count(body),
    )  # fmt: skip


# --- reading ------------------------------------------------------------------------------------------------------


def in_prompts(session: Session) -> QuerySet[Message]:
    """The messages of a session that prompts may hold, without order: said to the end or stopped, not deleted, of
    people, agents and tools; dive results only for who reads them; only what came before `session.before`."""
    messages = Message.objects.filter(
        thread_id=session.thread_id,
        thread__workspace_id=session.access.workspace_id,
        state__in=(Message.State.COMPLETE, Message.State.STOPPED),
        deleted_at=None,
    ).exclude(kind=Message.Kind.SYSTEM)
    messages = messages.exclude(body="")
    if not session.access.reads_dive_results:
        messages = messages.exclude(kind=Message.Kind.DIVE_RESULT)
    return messages if session.before is None else messages.filter(seq__lt=session.before)


def as_entries(messages: QuerySet[Message]) -> list[Entry]:
    """These messages as entries, in the order of the query. One statement."""
    return [
        Entry(
            ordinal=seq, last=seq, kind=kind, text=body, tokens=min(tokens, LONGEST), at=at.isoformat(),
            message_id=pk, author_id=author_id, author_name=name, author_kind=author_kind, call_id=call_id,
            until=at.isoformat(),
        )
        for seq, kind, body, tokens, at, pk, author_id, name, author_kind, call_id in messages.values_list(*_ENTRY)
    ]  # fmt: skip


def said_before(session: Session, *, after: int = 0, limit: int = 200) -> list[Entry]:
    """Messages as they were said, oldest first, from number `after` + 1; at most `limit`. One statement."""
    return as_entries(in_prompts(session).filter(seq__gt=after).order_by("seq")[: max(limit, 0)])


# --- capabilities that work the same in every plugin ----------------------------------------------------------------


class Profiles:
    """ProfileStore: the agent's notes about the session's person."""

    def get_profile(self, session: Session) -> str:
        if session.person_id is None or not session.access.is_agent:
            return ""
        return read_notes(session.access.participant_id, session.person_id)

    def set_profile(self, session: Session, text: str) -> str:
        if not session.access.is_agent:
            raise Refused("Only an agent keeps notes here.")
        if session.person_id is None:
            raise Problem("Nobody in particular asks here, so there is nobody to keep notes about.", code="nobody")
        agent_id = session.access.participant_id
        note = store_notes(agent_id=agent_id, person_id=session.person_id, text=text, by_id=agent_id, how="agent")
        return note.content


class Sessions:
    """SessionManager: what an agent keeps about the conversations it leads."""

    def save_info(self, session: Session, info: Mapping[str, Any]) -> None:
        kept = cleaned_info(info)
        SessionInfo.objects.update_or_create(
            agent_id=session.access.participant_id, thread_id=session.thread_id, defaults={"info": kept}
        )

    def load_info(self, session: Session) -> dict[str, Any]:
        rows = SessionInfo.objects.filter(agent_id=session.access.participant_id, thread_id=session.thread_id)
        return rows.values_list("info", flat=True).first() or {}

    def list_info(self, access: Access) -> list[tuple[int, dict[str, Any]]]:
        return list(sessions_of(access).order_by("-pk").values_list("thread_id", "info"))

    def load_history(self, session: Session, *, after: int = 0, limit: int = 200) -> list[Entry]:
        return said_before(session, after=after, limit=limit)


def sessions_of(access: Access) -> QuerySet[SessionInfo]:
    """The asker's own sessions, in threads it still sees."""
    return SessionInfo.objects.filter(
        agent_id=access.participant_id,
        thread__in=Thread.objects.visible_to(access).exclude(access=Thread.Access.HUMAN_ONLY),
    )


def cleaned_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """The info as it is kept. Raises Problem: not JSON, or too much."""
    try:
        written = json.dumps(dict(info), allow_nan=False, ensure_ascii=False)
        size = len(written.encode())
    except (TypeError, ValueError, RecursionError):  # half of a character is a ValueError, too
        raise Problem("The info of a session is a JSON object, not nested too deeply.",
                      code="bad_info", field="info") from None  # fmt: skip
    if size > INFO_BYTES or _NUL.search(written):
        raise Problem(f"The info of a session is at most {INFO_BYTES:,} bytes of JSON, without NUL characters.",
                      code="bad_info", field="info")  # fmt: skip
    kept: dict[str, Any] = json.loads(written)
    return kept
