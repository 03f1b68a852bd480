"""An agent that is writing an answer is shown at work, to those who may read it, from its first word to its last."""

import json

from agents.models import Agent, Run
from openvibe.base.models import Event
from openvibe.chat.live.batch import EventRow, make_batch
from openvibe.chat.live.viewers import Viewer, refresh_viewers
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import create_reply, finish_reply
from openvibe.chat.web.live import PageFrames
from openvibe.workspaces.models import Member
from tests.factories import make_agent, make_channel, make_thread, say, signed_in


def sidebar(member: Member) -> str:
    return signed_in(member).get(f"/w/{member.workspace.slug}/sidebar/").content.decode()


def begin(thread: Thread, by: Member, agent: Agent) -> Message:
    """An answer whose first words are being written."""
    run = Run.objects.get(trigger=say(thread, by, f"@{agent.handle} when?"))
    reply = create_reply(thread=thread, author=agent.participant, client_id=f"run:{run.pk}")
    Run.objects.filter(pk=run.pk).update(state=Run.State.WRITING, reply=reply)
    return reply


def told(member: Member, message: Message) -> dict[str, object]:
    """What the newest event of the message says to a page that shows something else."""
    row = Event.objects.filter(message_id=message.pk, kind__startswith="message_").latest("pk")
    batch = make_batch(row.workspace_id, [EventRow(*(getattr(row, name) for name in EventRow._fields))])
    viewer = Viewer(member.workspace_id, member.participant_id)
    refresh_viewers([viewer])
    frame = PageFrames(member.workspace.slug, "UTC", frozenset()).frame(batch.events[0], viewer, batch)
    data: dict[str, object] = json.loads(frame.decode().partition("data: ")[2])
    return {name: data.get(name) for name in ("agent", "writing")}


def test_an_agent_is_at_work_while_it_writes(ana: Member, dora: Member, vibe: Agent, thread: Thread) -> None:
    label = f'data-agent="{vibe.participant_id}" data-replies="{{}}"'
    assert label.format("") + " hidden" in " ".join(sidebar(ana).split())
    first, second = begin(thread, ana, vibe), begin(make_thread(thread.channel, ana, "Roses"), ana, vibe)
    assert told(dora, second) == {"agent": vibe.participant_id, "writing": True}
    sidebar_text = " ".join(sidebar(dora).split())
    assert label.format(f"{first.pk} {second.pk}") in sidebar_text
    assert label.format(f"{first.pk} {second.pk}") + " hidden" not in sidebar_text
    finish_reply(reply=first, body="In March.", state="complete")
    Run.objects.filter(reply=first).update(state=Run.State.DONE)
    assert told(dora, first) == {"agent": vibe.participant_id, "writing": False}
    assert label.format(second.pk) in " ".join(sidebar(dora).split())


def test_nobody_is_told_of_work_in_rooms_they_do_not_read(ana: Member, dora: Member) -> None:
    room = make_channel(ana, "board", private=True)
    fern = make_agent(ana, "fern", channel=room)
    reply = begin(make_thread(room, ana, "Salaries"), ana, fern)
    assert f'data-replies="{reply.pk}"' in sidebar(ana)
    assert f'data-agent="{fern.participant_id}" data-replies="" hidden' in " ".join(sidebar(dora).split())
