"""Whether agents can be given prompts with settings that are about to be saved: what always stands in one has to fit.

Tools and what is not required are not counted: they are left out where room is short."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils import timezone

from agents.agent.access import endpoint_for, fallback_for, visible_to
from agents.agent.models import Agent
from agents.agent.soul import TaskType
from agents.prompts.assembler.assemble import OFFLINE_MODEL, basic_candidates, needed_tokens
from agents.prompts.assembler.sections import identity, situation
from agents.prompts.assembler.sections.request import PromptRequest, RequestMessage, ThreadContext
from agents.prompts.assembler.stack import BUDGETS, MIN_REQUEST_TOKENS, bounded_by_window, with_stored_overrides
from openvibe.base.problems import Problem
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.tokens import counter_for
from openvibe.workspaces.models import Workspace
from openvibe.workspaces.queries import SnippetText, read_snippets

PART_NAMES = {"soul": "its SOUL", "policy": "the built-in policy", "instructions": "the instructions"}
"""What people can shorten or take away, as messages name it."""


def check_workspace(workspace: Workspace) -> None:
    """Raises Problem when some agent could not be given a prompt with the instructions and budgets of this workspace,
    which need not be saved yet."""
    endpoints = {endpoint.pk: endpoint for endpoint in Endpoint.objects.filter(workspace=workspace.pk)}
    default = next((endpoint for endpoint in endpoints.values() if endpoint.is_default), None)
    stand_in = next((endpoint for endpoint in endpoints.values() if endpoint.is_fallback), None)
    for agent in _active_agents(workspace.pk):
        _check_prompts(agent, workspace, agent.endpoint or default)
        if fallback := endpoints.get(agent.fallback_id or 0, stand_in):
            _check_prompts(agent, workspace, fallback)


def check_agent(agent: Agent) -> None:
    """Raises Problem when the agent could not be given a prompt with its SOUL and endpoint, saved or not."""
    endpoint = endpoint_for(agent)
    _check_prompts(agent, agent.workspace, endpoint)
    if (fallback := agent.fallback or fallback_for(agent, endpoint)) is not None:
        _check_prompts(agent, agent.workspace, fallback)


def check_endpoint(endpoint: Endpoint) -> None:
    """Raises Problem when an agent that would answer through this endpoint could not be given a prompt. It need not be
    saved yet."""
    if endpoint.context_window <= endpoint.output_reserve:
        return  # refused for that already
    for agent in _active_agents(endpoint.workspace_id):
        is_own = agent.endpoint_id is not None and agent.endpoint_id == endpoint.pk
        is_fallback = agent.fallback_id is not None and agent.fallback_id == endpoint.pk
        is_fallback = is_fallback or (agent.fallback_id is None and endpoint.is_fallback)
        if is_own or is_fallback or (agent.endpoint_id is None and endpoint.is_default):
            _check_prompts(agent, agent.workspace, endpoint)


def _active_agents(workspace_id: int) -> Iterable[Agent]:
    agents = Agent.objects.filter(workspace=workspace_id, deactivated_at=None, soul__isnull=False)
    return agents.select_related("participant", "workspace", "soul", "endpoint").order_by("pk")


def _check_prompts(agent: Agent, workspace: Workspace, endpoint: Endpoint | None) -> None:
    snippets = read_snippets(workspace.pk)
    for task in BUDGETS:
        _check_prompt(_empty_request(agent, workspace, endpoint, task, snippets), endpoint)


def _check_prompt(request: PromptRequest, endpoint: Endpoint | None) -> None:
    candidates = [*basic_candidates(request), situation.situation_candidates(request)]
    needed, ceiling = needed_tokens(request, candidates), request.budget.ceiling
    if needed <= ceiling:
        return
    sizes = {
        name: sum(group.tokens for each in candidates for group in each.groups if each.section == section)
        for section, name in PART_NAMES.items()
    }
    parts = ", ".join(f"{name} {tokens:,}" for name, tokens in sizes.items() if tokens)
    limited_by_model = request.budget.max_ceiling is not None and request.budget.max_ceiling <= ceiling
    where = f"the window of “{endpoint}” leaves" if limited_by_model else "the budget has"
    remedy = "choose a model with a larger window" if limited_by_model else f"raise the ceiling for {request.task}"
    raise Problem(
        f"With this, @{request.agent.handle} could not be given a prompt ({request.task}): it needs {needed:,} tokens "
        f"({parts}, the request at least {MIN_REQUEST_TOKENS:,}), but {where} only {ceiling:,}. Shorten them, or "
        f"{remedy}. Nothing was saved.",
        code="prompt_too_large",
    )


def _empty_request(
    agent: Agent, workspace: Workspace, endpoint: Endpoint | None, task: TaskType, snippets: tuple[SnippetText, ...]
) -> PromptRequest:
    """A request in a thread in which nothing was said."""
    stored: Mapping[str, Any] = workspace.budgets if isinstance(workspace.budgets, dict) else {}
    budget = with_stored_overrides(BUDGETS[task], stored.get(task))
    if endpoint is not None:
        budget = bounded_by_window(budget, endpoint.usable_window, endpoint.usable_reserve)
    thread = ThreadContext(0, "", "", 0, "", "", "", workspace.name, "", workspace.instructions, workspace.budgets)
    return PromptRequest(
        agent=agent,
        access=visible_to(agent),
        thread=thread,
        task=task,
        message=RequestMessage("", agent.participant, timezone.now()),
        counter=counter_for(endpoint.model, endpoint.token_factor)
        if endpoint and endpoint.model
        else counter_for(OFFLINE_MODEL),
        budget=budget,
        reads={identity.included_snippets: snippets},
    )
