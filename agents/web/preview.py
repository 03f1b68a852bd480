"""What an agent would read, told before a message is sent."""

from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render

from agents.assembler.assemble import assemble
from agents.assembler.fit import RequiredPartsTooLarge
from agents.assembler.viewing import view_of_prompt
from agents.models import Agent
from agents.tools.toolbox import Toolbox
from agents.visibility import why_silent
from agents.web.viewer import OF_RUNS, TABS, shown
from openvibe.base.problems import Missing, Problem
from openvibe.chat.markdown import mentioned_handles
from openvibe.chat.models import Dive, Draft, Thread
from openvibe.chat.web.numbers import LARGEST_ID
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

AT_MOST = 3
"""Agents previewed for one message; assembling a prompt is not free."""
LONGEST = 20_000
"""Characters of unsent text that a preview looks at."""


@dataclass(frozen=True)
class Outlook:
    """What one agent would do with the message: read so many tokens, or stay silent for a reason."""

    name: str
    handle: str
    level: int
    tokens: int = 0
    ceiling: int = 0
    silence: str = ""


@in_workspace
def context_preview(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """One line for each agent that the text in `?text=` would call."""
    thread = _thread(request, thread_id)
    text = request.GET.get("text", "").replace("\x00", "")[:LONGEST]
    called = _called(thread, text)
    outlooks = [_outlook(request, agent, thread, text, task) for agent, task in called[:AT_MOST]]
    page = {"outlooks": outlooks, "thread": thread, "more": max(len(called) - AT_MOST, 0)}
    return render(request, "agents/_preview.html" if request.htmx else "agents/preview.html", page)


@in_workspace
def full_preview(request: WorkspaceRequest, thread_id: int, handle: str, tab: str = "sections") -> HttpResponse:
    """The viewer for a message not sent yet: the asker's stored draft, or the thread as it stands."""
    thread = _thread(request, thread_id)
    agent = _agents(thread).filter(participant__handle=handle).first()
    tabs = tuple(pair for pair in TABS if pair[0] not in OF_RUNS)
    if agent is None or tab not in dict(tabs):
        raise Missing
    draft = Draft.objects.filter(thread=thread, participant_id=request.member.participant_id).first()
    text = draft.body if draft else ""
    otherwise = "mention" if thread.parent_id is None else "dive"
    task = next((task for called, task in _called(thread, text) if called.pk == agent.pk), otherwise)
    page = {"agent": agent, "thread": thread, "tab": tab, "tabs": tabs, "silence": why_silent(agent, thread, task)}
    if not page["silence"]:
        prompt = assemble(
            agent=agent, thread=thread, task=task, request=text or None, asked_by=request.member.participant,
            tools=Toolbox.of(agent, thread).specs,
        )  # fmt: skip
        view = view_of_prompt(prompt, request.access)
        page |= {"view": view, "soul_number": prompt.soul_number} | shown(view, tab)
    return render(request, "agents/_context.html" if request.htmx else "agents/context.html", page)


def _thread(request: WorkspaceRequest, thread_id: int) -> Thread:
    threads = Thread.objects.visible_to(request.access)
    thread: Thread | None = threads.select_related("workspace", "channel").filter(pk=thread_id).first()
    if thread is None:
        raise Missing
    return thread


def _agents(thread: Thread) -> QuerySet[Agent]:
    return Agent.objects.filter(workspace_id=thread.workspace_id).select_related(
        "participant", "workspace", "soul", "endpoint"
    )


def _called(thread: Thread, text: str) -> list[tuple[Agent, str]]:
    """Agents the text names, then those that follow the thread, each with its task type; in a dive its agent."""
    if thread.parent_id is not None:
        return [(agent, "dive") for agent in _agents(thread).filter(participant=thread.dive.agent_id)]
    handles = mentioned_handles(text)
    following = list(thread.following_agents.values_list("handle", flat=True))
    wanted = list(dict.fromkeys([*handles, *following]))
    if not wanted:
        return []
    found = {agent.handle: agent for agent in _agents(thread).filter(participant__handle__in=wanted)}
    return [(found[h], "mention" if h in handles else "thread") for h in wanted if h in found]


@in_workspace
def dive_budget(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """How much of its budget the next prompt of a dive would take, or why its agent would stay silent."""
    dive = Dive.objects.filter(pk=min(dive_id, LARGEST_ID)).first()
    thread = _thread(request, dive.thread_id if dive else 0)
    outlooks = [_outlook(request, agent, thread, "", task) for agent, task in _called(thread, "")]
    return render(request, "agents/_budget.html", {"thread": thread, "outlook": next(iter(outlooks), None)})


def _outlook(request: WorkspaceRequest, agent: Agent, thread: Thread, text: str, task: str) -> Outlook:
    silence = why_silent(agent, thread, task)
    tokens = ceiling = 0
    if silence is None:
        try:
            prompt = assemble(
                agent=agent, thread=thread, task=task, request=text or None, asked_by=request.member.participant,
                tools=Toolbox.of(agent, thread).specs,
            )  # fmt: skip
            tokens, ceiling = prompt.tokens, prompt.ceiling
        except (Problem, RequiredPartsTooLarge) as problem:
            silence = str(problem)
    return Outlook(agent.participant.name, agent.handle, agent.level, tokens, ceiling, silence or "")
