"""The audience of what tools return: one rule, for prompts, stored prompts, the viewer and the API.

Each tool says what a call read or wrote (`CallSource`). A call is for those who may see all of its sources at this
moment; a call that names none is for nobody, so a tool that forgets to say it leaks nothing."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from agents.models import Agent, ToolCall, ToolSource, TrustChange
from knowledge.models import Entry
from knowledge.queries import sharing_revisions_after
from memory.models import Block, ProfileNote
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access

Kind = ToolSource.Kind


class CallSource(NamedTuple):
    """Something a call read or wrote: the fields of ToolSource."""

    kind: str
    ref: int
    version: int = 0


def save_sources(call: ToolCall, sources: Iterable[CallSource]) -> None:
    """Store what the call read or wrote, each once, in the caller's transaction."""
    once = {(source.kind, source.ref): source for source in sources}
    rows = [ToolSource(call=call, **source._asdict()) for source in once.values()]
    ToolSource.objects.bulk_create(rows, ignore_conflicts=True)


def visible_calls(access: Access) -> QuerySet[ToolCall]:
    """Calls whose arguments and results the asker may read now.

    Notes about a person are for that person, admins, and the agent that keeps them. Entries of knowledge are for who
    may read them now and could when the call was made. An agent reads nothing from before its level was lowered.
    """
    is_readable = (
        Q(Exists(Thread.objects.visible_to(access).filter(pk=OuterRef("ref"))), kind=Kind.THREAD)
        | _readable_notes(access)
        | Q(_readable_entry(access), kind=Kind.ENTRY)
        | Q(kind=Kind.BLOCK)
    )
    return _with_all_sources(is_readable, _agent_of(access) if access.is_agent else None)


def reusable_calls(access: Access, asker_id: int) -> QuerySet[ToolCall]:
    """Calls that may stand in a later prompt of the agent, while it answers `asker_id` (a participant).

    All of their sources are visible to the agent and say what they said then; notes are those about whoever asks.
    """
    notes = ProfileNote.objects.filter(agent=access.participant_id, person=asker_id, version=OuterRef("version"))
    entries = Entry.objects.filter(pk=OuterRef("ref"), version=OuterRef("version"))
    own_suggestions = entries.filter(author=access.participant_id, status=Entry.Status.PROPOSED)
    blocks = Block.objects.filter(pk=OuterRef("ref"), agent=access.participant_id, version=OuterRef("version"))
    is_reusable = (
        Q(Exists(Thread.objects.visible_to(access).filter(pk=OuterRef("ref"))), kind=Kind.THREAD)
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
