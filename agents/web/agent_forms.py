"""Forms about agents, for owners and admins: make one, change its settings and its SOUL, set its trust level.

What was typed stays in the form whatever goes wrong. A trial question is answered without anything being stored."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods

from agents.models import Agent
from agents.services import create_agent, save_soul, set_trust_level, update_agent
from agents.soul import SOUL_TOKEN_ADVICE, Soul, SoulError
from agents.soul.parser import parse_soul, soul_from_dict
from agents.soul.plain import FORM_FIELDS, STYLE_LABELS, PlainSoul, soul_to_yaml
from agents.statistics import agent_acceptance
from agents.trials import MAX_QUESTION_CHARACTERS, TrialAnswer, ask_on_trial
from agents.trust import TRUST_LEVELS
from agents.web.agent_page import access_agent
from openvibe.base.forms import ServiceForm
from openvibe.base.markdown import render_markdown
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.base.text import MAX_HANDLE_CHARACTERS
from openvibe.chat.models import Channel
from openvibe.llm.models import Endpoint
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

FIRST_QUESTION = "Who are you, and what can you help us with?"
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


class TrialForm(forms.Form):
    question = forms.CharField(
        max_length=MAX_QUESTION_CHARACTERS, required=False, initial=FIRST_QUESTION, label="A question to try"
    )


class PlaceForm(ServiceForm):
    """Where an agent is, and through what it answers."""

    endpoint = forms.ModelChoiceField(
        Endpoint.objects.none(), required=False, label="Model", empty_label="The workspace's default"
    )
    channels = forms.ModelMultipleChoiceField(
        Channel.objects.none(), required=False, widget=forms.CheckboxSelectMultiple, label="Channels it is in"
    )

    def __init__(self, request: WorkspaceRequest, **options: Any) -> None:
        super().__init__(request.POST if request.method == "POST" else None, **options)
        channels = Channel.objects.visible_to(request.access).filter(archived_at=None).order_by("name")
        endpoints = Endpoint.objects.filter(workspace=request.workspace)
        self.fields["channels"].queryset = channels  # type: ignore[attr-defined]  # a field of models
        self.fields["endpoint"].queryset = endpoints  # type: ignore[attr-defined]  # a field of models


class NewAgentForm(PlainSoulForm, TrialForm, PlaceForm):
    handle = forms.CharField(
        max_length=MAX_HANDLE_CHARACTERS + 1,
        required=False,
        label="Handle",
        help_text="What people type after @. Empty: made from the name.",
    )
    field_order = (
        "name",
        "handle",
        "purpose",
        "description",
        "style",
        "principles",
        "never",
        "endpoint",
        "channels",
        "question",
    )

    def clean_handle(self) -> str:
        handle: str = self.cleaned_data["handle"].strip().lstrip("@").lower()
        made = slugify(self.cleaned_data.get("name", "")).strip("-_")[:MAX_HANDLE_CHARACTERS]
        if not handle and not made:
            raise forms.ValidationError("The name has no letter a–z or digit to make a handle from. Write one here.")
        return handle or made

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
            answers = [_ask(request, draft, form.cleaned_data["channels"].first(), form.cleaned_data["question"])]
        except (Problem, SoulError) as error:
            form.add_problem(error)
    return _render_form(request, "agents/new.html", form, answers=answers)


def _redirect_to_new(request: WorkspaceRequest, agent: Agent) -> HttpResponse:
    where = "Ask it something there." if agent.participant.channels.exists() else "Add it to a channel to ask it."
    messages.success(request, f"@{agent.handle} is here. It starts at L1 and answers when it is mentioned. {where}")
    return redirect("agent", request.workspace.slug, agent.handle)


class Trial(NamedTuple):
    """Whose answer it is, the answer, and its text as HTML."""

    title: str
    answer: TrialAnswer
    html: str


def _ask(
    request: WorkspaceRequest,
    draft: Callable[[], Agent],
    channel: Channel | None,
    question: str,
    title: str = "The answer",
) -> Trial:
    asked_by = request.member.participant
    answer = ask_on_trial(
        draft=draft, channel=channel, question=question or FIRST_QUESTION, by=request.access, asked_by=asked_by
    )
    return Trial(title, answer, render_markdown(answer.text))


class SettingsForm(PlaceForm):
    answers_itself = forms.TypedChoiceField(
        coerce=lambda value: value == "True",
        choices=[("False", "OpenVibe, with this model"), ("True", "A program elsewhere, through the API")],
        widget=forms.RadioSelect,
        label="Who writes its answers",
    )
    daily_token_budget = forms.IntegerField(
        min_value=0,
        max_value=2_147_483_647,
        label="Tokens a day",
        help_text="It may use so many in one day (UTC); then it says so and answers no more until the next.",
    )
    is_active = forms.BooleanField(
        required=False,
        label="Active",
        help_text="An agent that is not active answers nobody, and its episodes are archived. All it wrote stays.",
    )
    field_order = ("answers_itself", "endpoint", "daily_token_budget", "channels", "is_active")

    def __init__(self, request: WorkspaceRequest, agent: Agent) -> None:
        initial = {
            "endpoint": agent.endpoint_id,
            "channels": agent.participant.channels.all(),
            "answers_itself": agent.answers_itself,
            "daily_token_budget": agent.daily_token_budget,
            "is_active": agent.is_active,
        }
        super().__init__(request, initial=initial)
        if not agent.is_active:
            self.fields["channels"].disabled = True
            self.fields["channels"].help_text = "Once it is active again, you can change these."


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_settings(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """Model, budget, channels, and whether it is active."""
    check_may(request, "change an agent's settings")
    agent = access_agent(request, handle)
    form = SettingsForm(request, agent)
    if request.method == "POST" and form.is_valid():
        try:
            update_agent(agent=agent, by=request.access, **form.cleaned_data)
            messages.success(request, "Saved.")
            return redirect("agent", request.workspace.slug, agent.handle)
        except Problem as problem:
            form.add_problem(problem)
    return _render_form(request, "agents/settings.html", form, agent=agent)


class SaveForm(TrialForm):
    """`based_on` is the version that was opened, so that nobody saves over a newer one."""

    note = forms.CharField(max_length=300, required=False, label="What did you change, and why?")
    based_on = forms.IntegerField(min_value=0, widget=forms.HiddenInput)


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
    """Change the SOUL, in plain fields or as YAML; try a question with it first."""
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
                said = f"Saved. {agent.participant.name} answers with it from the next question on."
                messages.success(request, said if is_new else "Nothing was changed, so there is no new version.")
                return redirect("agent", request.workspace.slug, agent.handle)
        except Conflict as conflict:
            newest = access_agent(request, handle).soul
            form = type(form)({**request.POST.dict(), "based_on": newest.number if newest else 0})
            form.add_problem(conflict)
        except (Problem, SoulError) as error:
            form.add_problem(error)
    context = {"agent": agent, "is_yaml": is_yaml, "answers": answers, "advice": SOUL_TOKEN_ADVICE}
    return _render_form(request, "agents/soul.html", form, **context)


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


def try_soul(
    request: WorkspaceRequest, agent: Agent, question: str, save: Callable[[], object], *, is_other: bool = True
) -> list[Trial]:
    """With what `save` makes its SOUL; and, where that says something else (`is_other`), with the current version."""

    def draft() -> Agent:
        save()
        return agent

    channels = Channel.objects.visible_to(request.access).filter(archived_at=None)
    channel = channels.filter(memberships__participant=agent.participant).order_by("pk").first()
    if not (is_other and agent.soul):
        return [_ask(request, draft, channel, question, "As it is now")]
    title = f"As it is now, version {agent.soul.number}"
    with_form = _ask(request, draft, channel, question, "As you have written it")
    current = access_agent(request, agent.handle)
    return [with_form, _ask(request, lambda: current, channel, question, title)]


class LevelForm(ServiceForm):
    level = forms.TypedChoiceField(choices=Agent.Level.choices, coerce=int, widget=forms.RadioSelect, label="Level")
    note = forms.CharField(max_length=300, required=False, label="Why?", help_text="Everybody can read it here.")


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_level(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """What each level may see and do, every change so far, and for owners and admins the form of another change."""
    agent = access_agent(request, handle)
    if request.method == "POST":
        check_may(request, "set a trust level")
    form = LevelForm(request.POST if request.method == "POST" else None, initial={"level": agent.level})
    if request.method == "POST" and form.is_valid():
        try:
            change = set_trust_level(agent=agent, by=request.access, **form.cleaned_data)
            since = "from its next prompt on" if change else "already"
            messages.success(request, f"It is at L{agent.level} {since}.")
            return redirect("agent-level", request.workspace.slug, agent.handle)
        except Problem as problem:
            form.add_problem(problem)
    context = {
        "agent": agent,
        "levels": TRUST_LEVELS,
        "acceptance": agent_acceptance(agent),
        "changes": agent.trust_changes.all()[:200],
    }
    return _render_form(request, "agents/level.html", form, **context)


def check_may(request: WorkspaceRequest, action: str) -> None:
    if not request.access.administers:
        raise Refused(f"Only owners and admins may {action}. Ask one of them.")


def _render_form(request: WorkspaceRequest, template: str, form: forms.Form, **context: Any) -> HttpResponse:
    return render(request, template, {"form": form, **context}, status=422 if form.errors else 200)
