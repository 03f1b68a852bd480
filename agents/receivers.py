"""What agents do when chat rings: write the runs with the message, and ask a worker once it is committed."""

from typing import Any

from django.dispatch import receiver

from agents.models import Agent, Run
from agents.runs.queue import request_run
from agents.tasks import send_after_commit
from openvibe.chat.models import Message, Thread
from openvibe.chat.signals import message_posted
from openvibe.workspaces.models import Participant


@receiver(message_posted, dispatch_uid="agents.answer")
def answer(sender: type[Message], message: Message, mentioned: tuple[Participant, ...], **_: Any) -> None:
    """Two agents mentioned: two runs. Agents that follow the thread answer too, each once."""
    named = [p.pk for p in mentioned if p.is_agent]
    followers = Thread.following_agents.through.objects.filter(thread_id=message.thread_id)  # no join: on every message
    following = list(followers.values_list("participant_id", flat=True))
    if not named and not following:
        return
    agents = {
        agent.participant_id: agent
        for agent in Agent.objects.select_related("participant", "workspace").filter(
            participant_id__in={*named, *following}
        )
    }
    for participant_id in dict.fromkeys([*named, *following]):
        agent = agents.get(participant_id)
        if agent is None:
            continue
        task = Run.Task.MENTION if participant_id in named else Run.Task.THREAD
        run = request_run(agent=agent, message=message, task=task)
        if run is not None:
            send_after_commit(run.pk)
