"""Sessions: open a thread as somebody sees it, store and read its messages, the conversations that outside agents lead,
and what every plugin does the same way, because all work on the same messages."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Least

from memory.blocks.queries import read_notes
from memory.blocks.services import check_thread_is_public, store_notes
from memory.plugins.base import ENVELOPE_TOKENS, MAX_ENTRY_TOKENS, ContextEntry, NewMessage, Session, SessionManager
from memory.plugins.models import SessionInfo
from memory.plugins.registry import active_plugin_name, provider_for
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.queries import access_by, agents_with_access, members_with_access
from openvibe.chat.services import clean_message_body, clean_speaker_name, create_thread, get_or_create_speaker
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace
from openvibe.workspaces.queries import participant_access

DEFAULT_CONTEXT_BUDGET = 15_000
"""The ceiling of task type `thread` (spec: context.md), where a workspace set none of its own."""

COMPACTION_THRESHOLD, COMPACTION_TARGET = 0.75, 0.5
"""Shares of that budget: above the first a conversation is due, and compaction brings it down to the second."""

MAX_ID_CHARACTERS = 100  # characters of a message's external id and of a call id
MAX_SESSION_ID_CHARACTERS = 80  # characters
MAX_MESSAGES_PER_APPEND = 500  # messages
MAX_INFO_BYTES = 8_000
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

_KIND_BY_ROLE = {
    "user": Message.Kind.TEXT,
    "assistant": Message.Kind.TEXT,
    "tool_call": Message.Kind.TOOL_CALL,
    "tool_result": Message.Kind.TOOL_RESULT,
}


def open_session(access: Access, thread_id: int, *, before: int | None = None, person_id: int | None = None) -> Session:
    """The thread as the asker sees it. Raises Missing where there is none to see, or when it is for people only."""
    _access_remembered_thread(access, thread_id)
    return Session(thread_id, access, before, person_id)


_access_remembered_thread = access_by(
    "pk", lambda access: Thread.objects.visible_to(access).exclude(access=Thread.Access.HUMAN_ONLY)
)


def session_of(thread: Thread, access: Access) -> Session:
    """A thread that was looked up among what the asker sees. Raises Missing when it is for people only."""
    if thread.access == Thread.Access.HUMAN_ONLY:
        raise Missing
    return Session(thread.pk, access)


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


def context_budget(thread: Thread) -> int:
    """Tokens: the workspace's own ceiling for task type `thread`, else DEFAULT_CONTEXT_BUDGET."""
    budgets = thread.workspace.budgets
    ceiling = budgets.get("thread", {}) if isinstance(budgets, dict) else {}
    tokens = ceiling.get("ceiling") if isinstance(ceiling, dict) else None
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0 else DEFAULT_CONTEXT_BUDGET


def store_messages(session: Session, messages: Sequence[NewMessage]) -> list[int]:
    """Puts an outside agent's messages into its thread, all or nothing; returns their numbers, in the order given.

    A message whose external id its author used in this thread before is there already: it gives the number it has.
    Roles other than `user` speak as the session's agent; `user` as the session's person, else as an imported speaker
    called `name`. Nobody is notified and no agent answers. Raises Problem (text, ids), Refused (archived), Missing.
    """
    if len(messages) > MAX_MESSAGES_PER_APPEND:
        raise Problem(f"At most {MAX_MESSAGES_PER_APPEND} messages at once.", code="too_many", field="messages")
    bodies = [_clean_new_message(message) for message in messages]
    external_ids = {message.external_id for message in messages} - {""}
    with transaction.atomic():
        authors = _author_ids(session, messages)
        thread = _lock_writable_thread(session)
        known_rows = Message.objects.filter(thread=thread, client_id__in=external_ids)
        rows_by_external_id: dict[tuple[int, str], int | Message] = {
            (author, external_id): seq
            for author, external_id, seq in known_rows.values_list("author_id", "client_id", "seq")
        }
        rows: list[Message] = []
        stored: list[int | Message] = []
        for message, body, author in zip(messages, bodies, authors, strict=True):
            row_or_seq = rows_by_external_id.get((author, message.external_id)) if message.external_id else None
            if row_or_seq is None:
                row_or_seq = Message(
                    thread=thread,
                    author_id=author,
                    kind=_KIND_BY_ROLE[message.role],
                    body=body,
                    call_id=message.call_id,
                    client_id=message.external_id,
                    token_count=count_tokens(body),
                )
                rows.append(row_or_seq)
                rows_by_external_id[author, message.external_id] = row_or_seq
            stored.append(row_or_seq)
        Message.objects.bulk_create(rows)
        seq_by_id = dict(Message.objects.filter(pk__in=[row.pk for row in rows]).values_list("pk", "seq"))
    return [row_or_seq if isinstance(row_or_seq, int) else seq_by_id[row_or_seq.pk] for row_or_seq in stored]


