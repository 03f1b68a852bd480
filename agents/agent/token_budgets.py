"""The daily token budgets of agents and workspaces: which tokens were used today, and whether some are left."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import F, QuerySet, Sum

from agents.agent.models import Agent, Run
from openvibe.base.problems import Problem
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.workspaces.models import Spending, Workspace

TOTAL_TOKENS = F("input_tokens") + F("output_tokens")


@dataclass(frozen=True)
class ReplyDenial:
    """The reason why an agent may not answer, as the end of a sentence. Not `is_notified`: it does not even hear of the
    thread."""

    reason: str
    is_notified: bool = True


def tokens_used_today(*, agent: Agent | None = None, workspace_id: int = 0) -> int:
    """Tokens (input and output) used since midnight UTC, by one agent or in a whole workspace: of runs, and of what
    models were asked in the background."""
    tokens_by_agent = tokens_used_by_agent(agent.workspace_id if agent else workspace_id)
    return tokens_by_agent.get(agent.participant_id, 0) if agent else sum(tokens_by_agent.values())


def tokens_used_by_agent(workspace_id: int) -> dict[int, int]:
    """The same of each agent of a workspace, by participant id; under 0 what counts against no agent. One query."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    tokens_by_agent: dict[int, int] = defaultdict(int)
    for participant_id, tokens in _agent_tokens_since.rows(workspace_id, now=midnight):
        tokens_by_agent[participant_id or 0] += int(tokens)
    return tokens_by_agent


@CompiledQuery
def _agent_tokens_since(workspace_id: int) -> QuerySet[Any, Any]:
    runs, background = token_rows(None, [workspace_id])
    total, now = Sum(TOTAL_TOKENS), datetime.now(UTC)
    of_runs = runs.filter(queued_at__gte=now).order_by().values_list("agent__participant_id").annotate(total=total)
    of_calls = background.filter(created_at__gte=now).order_by().values_list("agent_id").annotate(total=total)
    return of_runs.union(of_calls, all=True)


def token_rows(agent: Agent | None, workspace_ids: list[int]) -> tuple[QuerySet[Run], QuerySet[Spending]]:
    """The rows that say which tokens an agent, or without one these workspaces, used: runs, and background calls.

    What costs nothing is not among them.
    """
    runs = Run.objects.filter(is_free=False)
    if agent is not None:
        return runs.filter(agent=agent), Spending.objects.filter(agent=agent.participant_id)
    return runs.filter(workspace__in=workspace_ids), Spending.objects.filter(workspace__in=workspace_ids)


def budget_denial(agent: Agent, tokens_by_agent: Mapping[int, int]) -> ReplyDenial | None:
    """What keeps an agent whose model costs something from using more tokens today. `tokens_by_agent`: as
    `tokens_used_by_agent` gives them."""
    if tokens_by_agent.get(agent.participant_id, 0) >= agent.daily_token_budget:
        return ReplyDenial("its token budget for today is used up. It starts afresh at midnight UTC.")
    if sum(tokens_by_agent.values()) >= agent.workspace.daily_token_budget:
        return ReplyDenial("the workspace's token budget for today is used up, until midnight UTC.")
    return None


def check_budgets_left(agent: Agent) -> int:
    """Tokens left of the budgets of today, the agent's and the workspace's, to an agent that is answering.

    Raises Problem once one of them is used up: by this run, or by others meanwhile.
    """
    tokens_by_agent = tokens_used_by_agent(agent.workspace_id)
    if denial := budget_denial(agent, tokens_by_agent):
        raise Problem(f"@{agent.handle} did not go on: {denial.reason}", code="budget_used_up")
    return _smaller_rest(tokens_by_agent, agent.workspace.daily_token_budget, agent)


def tokens_left(workspace_id: int, participant_id: int | None = None) -> int:
    """Tokens that may still be used today: of the workspace's budget, and of the agent's where one is named. Not below
    0."""
    workspace_budget = Workspace.objects.values_list("daily_token_budget", flat=True).get(pk=workspace_id)
    agent = Agent.objects.filter(participant=participant_id).first() if participant_id is not None else None
    return max(_smaller_rest(tokens_used_by_agent(workspace_id), workspace_budget, agent), 0)


def _smaller_rest(tokens_by_agent: Mapping[int, int], workspace_budget: int, agent: Agent | None) -> int:
    """What is left of the workspace's budget or of the agent's, whichever is less; below 0 where more was used."""
    rests = [workspace_budget - sum(tokens_by_agent.values())]
    if agent is not None:
        rests.append(agent.daily_token_budget - tokens_by_agent.get(agent.participant_id, 0))
    return min(rests)
