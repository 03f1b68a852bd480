"""Reviews: an agent looks back at what was said and proposes what it would learn (`proposals`: admins decide).

The model is called outside any transaction; proposals and the mark are written in one. Nothing proposed takes effect by
itself. People-only threads are never reviewed. Profile notes stand in every prompt about a person, so they are
proposed only from threads that are open in public channels; learnings carry their thread, and prompts elsewhere
leave them out (`Episode.usable_in`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog
from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from memory.audience import is_public
from memory.models import PROFILE_TOKEN_LIMIT, ProfileNote, Proposal
from memory.profile import read_notes
from memory.providers.base import Entry, ReviewSource, Session, Unreviewed
from memory.providers.opening import open_session
from memory.providers.registry import provider_for
from memory.review import (
    ANSWER_TOKENS,
    RULE,
    Material,
    Speaker,
    Suggestion,
    fitting,
    noticed,
    prompt_of,
    read_answer,
)
from openvibe.base.ownership import Piece, owned
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.llm.answers import Unreadable
from openvibe.llm.errors import ContextTooLong, ModelError
from openvibe.llm.offline import OfflineModel
from openvibe.llm.protocol import ModelClient
from openvibe.workspaces.access import Access
from openvibe.workspaces.metering import metered
from openvibe.workspaces.models import Participant, Spending

log = structlog.get_logger(__name__)

SIZES = (10_000, 2_000)
"""Tokens of new messages in one review; the smaller where a model's window is short."""

SESSIONS_PER_TURN, SESSIONS_PER_AGENT = 20, 5


def review_due_sessions() -> int:
    """Let agents look back at threads they had a part in; a bounded number each turn. How many were reviewed."""
    reviewed = 0
    client_of: Callable[[Participant], ModelClient] = import_string(settings.AGENT_CLIENT)
    agents: Iterable[tuple[Participant, Access]] = import_string(settings.AGENTS_THAT_REVIEW)()
    for agent, access in agents:
        if reviewed >= SESSIONS_PER_TURN:
            break
        reviewed += _review_some(agent, access, client_of, SESSIONS_PER_TURN - reviewed)
    return reviewed


def _review_some(agent: Participant, access: Access, client_of: Callable[[Participant], ModelClient], most: int) -> int:
    """Each thread that waits once; then, while there is room, those again that were too long for one review."""
    done, failed = 0, set[int]()
    room = min(most, SESSIONS_PER_AGENT)
    while waiting := [found for found in sessions_to_review(agent, access) if found not in failed][: room - done]:
        for thread_id in waiting:
            try:
                review_session(agent=agent, access=access, thread_id=thread_id, client=client_of(agent))
            except (ModelError, Problem) as error:
                failed.add(thread_id)
                room -= 1
                log.warning("review_failed", agent=agent.handle, thread_id=thread_id, error=str(error))
            else:
                done += 1
    return done


def sessions_to_review(agent: Participant, access: Access) -> list[int]:
    """Threads with something new in which the agent has spoken or was mentioned."""
    provider = provider_for(agent.workspace_id)
    if not isinstance(provider, ReviewSource):
        return []
    waiting = [found.thread_id for found in provider.list_unreviewed(access)]
    took_part = {
        *Message.objects.filter(thread__in=waiting, author=agent).values_list("thread_id", flat=True).distinct(),
        *Message.objects.filter(thread__in=waiting, mentions__participant=agent)
        .values_list("thread_id", flat=True).distinct(),
    }  # fmt: skip
    return [thread_id for thread_id in waiting if thread_id in took_part]


def review_session(*, agent: Participant, access: Access, thread_id: int, client: ModelClient) -> list[Proposal]:
    """Propose what the agent may learn from what is new in a thread; what was proposed, often nothing.

    At most 200 messages; the rest waits for the next turn. Raises Missing where the agent may not read, and
    ModelError when its model failed, or the day's budget has no room for it: then nothing was written and the messages
    stay unreviewed.
    """
    session = open_session(access, thread_id)
    provider = provider_for(access.workspace_id)
    client = metered(client, workspace_id=access.workspace_id, purpose=Spending.Purpose.REVIEW, agent_id=agent.pk)
    if not isinstance(provider, ReviewSource):
        raise Refused("The memory plugin of this workspace has no reviews.")
    with owned(Piece.REVIEW, agent.pk) as mine:
        if not mine:
            return []
        new = next((found for found in provider.list_unreviewed(access) if found.thread_id == thread_id), None)
        return _review(provider, session, agent, new, client) if new is not None else []


