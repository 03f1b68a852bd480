"""Steps of a run: what workers and people did to it, and when.

They stand in the run's row and are written with changes that are made to it anyway, so they cost no statement. Tool
calls and approvals have rows of their own; `agents.runs.timeline` puts all of it in order."""

from typing import Any, Literal

from django.db.models import F, JSONField, Value
from django.db.models.expressions import Combinable, CombinedExpression
from django.utils import timezone

from agents.agent.models import Run

MAX_STEPS = 200
"""Steps that are kept when a run is begun again: the newest."""

MAX_ERROR_CHARACTERS = 300
"""The longest text of an error, as the step that failed keeps it."""

StepKind = Literal[
    "queued",
    "claimed",
    "assembled",
    "called",
    "answered",
    "notice",
    "switched",
    "waiting",
    "done",
    "stop_requested",
    "stopped",
    "failed",
    "retried",
    "resumed",
]


Step = dict[str, Any]
"""`kind` and `at` (ISO 8601), and where they apply `attempt`, `round`, `tokens`, `output_tokens`, `cached_tokens`,
`reasoning_tokens`, `first_word_at`, `cut_reason`, `model`, `error`, `code` and `text` (of a CallNotice), `characters`
(of the reply) and `by` (a participant's id)."""


def make_step(kind: StepKind, **facts: Any) -> Step:
    return {"kind": kind, "at": timezone.now().isoformat(), **facts}


def append_step(step: Step) -> Combinable:
    """The expression for `update(steps=…)` that appends one step, whatever was written meanwhile."""
    return CombinedExpression(F("steps"), "||", Value([step], JSONField()), output_field=JSONField())


def add_step(run: Run, kind: StepKind, **facts: Any) -> None:
    """One more step of a row that is locked; the caller saves `steps`."""
    if not run.steps:
        run.steps = [{"kind": "queued", "at": run.queued_at.isoformat()}]
    run.steps = [*run.steps[-MAX_STEPS:], make_step(kind, **facts)]
