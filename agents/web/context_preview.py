"""What an agent would read: for a message not sent yet, of a thread as it stands, in a dive's next prompt."""

from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render

from agents.agent.access import model_takes_tools
from agents.agent.models import Agent
from agents.agent.permissions import reply_denied_reason
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.prompts.assembler.fit import RequiredPartsTooLarge
from agents.prompts.snapshots.redaction import view_of_prompt
from agents.tools.toolbox import Toolbox
from agents.web.context_viewer import PREVIEW_TABS, viewer_values, work_links
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Draft, Thread
from openvibe.chat.queries import access_dive, access_thread, participants_nameable_by
from openvibe.engines.text.mentions import mentioned_handles
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

MAX_AGENTS = 3
"""Agents previewed for one message; assembling a prompt is not free."""
MAX_TEXT_CHARACTERS = 20_000
"""Characters of unsent text that a preview looks at."""


@dataclass(frozen=True)
class AgentPreview:
    """What one agent would do with the message: read so many tokens, or not answer for a reason."""

    agent: Agent
    tokens: int = 0
    ceiling: int = 0
    denied_reason: str = ""


@workspace_view
def context_preview(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """One line for each agent that the text in `?text=` would call."""
    thread = access_thread(request.access, thread_id)
    text = request.GET.get("text", "").replace("\x00", "")[:MAX_TEXT_CHARACTERS]
    addressed_agents = _addressed_agents(request.access, thread, text)
    previews = [_preview_agent(request, agent, thread, text, task) for agent, task in addressed_agents[:MAX_AGENTS]]
    page = {"previews": previews, "thread": thread, "more": max(len(addressed_agents) - MAX_AGENTS, 0)}
    return render(request, "agents/_preview.html" if request.htmx else "agents/preview.html", page)


@workspace_view
def full_preview(request: WorkspaceRequest, thread_id: int, handle: str, tab: str = "sections") -> HttpResponse:
    """The viewer for a message not sent yet: the asker's stored draft, or the thread as it stands."""
    thread = access_thread(request.access, thread_id)
    agent = _nameable_agents(request.access, thread).filter(participant__handle=handle).first()
    if agent is None or tab not in dict(PREVIEW_TABS):
        raise Missing
    draft = Draft.objects.filter(thread=thread, participant_id=request.member.participant_id).first()
    text = draft.body if draft else ""
    default_task = "mention" if thread.parent_id is None else "dive"
    task = next(
        (
            task
            for addressed_agent, task in _addressed_agents(request.access, thread, text)
            if addressed_agent.pk == agent.pk
        ),
        default_task,
    )
    denied_reason = reply_denied_reason(agent, thread, task)
    page = {"agent": agent, "thread": thread, "tab": tab, "tabs": PREVIEW_TABS, "denied_reason": denied_reason}
    if denied_reason is None:
        prompt = _assemble_preview(request, agent, thread, text, task)
        view = view_of_prompt(prompt, request.access)
        page |= {"view": view, "soul_number": prompt.soul_number} | viewer_values(view, tab)
        page["work_links"] = work_links(request, view, tab)
    return render(request, "agents/_context.html" if request.htmx else "agents/context.html", page)


def _workspace_agents(thread: Thread) -> QuerySet[Agent]:
    agents = Agent.objects.filter(workspace_id=thread.workspace_id)
    return agents.select_related("participant", "workspace", "soul", "endpoint")


def _nameable_agents(access: Access, thread: Thread) -> QuerySet[Agent]:
    """Those that the asker may name there. Members are told of deactivated ones, too, why they do not answer."""
    agents = _workspace_agents(thread)
    if not access.is_guest:
        return agents
    return agents.filter(participant__in=participants_nameable_by(access, thread).order_by().values("pk"))


def _addressed_agents(access: Access, thread: Thread, text: str) -> list[tuple[Agent, str]]:
    """Agents the text names, then those that follow the thread, each with its task type; in a dive its agent."""
    if thread.parent_id is not None:
        return [(agent, "dive") for agent in _workspace_agents(thread).filter(participant=thread.dive.agent_id)]
    handles = mentioned_handles(text)
    following = list(thread.following_agents.values_list("handle", flat=True))
    all_handles = list(dict.fromkeys([*handles, *following]))
    if not all_handles:
        return []
    rows = _nameable_agents(access, thread).filter(participant__handle__in=all_handles)
    agents = {agent.handle: agent for agent in rows}
    return [(agents[h], "mention" if h in handles else "thread") for h in all_handles if h in agents]


@workspace_view
def dive_budget(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """How much of its budget the next prompt of a dive would take, or why its agent would not answer."""
    thread = access_dive(request.access, dive_id).thread
    previews = [
        _preview_agent(request, agent, thread, "", task)
        for agent, task in _addressed_agents(request.access, thread, "")
    ]
    return render(request, "agents/_budget.html", {"thread": thread, "preview": next(iter(previews), None)})


def _preview_agent(request: WorkspaceRequest, agent: Agent, thread: Thread, text: str, task: str) -> AgentPreview:
    denied_reason = reply_denied_reason(agent, thread, task)
    if denied_reason is not None:
        return AgentPreview(agent, denied_reason=denied_reason)
    try:
        prompt = _assemble_preview(request, agent, thread, text, task)
    except (Problem, RequiredPartsTooLarge) as problem:
        return AgentPreview(agent, denied_reason=str(problem))
    return AgentPreview(agent, prompt.tokens, prompt.ceiling)


def _assemble_preview(request: WorkspaceRequest, agent: Agent, thread: Thread, text: str, task: str) -> Prompt:
    return assemble(
        agent=agent,
        thread=thread,
        task=task,
        request=text or None,
        asked_by=request.member.participant,
        tools=Toolbox.for_agent(agent, thread).offered_specs if model_takes_tools(agent) else (),
    )
