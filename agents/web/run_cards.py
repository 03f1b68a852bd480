"""Runs as messages show them.

A message shows the run that wrote it, and the runs it caused that have not answered yet."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Left
from django.utils.text import Truncator

from agents.models import Run, TrustChange
from openvibe.base.query_cache import CompiledQuery, array_literal
from openvibe.chat.models import Message
from openvibe.workspaces.access import Access

MAX_QUESTION_CHARACTERS = 60
"""Characters of the question that a run shows."""


@dataclass(frozen=True)
class RunCard:
    """One run as its message shows it. `label` is its state as a sentence.

    `tokens_read`: of its prompt, of which `budget` was the ceiling (0 where none was assembled here), as the context
    viewer counts; `tokens_written`: of all answers of the model.

    `question`: the beginning of the message it answers. `regenerates` and `answered_again`: the replies before and
    after it to the same message, by id.
    """

    pk: int
    name: str
    state: str
    label: str
    model: str
    first_model: str
    """Asked first, where its fallback wrote the answer."""
    tokens_read: int
    budget: int
    tokens_written: int
    error: str
    has_context: bool
    question: str
    regenerates: int | None
    answered_again: int | None
    may_stop: bool
    may_retry: bool
    may_regenerate: bool
    thread_id: int
    approval_id: int | None
    """What it waits for now."""
    is_scheduled: bool
    stoppable_schedule_id: int | None
    """The schedule that had it, while the asker may stop it."""

    @property
    def is_under_way(self) -> bool:
        """Not over: also while it waits for an approval."""
        return self.state not in Run.FINISHED_STATES


def runs_by_message(messages: Sequence[Message], access: Access) -> dict[int, dict[str, Any]]:
    """`run` for replies, `waiting` for messages whose runs have no reply yet, `level` the author's at that time.

    One query, two where agents wrote without a run.
    """
    runs: list[Run] = _runs_at.objects(array_literal(message.id for message in messages)) if messages else []
    decorations: dict[int, dict[str, Any]] = defaultdict(dict)
    for run in runs:
        if run.reply_id is not None:
            decorations[run.reply_id] |= {"run": _run_card(run, access), "level": getattr(run, "level_then", None)}
        else:
            extras = decorations[run.trigger_id]
            extras["waiting"] = (*extras.get("waiting", ()), _run_card(run, access))
    for message_id, level in _levels_then([m for m in messages if m.author.is_agent and m.pk not in decorations]):
        decorations[message_id]["level"] = level
    return decorations


def read_run_card(run_id: int, access: Access) -> RunCard:
    """Of a run that the asker sees."""
    return _run_card(_runs_by_id.objects(run_id)[0], access)


def _levels_then(messages: Sequence[Message]) -> Iterator[tuple[int, int]]:
    """Ids of agents' messages, and the author's trust level when they were written, where it is another now.

    One query; none without messages.
    """
    if not messages:
        return
    changes = TrustChange.objects.filter(agent__participant__in={message.author_id for message in messages})
    rows = list(changes.order_by("id").values_list("agent__participant_id", "created_at", "level_before"))
    for message in messages:
        later = (level for author, at, level in rows if author == message.author_id and at > message.created_at)
        if level := next(later, None):
            yield message.pk, level


RUN_CARD_FIELDS = (
    *(
        "state",
        "model",
        "first_model",
        "input_tokens",
        "output_tokens",
        "error",
        "stop_requested_at",
        "heard_at",
        "reply",
        "trigger",
    ),
    *("agent__deactivated_at", "agent__participant__name", "approval__what", "regenerates__reply"),
    *("thread", "task", "schedule__is_active"),
)


@CompiledQuery
def _runs_at(ids: int) -> QuerySet[Run]:
    is_unanswered = Q(trigger__id__any_of=ids, reply=None) & ~Q(state=Run.State.DONE)
    return _card_rows(Run.objects.filter(Q(reply__id__any_of=ids) | is_unanswered))


@CompiledQuery
def _runs_by_id(pk: int) -> QuerySet[Run]:
    return _card_rows(Run.objects.filter(pk=pk))


def _card_rows(runs: QuerySet[Run]) -> QuerySet[Run]:
    """With what a card needs; `answered_again` is the newest reply of a run that was asked for in its place, and
    `level_then` the agent's level when it replied."""
    later_runs = Run.objects.filter(regenerates=OuterRef("pk"), reply__isnull=False).order_by("-id").values("reply")
    later_changes = TrustChange.objects.filter(agent=OuterRef("agent"), created_at__gt=OuterRef("reply__created_at"))
    runs = runs.select_related("agent__participant", "approval", "regenerates", "schedule").only(*RUN_CARD_FIELDS)
    return runs.annotate(
        prompt_tokens=F("snapshot__tokens"),
        prompt_budget=F("snapshot__budget"),
        question=Left("trigger__body", 2 * MAX_QUESTION_CHARACTERS),
        answered_again=Subquery(later_runs[:1]),
        level_then=Coalesce(Subquery(later_changes.order_by("id").values("level_before")[:1]), F("agent__level")),
    ).order_by("id")


def _run_card(run: Run, access: Access) -> RunCard:
    """The run for this asker. Expects `agent__participant` and `approval` loaded, and what `_card_rows` adds."""
    is_person = not access.is_agent
    is_retriable = run.state in (Run.State.FAILED, Run.State.STOPPED)
    return RunCard(
        pk=run.pk,
        name=run.agent.participant.name,
        state=run.state,
        label=_run_state_label(run),
        model=run.model,
        first_model=run.first_model,
        tokens_read=getattr(run, "prompt_tokens", None) or run.input_tokens,
        budget=getattr(run, "prompt_budget", None) or 0,
        tokens_written=run.output_tokens,
        error=run.error,
        has_context=getattr(run, "prompt_budget", None) is not None,
        regenerates=run.regenerates.reply_id if run.regenerates else None,
        question=Truncator(" ".join(getattr(run, "question", "").split())).chars(MAX_QUESTION_CHARACTERS),
        answered_again=getattr(run, "answered_again", None),
        may_stop=is_person and not run.is_over and run.stop_requested_at is None,
        may_retry=is_person and is_retriable and run.agent.is_active,
        may_regenerate=is_person and run.state == Run.State.DONE and run.agent.is_active,
        thread_id=run.thread_id,
        approval_id=run.approval_id if run.state == Run.State.WAITING else None,
        is_scheduled=run.task == Run.Task.SCHEDULED,
        stoppable_schedule_id=(
            run.schedule_id if is_person and not access.is_guest and run.schedule and run.schedule.is_active else None
        ),
    )


def _run_state_label(run: Run) -> str:
    """The state as a short sentence with the agent's name."""
    name = run.agent.participant.name
    if not run.is_over and run.stop_requested_at is not None:
        return f"{name} is stopping…"
    if run.state == Run.State.QUEUED and run.is_external:
        return f"{name} runs elsewhere: the question waits for its program"
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
