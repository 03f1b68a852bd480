"""The audience of what agents say and of what tools return: one rule, for prompts, stored prompts, the viewer and the
API.

The level says what an agent may know, the readers of its answer what it may say: `shown_to_readers` narrows its access
to what all of them may read, for whatever stands in a prompt or is answered by a tool.

Each tool says what a call read or wrote (`CallSource`). A call is for those who may see all of its sources at this
moment; a call that names none is for nobody, so a tool that forgets to say it leaks nothing."""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from django.db.models import BigIntegerField, Exists, F, OuterRef, Q, QuerySet, Value

from agents.agent.models import (
    EXTERNAL_RUNS,
    Agent,
    ClientConversation,
    KnowledgeUse,
    Run,
    ToolCall,
    ToolSource,
    TrustChange,
)
from agents.agent.trust import TRUST_LEVELS
from knowledge.models import Entry
from knowledge.queries import sharing_revisions_after
from memory.models import Block, ProfileNote
from openvibe.base.problems import Refused
from openvibe.chat.models import Channel, ChannelMembership, Thread
from openvibe.engines.database.compiled_queries import CompiledQuery, array_literal
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, Participant

Kind = ToolSource.Kind

MAX_SHUT_OUT = 3
"""Readers looked for who do not read restricted knowledge: three are never all its author and its owner."""

_SHUT_OUT_ROLES = (Member.Role.MEMBER, Member.Role.GUEST)
_SHUT_OUT_LEVELS = [row.number for row in TRUST_LEVELS if row.knowledge != "restricted"]
_PUBLIC_LEVELS = [row.number for row in TRUST_LEVELS if row.reads_public_channels]
_DIVE_LEVELS = [row.number for row in TRUST_LEVELS if row.dive_results]


def in_visible_place(access: Access) -> Q:
    """Rows that hold everywhere, or in a `channel` or `thread` that the asker sees."""
    channels, threads = Channel.objects.visible_to(access), Thread.objects.visible_to(access)
    return Q(channel=None, thread=None) | Q(channel__in=channels) | Q(thread__in=threads)


def shown_to_readers(access: Access, thread_id: int) -> Access:
    """The access, as far as everybody who reads an answer in the thread may see what it allows, at this moment.

    Readers are the people and the other agents that see the thread, and the users of a program that asks with the
    agent's token. One query, for agents that read restricted knowledge; the access of all others as it is.
    """
    if not _reads_restricted(access):
        return access
    return _narrow(access, _shut_out_of_thread.rows(access.workspace_id, access.participant_id, thread_id))


def shown_while_answering(access: Access) -> Access:
    """`shown_to_readers` of all threads in which an agent that answers through the API was asked and is not done."""
    if not _reads_restricted(access):
        return access
    return _narrow(access, _shut_out_of_runs.rows(access.workspace_id, access.participant_id))


def has_new_readers(before: Access, now: Access) -> bool:
    """Whether somebody reads the answer by now for whom what stood in its prompt was not meant."""
    known, readers = _shut_out_ids(before), _shut_out_ids(now)
    is_closed = "0" in known or len(known) >= MAX_SHUT_OUT  # nothing restricted stood there
    return not is_closed and not readers <= known


def _shut_out_ids(access: Access) -> set[str]:
    return set(filter(None, access.shut_out.strip("{}").split(",")))


def _reads_restricted(access: Access) -> bool:
    return access.is_agent and access.knowledge == "restricted"


def _narrow(access: Access, rows: Iterable[tuple[int]]) -> Access:
    readers = sorted({reader for (reader,) in rows})
    return access.shown_to(array_literal(readers) if readers else "")


@CompiledQuery
def _shut_out_of_thread(workspace_id: int, agent_id: int, thread_id: int) -> QuerySet[Any, Any]:
    return _shut_out_readers(workspace_id, agent_id, Thread.objects.filter(pk=thread_id))


@CompiledQuery
def _shut_out_of_runs(workspace_id: int, agent_id: int) -> QuerySet[Any, Any]:
    runs = Run.objects.filter(
        EXTERNAL_RUNS.condition, agent__participant=agent_id, state__in=EXTERNAL_RUNS.unfinished
    ).order_by()
    return _shut_out_readers(workspace_id, agent_id, Thread.objects.filter(pk__in=runs.values("thread")))


