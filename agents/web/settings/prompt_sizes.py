"""The settings page of prompt sizes, for owners and admins: tokens by task type and part, where the defaults do not
do."""

from typing import Any, NamedTuple

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from agents.agent.models import Run
from agents.prompts.assembler.stack import BUDGETS, STACK, TaskBudget
from agents.web.access import check_may
from openvibe.base.forms import ServiceForm
from openvibe.base.problems import Problem
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.services import update_prompt_budgets

MAX_TOKENS = 10_000_000
PARTS = (("ceiling", "The whole prompt"), *((layer.name, layer.title.capitalize()) for layer in STACK))


class PartRow(NamedTuple):
    """A part of prompts, with its field for each task type."""

    title: str
    fields: list[forms.BoundField]


class PromptSizesForm(ServiceForm):
    """One field for each task type and part, empty where the default holds."""

    def __init__(self, stored: dict[str, Any], data: Any = None) -> None:
        super().__init__(data)
        self.stored = stored
        for task, budget in BUDGETS.items():
            for part, title in PARTS:
                default = _default(budget, part)
                words = "the rest" if default is None else f"{default:,}"
                widget = forms.NumberInput(
                    attrs={"placeholder": words, "aria-label": f"{title}, {Run.Task(task).label}, in tokens"}
                )
                self.fields[f"{task}-{part}"] = forms.IntegerField(
                    required=False,
                    min_value=0,
                    max_value=MAX_TOKENS,
                    widget=widget,
                    initial=_stored(stored, task, part),
                )

    def rows(self) -> list[PartRow]:
        return [PartRow(title, [self[f"{task}-{part}"] for task in BUDGETS]) for part, title in PARTS]

    def budgets(self) -> dict[str, dict[str, int]]:
        """The numbers that differ from the defaults, by task type."""
        written = {
            task: {part: tokens for part, _ in PARTS if (tokens := self.cleaned_data[f"{task}-{part}"]) is not None}
            for task in BUDGETS
        }
        return {task: parts for task, parts in written.items() if parts}


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def prompt_sizes(request: WorkspaceRequest) -> HttpResponse:
    """A table of tokens by part and task type; a POST saves it."""
    check_may(request, "choose how large prompts are")
    stored = request.workspace.budgets if isinstance(request.workspace.budgets, dict) else {}
    form = PromptSizesForm(stored, request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            update_prompt_budgets(workspace=request.workspace, by=request.access, budgets=form.budgets())
            messages.success(request, "Saved. It holds from the next prompt on.")
            return redirect("settings-prompts", request.workspace.slug)
        except Problem as problem:
            form.add_problem(problem)
    tasks = [Run.Task(task).label for task in BUDGETS]
    return render(request, "agents/settings_prompts.html", {"form": form, "tasks": tasks}, status=form.status)


def _default(budget: TaskBudget, part: str) -> int | None:
    return budget.ceiling if part == "ceiling" else budget.caps[part]  # type: ignore[index]  # the rest are layers


def _stored(stored: dict[str, Any], task: str, part: str) -> object:
    parts = stored.get(task)
    return parts.get(part) if isinstance(parts, dict) else None
