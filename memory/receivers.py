"""What memory does when chat or one of its own rooms rings. Compactions are only requested; workers execute them."""

from typing import Any

from django.dispatch import receiver

from memory.blocks.models import ProfileNote
from memory.blocks.services import notes_cleared
from memory.episodes.models import Proposal
from memory.episodes.proposals import delete_learned_from
from memory.episodes.services import forget_completion, record_completion, record_trust_check
from memory.plugins.compaction import compaction_finished, request_compaction, request_rebuild, resume_compaction
from memory.plugins.models import Compaction
from memory.plugins.services import follow_renamed_channel
from memory.plugins.tasks import enqueue_compaction_check_on_commit, enqueue_compaction_on_commit
from memory.work.approvals import approval_decided
from memory.work.handoff import create_handoff
from memory.work.models import Approval, WorkItem
from memory.work.services import (
    add_imported_preferences,
    add_preferences,
    milestone_reached,
    redact_quotes,
    revise_preferences,
    work_state_changed,
)
from openvibe.chat.models import Dive, Message, Thread
from openvibe.chat.wiring import channel_renamed, conversation_imported, dive_ended, message_posted, message_revised
from openvibe.engines.llm.endpoints.endpoints import endpoint_answered
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

WEIGHTY_KINDS = (WorkItem.Kind.OBJECTIVE, WorkItem.Kind.PLAN, WorkItem.Kind.GOAL)
"""Work whose end an agent remembers; of to-dos, the last one that was open."""

MAX_QUOTE_CHARACTERS = 300
"""The longest quotation of a row's words in an episode."""

MESSAGES_PER_CHECK = 25
"""Messages between two looks at whether a thread that agents follow has grown past its threshold."""


@receiver(message_posted, dispatch_uid="memory.consider_compaction")
def consider_compaction_of_thread(
    sender: type[Message], message: Message, following_agents: tuple[int, ...], **_: Any
) -> None:
    """Posting stays cheap: no query here. The other threads are looked at when an agent's run in them ends."""
    if following_agents and message.seq % MESSAGES_PER_CHECK == 0:
        enqueue_compaction_check_on_commit(message.thread_id)


@receiver(message_posted, dispatch_uid="memory.add_preferences")
def write_down_preferences(sender: type[Message], message: Message, **_: Any) -> None:
    """What a person asks for once and for all holds from the next prompt on."""
    add_preferences(message)


@receiver(conversation_imported, dispatch_uid="memory.add_imported_preferences")
def write_down_imported_preferences(sender: type[Thread], thread: Thread, **_: Any) -> None:
    add_imported_preferences(thread)


@receiver(message_revised, dispatch_uid="memory.rebuild_summaries")
def rebuild_summaries(sender: type[Message], message: Message, **_: Any) -> None:
    """The database wiped the summaries that held the message, in this transaction; a worker writes them anew."""
    compaction = request_rebuild(message=message)
    if compaction is not None:
        enqueue_compaction_on_commit(compaction.pk)


@receiver(message_revised, dispatch_uid="memory.forget_quotes")
def forget_deleted_message(sender: type[Message], message: Message, **_: Any) -> None:
    """Work rows that repeat a deleted message's words lose them with it; so does what was learned from it."""
    if message.is_deleted:
        redact_quotes(message=message)
        delete_learned_from(message=message)
    else:
        revise_preferences(message)


@receiver(milestone_reached, dispatch_uid="memory.compact_at_milestone")
def compact_at_milestone(sender: Any, thread: Thread, trigger: str, by: Access | None = None, **_: Any) -> None:
    """The work paused, was taken up again, or reached a milestone: a good moment, and a handoff is written."""
    compaction = request_compaction(thread=thread, trigger=trigger, by=by)
    if compaction is not None:
        enqueue_compaction_on_commit(compaction.pk)


@receiver(dive_ended, dispatch_uid="memory.compact_after_dive")
def compact_after_dive(sender: type[Dive], dive: Dive, **_: Any) -> None:
    """A published result closes a piece of work: a milestone of the thread it stands in."""
    if dive.state == Dive.State.PUBLISHED:
        compact_at_milestone(sender, dive.parent, Compaction.Trigger.MILESTONE)


