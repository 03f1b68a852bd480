"""The timeline of a run: its steps, tool calls and approvals in the order of their times, in words, as far as the
reader may see them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils.dateparse import parse_datetime

from agents.agent.models import Permission, Run, RunStep
from agents.prompts.snapshots.redaction import ToolCallView, visible_tool_calls
from agents.runs.error_text import read_error
from agents.runs.step_words import permission_words, reported_words, thought_words
from agents.runs.steps import Step
from memory.models import Approval
from openvibe.engines.text.cleaning import join_words
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

CUT_WORDS = {
    "length": "cut off at the most tokens it may have",
    "content_filter": "cut off by the provider's content filter",
    "pause": "paused before it came to an end",
}
CALL_VERBS = {"allowed": "Used", "refused": "Was refused", "waits": "Asked to use"}


@dataclass(frozen=True)
class TimelineEvent:
    """One thing that happened. `seconds` have passed since the one before; `call` is the tool call it was,
    `step` the step that an agent elsewhere reported, `permission` what it asked leave for, if any."""

    at: datetime
    kind: str
    text: str
    detail: str = ""
    attempt: int = 0
    seconds: float = 0.0
    call: ToolCallView | None = None
    step: RunStep | None = None
    permission: Permission | None = None


def run_timeline(run: Run, access: Access) -> tuple[TimelineEvent, ...]:
    """Everything that happened to the run, oldest first. The caller has checked that the run itself is visible.

    Seven queries at most.
    """
    calls = visible_tool_calls(run, access)
    events = [*_step_events(run, _recorded_steps(run)), *_call_events(calls), *_own_step_events(run)]
    events += _permission_events(run)
    in_order = sorted(events, key=lambda event: event.at)
    return tuple(
        replace(event, seconds=(event.at - before.at).total_seconds() if before else 0.0)
        for before, event in zip([None, *in_order], in_order, strict=False)
    )


def _recorded_steps(run: Run) -> Sequence[Step]:
    """The steps of the row; of a run that has none, from before steps were kept, what its columns tell."""
    if run.steps:
        return list(run.steps)
    times = {"queued": run.queued_at, "claimed": run.started_at, run.state: run.finished_at}
    return [{"kind": kind, "at": at.isoformat(), "attempt": run.attempt} for kind, at in times.items() if at]


def _step_events(run: Run, steps: Sequence[Step]) -> Iterator[TimelineEvent]:
    ids = {step.get("by") or run.requested_by_id for step in steps}
    ids |= {person for step in steps for person in step.get("people", ())}
    names = dict(Participant.objects.filter(pk__in=ids).values_list("pk", "name"))
    before = ""
    for number, step in enumerate(steps):
        name = names.get(step.get("by") or run.requested_by_id, "Somebody")
        is_last_wait = not any(later["kind"] == "waiting" for later in steps[number + 1 :])
        if people := [names.get(person, "somebody") for person in step.get("people", ())]:
            name = join_words(people)
        text, detail = _step_words(run, step, name, before, run.approval if is_last_wait else None)
        yield TimelineEvent(_time(step["at"]), step["kind"], text, detail, step.get("attempt", 0))
        before = step["kind"]


def _time(text: str) -> datetime:
    at = parse_datetime(text)
    assert at is not None, text
    return at


def _step_words(run: Run, step: Step, name: str, before: str, approval: Approval | None) -> tuple[str, str]:
    """What happened, and the figures of it. `approval`: what it waits, or waited, for, where that is known."""
    tokens = f"{step.get('tokens', 0):,} tokens"
    what = approval.what if approval else ""
    match step["kind"]:
        case "queued" if run.task == Run.Task.SCHEDULED and not run.regenerates_id:
            return "Due on its schedule", ""
        case "queued" if run.task == Run.Task.PROACTIVE and not run.regenerates_id:
            return "Decided to speak up", ""
        case "queued":
            return (f"{name} asked for another answer" if run.regenerates_id else f"{name} asked"), ""
        case "claimed" if before not in ("", "queued", "retried", "resumed", "failed"):
            return "Begun afresh: the worker before was lost", f"attempt {step.get('attempt', 1)}"
        case "claimed":
            return "Taken up", f"attempt {step.get('attempt', 1)}"
        case "assembled":
            return "Prompt assembled", tokens
        case "called":
            return "Asked the model", f"{step.get('model') or run.model or 'model'} · {tokens} sent"
        case "answered":
            return "The model answered", _answer_figures(step)
        case "notice":
            return step.get("text", ""), ""
        case "switched":
            return f"Asked {step.get('model', 'another model')} in its place", step.get("error", "")
        case "waiting":
            return "Waits for an approval", what
        case "resumed":
            return (f"{name} decided: {approval.get_state_display().lower()}" if approval else f"{name} decided"), what
        case "heard":
            return f"Heard {name} meanwhile", ""
        case "interrupted":
            return f"{name} had it hear at once what was said", ""
        case "continued":
            return "Its program was begun again and went on", f"attempt {step.get('attempt', 1)}"
        case "done" if step.get("answered_by"):
            return "Heard while another answer was written, which answered it", f"run {step['answered_by']}"
        case "stop_requested":
            return f"{name} asked it to stop", ""
        case "retried":
            return f"{name} tried it again", ""
        case "stopped":
            return (f"Stopped by {name}" if step.get("by") else "Stopped"), ""
        case "failed":
            return "Failed", read_error(step.get("error", "")).summary
        case _:
            return "Done", ""


def _answer_figures(step: Step) -> str:
    figures = [f"{step.get('tokens', 0):,} tokens in", f"{step.get('output_tokens', 0):,} out"]
    cached, first_word_at = step.get("cached_tokens"), step.get("first_word_at")
    if cached is not None:
        figures.append(f"{cached:,} from the cache")
    if first_word_at:
        figures.append(f"first word at {_time(first_word_at):%H:%M:%S.%f}"[:-5])
    if cut := CUT_WORDS.get(step.get("cut_reason", "")):
        figures.append(cut)
    return " · ".join(figures)


def _call_events(calls: Iterable[ToolCallView]) -> Iterator[TimelineEvent]:
    for call in calls:
        figures = f"{call.milliseconds:,} ms · {call.result_tokens:,} tokens of result"
        text = f"{CALL_VERBS.get(call.decision, 'Used')} {call.name}"
        yield TimelineEvent(call.created_at, "tool", text, figures, call.attempt, call=call)


def _own_step_events(run: Run) -> Iterator[TimelineEvent]:
    """What was thought, in words and figures alone, and what an agent elsewhere reported."""
    for step in run.own_steps.all():
        seconds = step.milliseconds / 1000
        if step.kind == RunStep.Kind.THOUGHT:
            is_thinking = step.state == RunStep.State.RUNNING and not run.is_over
            text, detail, shown = thought_words(seconds, step.tokens, is_thinking=is_thinking), "", None
        else:
            text, shown = reported_words(step.kind, step.state, step.text, step.tool), step
            detail = f"{step.milliseconds:,} ms" if step.milliseconds else ""
        yield TimelineEvent(step.created_at, step.kind, text, detail, step.attempt, step=shown)


def _permission_events(run: Run) -> Iterator[TimelineEvent]:
    """What an agent elsewhere asked leave for: as it asked, and as it was answered where that took a while."""
    for permission in run.permissions.select_related("run"):
        answer = " ".join(filter(None, (permission.why, f"Note: {permission.note}" if permission.note else "")))
        words = permission_words(permission.kind, permission.title, permission.state)
        is_immediate = permission.decided_at is not None and permission.expires_at is None
        at, attempt = permission.created_at, permission.attempt
        if is_immediate:
            yield TimelineEvent(at, "permission", words, answer, attempt, permission=permission)
            continue
        asked = permission_words(permission.kind, permission.title, "waiting")
        yield TimelineEvent(at, "permission", asked, "", attempt, permission=permission)
        if permission.decided_at is not None:
            yield TimelineEvent(permission.decided_at, "permission", words, answer, attempt)
