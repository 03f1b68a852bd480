"""An agent's page."""

from collections import defaultdict
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django import forms
from django.core.paginator import Page, Paginator
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render

from agents.agent.models import Agent, Run, SoulVersion
from agents.agent.soul import FieldDiff, diff_souls, render_soul
from agents.agent.soul.parser import soul_from_dict
from agents.agent.token_budgets import tokens_used_today
from agents.agent.trust import trust_level
from agents.prompts.assembler.sections.episodes import MAX_FEEDBACK_ITEMS
from agents.runs.external.presence import read_presences
from agents.statistics.cache_rates import agent_cache
from agents.statistics.statistics import agent_acceptance, agent_charts, tokens_per_day
from agents.watching.queries import count_looks
from agents.web.access import access_agent
from memory.models import Episode
from memory.queries import blocks_context, list_proposals, newest_open_feedback, notes_context, status_label
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing
from openvibe.chat.models import Channel
from openvibe.chat.queries import visible_threads
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

MAX_RUNS, VERSIONS_ON_A_PAGE, EPISODES_ON_A_PAGE, MAX_CHANNELS = 20, 50, 50, 8


@workspace_view
def agent_detail(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """SOUL, level, memory, usage and runs. Everything learned or said where the asker may not read is left out. Guests
    are shown who it is and what it may do: neither the SOUL's words nor its versions, and no blocks."""
    agent = access_agent(request, handle)
    page = {
        "agent": agent,
        "level": trust_level(agent.level),
        "acceptance": agent_acceptance(agent),
        "charts": agent_charts(agent, tokens_per_day(agent=agent)),
        "used_today": tokens_used_today(agent=agent),
        "looks": count_looks(agent, request.access),
        "cache": agent_cache(agent, request.access),
        **_channels_context(request.access, agent),
        **_runs_context(request, agent),
        **_soul_context(request, agent),
        **_memory_context(request, agent),
        "presence": read_presences([agent], request.access)[agent.pk],
        "proposals": list_proposals(agent.participant, request.access),
    }
    return render(request, "agents/_agent.html" if request.htmx else "agents/agent.html", page)


def _channels_context(access: Access, agent: Agent) -> dict[str, Any]:
    """The channels that it is in, as far as the asker sees them. One query, two where there are many."""
    channels = Channel.objects.visible_to(access).filter(
        archived_at=None, pk__in=agent.participant.channels.values("pk")
    )
    channels = channels.exclude(name="").order_by("name")
    rows = list(channels[: MAX_CHANNELS + 1])
    more = channels.count() - MAX_CHANNELS if len(rows) > MAX_CHANNELS else 0
    return {"channels": rows[:MAX_CHANNELS], "more_channels": more}


class RunsForm(forms.Form):
    """The filter of which runs to list. `before` is the id of the last one of the page before."""

    state = forms.ChoiceField(choices=[("", "any state"), *Run.State.choices], required=False, label="State")
    task = forms.ChoiceField(choices=[("", "any task"), *Run.Task.choices], required=False, label="Task")
    before = forms.IntegerField(required=False, min_value=1, max_value=MAX_ID, widget=forms.HiddenInput)


def _runs_context(request: WorkspaceRequest, agent: Agent) -> dict[str, Any]:
    """A page of the runs in threads the asker sees, newest first, and its filters. What is no filter is ignored."""
    form = RunsForm(request.GET)
    form.is_valid()
    state, task, before = (form.cleaned_data.get(name) for name in ("state", "task", "before"))
    filters = {"state": state, "task": task, "pk__lt": before}
    runs = Run.objects.visible_to(request.access).filter(agent=agent, **{k: v for k, v in filters.items() if v})
    rows = list(runs.select_related("thread", "requested_by").defer("steps").order_by("-id")[: MAX_RUNS + 1])
    older = {"state": state or "", "task": task or "", "before": rows[MAX_RUNS - 1].pk} if len(rows) > MAX_RUNS else {}
    return {
        "runs": rows[:MAX_RUNS],
        "runs_form": form,
        "older_runs": urlencode(older),
        "is_filtered": bool(state or task or before),
    }


def _soul_context(request: WorkspaceRequest, agent: Agent) -> dict[str, Any]:
    """The agent's identity; for members also the SOUL in words, its versions, and the difference between two of them
    when asked for."""
    soul = soul_from_dict(agent.soul.content) if agent.soul else None
    if request.access.is_guest:
        return {"soul": soul}
    before, after = request.GET.get("from", ""), request.GET.get("to", "")
    page = _soul_versions(request, agent)
    return {
        "soul": soul,
        "soul_sections": render_soul(soul, "dive") if soul else (),
        "versions": _version_rows(agent, request.access, page),
        "versions_page": page,
        "from_number": before,
        "to_number": after,
        "changes": _soul_changes(agent, before, after) if before and after else None,
    }


FEEDBACK_OF_VERSION = ("feedback__message_id", "feedback__participant__name")


class AppliedFeedback(NamedTuple):
    message_id: int
    giver: str


class VersionRow(NamedTuple):
    """A version of the SOUL, and the feedback it applied."""

    version: SoulVersion
    feedback: list[AppliedFeedback]


def _soul_versions(request: WorkspaceRequest, agent: Agent) -> Page[SoulVersion]:
    """A page of them, the newest first."""
    versions = agent.soul_versions.select_related("author").defer("source", "content")
    return Paginator(versions, VERSIONS_ON_A_PAGE).get_page(request.GET.get("versions"))


def _version_rows(agent: Agent, access: Access, versions: Page[SoulVersion]) -> list[VersionRow]:
    """The versions with the feedback that the asker may read."""
    applied_feedback = Episode.objects.filter(visible_threads(access, "thread__"), agent=agent.participant_id)
    applied_feedback = applied_feedback.filter(soul_version__in=[version.number for version in versions])
    applied_feedback = applied_feedback.exclude(feedback=None).order_by("pk")
    by_version: defaultdict[int, list[AppliedFeedback]] = defaultdict(list)
    for number, message_id, giver in applied_feedback.values_list("soul_version", *FEEDBACK_OF_VERSION):
        by_version[number or 0].append(AppliedFeedback(message_id, giver))
    return [VersionRow(version, by_version[version.number]) for version in versions]


def _soul_changes(agent: Agent, from_number: str, to_number: str) -> list[FieldDiff]:
    """What changed between two versions, by number. Raises Missing for numbers that are not versions of it."""
    numbers = [int(number) for number in (from_number, to_number) if number.isdecimal() and len(number) < 9]
    souls = dict(agent.soul_versions.filter(number__in=numbers).values_list("number", "content"))
    if len(numbers) != 2 or not all(number in souls for number in numbers):
        raise Missing
    before, after = (soul_from_dict(souls[number]) for number in numbers)
    return diff_souls(before, after)


def _memory_context(request: WorkspaceRequest, agent: Agent) -> dict[str, Any]:
    """Blocks and notes, the oldest feedback suggested for the SOUL, the five newest of open feedback, which are in use,
    and a page of other episodes: what the asker may read of them."""
    access = request.access
    episodes = Episode.objects.of(agent.participant_id)
    in_use = newest_open_feedback(agent.participant, MAX_FEEDBACK_ITEMS)
    readable = episodes.filter(visible_threads(access, "thread__") | Q(thread=None))
    related = readable.select_related("applied_by", "feedback__participant", "thread").order_by("-created_at", "-pk")
    suggested, others = (
        related.exclude(suggested_at=None).order_by("suggested_at", "pk"),
        related.filter(suggested_at=None),
    )
    suggested_page = Paginator(suggested, EPISODES_ON_A_PAGE).get_page(1)
    page = Paginator(others.exclude(pk__in=in_use), EPISODES_ON_A_PAGE).get_page(request.GET.get("episodes"))
    return {
        **({} if access.is_guest else blocks_context(agent.participant, access)),
        **notes_context(agent.participant, access),
        "episodes_suggested": [_episode_row(row, access, row.pk in in_use) for row in suggested_page],
        "suggested_page": suggested_page,
        "episodes_in_use": [_episode_row(row, access, True) for row in others.filter(pk__in=in_use)],
        "episodes": [_episode_row(row, access, False) for row in page],
        "episodes_page": page,
        "episodes_hidden": episodes.count() - readable.count(),
    }


def _episode_row(row: Episode, access: Access, in_use: bool) -> dict[str, Any]:
    is_feedback = row.kind == Episode.Kind.FEEDBACK_RECEIVED
    is_open = is_feedback and row.applied_at is None
    is_giver = row.feedback is not None and row.feedback.participant_id == access.participant_id
    return {
        "episode": row,
        "message_id": row.feedback.message_id if row.feedback else None,
        "in_use": in_use,
        "is_open": is_open,
        "fate": status_label(row) if is_feedback else "",
        "may_settle": access.administers or is_giver,
        "may_suggest": is_open and is_giver and not row.suggested_at,
    }
