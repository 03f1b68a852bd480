"""The form of a new agent, for owners and admins, who try a question before they save it."""

from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods

from agents.agent.models import Agent
from agents.agent.services import create_agent
from agents.agent.soul import SoulError
from agents.agent.soul.plain import soul_to_yaml
from agents.web.access import check_may
from agents.web.agent_settings import PlaceForm
from agents.web.soul_editor import PlainSoulForm
from agents.web.trials import TrialForm, ask_trial
from openvibe.base.problems import Problem
from openvibe.engines.text.cleaning import MAX_HANDLE_CHARACTERS
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


class NewAgentForm(PlainSoulForm, TrialForm, PlaceForm):
    handle = forms.CharField(
        max_length=MAX_HANDLE_CHARACTERS + 1,
        required=False,
        label="Handle",
        help_text="What people type after @. Empty: made from the name.",
    )
    MORE = ("channels", "handle", "description", "style", "principles", "never")
    """Fields that can wait."""

    def __init__(self, request: WorkspaceRequest, **options: Any) -> None:
        super().__init__(request, **options)
        common = self.fields["channels"].queryset.filter(is_private=False).order_by("pk")  # type: ignore[attr-defined]  # a field of models
        self.initial.setdefault("channels", list(common[:1]))

    def more_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.MORE]

    def opens_more(self) -> bool:
        """Whether one of the fields that can wait has a problem."""
        return not self.errors.keys().isdisjoint((*self.MORE, "question"))

    def clean_handle(self) -> str:
        handle: str = self.cleaned_data["handle"].strip().lstrip("@").lower()
        slug = slugify(self.cleaned_data.get("name", "")).strip("-_")[:MAX_HANDLE_CHARACTERS]
        if not handle and not slug and "name" in self.cleaned_data:
            raise forms.ValidationError("The name has no letter a–z or digit to make a handle from. Write one here.")
        return handle or slug

    def create(self, request: WorkspaceRequest) -> Agent:
        """Raises Problem and SoulError."""
        return create_agent(
            by=request.access,
            workspace=request.workspace,
            handle=self.cleaned_data["handle"],
            name=self.cleaned_data["name"],
            soul=soul_to_yaml(self.to_soul()),
            endpoint=self.cleaned_data["endpoint"],
            channels=self.cleaned_data["channels"],
        )


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_create(request: WorkspaceRequest) -> HttpResponse:
    """The form of a new agent: try a question, then make it."""
    check_may(request, "make agents")
    form, answers = NewAgentForm(request), []
    if request.method == "POST" and form.is_valid():
        draft = partial(form.create, request)
        try:
            if "try" not in request.POST:
                return _redirect_to_new(request, draft())
            answers = [ask_trial(request, draft, form.cleaned_data["channels"].first(), form.cleaned_data["question"])]
        except (Problem, SoulError) as error:
            form.add_problem(error)
    return render(request, "agents/new.html", {"form": form, "answers": answers}, status=422 if form.errors else 200)


def _redirect_to_new(request: WorkspaceRequest, agent: Agent) -> HttpResponse:
    where = "Ask it something there." if agent.participant.channels.exists() else "Add it to a channel to ask it."
    messages.success(request, f"@{agent.handle} is here. It starts at L1 and answers when it is mentioned. {where}")
    return redirect("agent", request.workspace.slug, agent.handle)