def _review(
    provider: ReviewSource, session: Session, agent: Participant, new: Unreviewed, client: ModelClient
) -> list[Proposal]:
    entries = provider.build_review_context(session, new.since, new.upto)
    shown = [entry for entry in entries if entry.summary_id is None]
    if not shown:
        provider.mark_reviewed(session, new.upto)
        return []
    suggestions, seen = _asked(session, agent, entries, shown, client)
    is_all = seen == len(shown) and len(shown) >= new.messages
    upto = new.upto if is_all else shown[seen - 1].last
    because = RULE if client.model == OfflineModel.model else ""
    return _stored(provider, session, agent, Unreviewed(session.thread_id, new.since, upto, seen), suggestions, because)


def _asked(
    session: Session, agent: Participant, entries: list[Entry], shown: list[Entry], client: ModelClient
) -> tuple[list[Suggestion], int]:
    """What the model suggests, and how many of the new messages it was shown."""
    prior = tuple(entry for entry in entries if entry.summary_id is not None)
    for size in SIZES:
        material = _material(session, agent, prior if size == SIZES[0] else (), fitting(shown, size))
        if client.model == OfflineModel.model:
            return noticed(material), len(material.new)
        try:
            completion = client.complete(prompt_of(material), max_output_tokens=ANSWER_TOKENS)
        except ContextTooLong:
            if size == SIZES[-1]:
                raise
            continue
        try:
            return read_answer(completion.text, material, PROFILE_TOKEN_LIMIT), len(material.new)
        except Unreadable as problem:
            log.warning("review_unreadable", agent=agent.handle, thread_id=session.thread_id, why=str(problem))
            return [], len(material.new)
    raise AssertionError("there is a size")


def _material(session: Session, agent: Participant, prior: tuple[Entry, ...], new: tuple[Entry, ...]) -> Material:
    said = {
        entry.author_id
        for entry in new
        if entry.author_id is not None and entry.kind == Message.Kind.TEXT and entry.author_kind == "member"
    }
    people = Participant.objects.filter(pk__in=said, kind=Participant.Kind.MEMBER, is_active=True).order_by("pk")
    notes = dict(ProfileNote.objects.filter(agent=agent, person__in=said).values_list("person_id", "content"))
    speakers = {who.pk: Speaker(who.pk, who.handle, who.name, notes.get(who.pk, "")) for who in people}
    return Material(agent.name, agent.handle, prior, new, speakers, is_public(session.thread_id))


@transaction.atomic
def _stored(
    provider: ReviewSource, session: Session, agent: Participant, span: Unreviewed,
    suggestions: list[Suggestion], because: str,
) -> list[Proposal]:  # fmt: skip
    """Proposals and the mark, together. What the agent proposed before from this thread is not proposed again."""
    cited = {number for found in suggestions for number in found.messages}
    messages = Message.objects.select_for_update(no_key=True).filter(thread=session.thread_id, seq__in=cited)
    gone = {message.seq for message in messages.order_by("seq") if message.is_deleted}  # others wait to be deleted
    thread = Thread.objects.select_for_update().get(pk=session.thread_id)
    if thread.access == Thread.Access.HUMAN_ONLY:  # closed while the model was thinking
        return []
    known = set(Proposal.objects.filter(agent=agent, thread=thread).values_list("kind", "person_id", "text"))
    rows = [
        Proposal(
            agent=agent, thread=thread, kind=found.kind, person_id=found.person_id, text=found.text,
            before=read_notes(agent.pk, found.person_id) if found.person_id else "",
            because=" ".join(filter(None, (_cited(found.messages), because))),
            since_seq=span.since, upto_seq=span.upto,
        )
        for found in suggestions
        if (found.kind, found.person_id, found.text) not in known and not gone.intersection(found.messages)
    ]  # fmt: skip
    Proposal.objects.bulk_create(rows, ignore_conflicts=True)
    provider.mark_reviewed(session, span.upto)
    return list(Proposal.objects.filter(agent=agent, thread=thread, upto_seq=span.upto, since_seq=span.since))


def _cited(messages: tuple[int, ...]) -> str:
    """Which messages, in words. `forget_learned` reads the numbers back."""
    return f"Message{'s' if len(messages) > 1 else ''} {', '.join(map(str, messages))}."