def _shut_out_readers(workspace_id: int, agent_id: int, threads: QuerySet[Thread]) -> QuerySet[Any, Any]:
    """The people and agents who read one of the threads and no restricted knowledge, MAX_SHUT_OUT of them at most of
    each sort: people who were added to its channel, people of a public one, agents and users of programs (0). What it
    costs does not grow with the number of readers."""
    threads = threads.order_by()
    added = ChannelMembership.objects.filter(
        channel__in=threads.values("channel"),
        participant__member__role__in=_SHUT_OUT_ROLES,
        participant__member__removed_at=None,
        participant__member__user__is_active=True,
    )
    public = Member.objects.filter(
        Exists(threads.filter(channel__is_private=False)),
        workspace_id=workspace_id,
        role=Member.Role.MEMBER,
        removed_at=None,
        user__is_active=True,
    )
    agents = agents_reading(workspace_id, threads, other_than=agent_id).filter(level__in=_SHUT_OUT_LEVELS)
    programs = ClientConversation.objects.filter(thread__in=threads, caller__kind=Participant.Kind.AGENT)
    nobody_known = Value(0, BigIntegerField())
    return (
        added.order_by()
        .values_list("participant_id")[:MAX_SHUT_OUT]
        .union(
            public.order_by().values_list("participant_id")[:MAX_SHUT_OUT],
            agents.order_by().annotate(reader=nobody_known).values_list("reader")[:1],
            programs.order_by().annotate(reader=nobody_known).values_list("reader")[:1],
            all=True,
        )
    )


def agents_reading(workspace_id: int, threads: QuerySet[Thread], *, other_than: int) -> QuerySet[Agent]:
    """Other active agents that see one of the threads, by the rules of `visible_threads`."""
    listed = Thread.allowed_agents.through.objects.filter(participant=OuterRef(OuterRef("participant"))).order_by()
    is_listed = Exists(listed.filter(Q(thread=OuterRef("pk")) | Q(thread=OuterRef("parent"))))
    memberships = ChannelMembership.objects.filter(
        channel=OuterRef("channel"), participant=OuterRef(OuterRef("participant"))
    )
    open_threads = threads.filter(
        Q(access=Thread.Access.OPEN) | Q(Q(access=Thread.Access.AGENT_RESTRICTED), is_listed)
    ).order_by()
    reads = Exists(open_threads.filter(Exists(memberships.order_by())))
    reads_public = Q(Exists(open_threads.filter(channel__is_private=False)), level__in=_PUBLIC_LEVELS)
    sees_dives = Q(level__in=_DIVE_LEVELS) | Q(Exists(open_threads.filter(parent=None)))
    others = Agent.objects.filter(workspace_id=workspace_id, deactivated_at=None)
    return others.exclude(participant=other_than).filter(Q(reads) | reads_public, sees_dives)


def learned_unseen(access: Access, thread_id: int, channel_id: int) -> Q:
    """The condition for episodes that were learned where somebody who reads the thread, in this channel, does not read
    though it is no private channel: a guest another public one, another agent a thread that does not list it."""
    guests = ChannelMembership.objects.filter(
        participant__member__role=Member.Role.GUEST,
        participant__member__removed_at=None,
        participant__member__user__is_active=True,
    ).order_by()
    here = guests.filter(channel=channel_id)
    there = ChannelMembership.objects.filter(
        channel=OuterRef(OuterRef("channel_id")), participant=OuterRef("participant_id")
    ).order_by()
    is_elsewhere = Q(channel__is_private=False) & ~Q(channel=channel_id)
    in_public = is_elsewhere & Q(Exists(here)) & Q(Exists(here.filter(~Exists(there))))  # the first is asked once
    listing = Thread.allowed_agents.through.objects.filter(participant=OuterRef("participant_id")).order_by()
    is_listed = Exists(listing.filter(thread=OuterRef(OuterRef("thread_id")))) | Exists(
        listing.filter(thread=OuterRef(OuterRef("thread__parent_id")))
    )
    threads = Thread.objects.filter(pk=thread_id)
    others = agents_reading(access.workspace_id, threads, other_than=access.participant_id).order_by()
    from_listed = Q(thread__access=Thread.Access.AGENT_RESTRICTED) & Q(Exists(others.filter(~is_listed)))
    return in_public | from_listed


def unseen_channels(channel_ids: Collection[int], thread_id: int) -> set[int]:
    """The channels among these that are private and not read by everybody who reads the thread. One query, none
    without."""
    if not channel_ids:
        return set()
    return {pk for (pk,) in _unseen_channels.rows(array_literal(channel_ids), thread_id)}


