"""The one service that builds every prompt: for runs, previews and the API. It only reads; same input, same bytes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast, get_args

from django.utils import timezone

from agents.assembler import carried, diving, gather
from agents.assembler.fit import RequiredPartsTooLarge, fit
from agents.assembler.found import Found, Place, Window
from agents.assembler.gather import Asked, Scene
from agents.assembler.history import first_room, hidden_results, history, recollect
from agents.assembler.items import tool_item
from agents.assembler.knowing import knowledge
from agents.assembler.reading import read
from agents.assembler.recall import recalled
from agents.assembler.render import frame_tokens, render, sent_tokens
from agents.assembler.stack import BUDGETS, TaskBudget, bounded_by_window, with_overrides
from agents.assembler.values import Dropped, Fitted, Item, Offer
from agents.assembler.working import work
from agents.models import Agent
from agents.soul import TaskType
from agents.visibility import visible_to
from memory.providers.registry import provider_named
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
    tools: Sequence[ToolSpec] = (),
) -> Prompt:
    """The prompt for `agent` in `thread`, for a stored request, for text not sent yet, or for the thread as it stands.

    `budget` (tokens) may only lower the ceiling. Raises Missing when the agent may not see the thread, Problem for
    an unknown task, or for a budget (or a model's window) too small for what every prompt needs.
    """
    if task not in get_args(TaskType):
        raise Problem(f"A task is one of {', '.join(get_args(TaskType))}.", code="bad_task", field="task")
    asked = _asked(request, thread, asked_by, now)
    access = visible_to(agent)
    person_id = asked.author.pk if asked.author else None
    found = read(access, thread_id=thread.pk, person_id=person_id) if agent.is_active else None
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
    return _build(scene, found, name, tools)


def _build(scene: Scene, found: Found, model: str, tools: Sequence[ToolSpec]) -> Prompt:
    overhead = frame_tokens(scene.counter)
    standing = [
        gather.policy(scene),
        gather.soul(scene),
        *gather.instructions(scene),
        diving.draft_format(scene),
        _tools(scene, tools),
    ]
    needed = overhead + sum(bundle.tokens for offer in standing if offer.required for bundle in offer.bundles)
    cap = scene.budget.caps["P1"] or scene.budget.ceiling
    request = gather.request(scene, min(cap, scene.budget.ceiling - needed))
    feedback, episodes, private = gather.remembered(scene, found.episodes)
    topics, known, unknown = knowledge(scene, found, timezone.now())
    bound, working = work(scene, found, (tool.name for tool in tools))
    before_history = [*standing, request, bound, diving.source(scene), working]
    after_history = [
        carried.blocks(scene, found.blocks),
        feedback,
        carried.profile(scene, found.notes),
        *carried.skills(scene, found.skills),
        topics,
        known,
        gather.surroundings(scene),
        diving.headlines(scene, found),
    ]
    required = (*request.bundles, *bound.bundles)
    room = scene.budget.ceiling - needed - sum(bundle.tokens for bundle in required)
    fitted, hidden = _with_history(scene, found, (before_history, after_history, [episodes]), room, overhead)
    return Prompt(
        task=scene.task,
        model=model,
        counter=scene.counter,
        budget=scene.budget,
        messages=render(fitted),
        tools=tuple(tools),
        included=fitted.included,
        dropped=(*_left_out(fitted), *hidden, *private, *unknown),
        tokens=sent_tokens(fitted),
        soul_number=scene.agent.soul.number if scene.agent.soul else None,
    )


def _tools(scene: Scene, tools: Sequence[ToolSpec]) -> Offer:
    return Offer("P0", "tools", gather.one_each(tool_item(scene.counter, tool) for tool in tools), required=True)


Around = tuple[Sequence[Offer], Sequence[Offer], Sequence[Offer]]
"""The offers that stand before history, those after it, and those of P6 that stand beside what is recalled."""


def _with_history(scene: Scene, found: Found, around: Around, room: int, overhead: int) -> tuple[Fitted, list[Dropped]]:
    """The prompt with all of a short thread; else with what bears on the request, and as much history as then fits."""
    before, after, beside = around
    provider = provider_named(*found.plugin)
    asked_first = first_room(scene, room)
    entries, is_all = recollect(scene, provider, asked_first)
    near, remembered, rest = history(scene, entries)
    hidden = hidden_results(scene, entries)
    if is_all and not any(entry.summary_id for entry in entries):
        fitted = _fit(scene, [*before, *near, *after, *remembered, *beside, *rest], overhead)
        if not _misses_history(fitted):
            return fitted, hidden
    in_view, room_left = _in_view(scene, [*before, *map(_as_it_is, near), *after, *remembered, *beside], overhead)
    bearing = recalled(scene, in_view, room_left)
    fitted = _fit(scene, [*before, *near, *after, *remembered, *beside, bearing, *rest], overhead)
    if asked_first < room and not is_all and not _misses_history(fitted):
        entries, _ = recollect(scene, provider, room)
        near, remembered, rest = history(scene, entries)
        fitted = _fit(scene, [*before, *near, *after, *remembered, *beside, bearing, *rest], overhead)
    return fitted, hidden


def _as_it_is(offer: Offer) -> Offer:
    return replace(offer, extendable=False)


def _misses_history(fitted: Fitted) -> bool:
    return any(left.section == "history" and left.reason == "over budget" for left in fitted.dropped)


def _left_out(fitted: Fitted) -> tuple[Dropped, ...]:
    """What is not in the prompt, each once; a message that stands elsewhere in it was not left out."""
    standing = {entry.key for entry in fitted.included}
    left_out = {left.key: left for left in reversed(fitted.dropped) if left.key not in standing}
    return tuple(reversed(left_out.values()))


def _in_view(scene: Scene, offers: Sequence[Offer], overhead: int) -> tuple[list[int], int]:
    """Which messages are in view themselves, not in a summary, before anything is recalled; the tokens left for it."""
    fitted = _fit(scene, offers, overhead)
    seqs = [entry.order for entry in fitted.included if entry.key.startswith("message:") and entry.section == "history"]
    return seqs, scene.budget.ceiling - fitted.tokens


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
