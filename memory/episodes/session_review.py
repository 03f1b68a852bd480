"""Session reviews: an agent looks back at new messages of a thread and proposes what it would learn.

The model is called outside any transaction; proposals and the mark are written in one. Nothing proposed takes effect by
itself. People-only threads are never reviewed. Profile notes stand in every prompt about a person, so they are
proposed only from threads that are open in public channels; learnings carry their thread, and prompts elsewhere
leave them out (`Episode.usable_in`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import structlog
from django.db import transaction

from memory.blocks.models import ProfileNote
from memory.blocks.queries import is_public_thread, read_notes
from memory.blocks.values import PROFILE_TOKEN_LIMIT
from memory.episodes.models import Proposal
from memory.episodes.review_prompt import (
    MAX_ANSWER_TOKENS,
    RULE_NOTE,
    ReviewMaterial,
    ReviewSpeaker,
    Suggestion,
    build_review_prompt,
    entries_within,
    parse_suggestions,
    suggest_by_rule,
)
from memory.plugins.base import ContextEntry, ReviewSource, Session, UnreviewedSession
from memory.plugins.registry import provider_for
from memory.plugins.sessions import open_session
from memory.plugins.thread_modes import MemoryMode, memory_mode
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import channel_id_of
from openvibe.engines.database.locks import LockKind, advisory_lock
from openvibe.engines.llm.answers.structured_output import UnparsableAnswer
from openvibe.engines.llm.errors import ContextTooLong, ModelError
from openvibe.engines.llm.offline.offline import OfflineModel
from openvibe.engines.llm.protocol import ModelClient
from openvibe.engines.registers import Register
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Spending
from openvibe.workspaces.services import meter_client

log = structlog.get_logger(__name__)

MESSAGE_TOKEN_LIMITS = (10_000, 2_000)
"""Tokens of new messages in one review; the smaller where a model's window is short."""

MAX_SESSIONS_PER_RUN, MAX_SESSIONS_PER_AGENT = 20, 5

REVIEWER_AGENTS: Register[Callable[[], Iterable[tuple[Participant, Access]]]] = Register(
    "memory.episodes.session_review.REVIEWER_AGENTS"
)
"""The agents that may look back at their conversations now, each with its access."""

AGENT_CLIENT: Register[Callable[[Participant], ModelClient]] = Register("memory.episodes.session_review.AGENT_CLIENT")
"""The model that a participant that is an agent asks."""


def review_due_sessions() -> int:
    """Lets agents look back at threads they had a part in; a bounded number each turn. Returns how many were
    reviewed."""
    reviewed_count = 0
    client_of = AGENT_CLIENT.only()
    for agent, access in REVIEWER_AGENTS.only()():
        if reviewed_count >= MAX_SESSIONS_PER_RUN:
            break
        reviewed_count += _review_agent_sessions(agent, access, client_of, MAX_SESSIONS_PER_RUN - reviewed_count)
    return reviewed_count


def _review_agent_sessions(
    agent: Participant, access: Access, client_of: Callable[[Participant], ModelClient], max_sessions: int
) -> int:
    """Each thread that waits once; then, while there is room, those again that were too long for one review."""
    reviewed_count, failed_ids = 0, set[int]()
    remaining = min(max_sessions, MAX_SESSIONS_PER_AGENT)
    while thread_ids := [pk for pk in sessions_to_review(agent, access) if pk not in failed_ids][
        : remaining - reviewed_count
    ]:
        for thread_id in thread_ids:
            try:
                review_session(agent=agent, access=access, thread_id=thread_id, client=client_of(agent))
            except (ModelError, Problem) as error:
                failed_ids.add(thread_id)
                remaining -= 1
                log.warning("review_failed", agent=agent.handle, thread_id=thread_id, error=str(error))
            else:
                reviewed_count += 1
    return reviewed_count


def sessions_to_review(agent: Participant, access: Access) -> list[int]:
    """Threads with something new in which the agent has spoken or was mentioned."""
    provider = provider_for(agent.workspace_id)
    if not isinstance(provider, ReviewSource):
        return []
    thread_ids = [session.thread_id for session in provider.list_unreviewed(access)]
    messages = Message.objects.filter(thread__in=thread_ids).values_list("thread_id", flat=True).distinct()
    joined_ids = {*messages.filter(author=agent), *messages.filter(mentions__participant=agent)}
    joined = Thread.objects.select_related("channel").in_bulk([pk for pk in thread_ids if pk in joined_ids])
    return [pk for pk in thread_ids if pk in joined and memory_mode(joined[pk]) is MemoryMode.FULL]


def review_session(*, agent: Participant, access: Access, thread_id: int, client: ModelClient) -> list[Proposal]:
    """Proposes what the agent may learn from what is new in a thread; returns the proposals, often none.

    At most 200 messages; the rest waits for the next turn. Raises Missing where the agent may not read, and
    ModelError when its model failed, or the day's budget has no room for it: then nothing was written and the messages
    stay unreviewed.
    """
    session = open_session(access, thread_id)
    provider = provider_for(access.workspace_id)
    client = meter_client(
        client,
        workspace_id=access.workspace_id,
        purpose=Spending.Purpose.REVIEW,
        agent_id=agent.pk,
        channel_id=channel_id_of(thread_id),
    )
    if not isinstance(provider, ReviewSource):
        raise Refused("The memory plugin of this workspace has no reviews.")
    with advisory_lock(LockKind.SESSION_REVIEW, agent.pk) as is_owned:
        if not is_owned:
            return []
        for unreviewed_session in provider.list_unreviewed(access):
            if unreviewed_session.thread_id == thread_id:
                return _review_span(provider, session, agent, unreviewed_session, client)
        return []