@CompiledQuery
def _unseen_channels(channel_ids: int, thread_id: int) -> QuerySet[Any, Any]:
    reads_there = ChannelMembership.objects.filter(
        channel=OuterRef(OuterRef("pk")), participant=OuterRef("participant_id")
    ).order_by()
    thread = Thread.objects.filter(pk=thread_id).order_by()
    added = ChannelMembership.objects.filter(
        ~Exists(reads_there),
        channel__in=thread.values("channel"),
        participant__member__removed_at=None,
        participant__member__user__is_active=True,
    )
    members = Member.objects.filter(
        ~Exists(reads_there),
        Exists(thread.filter(channel__is_private=False)),
        workspace=OuterRef("workspace_id"),
        removed_at=None,
        user__is_active=True,
    ).exclude(role=Member.Role.GUEST)
    channels = Channel.objects.filter(pk__any_of=channel_ids, is_private=True)
    channels = channels.filter(Q(Exists(added.order_by())) | Q(Exists(members.order_by())))
    return channels.order_by().values_list("pk")


def shown_messages(messages: QuerySet[Any], access: Access, thread_id: int) -> QuerySet[Any]:
    """Those of other threads' messages that everybody may see who reads what the agent answers in this thread, or in
    one in which it was asked through the API and is not done: people, other agents, users of programs.

    Three statements, whatever the number of readers.
    """
    runs = Run.objects.filter(
        EXTERNAL_RUNS.condition, agent__participant=access.participant_id, state__in=EXTERNAL_RUNS.unfinished
    ).order_by()
    read = Thread.objects.filter(Q(pk=thread_id) | Q(pk__in=runs.values("thread"))).order_by()
    if ClientConversation.objects.filter(thread__in=read, caller__kind=Participant.Kind.AGENT).exists():
        return messages.none()  # nobody knows who reads
    others = agents_reading(access.workspace_id, read, other_than=access.participant_id).order_by()
    is_listed = Thread.allowed_agents.through.objects.filter(participant=OuterRef("participant")).order_by()
    is_listed_there = Exists(is_listed.filter(thread=OuterRef(OuterRef("pk")))) | Exists(
        is_listed.filter(thread=OuterRef(OuterRef("parent_id")))
    )
    shut_out = Q(access=Thread.Access.AGENT_RESTRICTED) & Q(Exists(others.filter(~is_listed_there)))
    threads = Thread.objects.filter(pk=OuterRef("thread_id")).exclude(shut_out)
    threads = threads.exclude(channel__in=list(_channels_with_shut_out_readers(access, read, others)))
    if others.exclude(level__in=_DIVE_LEVELS).exists():
        threads = threads.filter(parent=None)
        messages = messages.exclude(kind=messages.model.Kind.DIVE_RESULT)
    return messages.filter(Exists(threads.order_by()))


def _channels_with_shut_out_readers(
    access: Access, read: QuerySet[Thread], others: QuerySet[Agent]
) -> QuerySet[Channel, Any]:
    """The ids of the workspace's channels that somebody who reads one of the threads does not read."""
    reads_there = ChannelMembership.objects.filter(
        channel=OuterRef(OuterRef("pk")), participant=OuterRef("participant_id")
    ).order_by()
    active = {"participant__member__removed_at": None, "participant__member__user__is_active": True}
    added = ChannelMembership.objects.filter(~Exists(reads_there), channel__in=read.values("channel"), **active)
    members = Member.objects.filter(
        ~Exists(reads_there),
        Exists(read.filter(channel__is_private=False)),
        workspace_id=access.workspace_id,
        removed_at=None,
        user__is_active=True,
    ).exclude(role=Member.Role.GUEST)
    shut_out_agents = others.filter(~Exists(reads_there))
    is_private = Q(is_private=True) & (
        Q(Exists(added.order_by())) | Q(Exists(members.order_by())) | Q(Exists(shut_out_agents))
    )
    is_public = Q(is_private=False) & (
        Q(Exists(added.filter(participant__member__role=Member.Role.GUEST).order_by()))
        | Q(Exists(shut_out_agents.exclude(level__in=_PUBLIC_LEVELS)))
    )
    channels = Channel.objects.filter(is_private | is_public, workspace_id=access.workspace_id)
    return channels.order_by().values_list("pk", flat=True)


def has_read_restricted(access: Access, thread_id: int) -> bool:
    """Whether the agent's prompts or tools in the thread had knowledge before them that is restricted now: what it says
    there may repeat it, at whatever level it is by now."""
    return bool(_restricted_uses.rows(access.participant_id, thread_id))


@CompiledQuery
def _restricted_uses(agent_id: int, thread_id: int) -> QuerySet[Any, Any]:
    runs = Run.objects.filter(agent__participant=agent_id, thread=thread_id).order_by()
    uses = KnowledgeUse.objects.filter(run__in=runs, entry__visibility=Entry.Visibility.RESTRICTED)
    return uses.order_by().values_list("pk")[:1]


