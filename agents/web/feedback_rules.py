"""The pages of *Apply always*: from a piece of feedback to a rule in the agent's SOUL, seen as a difference and tried
before it is saved. What was typed stays in the form whatever goes wrong."""

from collections.abc import Sequence
from functools import partial
from typing import cast

from django import forms
from django.contrib import messages
from django.forms.boundfield import BoundWidget
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.text import Truncator
from django.views.decorators.http import require_http_methods

from agents.agent.access import online_endpoint
from agents.agent.models import Agent
from agents.agent.rule_drafts import draft_rule
from agents.agent.services import apply_feedback_always, soul_with_rule
from agents.agent.soul import FieldDiff, SoulError, diff_souls
from agents.agent.soul.parser import parse_soul
from agents.agent.soul.rules import MAX_RULE_CHARACTERS, RulePlace, SoulRule, rule_from_reason
from agents.web.access import access_agent, check_may
from agents.web.soul_editor import VersionField, current_soul
from agents.web.trials import Trial, TrialForm, try_soul
from memory.models import Episode
from memory.queries import access_workspace_episode, is_public_thread
from openvibe.base.forms import ServiceForm
from openvibe.base.problems import Conflict, Missing, Problem
from openvibe.chat.models import Thread
from openvibe.engines.text.markdown import plain_text
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

MAX_OTHERS = 20
SETTLED_CONFLICT = Conflict("This feedback is settled already. Nothing more was saved.", code="settled")
MAX_NOTE_CHARACTERS = 300
ANSWER_CHARACTERS = 80
"""The length of the answer that a piece of feedback is about."""


class RuleForm(TrialForm, ServiceForm):
    """`based_on` is the version that the rule is added to."""

    rule = forms.CharField(
        max_length=MAX_RULE_CHARACTERS,
        required=False,
        label="The rule",
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="It stands in every prompt from now on, so say what holds in general.",
    )
    place = forms.ChoiceField(
        choices=[("principle", "Keeps to (a principle)"), ("never", "Never (what it must not do)")],
        widget=forms.RadioSelect,
        label="Where it goes in the SOUL",
    )
    note = forms.CharField(max_length=MAX_NOTE_CHARACTERS, required=False, label="What did you change, and why?")
    based_on = VersionField()
    field_order = ("rule", "place", "question", "note", "based_on")

    def __init__(
        self, episode: Episode, agent: Agent, others: Sequence[Episode], data: QueryDict | None = None
    ) -> None:
        rule = rule_from_reason(episode.feedback.text if episode.feedback else "")
        number = agent.soul.number if agent.soul else 0
        note = _default_note(episode)
        super().__init__(data, initial={"rule": rule.text, "place": rule.place, "note": note, "based_on": number})
        self.sent = data
        self.other_episodes = others
        if others:
            label = "Which other feedback does it answer, too?"
            self.fields["others"] = forms.TypedMultipleChoiceField(
                choices=[(other.pk, f"{_giver(other)}: {other.summary}") for other in others],
                coerce=int,
                required=False,
                widget=forms.CheckboxSelectMultiple,
                label=label,
                error_messages={
                    "invalid_choice": "Some of it is settled by now, or is not for you to read. Choose again."
                },
            )

    def to_rule(self) -> SoulRule:
        values = self.cleaned_data if self.is_bound else self.initial
        return SoulRule(cast(RulePlace, values["place"]), " ".join(str(values["rule"]).split()))

    def other_feedback(self) -> list[tuple[BoundWidget, int, str]]:
        """The box of each other piece of feedback, the id of the answer that it is about, and that one's beginning."""
        messages = [other.feedback.message for other in self.other_episodes if other.feedback]
        boxes = zip(self["others"], messages, strict=True)
        return [(box, message.pk, _first_words(message.body)) for box, message in boxes]

    def with_changes(self, **changes: object) -> QueryDict:
        """What was sent, with other values."""
        data = self.sent.copy() if self.sent else QueryDict(mutable=True)
        for name, value in changes.items():
            data[name] = str(value)
        return data


def _default_note(episode: Episode) -> str:
    """Names whoever gave the feedback, and quotes it where everybody may read it."""
    if not _is_public(episode):
        return "From feedback in a conversation that is not open to everybody"
    note = f"From {_giver(episode)}'s feedback: “{' '.join(episode.summary.split())}”"
    return note if len(note) <= MAX_NOTE_CHARACTERS else f"{note[: MAX_NOTE_CHARACTERS - 2].rstrip()}…”"


def _giver(episode: Episode) -> str:
    return episode.feedback.participant.label if episode.feedback else "somebody"


