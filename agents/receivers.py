"""Receivers: create the runs in the transaction of the signal, and enqueue them once it is committed."""

from typing import Any

import structlog
from django.db import transaction
from django.db.models import QuerySet
from django.dispatch import receiver

from agents.agent.access import agent_access
from agents.agent.audience import has_read_restricted
from agents.agent.models import Agent, Run
from agents.agent.trust import may_respond
from agents.prompts.citations.store import forget_citations
from agents.prompts.snapshots.entry_erasure import begin_entry_erasure
from agents.prompts.snapshots.store import erase_calls_about, erase_looks, erase_tool_calls
from agents.runs.external.lifecycle import finish_posted_runs
from agents.runs.lifecycle import fail_waiting_runs, request_draft_run, request_run, resume_runs, stop_runs_in_dive
from agents.runs.permissions.answers import lapse_quoting_permissions, settle_permission
from agents.runs.store import restore_answer
from agents.tasks import enqueue_run_on_commit
from knowledge.models import Entry
from knowledge.services import default_visibility, entry_erased, suggest_result
from memory.models import Approval, ProfileNote
from memory.wiring import approval_decided, notes_cleared
from openvibe.base.problems import Problem
from openvibe.chat.models import Dive, Message
from openvibe.chat.wiring import agent_posted, dive_ended, draft_requested, message_posted, message_revised
from openvibe.engines.database.compiled_queries import CompiledQuery, array_literal
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant
from openvibe.workspaces.queries import participant_access

log = structlog.get_logger(__name__)

MIN_SUGGESTING_LEVEL = 2
"""The trust level from which on agents suggest knowledge themselves."""


@CompiledQuery
def _agents_by_participant(participant_ids: int) -> QuerySet[Agent]:
    agents = Agent.objects.select_related("participant", "workspace")
    return agents.filter(participant__id__any_of=participant_ids)


@receiver(message_posted, dispatch_uid="agents.answer")
def start_runs(
    sender: type[Message],
    message: Message,
    mentioned_agents: tuple[int, ...],
    following_agents: tuple[int, ...],
    **_: Any,
) -> None:
    """Two agents mentioned: two runs. Agents that follow the thread answer too, each once. What an agent writes wakes
    nobody: `_insert_message` in `openvibe/chat/services/messages.py` rings `agent_posted` for it, not this bell.

    In a dive its agent answers everything, and nobody else: who is named there besides gets a note.
    """
    dive_agent_id = None
    if message.thread.parent_id is not None:
        dive_agent_id = Dive.objects.filter(thread_id=message.thread_id).values_list("agent_id", flat=True).first()
    if dive_agent_id is not None:
        mentioned_agents = tuple(agent for agent in mentioned_agents if agent != dive_agent_id)
        following_agents = (dive_agent_id,)
    addressed_ids = dict.fromkeys([*mentioned_agents, *following_agents])
    if not addressed_ids:
        return
    rows: list[Agent] = _agents_by_participant.objects(array_literal(addressed_ids))
    agents = {agent.participant_id: agent for agent in rows}
    for participant_id in addressed_ids:
        if participant_id not in agents:
            continue
        task = Run.Task.MENTION if participant_id in mentioned_agents else Run.Task.THREAD
        if message.thread.channel.is_direct and may_respond(agents[participant_id].level, "thread"):
            task = Run.Task.THREAD  # it knows the whole conversation, which is with it
        if participant_id == dive_agent_id:
            task = Run.Task.DIVE
        run = request_run(agent=agents[participant_id], message=message, task=task)
        if run is not None and not run.is_external:
            enqueue_run_on_commit(run.pk)


@receiver(agent_posted, dispatch_uid="agents.answered_by_message")
def finish_runs_answered_by_message(sender: type[Message], message: Message, **_: Any) -> None:
    """An agent elsewhere may answer with a message of its own in place of a run that it begins."""
    finish_posted_runs(message)


