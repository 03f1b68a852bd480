"""What a message shows about runs: the run that wrote it, and those it caused that have not answered yet."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q

from agents.models import Run, Snapshot
from openvibe.chat.models import Message
from openvibe.workspaces.access import Access


@dataclass(frozen=True)
class RunShown:
    """One run as its message shows it. `words` is its state as a sentence; `tokens` is input and output together."""

    pk: int
    name: str
    handle: str
    level: int
    state: str
    words: str
    model: str
    tokens: int
    error: str
    has_context: bool
    may_stop: bool
    may_retry: bool
    may_regenerate: bool

    @property
    def is_under_way(self) -> bool:
        """Not over: also while it waits for an approval."""
        return self.state in ("queued", "reading", "writing", "waiting_approval")


def runs_of(messages: Sequence[Message], access: Access) -> dict[int, dict[str, object]]:
    """`run` for replies, `waiting` for messages whose runs have no reply yet. One query."""
    ids = [message.pk for message in messages]
    if not ids:
        return {}
    unanswered = Q(trigger__in=ids, reply=None) & ~Q(state=Run.State.DONE)
    runs = (
        Run.objects.filter(Q(reply__in=ids) | unanswered)
        .select_related("agent__participant", "approval")
        .annotate(has_context=Exists(Snapshot.objects.filter(run=OuterRef("pk"))))
        .order_by("id")
    )
    found: dict[int, dict[str, object]] = {}
    waiting: dict[int, list[RunShown]] = {}
    for run in runs:
        if run.reply_id is not None:
            found.setdefault(run.reply_id, {})["run"] = shown(run, access)
        else:
            waiting.setdefault(run.trigger_id, []).append(shown(run, access))
    for message_id, rows in waiting.items():
        found.setdefault(message_id, {})["waiting"] = tuple(rows)
    return found


def shown(run: Run, access: Access) -> RunShown:
    """The run for this asker. Expects `agent__participant` and `approval` loaded and `has_context` annotated."""
    person = not access.is_agent
    retriable = run.state in (Run.State.FAILED, Run.State.STOPPED)
    return RunShown(
        pk=run.pk,
        name=run.agent.participant.name,
        handle=run.agent.participant.handle,
        level=run.agent.level,
        state=run.state,
        words=state_words(run),
        model=run.model,
        tokens=run.input_tokens + run.output_tokens,
        error=run.error,
        has_context=bool(getattr(run, "has_context", False)),
        may_stop=person and not run.is_over and run.stop_requested_at is None,
        may_retry=person and retriable and run.agent.is_active,
        may_regenerate=person and run.state == Run.State.DONE and run.agent.is_active,
    )


def state_words(run: Run) -> str:
    """The state as a short sentence with the agent's name."""
    name = run.agent.participant.name
    if not run.is_over and run.stop_requested_at is not None:
        return f"{name} is stopping…"
    return {
        "queued": f"{name} will answer as soon as it can…",
        "reading": f"{name} is reading…",
        "writing": f"{name} is writing…",
        "waiting_approval": f"{name} is waiting for an approval: {run.approval.what if run.approval else 'see above'}",
        "done": f"{name} replied",
        "stopped": f"{name} was stopped; what it wrote so far is kept"
        if run.reply_id
        else f"{name} was stopped before it answered",
        "failed": f"{name} could not answer",
    }[run.state]