def _first_words(answer: str) -> str:
    """Empty where nothing of it is text."""
    return Truncator(plain_text(answer[: 20 * ANSWER_CHARACTERS])).chars(ANSWER_CHARACTERS)


def _is_public(episode: Episode) -> bool:
    """Whether everybody may read where it was said."""
    return episode.thread_id is not None and is_public_thread(episode.thread_id)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def apply_always(request: WorkspaceRequest, handle: str, episode_id: int) -> HttpResponse:
    """A rule made from the feedback, the SOUL with it as a difference, a question to try, and saving it."""
    agent, episode = access_agent(request, handle), access_workspace_episode(request.access, episode_id)
    if episode.agent_id != agent.participant_id or episode.kind != Episode.Kind.FEEDBACK_RECEIVED:
        raise Missing
    check_may(request, "change a SOUL")
    if episode.applied_at is not None and request.method != "POST":
        messages.info(request, "This feedback is settled already.")
        return redirect("agent", request.workspace.slug, agent.handle)
    others = _other_feedback(request, episode)
    form = RuleForm(episode, agent, others, request.POST if request.method == "POST" else None)
    answers: list[Trial] = []
    if request.method == "POST" and form.is_valid():
        try:
            if "draft" in request.POST:
                rule = draft_rule(agent=agent, episode=episode)
                form = RuleForm(episode, agent, others, form.with_changes(rule=rule.text, place=rule.place))
                form.is_valid()
            elif "try" in request.POST:
                save = partial(_save, request, agent, episode, form, "Trial")
                answers = try_soul(request, agent, form.cleaned_data["question"], save)
            elif "show" not in request.POST:
                number = _save(request, agent, episode, form, form.cleaned_data["note"])
                messages.success(request, f"Saved as version {number}. The feedback is applied: the SOUL says it now.")
                page = reverse("agent", args=[request.workspace.slug, agent.handle])
                return redirect(f"{page}?from={number - 1}&to={number}#soul-diff")
        except Conflict as conflict:
            newest = access_agent(request, handle)
            episode.refresh_from_db(fields=["applied_at"])
            is_settled = episode.applied_at is not None
            if conflict.code == "stale" and newest.soul and not is_settled:
                agent, data = newest, form.with_changes(based_on=newest.soul.number)
                form = RuleForm(episode, agent, others, data)
                form.is_valid()
            form.add_problem(SETTLED_CONFLICT if is_settled else conflict)
        except SoulError as error:
            for problem in error.problems:
                form.add_error("rule", str(problem))
        except Problem as problem:
            form.add_problem(problem)
    return _render(request, agent, episode, form, answers)


def _save(request: WorkspaceRequest, agent: Agent, episode: Episode, form: RuleForm, note: str) -> int:
    """The number of the new version."""
    version = apply_feedback_always(
        agent=agent,
        by=request.access,
        feedback=[episode.pk, *form.cleaned_data.get("others", ())],
        rule=form.to_rule(),
        note=note,
        based_on=form.cleaned_data["based_on"],
    )
    return version.number


def _other_feedback(request: WorkspaceRequest, episode: Episode) -> list[Episode]:
    """Other open feedback to the same agent, as far as the asker may read it; the newest."""
    feedback = Episode.objects.of(episode.agent_id).open_feedback().exclude(pk=episode.pk).exclude(feedback=None)
    feedback = feedback.filter(thread__in=Thread.objects.visible_to(request.access))
    return list(feedback.select_related("feedback__participant", "feedback__message")[:MAX_OTHERS])


def _render(
    request: WorkspaceRequest, agent: Agent, episode: Episode, form: RuleForm, answers: list[Trial]
) -> HttpResponse:
    number = agent.soul.number if agent.soul else 0
    page = {
        "agent": agent,
        "episode": episode,
        "form": form,
        "answers": answers,
        "changes": _changes(agent, form),
        "from_number": number,
        "to_number": number + 1,
        "endpoint": online_endpoint(agent),
        "answer": _first_words(episode.feedback.message.body) if episode.feedback else "",
        "is_private": not _is_public(episode),
    }
    template = "agents/_soul_changes.html" if request.htmx else "agents/apply_always.html"
    return render(request, template, page, status=422 if form.errors and not request.htmx else 200)


def _changes(agent: Agent, form: RuleForm) -> list[FieldDiff] | None:
    """What the rule would change; None where it cannot be put in."""
    soul = current_soul(agent)
    if soul is None or (form.is_bound and not {"rule", "place"} <= form.cleaned_data.keys()):
        return None
    try:
        return diff_souls(soul, parse_soul(soul_with_rule(agent, form.to_rule())))
    except (Problem, SoulError):
        return None
