"""The one service that builds every prompt: for runs, previews and the API. It only reads; same input, same bytes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast, get_args

from django.utils import timezone

from agents.access import visible_to
from agents.assembler.fit import RequiredPartsTooLarge, fit
from agents.assembler.items import make_tool_item, single_item_groups
from agents.assembler.queries import ModelWindow, PromptContext, ThreadContext, read_prompt_context
from agents.assembler.render import overhead_tokens, render, sent_tokens
from agents.assembler.sections.blocks import block_candidates, profile_candidates, skill_candidates
from agents.assembler.sections.dive import draft_format_candidates, headline_candidates, source_candidates
from agents.assembler.sections.episodes import episode_candidates
from agents.assembler.sections.history import (
    hidden_dive_results,
    history_candidates,
    initial_history_room,
    recall_history,
)
from agents.assembler.sections.identity import (
    instruction_candidates,
    policy_candidates,
    soul_candidates,
    workspace_candidates,
)
from agents.assembler.sections.knowledge import knowledge_candidates
from agents.assembler.sections.recall import recall_candidates
from agents.assembler.sections.request import PromptRequest, RequestMessage, request_candidates
from agents.assembler.sections.work import work_candidates
from agents.assembler.stack import BUDGETS, TaskBudget, bounded_by_window, with_overrides
from agents.assembler.values import DroppedItem, FitResult, Item, SectionCandidates
from agents.models import Agent
from agents.soul import TaskType
from memory.queries import provider_named
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Message, Thread
from openvibe.llm.models import Endpoint
from openvibe.llm.tokens import TokenCounter, counter_for
from openvibe.llm.values import ChatMessage, ToolSpec
from openvibe.workspaces.models import Participant

ASSEMBLER_VERSION = 1
OFFLINE_MODEL = "offline"


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
    dropped: tuple[DroppedItem, ...]
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
    message = _request_message(request, thread, asked_by, now)
    access = visible_to(agent)
    person_id = message.author.pk if message.author else None
    context = read_prompt_context(access, thread_id=thread.pk, person_id=person_id) if agent.is_active else None
    if context is None:
        raise Missing
    endpoint = agent.endpoint or context.default_endpoint
    model_name = model or (endpoint.model if endpoint and endpoint.model else OFFLINE_MODEL)
    prompt_request = PromptRequest(
        agent=agent,
        access=access,
        thread=context.thread,
        task=cast(TaskType, task),
        asked=message,
        counter=counter_for(model_name),
        budget=_task_budget(cast(TaskType, task), context.thread, endpoint, budget),
    )
    return _build_prompt(prompt_request, context, model_name, tools)


def _build_prompt(
    prompt_request: PromptRequest, context: PromptContext, model: str, tools: Sequence[ToolSpec]
) -> Prompt:
    overhead = overhead_tokens(prompt_request.counter)
    required_sections = [
        policy_candidates(prompt_request),
        soul_candidates(prompt_request),
        *instruction_candidates(prompt_request),
        draft_format_candidates(prompt_request),
        _tool_candidates(prompt_request, tools),
    ]
    needed = overhead + sum(
        group.tokens for section in required_sections if section.required for group in section.groups
    )
    cap = prompt_request.budget.caps["P1"] or prompt_request.budget.ceiling
    request = request_candidates(prompt_request, min(cap, prompt_request.budget.ceiling - needed))
    feedback, episodes, private_episodes = episode_candidates(prompt_request, context.episodes)
    topics, entries, unreadable = knowledge_candidates(prompt_request, context, timezone.now())
    constraints, other_work = work_candidates(prompt_request, context, (tool.name for tool in tools))
    before_history = [*required_sections, request, constraints, source_candidates(prompt_request), other_work]
    after_history = [
        block_candidates(prompt_request, context.blocks),
        feedback,
        profile_candidates(prompt_request, context.notes),
        *skill_candidates(prompt_request, context.loaded_skills),
        topics,
        entries,
        workspace_candidates(prompt_request),
        headline_candidates(prompt_request, context),
    ]
    required = (*request.groups, *constraints.groups)
    room = prompt_request.budget.ceiling - needed - sum(group.tokens for group in required)
    fitted, hidden = _fit_with_history(
        prompt_request, context, (before_history, after_history, [episodes]), room, overhead
    )
    return Prompt(
        task=prompt_request.task,
        model=model,
        counter=prompt_request.counter,
        budget=prompt_request.budget,
        messages=render(fitted),
        tools=tuple(tools),
        included=fitted.included,
        dropped=(*_dropped_items(fitted), *hidden, *private_episodes, *unreadable),
        tokens=sent_tokens(fitted),
        soul_number=prompt_request.agent.soul.number if prompt_request.agent.soul else None,
    )


def _tool_candidates(request: PromptRequest, tools: Sequence[ToolSpec]) -> SectionCandidates:
    return SectionCandidates(
        "P0",
        "tools",
        single_item_groups(make_tool_item(request.counter, tool) for tool in tools),
        required=True,
    )


SurroundingCandidates = tuple[Sequence[SectionCandidates], Sequence[SectionCandidates], Sequence[SectionCandidates]]
"""The offers that stand before history, those after it, and those of P6 that stand beside what is recalled."""


def _fit_with_history(
    request: PromptRequest, context: PromptContext, around: SurroundingCandidates, room: int, overhead: int
) -> tuple[FitResult, list[DroppedItem]]:
    """The prompt with all of a short thread; else with what bears on the request, and as much history as then fits."""
    sections_before, sections_after, sections_beside_recall = around
    provider = provider_named(*context.plugin)
    initial_room = initial_history_room(request, room)
    entries, is_all = recall_history(request, provider, initial_room)
    history_sections, history_before_recall, history_remainder = history_candidates(request, entries)
    hidden_dives = hidden_dive_results(request, entries)
    if is_all and not any(entry.summary_id for entry in entries):
        fitted = _fit_or_problem(
            request,
            [
                *sections_before,
                *history_sections,
                *sections_after,
                *history_before_recall,
                *sections_beside_recall,
                *history_remainder,
            ],
            overhead,
        )
        if not _is_history_over_budget(fitted):
            return fitted, hidden_dives
    in_view, room_left = _history_in_view(
        request,
        [
            *sections_before,
            *map(_not_extendable, history_sections),
            *sections_after,
            *history_before_recall,
            *sections_beside_recall,
        ],
        overhead,
    )
    recall_section = recall_candidates(request, in_view, room_left)
    fitted = _fit_or_problem(
        request,
        [
            *sections_before,
            *history_sections,
            *sections_after,
            *history_before_recall,
            *sections_beside_recall,
            recall_section,
            *history_remainder,
        ],
        overhead,
    )
    if initial_room < room and not is_all and not _is_history_over_budget(fitted):
        entries, _ = recall_history(request, provider, room)
        history_sections, history_before_recall, history_remainder = history_candidates(request, entries)
        fitted = _fit_or_problem(
            request,
            [
                *sections_before,
                *history_sections,
                *sections_after,
                *history_before_recall,
                *sections_beside_recall,
                recall_section,
                *history_remainder,
            ],
            overhead,
        )
    return fitted, hidden_dives


def _not_extendable(section: SectionCandidates) -> SectionCandidates:
    return replace(section, extendable=False)


def _is_history_over_budget(fitted: FitResult) -> bool:
    return any(left.section == "history" and left.reason == "over budget" for left in fitted.dropped)


def _dropped_items(fitted: FitResult) -> tuple[DroppedItem, ...]:
    """What is not in the prompt, each once; a message that stands elsewhere in it was not left out."""
    included_keys = {entry.key for entry in fitted.included}
    by_key = {item.key: item for item in reversed(fitted.dropped) if item.key not in included_keys}
    return tuple(reversed(by_key.values()))


def _history_in_view(
    request: PromptRequest, sections: Sequence[SectionCandidates], overhead: int
) -> tuple[list[int], int]:
    """Which messages are in view themselves, not in a summary, before anything is recalled; the tokens left for it."""
    fitted = _fit_or_problem(request, sections, overhead)
    seqs = [entry.order for entry in fitted.included if entry.key.startswith("message:") and entry.section == "history"]
    return seqs, request.budget.ceiling - fitted.tokens


def _fit_or_problem(request: PromptRequest, sections: Sequence[SectionCandidates], overhead: int) -> FitResult:
    try:
        return fit(sections, ceiling=request.budget.ceiling, caps=request.budget.caps, overhead=overhead)
    except RequiredPartsTooLarge as error:
        raise Problem(str(error), code="budget_too_small", field="budget") from error


def endpoint_for(agent: Agent) -> Endpoint | None:
    """The endpoint that answers for the agent: its own, the workspace's default, or None for the offline model."""
    return agent.endpoint or Endpoint.objects.filter(workspace_id=agent.workspace_id, is_default=True).first()