def _review_span(
    provider: ReviewSource,
    session: Session,
    agent: Participant,
    unreviewed_session: UnreviewedSession,
    client: ModelClient,
) -> list[Proposal]:
    entries = provider.build_review_context(session, unreviewed_session.since, unreviewed_session.upto)
    new_entries = [entry for entry in entries if entry.summary_id is None]
    if not new_entries:
        provider.mark_reviewed(session, unreviewed_session.upto)
        return []
    suggestions, reviewed_count = _suggest(session, agent, entries, new_entries, client)
    is_complete = reviewed_count == len(new_entries) and len(new_entries) >= unreviewed_session.messages
    upto = unreviewed_session.upto if is_complete else new_entries[reviewed_count - 1].last
    rule_note = RULE_NOTE if client.model == OfflineModel.model else ""
    return _store_proposals(provider, session, agent, replace(unreviewed_session, upto=upto), suggestions, rule_note)


def _suggest(
    session: Session,
    agent: Participant,
    entries: list[ContextEntry],
    new_entries: list[ContextEntry],
    client: ModelClient,
) -> tuple[list[Suggestion], int]:
    """What the model suggests, and how many of the new messages it was shown."""
    prior = tuple(entry for entry in entries if entry.summary_id is not None)
    for token_limit in MESSAGE_TOKEN_LIMITS:
        shown_prior = prior if token_limit == MESSAGE_TOKEN_LIMITS[0] else ()
        material = _review_material(session, agent, shown_prior, entries_within(new_entries, token_limit))
        if client.model == OfflineModel.model:
            return suggest_by_rule(material), len(material.new)
        try:
            completion = client.complete(build_review_prompt(material), max_output_tokens=MAX_ANSWER_TOKENS)
        except ContextTooLong:
            if token_limit == MESSAGE_TOKEN_LIMITS[-1]:
                raise
            continue
        try:
            return parse_suggestions(completion.text, material, PROFILE_TOKEN_LIMIT), len(material.new)
        except UnparsableAnswer as error:
            log.warning("review_unreadable", agent=agent.handle, thread_id=session.thread_id, why=str(error))
            return [], len(material.new)
    raise AssertionError("there is a size")


def _review_material(
    session: Session, agent: Participant, prior: tuple[ContextEntry, ...], new: tuple[ContextEntry, ...]
) -> ReviewMaterial:
    speaker_ids = {
        entry.author_id
        for entry in new
        if entry.author_id is not None and entry.kind == Message.Kind.TEXT and entry.author_kind == "member"
    }
    people = Participant.objects.filter(pk__in=speaker_ids, kind=Participant.Kind.MEMBER, is_active=True).order_by("pk")
    notes = dict(ProfileNote.objects.filter(agent=agent, person__in=speaker_ids).values_list("person_id", "content"))
    speakers = {person.pk: ReviewSpeaker(person.pk, person.handle, notes.get(person.pk, "")) for person in people}
    return ReviewMaterial(agent.name, agent.handle, prior, new, speakers, is_public_thread(session.thread_id))


@transaction.atomic
def _store_proposals(
    provider: ReviewSource,
    session: Session,
    agent: Participant,
    span: UnreviewedSession,
    suggestions: list[Suggestion],
    rule_note: str,
) -> list[Proposal]:
    """Proposals and the mark, together. What the agent proposed before from this thread is not proposed again."""
    cited_seqs = {number for suggestion in suggestions for number in suggestion.messages}
    messages = Message.objects.select_for_update(no_key=True).filter(thread=session.thread_id, seq__in=cited_seqs)
    # until this is stored, none of the other messages is deleted
    deleted_seqs = {message.seq for message in messages.order_by("seq") if message.is_deleted}
    thread = Thread.objects.select_for_update(no_key=True).get(pk=session.thread_id)
    if thread.access == Thread.Access.HUMAN_ONLY:  # closed while the model was thinking
        return []
    known_proposals = set(Proposal.objects.filter(agent=agent, thread=thread).values_list("kind", "person_id", "text"))
    rows = [
        Proposal(
            agent=agent,
            thread=thread,
            kind=suggestion.kind,
            person_id=suggestion.person_id,
            text=suggestion.text,
            before=read_notes(agent.pk, suggestion.person_id) if suggestion.person_id else "",
            because=" ".join(filter(None, (_citation(suggestion.messages), rule_note))),
            since_seq=span.since,
            upto_seq=span.upto,
        )
        for suggestion in suggestions
        if (suggestion.kind, suggestion.person_id, suggestion.text) not in known_proposals
        and not deleted_seqs.intersection(suggestion.messages)
    ]
    Proposal.objects.bulk_create(rows, ignore_conflicts=True)
    provider.mark_reviewed(session, span.upto)
    return list(Proposal.objects.filter(agent=agent, thread=thread, upto_seq=span.upto, since_seq=span.since))


def _citation(messages: tuple[int, ...]) -> str:
    """The messages, in words. `proposals.delete_learned_from` reads the numbers back."""
    return f"Message{'s' if len(messages) > 1 else ''} {', '.join(map(str, messages))}."
