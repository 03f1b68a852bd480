"""The budgets page, for owners and admins: what was spent against the caps, and the caps."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from agents.agent.models import Agent
from agents.agent.services import MAX_DAILY_TOKENS, update_daily_budgets
from agents.agent.token_budgets import token_rows
from agents.statistics.statistics import PERIOD_DAYS, sum_tokens
from openvibe.base.forms import ServiceForm
from openvibe.base.problems import Problem, Refused
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import Workspace


class TokensField(forms.IntegerField):
    def __init__(self, label: str, initial: int) -> None:
        attributes = {"aria-label": f"Cap of {label}, in tokens a day"}
        widget = forms.NumberInput(attrs=attributes)
        super().__init__(label=label, initial=initial, min_value=0, max_value=MAX_DAILY_TOKENS, widget=widget)


class BudgetForm(ServiceForm):
    """One field for the workspace and one for each agent, named by its id."""

    def __init__(self, workspace: Workspace, agents: list[Agent], data: Any = None) -> None:
        super().__init__(data)
        self.fields["workspace"] = TokensField(workspace.name, workspace.daily_token_budget)
        for agent in agents:
            self.fields[f"agent-{agent.pk}"] = TokensField(agent.participant.name, agent.daily_token_budget)

    def agent_tokens(self) -> dict[int, int]:
        values = self.cleaned_data.items()
        return {int(name.removeprefix("agent-")): tokens for name, tokens in values if name != "workspace"}


@dataclass(frozen=True)
class Spend:
    """Tokens of a workspace or an agent (None: the whole workspace), and the field of its cap."""

    agent: Agent | None
    today: int
    days: int
    cap: int
    field: forms.BoundField

    @property
    def percent(self) -> int:
        """The percentage of the cap, today: at most 100."""
        return min(100, 100 * self.today // self.cap) if self.cap else 100


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def budgets(request: WorkspaceRequest) -> HttpResponse:
    """Tokens of today and of 30 days against the daily caps; a POST sets the caps."""
    if not request.access.administers:
        raise Refused("Only owners and admins see and change budgets. Ask one of them.")
    workspace, rows = request.workspace, Agent.objects.filter(workspace=request.workspace, deactivated_at=None)
    agents = list(rows.select_related("participant").order_by("participant__name", "pk"))
    form = BudgetForm(workspace, agents, request.POST if request.method == "POST" else None)
    if form.is_valid():
        tokens = form.cleaned_data["workspace"]
        try:
            update_daily_budgets(
                workspace=workspace, by=request.access, tokens=tokens, agent_tokens=form.agent_tokens()
            )
            messages.success(request, "Saved. It holds from the next answer on.")
            return redirect("budgets", workspace.slug)
        except Problem as problem:
            form.add_problem(problem)
    page = {"form": form, "rows": _spend(workspace, agents, form), "period": PERIOD_DAYS}
    return render(request, "agents/budgets.html", page, status=form.status)


def _spend(workspace: Workspace, agents: list[Agent], form: BudgetForm) -> list[Spend]:
    """The workspace's first, then each agent's. Four queries."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    today, days = (_used_since(workspace, since) for since in (midnight, midnight - timedelta(days=PERIOD_DAYS - 1)))
    whole = Spend(None, today.total(), days.total(), workspace.daily_token_budget, form["workspace"])
    each = (
        Spend(
            agent,
            today[agent.participant_id],
            days[agent.participant_id],
            agent.daily_token_budget,
            form[f"agent-{agent.pk}"],
        )
        for agent in agents
    )
    return [whole, *each]


def _used_since(workspace: Workspace, since: datetime) -> Counter[int | None]:
    """Tokens by participant; None for what was spent in nobody's name."""
    runs, background = token_rows(None, [workspace.pk])
    in_runs = sum_tokens(runs.filter(queued_at__gte=since), "agent__participant_id")
    return in_runs + sum_tokens(background.filter(created_at__gte=since), "agent_id")