def _clean_new_message(message: NewMessage) -> str:
    if message.role not in _KIND_BY_ROLE:
        raise Problem("A role is user, assistant, tool_call or tool_result.", code="bad_role", field="role")
    is_tool = message.role in ("tool_call", "tool_result")
    if is_tool != bool(message.call_id):
        raise Problem(
            "A tool_call and its tool_result, and only these, carry the same call_id.", code="bad_id", field="call_id"
        )
    ids = (message.external_id, message.call_id)
    if any(len(value) > MAX_ID_CHARACTERS or not value.isprintable() for value in ids):
        raise Problem(
            f"An external_id and a call_id are at most {MAX_ID_CHARACTERS} plain characters.",
            code="bad_id",
            field="external_id",
        )
    if not message.name.isprintable():
        raise Problem("A name is plain text on one line.", code="bad_name", field="name")
    return clean_message_body(message.text)


def _lock_writable_thread(session: Session) -> Thread:
    """The thread, locked: numbers are given under this lock, so that messages appear in their order."""
    threads = Thread.objects.select_for_update(no_key=True, of=("self",)).select_related("channel")
    thread = threads.filter(pk=session.thread_id, workspace_id=session.access.workspace_id).first()
    if thread is None:
        raise Missing
    if thread.archived_at is not None or thread.channel.archived_at is not None:
        raise Refused("This conversation is archived. Bring it back before writing in it.", code="archived")
    return thread


def _author_ids(session: Session, messages: Sequence[NewMessage]) -> list[int]:
    """The participants who say each of them. Asked before the thread is locked: making a speaker takes the workspace's
    lock."""
    own = session.access.participant_id
    workspace = Workspace.objects.get(pk=session.access.workspace_id)
    if session.person_id is not None:
        if not workspace.participants.filter(pk=session.person_id).exists():
            raise Missing
        return [session.person_id if message.role == "user" else own for message in messages]
    names = {clean_speaker_name(message.name or "User") for message in messages if message.role == "user"}
    speakers = {name: get_or_create_speaker(workspace, name) for name in sorted(names)}
    return [speakers[clean_speaker_name(m.name or "User")] if m.role == "user" else own for m in messages]


def messages_for_prompts(access: Access, **scope: Any) -> QuerySet[Message]:
    """The messages of a scope that prompts may hold, without order: said to the end or stopped, not deleted, of
    people, agents and tools; dive results only for who reads them."""
    messages = Message.objects.filter(
        **scope, state__in=(Message.State.COMPLETE, Message.State.STOPPED), deleted_at=None
    ).exclude(Q(kind=Message.Kind.SYSTEM) | Q(body=""))
    return messages if access.reads_dive_results else messages.exclude(kind=Message.Kind.DIVE_RESULT)


MESSAGE_COST = Least("token_count", MAX_ENTRY_TOKENS) + ENVELOPE_TOKENS
"""Tokens that a message needs in a prompt, with its author and time."""


def prompt_messages(session: Session) -> QuerySet[Message]:
    """The messages of a session that prompts may hold, without order; only what came before `session.before`."""
    workspace_id = session.access.workspace_id
    messages = messages_for_prompts(session.access, thread_id=session.thread_id, thread__workspace_id=workspace_id)
    return messages if session.before is None else messages.filter(seq__lt=session.before)


