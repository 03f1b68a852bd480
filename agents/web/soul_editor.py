"""The SOUL editor, in plain fields or as YAML, for owners and admins.

What was typed stays in the form whatever goes wrong."""

from dataclasses import asdict
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from agents.agent.models import Agent
from agents.agent.services import save_soul
from agents.agent.soul import SOUL_TOKEN_ADVICE, Soul, SoulError
from agents.agent.soul.parser import parse_soul, soul_from_dict
from agents.agent.soul.plain import FORM_FIELDS, STYLE_LABELS, PlainSoul, soul_to_yaml
from agents.web.access import access_agent, check_may
from agents.web.trials import Trial, TrialForm, try_soul
from openvibe.base.forms import ServiceForm
from openvibe.base.problems import Conflict, Problem
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

TEXTAREA_CHARACTERS = 8_000


class LinesField(forms.CharField):
    """Text whose line ends are \\n."""

    def to_python(self, value: Any) -> str:
        return str(super().to_python(value)).replace("\r\n", "\n")


def _box(rows: int, **options: Any) -> LinesField:
    widget = forms.Textarea(attrs={"rows": rows})
    return LinesField(widget=widget, max_length=TEXTAREA_CHARACTERS, required=False, **options)


class PlainSoulForm(ServiceForm):
    """A SOUL in plain fields. Its names are those of `PlainSoul`."""

    name = forms.CharField(max_length=80, label="Name")
    purpose = forms.CharField(
        max_length=300, label="What is it for?", help_text="One line, such as “Helps the team find what was decided”."
    )
    description = _box(3, label="What should it know about its job?", help_text="How it works, what matters, for whom.")
    style = forms.ChoiceField(choices=list(STYLE_LABELS.items()), label="How it answers", required=False)
    principles = _box(4, label="Tone and principles", help_text="One a line, such as “Friendly and brief”.")
    never = _box(3, label="What it must never do", help_text="One a line.")

    def to_soul(self, before: Soul | None = None) -> Soul:
        """Raises SoulError."""
        fields = {key: self.cleaned_data[key] for key in PlainSoul.__dataclass_fields__}
        return PlainSoul(**fields).to_soul(before)

    def add_problem(self, problem: Problem | SoulError) -> None:
        if isinstance(problem, Problem):
            super().add_problem(problem)
            return
        for each in problem.problems:
            field = FORM_FIELDS.get(each.field.partition("[")[0])
            is_here = field in self.fields
            self.add_error(field if is_here else None, each.message if is_here else str(each))


class VersionField(forms.IntegerField):
    """The number of the version that was opened, 0 for none, so that nobody saves over a newer one."""

    widget = forms.HiddenInput
    default_error_messages: ClassVar = dict.fromkeys(
        ("required", "invalid", "min_value"),
        "This page does not say which version you began from. Copy what you wrote, and open the page anew.",
    )

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=0, **options)


class SaveForm(TrialForm):
    note = forms.CharField(max_length=300, required=False, label="What did you change, and why?")
    based_on = VersionField()


class SoulForm(PlainSoulForm, SaveForm):
    name = forms.CharField(max_length=80, label="Name it goes by in its own words")

    def text(self, agent: Agent) -> str:
        """YAML of what the fields say, beside what they do not hold; as it stands where nothing was changed."""
        before = current_soul(agent)
        soul = self.to_soul(before)
        return agent.soul.source if agent.soul and soul == before else soul_to_yaml(soul)


class SoulTextForm(SaveForm):
    soul = LinesField(
        strip=False,
        required=False,
        label="SOUL",
        widget=forms.Textarea(attrs={"rows": 24, "spellcheck": "false", "autocapitalize": "off"}),
    )
    field_order = ("soul",)

    def text(self, agent: Agent) -> str:
        text: str = self.cleaned_data["soul"]
        parse_soul(text)
        return text

    def add_problem(self, error: Problem | SoulError) -> None:
        problems = [error.message] if isinstance(error, Problem) else [str(problem) for problem in error.problems]
        is_elsewhere = isinstance(error, Problem) and error.field in ("note", "question")
        self.add_error(error.field if is_elsewhere and isinstance(error, Problem) else "soul", problems)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_soul(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """The page that changes the SOUL, in plain fields or as YAML, and tries a question with it first."""
    check_may(request, "change a SOUL")
    agent = access_agent(request, handle)
    is_yaml = request.GET.get("as") == "yaml"
    form, answers = _soul_form(request, agent, is_yaml), []
    if request.method == "POST" and form.is_valid():
        try:
            if "try" in request.POST:
                answers = _try_soul(request, agent, form)
            else:
                is_new = _save_soul(request, agent, form, form.cleaned_data["note"])
                notice = f"Saved. {agent.participant.name} answers with it from the next question on."
                messages.success(request, notice if is_new else "Nothing was changed, so there is no new version.")
                return redirect("agent", request.workspace.slug, agent.handle)
        except Conflict as conflict:
            newest = access_agent(request, handle).soul
            form = type(form)({**request.POST.dict(), "based_on": newest.number if newest else 0})
            form.add_problem(conflict)
        except (Problem, SoulError) as error:
            form.add_problem(error)
    context = {"agent": agent, "is_yaml": is_yaml, "answers": answers, "advice": SOUL_TOKEN_ADVICE}
    return render(request, "agents/soul.html", {"form": form, **context}, status=422 if form.errors else 200)


def _soul_form(request: WorkspaceRequest, agent: Agent, is_yaml: bool) -> SoulForm | SoulTextForm:
    kind: type[SoulForm | SoulTextForm] = SoulTextForm if is_yaml else SoulForm
    if request.method == "POST":
        return kind(request.POST)
    soul = current_soul(agent)
    values: dict[str, Any] = {"based_on": agent.soul.number if agent.soul else 0, "name": agent.participant.name}
    if is_yaml:
        values["soul"] = agent.soul.source if agent.soul else ""
    elif soul is not None:
        values |= asdict(PlainSoul.of(soul))
    return kind(initial=values)


def current_soul(agent: Agent) -> Soul | None:
    return soul_from_dict(agent.soul.content) if agent.soul else None


def _save_soul(request: WorkspaceRequest, agent: Agent, form: SoulForm | SoulTextForm, note: str) -> bool:
    """Whether there is a new version."""
    based_on: int = form.cleaned_data["based_on"]
    version = save_soul(agent=agent, by=request.access, text=form.text(agent), note=note, based_on=based_on)
    return version.number > based_on


def _try_soul(request: WorkspaceRequest, agent: Agent, form: SoulForm | SoulTextForm) -> list[Trial]:
    is_other = form.text(agent).strip() != (agent.soul.source.strip() if agent.soul else "")
    save = partial(_save_soul, request, agent, form, "Trial")
    return try_soul(request, agent, form.cleaned_data["question"], save, is_other=is_other)
