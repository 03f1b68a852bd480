"""The daily token budgets of agents, channels and workspaces: what was used today, and whether some is left."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any

from django.db.models import F, QuerySet, Sum

from agents.agent.models import Agent, Run
from openvibe.base.problems import Problem
from openvibe.chat.queries import ChannelBudget, channel_budget
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.workspaces.models import Spending, Workspace

TOTAL_TOKENS = F("input_tokens") + F("output_tokens")


@dataclass(frozen=True)
class ReplyDenial:
    """The reason why an agent may not answer, as the end of a sentence. Not `is_notified`: it does not even hear of the
    thread."""

    reason: str
    is_notified: bool = True


@dataclass(frozen=True)
class TokensUsed:
    """Tokens (input and output) of one workspace since midnight UTC: of runs, and of what models were asked in the
    background. By participant id of the agent, under 0 what counts against none; and by channel id."""

    by_agent: Mapping[int, int]
    by_channel: Mapping[int, int]

    @property
    def total(self) -> int:
        return sum(self.by_agent.values())


def tokens_used_today(*, agent: Agent | None = None, workspace_id: int = 0) -> int:
    """Tokens used since midnight UTC, by one agent or in a whole workspace."""
    used = read_tokens_used(agent.workspace_id if agent else workspace_id)
    return used.by_agent.get(agent.participant_id, 0) if agent else used.total


def read_tokens_used(workspace_id: int) -> TokensUsed:
    """What was used today in a workspace. One query."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    by_agent: dict[int, int] = defaultdict(int)
    by_channel: dict[int, int] = defaultdict(int)
    for participant_id, channel_id, tokens in _tokens_since.rows(workspace_id, now=midnight):
        by_agent[participant_id or 0] += int(tokens)
        if channel_id is not None:
            by_channel[channel_id] += int(tokens)
    return TokensUsed(by_agent, by_channel)


@CompiledQuery
def _tokens_since(workspace_id: int) -> QuerySet[Any, Any]:
    runs, background = token_rows(None, [workspace_id])
    total, now = Sum(TOTAL_TOKENS), datetime.now(UTC)
    of_runs = runs.filter(queued_at__gte=now).order_by().values_list("agent__participant_id", "thread__channel_id")
    of_calls = background.filter(created_at__gte=now).order_by().values_list("agent_id", "channel_id")
    return of_runs.annotate(total=total).union(of_calls.annotate(total=total), all=True)


def token_rows(agent: Agent | None, workspace_ids: list[int]) -> tuple[QuerySet[Run], QuerySet[Spending]]:
    """The rows that say which tokens an agent, or without one these workspaces, used: runs, and background calls.

    What costs nothing is not among them.
    """
    runs = Run.objects.filter(is_free=False)
    if agent is not None:
        return runs.filter(agent=agent), Spending.objects.filter(agent=agent.participant_id)
    return runs.filter(workspace__in=workspace_ids), Spending.objects.filter(workspace__in=workspace_ids)


def budget_denial(agent: Agent, used: TokensUsed, budget: ChannelBudget | None = None) -> ReplyDenial | None:
    """What keeps an agent whose model costs something from using more tokens today, in the channel of this budget."""
    if used.by_agent.get(agent.participant_id, 0) >= agent.daily_token_budget:
        return ReplyDenial("its token budget for today is used up. It starts afresh at midnight UTC.")
    if _channel_rest(budget, used) <= 0:
        place = budget.place if budget else ""
        return ReplyDenial(f"the token budget of {place} for today is used up. It starts afresh at midnight UTC.")
    if used.total >= agent.workspace.daily_token_budget:
        return ReplyDenial("the workspace's token budget for today is used up, until midnight UTC.")
    return None


def check_budgets_left(agent: Agent, channel_id: int) -> int:
    """Tokens left of the budgets of today, the agent's, the channel's as it is now, and the workspace's, to an agent
    that is answering there.

    Raises Problem once one of them is used up: by this run, or by others meanwhile.
    """
    used = read_tokens_used(agent.workspace_id)
    budget = channel_budget(channel_id)
    if denial := budget_denial(agent, used, budget):
        raise Problem(f"@{agent.handle} did not go on: {denial.reason}", code="budget_used_up")
    return _smallest_rest(used, agent.workspace.daily_token_budget, agent, budget)


def tokens_left(workspace_id: int, participant_id: int | None = None, channel_id: int | None = None) -> int:
    """Tokens that may still be used today: of the workspace's budget, and of the agent's and the channel's where one is
    named. Not below 0."""
    workspace_budget = Workspace.objects.values_list("daily_token_budget", flat=True).get(pk=workspace_id)
    agent = Agent.objects.filter(participant=participant_id).first() if participant_id is not None else None
    budget = channel_budget(channel_id) if channel_id is not None else None
    return max(_smallest_rest(read_tokens_used(workspace_id), workspace_budget, agent, budget), 0)


def _channel_rest(budget: ChannelBudget | None, used: TokensUsed) -> float:
    """What is left of a channel's budget; endless where it has none."""
    return inf if budget is None or budget.tokens is None else budget.tokens - used.by_channel.get(budget.channel_id, 0)


def _smallest_rest(used: TokensUsed, workspace_budget: int, agent: Agent | None, budget: ChannelBudget | None) -> int:
    """What is left of the workspace's, the agent's or the channel's budget, whichever is least; below 0 where more was
    used."""
    rests = [workspace_budget - used.total, _channel_rest(budget, used)]
    if agent is not None:
        rests.append(agent.daily_token_budget - used.by_agent.get(agent.participant_id, 0))
    return int(min(rests))