def check_nothing_restricted(access: Access, thread_id: int, what: str) -> None:
    """Raises Refused where an agent that is about to write `what` ("your blocks", "your notes"), which stands in its
    prompts everywhere, has read restricted knowledge in the thread. Raises Refused where it has read restricted
    knowledge in the thread."""
    if has_read_restricted(access, thread_id):
        raise Refused(
            f"You have read restricted knowledge in this conversation, and {what} stand in your prompts everywhere."
            " So nothing is written there from here. An admin can write it.",
            code="read_restricted",
        )


class CallSource(NamedTuple):
    """Something a call read or wrote: the fields of ToolSource."""

    kind: str
    ref: int
    version: int = 0


def save_sources(call: ToolCall, sources: Iterable[CallSource]) -> None:
    """Stores what the call read or wrote, each once, in the caller's transaction."""
    once = {(source.kind, source.ref): source for source in sources}
    rows = [ToolSource(call=call, **source._asdict()) for source in once.values()]
    ToolSource.objects.bulk_create(rows, ignore_conflicts=True)


def visible_calls(access: Access) -> QuerySet[ToolCall]:
    """Calls whose arguments and results the asker may read now.

    Notes about a person are for that person, admins, and the agent that keeps them. Entries of knowledge are for who
    may read them now and could when the call was made, blocks for all but guests. An agent reads nothing from before
    its level was lowered.
    """
    is_readable = (
        Q(Exists(Thread.objects.visible_to(access).filter(pk=OuterRef("ref"))), kind=Kind.THREAD)
        | _readable_notes(access)
        | Q(_readable_entry(access), kind=Kind.ENTRY)
        | Q(kind="" if access.is_guest else Kind.BLOCK)
    )
    return _with_all_sources(is_readable, _agent_of(access) if access.is_agent else None)


def reusable_calls(access: Access, asker_id: int) -> QuerySet[ToolCall]:
    """Calls that may stand in a later prompt of the agent, while it answers `asker_id` (a participant).

    All of their sources are visible to the agent and say what they said then; notes are those about whoever asks. What
    was read in another thread stands in the run that asked for it and in no later prompt: no raw messages cross
    channels by themselves, and others may read here by then.
    """
    notes = ProfileNote.objects.filter(agent=access.participant_id, person=asker_id, version=OuterRef("version"))
    entries = Entry.objects.filter(pk=OuterRef("ref"), version=OuterRef("version"))
    own_suggestions = entries.filter(author=access.participant_id, status=Entry.Status.PROPOSED)
    blocks = Block.objects.filter(pk=OuterRef("ref"), agent=access.participant_id, version=OuterRef("version"))
    is_reusable = (
        Q(
            Exists(Thread.objects.visible_to(access).filter(pk=OuterRef("ref"))),
            kind=Kind.THREAD,
            ref=F("call__run__thread"),
        )
        | Q(Exists(notes.filter(person=OuterRef("ref"))), kind=Kind.NOTES)
        | Q(
            Q(Exists(entries.visible_to(access).current()), _readable_entry(access)) | Q(Exists(own_suggestions)),
            kind=Kind.ENTRY,
        )
        | Q(Exists(blocks), kind=Kind.BLOCK)
    )
    return _with_all_sources(is_reusable, _agent_of(access))


def _agent_of(access: Access) -> QuerySet[Agent, Any]:
    return Agent.objects.filter(participant=access.participant_id).values("pk")[:1]


def _with_all_sources(is_visible: Q, reader: QuerySet[Agent, Any] | None) -> QuerySet[ToolCall]:
    """Calls that have a source, and none that fails the condition; `reader`: the agent that would read them."""
    sources = ToolSource.objects.filter(call=OuterRef("pk")).order_by()
    calls = ToolCall.objects.filter(Exists(sources), ~Exists(sources.filter(~is_visible)))
    if reader is None:
        return calls
    demotions = TrustChange.objects.filter(agent=reader, level_after__lt=F("level_before")).order_by()
    return calls.exclude(Exists(demotions.filter(created_at__gte=OuterRef("created_at"))))


def _readable_notes(access: Access) -> Q:
    if access.administers:
        return Q(kind=Kind.NOTES)
    if access.is_agent:
        return Q(kind=Kind.NOTES, call__run__agent__participant=access.participant_id)
    return Q(kind=Kind.NOTES, ref=access.participant_id)


def _readable_entry(access: Access) -> Exists:
    """The entry, while the asker may read it now, and could at the time of the call."""
    entries = Entry.objects.visible_to(access).filter(pk=OuterRef("ref")).order_by()
    if access.knowledge == "restricted":
        return Exists(entries)
    own = Q(author=access.participant_id) | Q(owner=access.participant_id)
    return Exists(entries.filter(own | ~Exists(sharing_revisions_after(OuterRef(OuterRef("call__created_at"))))))
