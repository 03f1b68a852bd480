"""Steps of a run as its thread shows them: what was thought, and what was called or reported, in words, as far as the
reader may see it."""

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from agents.agent.models import RUNS, Run, RunStep
from agents.prompts.snapshots.redaction import ToolCallView, visible_tool_calls
from agents.runs.step_words import call_words, reported_words, seconds_words
from openvibe.workspaces.access import Access


@dataclass(frozen=True)
class StepView:
    """One step. `seconds` it took; `state` as of RunStep; `hidden` says why arguments and result are withheld, where
    one may see only that there was a step."""

    at: datetime
    words: str
    state: str
    seconds: float
    arguments: str = ""
    result: str = ""
    hidden: str = ""

    @property
    def duration(self) -> str:
        return seconds_words(self.seconds)


@dataclass(frozen=True)
class Reasoning:
    """What a run's model thought in all its turns. `text` is empty where its provider does not show it, and once it is
    no longer kept. `tokens`: None where nobody counted them."""

    seconds: float
    tokens: int | None
    text: str
    is_thinking: bool


def run_steps(run: Run, access: Access) -> tuple[StepView, ...]:
    """Tool calls and reported steps, oldest first. The caller has checked that the run itself is visible.

    Five queries at most.
    """
    steps = run.own_steps.exclude(kind=RunStep.Kind.THOUGHT)
    views = [*map(_call_view, visible_tool_calls(run, access)), *map(_step_view, steps)]
    return tuple(sorted(views, key=lambda view: view.at))


def _call_view(call: ToolCallView) -> StepView:
    words = call_words(call.name, call.arguments, call.result, decision=call.decision, why=call.why)
    states = {"refused": RunStep.State.REFUSED, "waits": RunStep.State.RUNNING}
    state = states.get(call.decision, RunStep.State.DONE)
    return StepView(call.created_at, words, state, call.milliseconds / 1000, call.arguments, call.result, call.hidden)


def _step_view(step: RunStep) -> StepView:
    words = reported_words(step.kind, step.state, step.text, step.tool)
    return StepView(step.created_at, words, step.state, step.milliseconds / 1000, step.arguments, step.result)


def read_reasoning(run: Run) -> Reasoning | None:
    """None where it thought nothing, or nobody knows. The caller has checked that the run is visible. One query."""
    thoughts = list(run.own_steps.filter(kind=RunStep.Kind.THOUGHT))
    if not thoughts:
        return None
    thinking = [step for step in thoughts if step.state == RunStep.State.RUNNING and run.state in RUNS.active]
    counts = [step.tokens for step in thoughts if step.tokens is not None]
    seconds = sum(step.milliseconds for step in thoughts if step not in thinking) / 1000
    seconds += sum((timezone.now() - step.created_at).total_seconds() for step in thinking)
    text = "\n\n".join(filter(None, (step.text.strip() for step in thoughts)))
    is_gone = run.reply is not None and run.reply.is_deleted
    return Reasoning(round(seconds, 1), sum(counts) if counts else None, "" if is_gone else text, bool(thinking))
