"""Steps of a run: what workers and people did to it, and when; and how its thread shows them, as far as the reader may
see them.

They stand in the run's row and are written with changes that are made to it anyway, so they cost no statement. Tool
calls and approvals have rows of their own; `agents.runs.timeline` puts all of it in order."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from django.db.models import F, JSONField, Q, Value
from django.db.models.expressions import Combinable, CombinedExpression
from django.utils import timezone

from agents.agent.models import RUNS, Permission, Run, RunStep
from agents.prompts.snapshots.redaction import ToolCallView, visible_tool_calls
from agents.runs.diffs import MAX_SHOWN_LINES, DiffLine, read_diff, split_lines
from agents.runs.step_words import call_words, permission_words, reported_words, seconds_words
from openvibe.workspaces.access import Access

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
    "heard",
    "interrupted",
    "continued",
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
(of the reply), `by` (a participant's id), `people` (those who were heard) and `answered_by` (a run's id)."""


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
    """Tool calls, reported steps and permissions, oldest first. The caller has checked that the run is visible.

    Six queries at most.
    """
    steps = run.own_steps.exclude(kind=RunStep.Kind.THOUGHT)
    asked = run.permissions.exclude(_is_plain_look(), rule=None)
    calls = visible_tool_calls(run, access)
    views = [*map(_call_view, calls), *map(_step_view, steps), *map(_permission_view, asked)]
    return tuple(sorted(views, key=lambda view: view.at))


def _call_view(call: ToolCallView) -> StepView:
    words = call_words(call.name, call.arguments, call.result, decision=call.decision, why=call.why)
    states = {"refused": RunStep.State.REFUSED, "waits": RunStep.State.RUNNING}
    state = states.get(call.decision, RunStep.State.DONE)
    return StepView(call.created_at, words, state, call.milliseconds / 1000, call.arguments, call.result, call.hidden)


def _is_plain_look() -> Q:
    """Looking that the trust level allows: the step itself tells of it."""
    return Q(kind__in=("read", "search", "think"), state=Permission.State.ALLOWED)


def _permission_view(permission: Permission) -> StepView:
    words = permission_words(permission.kind, permission.title, permission.state)
    answer = " ".join(filter(None, (permission.why, f"Note: {permission.note}" if permission.note else "")))
    states = {"denied": RunStep.State.REFUSED, "waiting": RunStep.State.RUNNING}
    waited = (permission.decided_at or timezone.now()) - permission.created_at
    seconds = max(waited.total_seconds(), 0.0) if permission.expires_at else 0.0
    asked = "\n".join(filter(None, (permission.command, *permission.paths, permission.arguments)))
    state = states.get(permission.state, RunStep.State.DONE)
    return StepView(permission.created_at, words, state, seconds, asked, answer)


def _step_view(step: RunStep) -> StepView:
    words = reported_words(step.kind, step.state, step.text, step.tool)
    return StepView(step.created_at, words, step.state, step.milliseconds / 1000, step.arguments, step.result)


class FileChange(NamedTuple):
    """One change of a file. `left_out`: lines of the diff that are not shown."""

    lines: tuple[DiffLine, ...]
    left_out: int


@dataclass
class ChangedFile:
    """A file that a run changed, with all changes that were told, the oldest first; the sums of their lines."""

    path: str
    added: int = 0
    removed: int = 0
    changes: list[FileChange] = field(default_factory=list)


def changed_files(run: Run) -> list[ChangedFile]:
    """What the run changed, by file, as its agent told it. The caller has checked that the run is visible."""
    by_path: dict[str, ChangedFile] = {}
    told = run.own_steps.exclude(files=[]).exclude(state__in=(RunStep.State.FAILED, RunStep.State.REFUSED))
    for told_files in told.values_list("files", flat=True):
        for told_file in told_files:
            file = by_path.setdefault(told_file["path"], ChangedFile(told_file["path"]))
            file.added += told_file["added"]
            file.removed += told_file["removed"]
            unshown = max(len(split_lines(told_file["diff"])) - MAX_SHOWN_LINES, 0)
            file.changes.append(FileChange(read_diff(told_file["diff"]), unshown + told_file["unkept_lines"]))
    return list(by_path.values())


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
