"""A thread's memory through time: its steps are the prompts that were read there and its compactions, in order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

from django.db.models import Q, QuerySet

from memory.plugins.models import Compaction
from openvibe.base.problems import Missing
from openvibe.chat.models import Thread
from openvibe.engines.registers import Register
from openvibe.workspaces.access import Access

StepKind = Literal["compaction", "prompt"]


class Step(NamedTuple):
    """A compaction, or a prompt (`id` is its run). Steps are ordered as they compare: at one instant by kind and id."""

    at: datetime
    kind: StepKind
    id: int


class PromptPart(NamedTuple):
    """What a prompt holds of its thread: a message or a summary, by numbers of messages, with its tokens there."""

    kind: Literal["message", "summary", "recalled"]
    first: int
    last: int
    tokens: int
    row_id: int


@dataclass(frozen=True)
class PromptReading:
    """A prompt as a step. Sizes in tokens. `parts` is None once its text is no longer kept, or where it cannot be read:
    `is_unreadable`."""

    step: Step
    agent: str
    request_seq: int
    tokens: int
    budget: int
    parts: tuple[PromptPart, ...] | None
    is_unreadable: bool = False


class PromptHistory(Protocol):
    """The prompts that were read in a thread, for whoever sees the thread."""

    def steps_beside(self, thread: Thread, step: Step | None) -> list[Step]:
        """The step before and the one after, as far as there are any; of None the newest. One statement."""

    def read(self, thread: Thread, run_id: int) -> PromptReading:
        """Raises Missing. One statement."""

    def charts(self, thread: Thread, access: Access) -> Sequence[object]:
        """The charts of each agent that answered: its prompts over time, and how well they were cached. Two
        statements."""


PROMPT_HISTORY: Register[PromptHistory] = Register("memory.plugins.map.timeline.PROMPT_HISTORY")
"""What the memory map shows of prompts."""


class Neighbours(NamedTuple):
    earlier: Step | None
    later: Step | None


def steps_beside(rows: QuerySet[Any, Any], kind: StepKind, step: Step | None, *, at: str, id: str) -> list[Step]:
    """The steps of one kind that are nearest before and after a step; of None the newest. `at` and `id` name its
    columns."""
    columns = rows.order_by().values_list(at, id)
    newest_first = (f"-{at}", f"-{id}")
    if step is None:
        steps = columns.order_by(*newest_first)[:1]
    else:
        before, after = _same_time(kind, step, at, id)
        earlier = columns.filter(Q(**{f"{at}__lt": step.at}) | before).order_by(*newest_first)[:1]
        later = columns.filter(Q(**{f"{at}__gt": step.at}) | after).order_by(at, id)[:1]
        steps = earlier.union(later, all=True)
    return [Step(time, kind, pk) for time, pk in steps]


def _same_time(kind: StepKind, step: Step, at: str, id: str) -> tuple[Q, Q]:
    """The conditions for rows of the kind, of the instant of the step, that come before it and after it."""
    every_step, no_step = Q(**{at: step.at}), Q(pk__in=())
    if kind != step.kind:
        return (every_step, no_step) if kind < step.kind else (no_step, every_step)
    return every_step & Q(**{f"{id}__lt": step.id}), every_step & Q(**{f"{id}__gt": step.id})


def _compactions(thread: Thread) -> QuerySet[Compaction]:
    return thread.compactions.filter(state=Compaction.State.DONE, finished_at__isnull=False)


def newest_step(thread: Thread) -> Step | None:
    """Two statements."""
    return max(_neighbour_steps(thread, None), default=None)


def neighbours(thread: Thread, step: Step) -> Neighbours:
    """Two statements."""
    beside = _neighbour_steps(thread, step)
    return Neighbours(
        max((each for each in beside if each < step), default=None),
        min((each for each in beside if each > step), default=None),
    )


def _neighbour_steps(thread: Thread, step: Step | None) -> Iterable[Step]:
    prompts = PROMPT_HISTORY.only().steps_beside(thread, step)
    return [*prompts, *steps_beside(_compactions(thread), "compaction", step, at="finished_at", id="pk")]


def access_compaction(thread: Thread, compaction_id: int) -> Compaction:
    """A compaction of the thread that did something. Raises Missing."""
    compaction = _compactions(thread).filter(pk=compaction_id).first()
    if compaction is None:
        raise Missing("This thread has no such compaction.")
    return compaction