def _task_budget(
    task: TaskType, thread: ThreadContext, endpoint: Endpoint | ModelWindow | None, limit: int | None
) -> TaskBudget:
    overrides = thread.budgets.get(task, {}) if isinstance(thread.budgets, dict) else {}
    budget = with_overrides(BUDGETS[task], overrides)
    if endpoint is not None:
        budget = _bounded_by_endpoint(budget, endpoint)
    if limit is not None:
        if limit < 1:
            raise Problem("A budget is a positive number of tokens.", code="bad_budget", field="budget")
        budget = bounded_by_window(budget, limit, 0)
    return budget


def _bounded_by_endpoint(budget: TaskBudget, endpoint: Endpoint | ModelWindow) -> TaskBudget:
    try:
        return bounded_by_window(budget, endpoint.context_window, endpoint.output_reserve)
    except ValueError as error:
        raise Problem(str(error), code="window_too_small") from error


def _request_message(
    request: Message | str | None, thread: Thread, asked_by: Participant | None, now: datetime | None
) -> RequestMessage:
    if isinstance(request, Message):
        if request.thread_id != thread.pk:
            raise Missing
        return RequestMessage(request.body, request.author, request.created_at, request)
    if request is None:
        newest = (
            Message.objects.filter(thread=thread, author__kind=Participant.Kind.MEMBER, deleted_at=None)
            .select_related("author")
            .order_by("-seq")
            .first()
        )
        if newest is not None:
            return _request_message(newest, thread, asked_by, now)
    return RequestMessage(request or "", asked_by, now or timezone.now())
