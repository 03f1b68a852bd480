"""What agents do when a bell rings: write the runs in the same transaction, and ask a worker once it is committed."""

from typing import Any

from django.dispatch import receiver

from agents.models import Agent, Run
from agents.runs.queue import request_run, resume_runs
from agents.tasks import send_after_commit
from agents.tools.viewing import forget_calls
from memory.models import Approval
from memory.signals import approval_decided
from openvibe.chat.models import Message
from openvibe.chat.signals import message_posted, message_revised


@receiver(message_posted, dispatch_uid="agents.answer")
def answer(
    sender: type[Message],
    message: Message,
    mentioned_agents: tuple[int, ...],
    following_agents: tuple[int, ...],
    **_: Any,
) -> None:
    """Two agents mentioned: two runs. Agents that follow the thread answer too, each once."""
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
        run = request_run(agent=agent, message=message, task=task)
        if run is not None:
            send_after_commit(run.pk)


@receiver(message_revised, dispatch_uid="agents.forget_calls")
def forget(sender: type[Message], message: Message, **_: Any) -> None:
    """What tools were asked and answered may quote a deleted message."""
    if message.is_deleted:
        forget_calls(message.thread_id)


@receiver(approval_decided, dispatch_uid="agents.resume")
def resume(sender: type[Approval], approval: Approval, **_: Any) -> None:
    """What waited for the decision goes on, whichever it was."""
    for run_id in resume_runs(approval=approval):
        send_after_commit(run_id)
