"""What agents do when a bell rings: write the runs in the same transaction, and ask a worker once it is committed."""

from typing import Any

from django.dispatch import receiver

from agents.models import Agent, Run
from agents.runs.queue import end_runs_in, request_draft, request_run, resume_runs
from agents.tasks import send_after_commit
from agents.tools.viewing import forget_calls
from memory.models import Approval
from memory.signals import approval_decided
from openvibe.chat.models import Dive, Message
from openvibe.chat.signals import dive_ended, draft_wanted, message_posted, message_revised


@receiver(message_posted, dispatch_uid="agents.answer")
def answer(
    sender: type[Message],
    message: Message,
    mentioned_agents: tuple[int, ...],
    following_agents: tuple[int, ...],
    **_: Any,
) -> None:
    """Two agents mentioned: two runs. Agents that follow the thread answer too, each once.

    In a dive its agent answers everything, and nobody else: who is named there besides gets a note.
    """
    diving = _agent_diving_in(message)
    if diving is not None:
        mentioned_agents = tuple(agent for agent in mentioned_agents if agent != diving)
        following_agents = (diving,)
    asked = dict.fromkeys([*mentioned_agents, *following_agents])
    if not asked:
        return
    found = Agent.objects.select_related("participant", "workspace").filter(participant_id__in=asked)
    agents = {agent.participant_id: agent for agent in found}
    for participant_id in asked:
        agent = agents.get(participant_id)
        if agent is None:
            continue
        task = Run.Task.MENTION if participant_id in mentioned_agents else Run.Task.THREAD
        if participant_id == diving:
            task = Run.Task.DIVE
        run = request_run(agent=agent, message=message, task=task)
        if run is not None:
            send_after_commit(run.pk)


def _agent_diving_in(message: Message) -> int | None:
    """The participant a dive is with; None, without a query, for a thread that is no dive."""
    if message.thread.parent_id is None:
        return None
    return Dive.objects.filter(thread_id=message.thread_id).values_list("agent_id", flat=True).first()


@receiver(draft_wanted, dispatch_uid="agents.draft")
def draft(sender: type[Dive], message: Message, dive: Dive, **_: Any) -> None:
    """The dive's agent drafts the result. Raises Conflict while it has something else to do there."""
    run = request_draft(dive=dive, message=message)
    if run is not None:
        send_after_commit(run.pk)


@receiver(dive_ended, dispatch_uid="agents.end_dive")
def end(sender: type[Dive], dive: Dive, **_: Any) -> None:
    """Nothing more is answered in a dive that is over."""
    end_runs_in(dive=dive)


@receiver(message_revised, dispatch_uid="agents.forget_calls")
def forget(sender: type[Message], message: Message, **_: Any) -> None:
    """What tools were asked and answered may quote a deleted message."""
    if message.is_deleted:
        forget_calls(message.thread_id, message.pk)


@receiver(approval_decided, dispatch_uid="agents.resume")
def resume(sender: type[Approval], approval: Approval, **_: Any) -> None:
    """What waited for the decision goes on, whichever it was."""
    for run_id in resume_runs(approval=approval):
        send_after_commit(run_id)
