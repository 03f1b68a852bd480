"""The page of what one piece of feedback changed."""

from datetime import datetime
from typing import NamedTuple

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.agent.models import Agent, Run, Snapshot
from agents.prompts.assembler.sections.episodes import MAX_FEEDBACK_ITEMS
from agents.prompts.snapshots.content import UnreadableContent
from agents.prompts.snapshots.store import load_content
from agents.web.access import access_agent
from memory.queries import access_feedback_episode, is_public_thread, newest_open_feedback
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

MAX_RUNS_READ = 30
"""The newest answers since the feedback whose prompts are looked through: each is unpacked for it."""


class Uses(NamedTuple):
    """The newest answers that had something before them; `all_read` is false where older ones were not looked
    through."""

    runs: list[Run]
    all_read: bool


@workspace_view
@require_safe
def feedback_uses(request: WorkspaceRequest, handle: str, episode_id: int) -> HttpResponse:
    """The page, or its fragment for the panel, of where the feedback stands now and which answers were written with it:
    for admins and for who gave it."""
    agent = access_agent(request, handle)
    episode = access_feedback_episode(request.access, agent.participant, episode_id)
    page = {
        "agent": agent,
        "episode": episode,
        "in_use": episode.pk in newest_open_feedback(agent.participant, MAX_FEEDBACK_ITEMS),
        "is_public": episode.thread_id is None or is_public_thread(episode.thread_id),
        "uses": _read_uses(agent, f"episode:{episode.pk}", episode.created_at, request.access),
    }
    return render(request, "agents/_feedback_uses.html" if request.htmx else "agents/feedback_uses.html", page)


def _read_uses(agent: Agent, key: str, since: datetime, access: Access) -> Uses:
    """The answers, of those the asker may read, whose prompt held the item of that key. Two queries."""
    answers = Run.objects.visible_to(access).filter(agent=agent, queued_at__gte=since).exclude(reply=None)
    runs = list(answers.select_related("thread").order_by("-id")[: MAX_RUNS_READ + 1])
    kept = Snapshot.objects.filter(run__in=[run.pk for run in runs[:MAX_RUNS_READ]], content__isnull=False)
    held_by = {snapshot.run_id for snapshot in kept if _holds(snapshot, key)}
    return Uses([run for run in runs if run.pk in held_by], len(runs) <= MAX_RUNS_READ)


def _holds(snapshot: Snapshot, key: str) -> bool:
    try:
        return any(item["key"] == key for item in load_content(snapshot)["items"])
    except UnreadableContent:
        return False
