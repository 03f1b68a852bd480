"""The one service that builds every prompt: for runs, previews and the API. It only reads; same input, same bytes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast, get_args

from django.utils import timezone

from agents.assembler import gather
from agents.assembler.fit import RequiredPartsTooLarge, fit
from agents.assembler.gather import Asked, Scene
from agents.assembler.history import REACH, history, in_sight, read_first
from agents.assembler.reading import Found, Place, Said, Window, read, said_in
from agents.assembler.recall import recalled
from agents.assembler.render import frame_tokens, render
from agents.assembler.stack import BUDGETS, TaskBudget, bounded_by_window, with_overrides
from agents.assembler.values import Dropped, Fitted, Item, Offer
from agents.models import Agent
from agents.soul import TaskType
from agents.visibility import visible_to
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Message, Thread
from openvibe.llm.models import Endpoint
from openvibe.llm.tokens import TokenCounter, counter_for
from openvibe.llm.values import ChatMessage, ToolSpec
from openvibe.workspaces.models import Participant

ASSEMBLER_VERSION = 1
OFFLINE = "offline"


@dataclass(frozen=True)
class Prompt:
    """A prompt and how it came to be. All sizes in tokens of `counter`."""

    task: TaskType
    model: str
    counter: TokenCounter
    budget: TaskBudget
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...]
    included: tuple[Item, ...]
    dropped: tuple[Dropped, ...]
    tokens: int
    soul_number: int | None

    @property
    def ceiling(self) -> int:
        return self.budget.ceiling

    @property
    def layers(self) -> Mapping[str, int]:
        """Tokens per layer, overhead under `frame`."""
        sums: Counter[str] = Counter()
        for entry in self.included:
            sums[entry.layer] += entry.tokens
        return {**{f"P{n}": sums[f"P{n}"] for n in range(7)}, "frame": self.tokens - sum(sums.values())}


def assemble(
    *,
    agent: Agent,
    thread: Thread,
    task: str,
    request: Message | str | None = None,
    asked_by: Participant | None = None,
    budget: int | None = None,
    model: str | None = None,
    now: datetime | None = None,
) -> Prompt:
    """The prompt for `agent` in `thread`, for a stored request, for text not sent yet, or for the thread as it stands.

    `budget` (tokens) may only lower the ceiling. Raises Missing when the agent may not see the thread, Problem for
    an unknown task, or for a budget (or a model's window) too small for what every prompt needs.
    """
    if task not in get_args(TaskType):
        raise Problem(f"A task is one of {', '.join(get_args(TaskType))}.", code="bad_task", field="task")
    asked = _asked(request, thread, asked_by, now)
    access = visible_to(agent)
    messages = read_first(cast(TaskType, task), asked.before or thread.last_seq + 1)
    found = read(access, thread_id=thread.pk, before=asked.before, messages=messages) if agent.is_active else None
    if found is None:
        raise Missing
    endpoint = agent.endpoint or found.default_endpoint
    name = model or (endpoint.model if endpoint and endpoint.model else OFFLINE)
    scene = Scene(
        agent=agent,
        access=access,
        place=found.place,
        task=cast(TaskType, task),
        asked=asked,
        counter=counter_for(name),
        budget=_budget(cast(TaskType, task), found.place, endpoint, budget),
    )
    return _build(scene, found, messages, name)


def _build(scene: Scene, found: Found, messages: int, model: str) -> Prompt:
    overhead = frame_tokens(scene.counter)
    standing = [gather.policy(scene), gather.soul(scene), *gather.instructions(scene)]
    needed = overhead + sum(bundle.tokens for offer in standing if offer.required for bundle in offer.bundles)
    cap = scene.budget.caps["P1"] or scene.budget.ceiling
    request = gather.request(scene, min(cap, scene.budget.ceiling - needed))
    feedback, episodes, private = gather.remembered(scene, found.episodes)
    before_history = [*standing, request, gather.clock(scene)]
    after_history = [feedback, gather.surroundings(scene), episodes]
    fitted, hidden = _with_history(scene, (before_history, after_history), found.newest, messages, overhead)
    return Prompt(
        task=scene.task,
        model=model,
        counter=scene.counter,
        budget=scene.budget,
        messages=render(fitted),
        tools=(),
        included=fitted.included,
        dropped=(*_left_out(fitted), *hidden, *private),
        tokens=fitted.tokens,
        soul_number=scene.agent.soul.number if scene.agent.soul else None,
    )


Around = tuple[Sequence[Offer], Sequence[Offer]]
"""The offers that stand before history, and those after it."""


def _with_history(
    scene: Scene, around: Around, newest: Sequence[Said], read_at_most: int, overhead: int
) -> tuple[Fitted, list[Dropped]]:
    """The prompt with all of a short thread; else with what bears on the request, and as much history as then fits."""
    before, after = around
    sight = in_sight(scene, newest, read_at_most)
    near = history(scene, sight.messages)
    if sight.is_all:
        fitted = _fit(scene, [*before, *near, *after], overhead)
        if not _misses_history(fitted):
            return fitted, sight.hidden
    bearing = recalled(scene, _seqs_in_view(scene, [*before, replace(near[0], extendable=False)], overhead))
    fitted = _fit(scene, [*before, *near, *after, bearing], overhead)
    if read_at_most < REACH and not sight.is_all and not _misses_history(fitted):
        newest = said_in(scene.place.thread_id, before=scene.asked.before, messages=REACH)
        sight = in_sight(scene, newest, REACH)
        fitted = _fit(scene, [*before, *history(scene, sight.messages), *after, bearing], overhead)
    return fitted, sight.hidden


def _misses_history(fitted: Fitted) -> bool:
    return any(left.section == "history" and left.reason == "over budget" for left in fitted.dropped)


def _left_out(fitted: Fitted) -> tuple[Dropped, ...]:
    """What is not in the prompt; a message that stands elsewhere in it was not left out."""
    standing = {entry.key for entry in fitted.included}
    return tuple(left for left in fitted.dropped if left.key not in standing)


def _seqs_in_view(scene: Scene, offers: Sequence[Offer], overhead: int) -> list[int]:
    """Which messages the caps of P1 bring into view, before anything is recalled."""
    fitted = _fit(scene, offers, overhead)
    return [entry.order for entry in fitted.included if entry.section == "history"]


def _fit(scene: Scene, offers: Sequence[Offer], overhead: int) -> Fitted:
    try:
        return fit(offers, ceiling=scene.budget.ceiling, caps=scene.budget.caps, overhead=overhead)
    except RequiredPartsTooLarge as error:
        raise Problem(str(error), code="budget_too_small", field="budget") from error


def endpoint_of(agent: Agent) -> Endpoint | None:
    """The endpoint that answers for the agent: its own, the workspace's default, or None for the offline model."""
    return agent.endpoint or Endpoint.objects.filter(workspace_id=agent.workspace_id, is_default=True).first()


def _budget(task: TaskType, place: Place, endpoint: Endpoint | Window | None, asked: int | None) -> TaskBudget:
    overrides = place.budgets.get(task, {}) if isinstance(place.budgets, dict) else {}
    budget = with_overrides(BUDGETS[task], overrides)
    if endpoint is not None:
        budget = _within_window(budget, endpoint)
    if asked is not None:
        if asked < 1:
            raise Problem("A budget is a positive number of tokens.", code="bad_budget", field="budget")
        budget = bounded_by_window(budget, asked, 0)
    return budget


def _within_window(budget: TaskBudget, endpoint: Endpoint | Window) -> TaskBudget:
    try:
        return bounded_by_window(budget, endpoint.context_window, endpoint.output_reserve)
    except ValueError as error:
        raise Problem(str(error), code="window_too_small") from error


def _asked(request: Message | str | None, thread: Thread, asked_by: Participant | None, now: datetime | None) -> Asked:
    if isinstance(request, Message):
        if request.thread_id != thread.pk:
            raise Missing
        return Asked(request.body, request.author, request.created_at, request)
    if request is None:
        newest = (
            Message.objects.filter(thread=thread, author__kind=Participant.Kind.MEMBER, deleted_at=None)
            .select_related("author")
            .order_by("-seq")
            .first()
        )
        if newest is not None:
            return _asked(newest, thread, asked_by, now)
    return Asked(request or "", asked_by, now or timezone.now())