def message_entries(messages: QuerySet[Message]) -> list[ContextEntry]:
    """The entries of these messages, in the order of the query. One statement."""
    columns = ("seq", "kind", "body", "token_count", "created_at", "pk", "author_id", "author__label", "author__kind")
    rows = messages.values_list(*columns, "call_id", "state")
    return [
        ContextEntry(
            *(seq, seq, kind, body, min(tokens, MAX_ENTRY_TOKENS), at.isoformat()),
            *(pk, author, name, author_kind, call_id),
            is_unfinished=state == Message.State.STOPPED,
        )
        for seq, kind, body, tokens, at, pk, author, name, author_kind, call_id, state in rows
    ]


def message_history(session: Session, *, after: int = 0, limit: int = 200) -> list[ContextEntry]:
    """Messages as they were said, oldest first, from number `after` + 1; at most `limit`. One statement."""
    return message_entries(prompt_messages(session).filter(seq__gt=after).order_by("seq")[: max(limit, 0)])


class ProfileMixin:
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


class SessionMixin:
    """SessionManager: what an agent keeps about the conversations it leads."""

    def save_info(self, session: Session, info: Mapping[str, Any]) -> None:
        clean_info = clean_session_info(info)
        SessionInfo.objects.update_or_create(
            agent_id=session.access.participant_id, thread_id=session.thread_id, defaults={"info": clean_info}
        )

    def load_info(self, session: Session) -> dict[str, Any]:
        rows = SessionInfo.objects.filter(agent_id=session.access.participant_id, thread_id=session.thread_id)
        return rows.values_list("info", flat=True).first() or {}

    def list_info(self, access: Access) -> list[tuple[int, dict[str, Any]]]:
        return list(visible_sessions(access).order_by("-pk").values_list("thread_id", "info"))

    def load_history(self, session: Session, *, after: int = 0, limit: int = 200) -> list[ContextEntry]:
        return message_history(session, after=after, limit=limit)


def visible_sessions(access: Access) -> QuerySet[SessionInfo]:
    """The asker's own sessions, in threads it still sees."""
    threads = Thread.objects.visible_to(access).exclude(access=Thread.Access.HUMAN_ONLY)
    return SessionInfo.objects.filter(agent_id=access.participant_id, thread__in=threads).select_related("thread")


access_session_info = access_by("thread_id", visible_sessions)


def clean_session_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """The info as it is kept. Raises Problem: not JSON, or too much."""
    try:
        text = json.dumps(dict(info), allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError):  # half of a character is a ValueError, too
        raise Problem(
            "The info of a session is a JSON object, not nested too deeply.", code="bad_info", field="info"
        ) from None
    if size > MAX_INFO_BYTES or _ESCAPED_NUL.search(text):
        raise Problem(
            f"The info of a session is at most {MAX_INFO_BYTES:,} bytes of JSON, without NUL characters.",
            code="bad_info",
            field="info",
        )
    clean_info: dict[str, Any] = json.loads(text)
    return clean_info


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
    same_id = SessionInfo.objects.filter(agent_id=by.participant_id, external_id=external_id)
    if external_id and same_id.exists():
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


def _access_own_session(by: Access, external_id: str) -> SessionInfo:
    row = visible_sessions(by).filter(external_id=external_id).first()
    if row is None:
        raise Missing
    return row


def append_to_session(*, session: SessionInfo, by: Access, messages: Sequence[NewMessage]) -> list[int]:
    """Adds to the conversation, all or nothing; returns the messages' numbers. A known external id is not stored
    again."""
    return provider_for(by.workspace_id).append(open_session(by, session.thread_id), messages)


def update_session_info(*, session: SessionInfo, by: Access, info: Mapping[str, Any]) -> None:
    """Replaces what the agent keeps about its session. Raises Problem: too much, or a plugin that keeps none."""
    provider = provider_for(by.workspace_id)
    if not isinstance(provider, SessionManager):
        raise Problem(f"The memory plugin {active_plugin_name(by.workspace_id)} keeps no sessions.", code="no_sessions")
    provider.save_info(open_session(by, session.thread_id), info)


def check_profile_update(session: Session, arguments: Mapping[str, Any]) -> None:
    """Checks a call of the memory tool before it is made: notes about a person are written where everybody reads,
    cleared anywhere.

    Raises Refused.
    """
    if arguments.get("action") == "profile_update" and str(arguments.get("text") or "").strip():
        check_thread_is_public(session.thread_id, "your notes")
