"""Trial questions on pages: asked with what is not saved yet, answered without anything being stored."""

from collections.abc import Callable
from typing import NamedTuple

from django import forms

from agents.agent.models import Agent
from agents.connect.trials import MAX_QUESTION_CHARACTERS, TrialAnswer, ask_on_trial
from agents.web.access import access_agent
from openvibe.chat.models import Channel
from openvibe.engines.text.markdown import render_markdown
from openvibe.workspaces.decorators import WorkspaceRequest

FIRST_QUESTION = "Who are you, and what can you help us with?"


class TrialForm(forms.Form):
    question = forms.CharField(
        max_length=MAX_QUESTION_CHARACTERS, required=False, initial=FIRST_QUESTION, label="A question to try"
    )


class Trial(NamedTuple):
    """An answer of a trial: whose it is, its words, and its text as HTML."""

    title: str
    answer: TrialAnswer
    html: str


def ask_trial(
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


def try_soul(
    request: WorkspaceRequest, agent: Agent, question: str, save: Callable[[], object], *, is_other: bool = True
) -> list[Trial]:
    """Tries the question with what `save` makes its SOUL; and, where that says something else (`is_other`), with the
    current version."""

    def draft() -> Agent:
        save()
        return agent

    channels = Channel.objects.visible_to(request.access).filter(archived_at=None)
    channel = channels.filter(memberships__participant=agent.participant).order_by("pk").first()
    if not (is_other and agent.soul):
        return [ask_trial(request, draft, channel, question, "As it is now")]
    title = f"As it is now, version {agent.soul.number}"
    with_form = ask_trial(request, draft, channel, question, "As you have written it")
    current = access_agent(request, agent.handle)
    return [with_form, ask_trial(request, lambda: current, channel, question, title)]
