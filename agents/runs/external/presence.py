"""The presence of agents: at work, idle, or not connected since when; and who works where, as far as the asker sees it.

One that OpenVibe answers for is always there. One that answers itself is connected while its program is heard, by a
token or a run, or while its webhook takes what it is sent."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from agents.agent.models import Agent, Run
from agents.runs.external.programs import programs_heard_at, workspaces_last_heard
from openvibe.api.auth import CONNECTED_SECONDS, CallerParticipant
from openvibe.base.events import emit
from openvibe.chat.queries import connected_participants
from openvibe.workspaces.access import Access

NOTICE_SECONDS = 20
"""How long it is told of a program that it fell silent: two rounds of the sweep."""


@dataclass(frozen=True)
class WorkPlace:
    """A thread that an agent works in, as the asker may see it."""

    thread_id: int
    title: str
    since: datetime


@dataclass(frozen=True)
class Presence:
    """`heard_at`: of the program of one that answers itself; None where it was never heard."""

    is_connected: bool
    heard_at: datetime | None
    work: tuple[WorkPlace, ...] = ()

    @property
    def state(self) -> str:
        """`working`, `idle`, `away` for one that was heard before, else `never`."""
        if self.work:
            return "working"
        if self.is_connected:
            return "idle"
        return "away" if self.heard_at else "never"


def read_presences(agents: Collection[Agent], access: Access) -> dict[int, Presence]:
    """The presence of each agent by its id, with what it does where the asker reads. Five queries."""
    work: defaultdict[int, list[WorkPlace]] = defaultdict(list)
    runs = Run.objects.visible_to(access).filter(agent__in=agents, state__in=(Run.State.READING, Run.State.WRITING))
    columns = ("agent_id", "thread_id", "thread__title", "started_at", "queued_at")
    for agent_id, thread_id, title, started_at, queued_at in runs.order_by("pk").values_list(*columns):
        work[agent_id].append(WorkPlace(thread_id, title, started_at or queued_at))
    outside = {agent.participant_id for agent in agents if agent.answers_itself}
    heard, connected = programs_heard_at(outside), connected_participants(outside)
    presences = {}
    for agent in agents:
        is_connected = agent.is_active and (not agent.answers_itself or agent.participant_id in connected)
        presences[agent.pk] = Presence(is_connected, heard.get(agent.participant_id), tuple(work[agent.pk]))
    return presences


def notify_heard(participant: CallerParticipant) -> None:
    """Tells open pages that the program of an agent elsewhere is there, which was not a moment ago."""
    if Agent.objects.filter(participant=participant.pk, answers_itself=True).exists():
        emit("agent_changed", workspace_id=participant.workspace_id)


def notify_silent() -> None:
    """Tells open pages of programs that fell silent just now. One query, and an event a workspace."""
    silent_since = timezone.now() - timedelta(seconds=CONNECTED_SECONDS)
    for workspace_id in workspaces_last_heard(silent_since - timedelta(seconds=NOTICE_SECONDS), silent_since):
        emit("agent_changed", workspace_id=workspace_id)