@receiver(draft_requested, dispatch_uid="agents.draft")
def start_draft_run(sender: type[Dive], message: Message, dive: Dive, **_: Any) -> None:
    """The dive's agent drafts the result. Raises Conflict while it has something else to do there."""
    run = request_draft_run(dive=dive, message=message)
    if run is not None and not run.is_external:
        enqueue_run_on_commit(run.pk)


@receiver(dive_ended, dispatch_uid="agents.end_dive")
def end_dive_runs(sender: type[Dive], dive: Dive, **_: Any) -> None:
    """Nothing more is answered in a dive that is over."""
    stop_runs_in_dive(dive=dive)


@receiver(dive_ended, dispatch_uid="agents.ask_to_keep_result")
def ask_to_keep_published_result(sender: type[Dive], dive: Dive, **_: Any) -> None:
    """The agent asks whether the result should be knowledge, as a proposal: itself, or below the level from which
    agents suggest through whoever published. Publishing never fails for it."""
    if dive.state != Dive.State.PUBLISHED or dive.result is None:
        return
    agent, publisher = agent_access(dive.agent), participant_access(dive.result.author)
    by = agent if agent is not None and (agent.level or 0) >= MIN_SUGGESTING_LEVEL else publisher
    if by is None:
        return
    visibility = default_visibility(dive.parent)
    if agent is not None and has_read_restricted(agent, dive.thread_id):
        visibility = Entry.Visibility.RESTRICTED
    try:
        with transaction.atomic():
            suggest_result(by=by, message=dive.result, visibility=visibility, publisher=publisher)
    except Problem as problem:
        log.info("result_not_suggested", dive_id=dive.pk, reason=problem.code)


@receiver(message_revised, dispatch_uid="agents.forget_calls")
def erase_quoting_tool_calls(sender: type[Message], message: Message, **_: Any) -> None:
    """What tools were asked and answered may quote a deleted message."""
    if message.is_deleted:
        lapse_quoting_permissions(message.thread_id)
        erase_looks(message.thread_id)
        erase_tool_calls(message.thread_id, message.pk)


@receiver(message_revised, dispatch_uid="agents.forget_citations")
def forget_citations_of_message(sender: type[Message], message: Message, **_: Any) -> None:
    """What cited a deleted message, and what it cited, is text from then on."""
    if message.is_deleted or message.author.is_agent:
        forget_citations(message_id=message.pk, body=message.body, is_deleted=message.is_deleted)


@receiver(message_revised, dispatch_uid="agents.restore_answer")
def restore_earlier_answer(sender: type[Message], message: Message, **_: Any) -> None:
    """Restores the version before one that was deleted: where the newest version of an answer goes, the one before it
    is the answer again."""
    if message.is_deleted and message.author.is_agent:
        restore_answer(message)


@receiver(entry_erased, dispatch_uid="agents.forget_entry")
def erase_entry_from_prompts(sender: type[Entry], entry: Entry, topics: set[str], **_: Any) -> None:
    """Tool calls that tell of an entry lose it with the entry, stored prompts by a job."""
    begin_entry_erasure(entry, topics)


@receiver(notes_cleared, dispatch_uid="agents.forget_calls_about")
def erase_calls_about_person(sender: type[ProfileNote], agent: Participant, person: Participant, **_: Any) -> None:
    """What tools were told and answered about the person goes with the notes."""
    erase_calls_about(agent_id=agent.pk, person_id=person.pk)


@receiver(approval_decided, dispatch_uid="agents.resume")
def resume_waiting_runs(sender: type[Approval], approval: Approval, by: Access | None, **_: Any) -> None:
    """What waited for the decision goes on, whichever it was; where nobody decided in time, it ends. An agent elsewhere
    is told the answer when it asks again."""
    name = approval.decided_by.label if approval.decided_by else ""
    is_granted = approval.state == Approval.State.GRANTED
    settle_permission(approval_id=approval.pk, is_granted=is_granted, by=by, name=name, note=approval.note)
    if approval.state == Approval.State.LAPSED:
        fail_waiting_runs(approval=approval)
        return
    for run_id in resume_runs(approval=approval):
        enqueue_run_on_commit(run_id)