@receiver(work_state_changed, dispatch_uid="memory.remember_work")
def remember_finished_work(sender: type[WorkItem], item: WorkItem, by: Access | None, **_: Any) -> None:
    """An agent that finished a task of weight remembers it, until the work is taken up again or its words are gone."""
    subject = f"work:{item.pk}"
    if item.state != WorkItem.State.DONE or by is None:
        forget_completion(subject)
    elif by.is_agent and (item.kind in WEIGHTY_KINDS or _was_last_todo(item)):
        what = "the last open to-do" if item.kind == WorkItem.Kind.TODO else f"the {item.get_kind_display().lower()}"
        summary = f"Finished {what} in “{item.thread.title}”: {_quote(item.text)}"
        record_completion(agent_id=by.participant_id, thread=item.thread, subject=subject, summary=summary)


def _was_last_todo(item: WorkItem) -> bool:
    rows = WorkItem.objects.filter(thread=item.thread_id, kind=WorkItem.Kind.TODO)
    return item.kind == WorkItem.Kind.TODO and not rows.open().exists()


def _quote(text: str) -> str:
    """A text in one line, in quotation marks."""
    line = " ".join(text.split())
    return f"“{line if len(line) <= MAX_QUOTE_CHARACTERS else f'{line[: MAX_QUOTE_CHARACTERS - 1]}…'}”"


@receiver(dive_ended, dispatch_uid="memory.remember_dive")
def remember_published_dive(sender: type[Dive], dive: Dive, **_: Any) -> None:
    """The agent of a published dive remembers that, and not the result: who may read it finds it in its thread."""
    if dive.state == Dive.State.PUBLISHED and dive.result is not None:
        record_completion(
            agent_id=dive.agent_id,
            thread=dive.parent,
            subject=f"dive:{dive.pk}",
            summary=f"{dive.result.author.label} published the result of the dive from “{dive.parent.title}”.",
        )


@receiver(approval_decided, dispatch_uid="memory.remember_decision")
def remember_decision(sender: type[Approval], approval: Approval, by: Access | None, **_: Any) -> None:
    """The agent that asked remembers what was decided."""
    if not approval.requested_by.is_agent or approval.decided_by is None:
        return
    note = f" {approval.decided_by.label} wrote: {_quote(approval.note)}" if approval.note else ""
    record_trust_check(
        agent_id=approval.requested_by_id,
        thread=approval.thread,
        subject=f"approval:{approval.pk}",
        summary=f"{approval.decided_by.label} {approval.state} what was asked for in “{approval.thread.title}”: "
        f"{_quote(approval.what)}.{note}",
    )


@receiver(channel_renamed, dispatch_uid="memory.follow_renamed_channel")
def keep_leaving_alone(sender: object, workspace_id: int, name: str, previous_name: str, **_: Any) -> None:
    """What memory leaves alone stays left alone, whatever it is called."""
    follow_renamed_channel(workspace_id=workspace_id, name=name, previous_name=previous_name)


@receiver(endpoint_answered, dispatch_uid="memory.resume_compaction")
def resume_after_test(sender: type[Endpoint], endpoint: Endpoint, **_: Any) -> None:
    """Lifts the pause where somebody tests an endpoint with success, so that nobody waits until it is over."""
    for compaction in resume_compaction(workspace_id=endpoint.workspace_id, by=None, endpoint_id=endpoint.pk):
        enqueue_compaction_on_commit(compaction.pk)


@receiver(compaction_finished, dispatch_uid="memory.write_handoff")
def write_handoff(sender: type[Compaction], compaction: Compaction, summary_ids: tuple[int, ...], **_: Any) -> None:
    """The handoff at the compaction's boundary. Where words were only rewritten, the work stands where it stood."""
    if compaction.trigger != Compaction.Trigger.CHANGED:
        create_handoff(
            thread=compaction.thread, trigger=compaction.trigger, compaction=compaction, summary_ids=summary_ids
        )


@receiver(notes_cleared, dispatch_uid="memory.forget_proposed_notes")
def forget_proposed_notes(sender: type[ProfileNote], agent: Participant, person: Participant, **_: Any) -> None:
    """What reviews proposed to note about the person goes with the notes."""
    Proposal.objects.filter(agent=agent, person=person).delete()
