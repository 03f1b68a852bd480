"""An agent's page, and its view of the workspace."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render

from agents.figures import acceptance_of, tokens_per_day
from agents.models import Agent, Run, SoulVersion
from agents.soul import Change, diff_souls, render_soul, soul_from_dict
from agents.trust import trust_level
from agents.trust_words import does, sees
from agents.visibility import tokens_used_today, visible_to
from memory.fates import fate_words
from memory.models import Episode
from memory.web.blocks import blocks_of
from memory.web.notes import notes_of
from memory.web.review import proposals_of
from openvibe.base.problems import Missing
from openvibe.chat.markdown import render as render_markdown
from openvibe.chat.models import Message, Thread
from openvibe.chat.querysets import participants_known_to
from openvibe.workspaces.access import Access
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

IN_USE = 5
"""Open feedback items that stand in the prompt, the newest ones (spec: agents.md)."""
SHOWN = 20


@in_workspace
def agent(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """SOUL, level, memory, usage and runs. Everything learned or said where the asker may not read is left out."""
    found = _agent(request, handle)
    level = trust_level(found.level)
    page = {
        "agent": found,
        "level": level,
        "sees": sees(level),
        "does": does(level),
        "acceptance": acceptance_of(found),
        "bars": tokens_per_day(agent=found),
        "used_today": tokens_used_today(agent=found),
        "runs": _runs(found, request.access),
        **_soul(request, found),
        **_memory(found, request.access),
        "proposals": proposals_of(found.participant, request.access),
    }
    return render(request, "agents/_agent.html" if request.htmx else "agents/agent.html", page)


@in_workspace
def view_as(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """The channels and threads this agent sees, as far as the asker sees them too."""
    found = _agent(request, handle)
    theirs = Thread.objects.visible_to(visible_to(found)).outside_dives().filter(channel__archived_at=None)
    both = theirs.filter(pk__in=Thread.objects.visible_to(request.access))
    threads = list(both.select_related("channel").order_by("channel__name", "-last_message_at")[:500])
    page = {"agent": found, "threads": threads, "hidden": theirs.count() - both.count()}
    return render(request, "agents/view_as.html", page)


@in_workspace
def view_thread_as(request: WorkspaceRequest, handle: str, thread_id: int) -> HttpResponse:
    """The newest messages of a thread exactly as the agent's level shows them."""
    found = _agent(request, handle)
    seen = Thread.objects.visible_to(request.access)
    thread = seen.select_related("channel").filter(pk=thread_id).first()
    if thread is None:
        raise Missing
    rows = Message.objects.visible_to(visible_to(found)).filter(thread=thread)
    newest = list(rows.select_related("author").order_by("-seq")[:50])[::-1]
    page = {
        "agent": found,
        "thread": thread,
        "entries": [(message, render_markdown(message.body)) for message in newest],
        "is_visible": Thread.objects.visible_to(visible_to(found)).filter(pk=thread.pk).exists(),
    }
    return render(request, "agents/view_thread_as.html", page)


def _agent(request: WorkspaceRequest, handle: str) -> Agent:
    found = (
        Agent.objects.filter(workspace=request.workspace, participant__handle=handle)
        .select_related("participant", "workspace", "soul", "endpoint")
        .first()
    )
    if found is None or (request.access.is_guest and found.participant not in participants_known_to(request.access)):
        raise Missing
    return found


def _soul(request: WorkspaceRequest, agent: Agent) -> dict[str, Any]:
    """The SOUL in words, its versions, and the difference between two of them when asked for."""
    versions = list(agent.soul_versions.select_related("author").defer("source", "content")[:100])
    sections = render_soul(soul_from_dict(agent.soul.content), "dive") if agent.soul else ()
    one, other = request.GET.get("from", ""), request.GET.get("to", "")
    return {
        "soul_sections": sections,
        "versions": versions,
        "from_number": one,
        "to_number": other,
        "changes": changes_between(agent, one, other) if one and other else None,
    }


def changes_between(agent: Agent, one: str, other: str) -> list[Change]:
    """What changed between two versions, by number. Raises Missing for numbers that are not versions of it."""
    numbers = [int(number) for number in (one, other) if number.isdecimal() and len(number) < 9]
    found = {v.number: v for v in SoulVersion.objects.filter(agent=agent, number__in=numbers)}
    if len(numbers) != 2 or not all(number in found for number in numbers):
        raise Missing
    before, after = (soul_from_dict(found[number].content) for number in numbers)
    return diff_souls(before, after)


def _memory(agent: Agent, access: Access) -> dict[str, Any]:
    """Blocks and notes, open feedback with the five newest marked as in use, and other episodes: what the asker may
    read of them."""
    own = Episode.objects.of(agent.participant_id)
    in_use = set(own.open_feedback().values_list("pk", flat=True)[:IN_USE])
    threads = Thread.objects.visible_to(access)
    readable = own.filter(thread__in=threads) | own.filter(thread=None)
    rows = list(readable.select_related("applied_by", "feedback__participant", "thread").order_by("-created_at")[:50])
    return {
        **blocks_of(agent.participant, access),
        **notes_of(agent.participant, access),
        "episodes": [
            {
                "episode": row,
                "in_use": row.pk in in_use,
                "is_open": row.kind == Episode.Kind.FEEDBACK_RECEIVED and row.applied_at is None,
                "fate": fate_words(row) if row.kind == Episode.Kind.FEEDBACK_RECEIVED else "",
                "may_settle": access.administers
                or (row.feedback is not None and row.feedback.participant_id == access.participant_id),
            }
            for row in rows
        ],
        "episodes_hidden": own.count() - readable.count(),
    }


def _runs(agent: Agent, access: Access) -> list[Run]:
    runs = Run.objects.visible_to(access).filter(agent=agent)
    return list(runs.select_related("thread", "requested_by", "snapshot").order_by("-id")[:SHOWN])
