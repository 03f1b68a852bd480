"""The one service that builds every prompt: for runs, previews and the API. It only reads; same input, same bytes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, cast, get_args

from django.utils import timezone

from agents.access import visible_to
from agents.assembler.fit import RequiredPartsTooLarge, fit
from agents.assembler.items import make_tool_item, single_item_groups
from agents.assembler.queries import ModelWindow, PromptContext, read_prompt_context
from agents.assembler.render import overhead_tokens, render, sent_tokens
from agents.assembler.sections.blocks import block_candidates, profile_candidates, skill_candidates
from agents.assembler.sections.dive import draft_format_candidates, headline_candidates, source_candidates
from agents.assembler.sections.episodes import episode_candidates
from agents.assembler.sections.history import (
    HistoryCandidates,
    MemoryPluginRow,
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
from agents.assembler.sections.request import PromptRequest, RequestMessage, ThreadContext, request_candidates
from agents.assembler.sections.work import work_candidates
from agents.assembler.stack import BUDGETS, TaskBudget, bounded_by_window, with_overrides
from agents.assembler.values import DroppedItem, FitResult, Item, SectionCandidates
from agents.models import Agent
from agents.soul import TaskType
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
    return _build_prompt(
        PromptRequest(
            agent=agent,
            access=access,
            thread=context.thread,
            task=cast(TaskType, task),
            message=message,
            counter=counter_for(model_name),
            budget=_task_budget(cast(TaskType, task), context.thread, endpoint, budget),
        ),
        context,
        model_name,
        tools,
    )


def _build_prompt(request: PromptRequest, context: PromptContext, model: str, tools: Sequence[ToolSpec]) -> Prompt:
    """Every section's candidates, what fits of them, rendered."""
    ceiling, overhead = request.budget.ceiling, overhead_tokens(request.counter)
    identity = [
        policy_candidates(request),
        soul_candidates(request),
        *instruction_candidates(request),
        draft_format_candidates(request),
        _tool_candidates(request, tools),
    ]
    room_for_message = ceiling - overhead - _required_tokens(identity)
    message = request_candidates(request, min(request.budget.caps["P1"] or ceiling, room_for_message))
    feedback, episodes, private_episodes = episode_candidates(request, context.episodes)
    topics, entries, unreadable = knowledge_candidates(request, context.any_entry, timezone.now())
    constraints, other_work = work_candidates(request, context.work, (tool.name for tool in tools))
    sections = _SectionsAroundHistory(
        before=[*identity, message, constraints, source_candidates(request), other_work],
        after=[
            block_candidates(request, context.blocks),
            feedback,
            profile_candidates(request, context.profile_notes),
            *skill_candidates(request, context.loaded_skills),
            topics,
            entries,
            workspace_candidates(request),
            headline_candidates(request, context.dive_results),
        ],
        beside_recall=[episodes],
    )
    fitted, hidden = _fit_with_history(request, context.memory_plugin, sections)
    return Prompt(
        task=request.task,
        model=model,
        counter=request.counter,
        budget=request.budget,
        messages=render(fitted),
        tools=tuple(tools),
        included=fitted.included,
        dropped=(*_dropped_items(fitted), *hidden, *private_episodes, *unreadable),
        tokens=sent_tokens(fitted),
        soul_number=request.agent.soul.number if request.agent.soul else None,
    )


def _tool_candidates(request: PromptRequest, tools: Sequence[ToolSpec]) -> SectionCandidates:
    tool_items = (make_tool_item(request.counter, tool) for tool in tools)
    return SectionCandidates("P0", "tools", single_item_groups(tool_items), required=True)


def _required_tokens(sections: Iterable[SectionCandidates]) -> int:
    """What stands in the prompt whatever else does."""
    return sum(group.tokens for section in sections if section.required for group in section.groups)


# --- history and recall share what the other sections leave ---------------------------------------------------
class _SectionsAroundHistory(NamedTuple):
    """All sections but history and recall: those that come before history, after it, and in P6 before recall."""

    before: Sequence[SectionCandidates]
    after: Sequence[SectionCandidates]
    beside_recall: Sequence[SectionCandidates]

    def with_history(
        self, history: HistoryCandidates, recall: Sequence[SectionCandidates] = ()
    ) -> list[SectionCandidates]:
        """All sections in the order in which they are fitted."""
        return [
            *self.before,
            *history.in_cap,
            *self.after,
            *history.before_recall,
            *self.beside_recall,
            *recall,
            *history.after_recall,
        ]


def _fit_with_history(
    request: PromptRequest, plugin: MemoryPluginRow, sections: _SectionsAroundHistory
) -> tuple[FitResult, list[DroppedItem]]:
    """The prompt with all of a short thread; else with what bears on the request, and as much history as then fits."""
    room = request.budget.ceiling - overhead_tokens(request.counter) - _required_tokens(sections.before)
    initial_room = initial_history_room(request, room)
    entries, is_all = recall_history(request, plugin, initial_room)
    history = history_candidates(request, entries)
    hidden_dives = hidden_dive_results(request, entries)
    if is_all and not any(entry.summary_id for entry in entries):
        fitted = _fit_or_problem(request, sections.with_history(history))
        if not _is_history_over_budget(fitted):
            return fitted, hidden_dives
    in_view, room_left = _history_in_view(request, sections, history)
    recall = [recall_candidates(request, in_view, room_left)]
    fitted = _fit_or_problem(request, sections.with_history(history, recall))
    if initial_room < room and not is_all and not _is_history_over_budget(fitted):
        entries, _ = recall_history(request, plugin, room)
        fitted = _fit_or_problem(request, sections.with_history(history_candidates(request, entries), recall))
    return fitted, hidden_dives


def _history_in_view(
    request: PromptRequest, sections: _SectionsAroundHistory, history: HistoryCandidates
) -> tuple[list[int], int]:
    """Which messages are in view themselves, not in a summary, before anything is recalled; the tokens left for it."""
    in_cap = [replace(section, extendable=False) for section in history.in_cap]
    fitted = _fit_or_problem(request, sections.with_history(history._replace(in_cap=in_cap, after_recall=())))
    seqs = [entry.order for entry in fitted.included if entry.key.startswith("message:") and entry.section == "history"]
    return seqs, request.budget.ceiling - fitted.tokens


def _is_history_over_budget(fitted: FitResult) -> bool:
    return any(left.section == "history" and left.reason == "over budget" for left in fitted.dropped)


def _fit_or_problem(request: PromptRequest, sections: Sequence[SectionCandidates]) -> FitResult:
    overhead = overhead_tokens(request.counter)
    try:
        return fit(sections, ceiling=request.budget.ceiling, caps=request.budget.caps, overhead=overhead)
    except RequiredPartsTooLarge as error:
        raise Problem(str(error), code="budget_too_small", field="budget") from error


def _dropped_items(fitted: FitResult) -> tuple[DroppedItem, ...]:
    """What is not in the prompt, each once; a message that stands elsewhere in it was not left out."""
    included_keys = {entry.key for entry in fitted.included}
    by_key = {item.key: item for item in reversed(fitted.dropped) if item.key not in included_keys}
    return tuple(reversed(by_key.values()))


# --- the budget, and the message asked with ------------------------------------------------------------------
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
