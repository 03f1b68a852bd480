"""The one service that builds every prompt: for runs, previews and the API. It only reads; same input, same bytes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from typing import cast, get_args

from django.utils import timezone

from agents.access import visible_to
from agents.assembler.fit import RequiredPartsTooLarge, fit
from agents.assembler.items import (
    DroppedItem,
    FitResult,
    Item,
    SectionCandidates,
    make_tool_item,
    section_candidates,
    summarised_seqs,
)
from agents.assembler.prompt_rows import DEFAULT_ENDPOINT, ModelWindow, read_prompt_rows
from agents.assembler.render import overhead_tokens, render, sent_tokens
from agents.assembler.sections import (
    blocks,
    constraints,
    dive,
    episodes,
    files,
    history,
    identity,
    knowledge,
    recall,
    reminders,
    situation,
    work,
)
from agents.assembler.sections.recall_blocks import RecallBlock
from agents.assembler.sections.request import PromptRequest, RequestMessage, ThreadContext, request_candidates
from agents.assembler.stack import (
    BUDGETS,
    MIN_REQUEST_TOKENS,
    TaskBudget,
    bounded_by_window,
    raise_ceiling,
    with_stored_overrides,
)
from agents.models import Agent
from agents.soul import TaskType
from memory.queries import ContextEntry
from openvibe.base.problems import Missing, Problem
from openvibe.base.text import pluralize
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
    recall: tuple[RecallBlock, ...] = ()

    @property
    def ceiling(self) -> int:
        return self.budget.ceiling

    @property
    def layers(self) -> Mapping[str, int]:
        """Tokens per layer, overhead under `frame`."""
        sums: Counter[str] = Counter()
        for item in self.included:
            sums[item.layer] += item.tokens
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
    may_drop_tools: bool = True,
) -> Prompt:
    """The prompt for `agent` in `thread`, for a stored request, for text not sent yet, or for the thread as it stands.

    `budget` (tokens) may only lower the ceiling. `tools` come in the order of need: where room is short the last ones
    are left out, unless calls of theirs are under way (not `may_drop_tools`). Raises Missing when the agent may not see
    the thread, Problem for an unknown task, or for a budget (or a model's window) too small for what every prompt
    needs.
    """
    if task not in get_args(TaskType):
        raise Problem(f"A task is one of {', '.join(get_args(TaskType))}.", code="bad_task", field="task")
    message = _request_message(request, thread, asked_by, now)
    access = visible_to(agent)
    person_id = message.author.pk if message.author else None
    is_draft = task == "publish"
    request_seq = message.row.seq if message.row else 0
    rows = None
    if agent.is_active:
        rows = read_prompt_rows(
            access, thread_id=thread.pk, person_id=person_id, request_seq=request_seq, is_draft=is_draft
        )
    if rows is None:
        raise Missing
    context = ThreadContext._make(rows["thread"])
    endpoint = agent.endpoint or DEFAULT_ENDPOINT.first(rows)
    model_name = model or (endpoint.model if endpoint and endpoint.model else OFFLINE_MODEL)
    return _build_prompt(
        PromptRequest(
            agent=agent,
            access=access,
            thread=context,
            task=cast(TaskType, task),
            message=message,
            counter=counter_for(model_name),
            budget=_task_budget(cast(TaskType, task), context, endpoint, budget),
            rows=rows,
        ),
        model_name,
        tools,
        may_drop_tools,
    )


def _build_prompt(request: PromptRequest, model: str, tools: Sequence[ToolSpec], may_drop_tools: bool) -> Prompt:
    """Every section's candidates, what fits of them, rendered."""
    basis = [
        *basic_candidates(request),
        *identity.narrower_instruction_candidates(request),
        situation.situation_candidates(request),
    ]
    request = replace(request, budget=raise_ceiling(request.budget, needed_tokens(request, basis)))
    basis += constraints.constraint_candidates(request, request.budget.ceiling - needed_tokens(request, basis))
    tool_room = request.budget.ceiling - needed_tokens(request, basis) if may_drop_tools else None
    offered_tools, tool_candidates = _offer_tools(request, tools, tool_room)
    basis += tool_candidates
    max_request = request.budget.caps["P1"] or request.budget.ceiling
    message = request_candidates(request, min(max_request, _room_beside(request, basis)))
    feedback, older_episodes, dropped_episodes = episodes.episode_candidates(request)
    topics, entries, unreadable = knowledge.knowledge_candidates(request, timezone.now())
    sections = [
        *basis,
        message,
        history.later_candidates(request),
        dive.source_candidates(request),
        *files.file_candidates(request, {tool.name for tool in offered_tools}),
        work.work_candidates(request, (tool.name for tool in offered_tools)),
        reminders.reminder_candidates(request, (tool.name for tool in offered_tools)),
        blocks.block_candidates(request),
        feedback,
        blocks.profile_candidates(request),
        *blocks.skill_candidates(request),
        topics,
        entries,
        identity.workspace_candidates(request),
        dive.headline_candidates(request),
    ]
    fit_result, hidden_dives, recall_section = _fit_with_history(request, sections, older_episodes)
    fit_result, unseen = _with_view(
        request, fit_result, is_whole=recall_section is None, hidden_count=len(hidden_dives)
    )
    return Prompt(
        task=request.task,
        model=model,
        counter=request.counter,
        budget=request.budget,
        messages=render(fit_result),
        tools=offered_tools,
        included=fit_result.included,
        dropped=(
            *_dropped_items(fit_result),
            *unseen,
            *hidden_dives,
            *dropped_episodes,
            *unreadable,
            *identity.dropped_includes(request),
        ),
        tokens=sent_tokens(fit_result, request.counter),
        soul_number=request.agent.soul.number if request.agent.soul else None,
        recall=recall_section.blocks if recall_section else (),
    )


def basic_candidates(request: PromptRequest) -> list[SectionCandidates]:
    """P0 without tools: what stands in every prompt of the agent for this task, whatever else does. No queries."""
    return [
        identity.policy_candidates(request),
        identity.soul_candidates(request),
        identity.instruction_candidates(request),
        dive.draft_format_candidates(request),
    ]


def _offer_tools(
    request: PromptRequest, tools: Sequence[ToolSpec], room: int | None
) -> tuple[tuple[ToolSpec, ...], list[SectionCandidates]]:
    """The first tools that fit into `room`, None for all of them. The others are named as left out."""
    items = [make_tool_item(request.counter, tool) for tool in tools]
    sums = accumulate(item.tokens for item in items)
    count = len(items) if room is None else sum(1 for total in sums if total <= room)
    return tuple(tools[:count]), [
        section_candidates("tools", items[:count], required=True),
        section_candidates("tools", items[count:], cap=0),
    ]


def needed_tokens(request: PromptRequest, sections: Iterable[SectionCandidates]) -> int:
    """Tokens that a prompt needs for the required ones of these sections and the least of a request."""
    return request.budget.ceiling - _room_beside(request, sections) + MIN_REQUEST_TOKENS


def _room_beside(request: PromptRequest, sections: Iterable[SectionCandidates]) -> int:
    """Tokens that the required ones of these sections leave."""
    required = sum(group.tokens for section in sections if section.required for group in section.groups)
    return request.budget.ceiling - overhead_tokens(request.counter) - required


def _fit_with_history(
    request: PromptRequest, sections: Sequence[SectionCandidates], older_episodes: SectionCandidates
) -> tuple[FitResult, list[DroppedItem], recall.Recall | None]:
    """The prompt with all of a thread that fits; else with the window of P1 and, in what is left, what bears on the
    request of all that was said before it. Hidden results of dives besides, and what is recalled; None where the thread
    stands whole.

    The window depends on nothing that was asked, so that consecutive prompts begin alike: recall fills the rest.
    """
    entries, is_all = history.recall_history(request, _room_beside(request, sections))
    hidden_dives = history.hidden_dive_results(request, entries)
    groups = history.history_groups(request, entries)
    has_summaries = any(entry.summary_id for entry in entries)
    if is_all and not has_summaries:
        past = history.history_candidates(request, groups, whole=True)
        others = [section for section in sections if section.section != "dives"]  # results stand in the thread itself
        with_work, fit_result = _fit_with_work(request, others, [*past, older_episodes])
        if not _is_history_over_budget(fit_result):
            middles = _middles(request, entries, fit_result)
            fit_result = _fit_or_problem(request, [*with_work, *past, older_episodes, middles])
            return fit_result, hidden_dives, None
    window = [*history.history_candidates(request, groups), older_episodes]
    with_work, fit_result = _fit_with_work(request, sections, window)
    in_place = [*with_work, *window]
    if request.task != "mention":
        history_tokens = _history_tokens(fit_result)
        in_place.append(
            history.more_history(request, groups, history_tokens=history_tokens, has_summaries=has_summaries)
        )
        in_place, fit_result = _with_whole_results(request, in_place, _fit_or_problem(request, in_place))
    middles, room = _middles(request, entries, fit_result), _recall_room(request, fit_result)
    room -= sum(group.tokens for group in middles.groups)
    headlines = {item.order: item.tokens for item in fit_result.included if item.section == "dives"}
    recall_section = recall.recall_messages(request, _history_items(fit_result), room, headlines)
    recalled_keys = {item.key for group in recall_section.candidates.groups for item in group.items}
    in_place = list(dive.without_headlines(in_place, fit_result, recalled_keys))
    return _fit_or_problem(request, [*in_place, recall_section.candidates, middles]), hidden_dives, recall_section


def _fit_with_work(
    request: PromptRequest, sections: Sequence[SectionCandidates], past: Sequence[SectionCandidates]
) -> tuple[Sequence[SectionCandidates], FitResult]:
    """The sections, and the prompt with them and what was said. Work and reminders that a long request keeps out of P1
    are offered once more in P6, before anything that is recalled; work up to its own cap."""
    fit_result = _fit_or_problem(request, [*sections, *past])
    names = {item.section for item in fit_result.dropped} & {"work", "reminders"}
    tokens: Counter[str] = Counter()
    for item in fit_result.included:
        tokens[item.section] += item.tokens
    later_work = [
        replace(
            section,
            layer="P6",
            cap=None if section.cap is None else max(section.cap - tokens[section.section], 0),
            beyond_layer_cap=True,
        )
        for section in sections
        if section.section in names
    ]
    if not later_work:
        return sections, fit_result
    return [*sections, *later_work], _fit_or_problem(request, [*sections, *later_work, *past])


def _with_whole_results(
    request: PromptRequest, sections: list[SectionCandidates], fit_result: FitResult
) -> tuple[list[SectionCandidates], FitResult]:
    """The sections and the prompt, results of dives in the history in place of their headlines where they fit: a long
    request that fills P1 leaves the history what comes after the headlines."""
    keys = {item.key for item in fit_result.dropped if (item.section, item.reason) == ("history", "superseded")}
    if not keys:
        return sections, fit_result
    others = list(dive.without_headlines(sections, fit_result, keys))
    new_fit_result = _fit_or_problem(request, others)
    is_whole = keys <= {item.key for item in new_fit_result.included}
    return (others, new_fit_result) if is_whole else (sections, fit_result)


def _middles(request: PromptRequest, entries: Sequence[ContextEntry], fit_result: FitResult) -> SectionCandidates:
    """What bears on the request of what the history leaves out of messages in view."""
    room = _recall_room(request, fit_result)
    return recall.middle_candidates(request, entries, _history_items(fit_result), room)


def _history_items(fit_result: FitResult) -> list[Item]:
    return [item for item in fit_result.included if item.section == "history"]


def _recall_room(request: PromptRequest, fit_result: FitResult) -> int:
    """Tokens that the rest of the prompt leaves, at most what P6 may take."""
    room, cap = request.budget.ceiling - fit_result.tokens, request.budget.caps["P6"]
    episode_tokens = sum(item.tokens for item in fit_result.included if item.section == "episodes")
    return room if cap is None else min(room, cap - episode_tokens)


def _with_view(
    request: PromptRequest, fit_result: FitResult, *, is_whole: bool, hidden_count: int
) -> tuple[FitResult, tuple[DroppedItem, ...]]:
    """The prompt saying how much of the thread it shows, and what it does not show as one item left out.

    Messages that are named one by one as left out, `hidden_count` of them by the agent's level, are not counted again;
    what was deleted, lines of ours and answers that failed not at all.
    """
    seqs_by_section = {section: _shown_seqs(fit_result, section) for section in ("history", "recall")}
    newest, recalled_count = len(seqs_by_section["history"]), len(seqs_by_section["recall"])
    spans = [span for span in map(summarised_seqs, fit_result.included) if span]
    unsaid, unsaid_outside = (0, 0) if is_whole else history.count_unsaid(request, spans)
    total = newest if is_whole else request.end_seq - 1 - unsaid
    named_count = sum(
        item.section == "history" and item.key.startswith("message:") for item in _dropped_items(fit_result)
    )
    outside = sum(
        not any(seq in span for span in spans) for seq in seqs_by_section["history"] | seqs_by_section["recall"]
    )
    explained_count = outside + unsaid_outside + sum(map(len, spans)) + hidden_count + named_count
    unseen = 0 if is_whole else request.end_seq - 1 - explained_count
    words = f"{pluralize(unseen, 'older message')}, not recalled"
    left_out = DroppedItem("older messages", "P6", "recall", words, "", 0, "over budget")
    return situation.with_view(request, fit_result, newest, recalled_count, total), (left_out,) if unseen > 0 else ()


def _shown_seqs(fit_result: FitResult, section: str) -> set[int]:
    """Numbers of the messages that stand in this section."""
    items = (item for item in fit_result.included if item.section == section and item.key.startswith("message:"))
    return {int(item.ref) for item in items}


def _history_tokens(fit_result: FitResult) -> int:
    return sum(item.tokens + item.opening_tokens for item in _history_items(fit_result))


def _is_history_over_budget(fit_result: FitResult) -> bool:
    return any(item.section == "history" and item.reason == "over budget" for item in fit_result.dropped)


def _fit_or_problem(request: PromptRequest, sections: Sequence[SectionCandidates]) -> FitResult:
    overhead = overhead_tokens(request.counter)
    try:
        return fit(sections, ceiling=request.budget.ceiling, caps=request.budget.caps, overhead=overhead)
    except RequiredPartsTooLarge as error:
        raise Problem(str(error), code="budget_too_small", field="budget") from error


def _dropped_items(fit_result: FitResult) -> tuple[DroppedItem, ...]:
    """What is not in the prompt, each once; a message that stands elsewhere in it was not left out."""
    included_keys = {item.key for item in fit_result.included}
    by_key = {item.key: item for item in reversed(fit_result.dropped) if item.key not in included_keys}
    return tuple(reversed(by_key.values()))


def _task_budget(
    task: TaskType, thread: ThreadContext, endpoint: Endpoint | ModelWindow | None, limit: int | None
) -> TaskBudget:
    stored = thread.budgets if isinstance(thread.budgets, dict) else {}
    budget = with_stored_overrides(BUDGETS[task], stored.get(task))
    if endpoint is not None:
        try:
            budget = bounded_by_window(budget, endpoint.context_window, endpoint.output_reserve)
        except ValueError as error:
            raise Problem(str(error), code="window_too_small") from error
    if limit is not None and limit < 1:
        raise Problem("A budget is a positive number of tokens.", code="bad_budget", field="budget")
    return budget if limit is None else bounded_by_window(budget, limit, 0)


def _request_message(
    request: Message | str | None, thread: Thread, asked_by: Participant | None, now: datetime | None
) -> RequestMessage:
    """The request with its author and time; the newest message of a person where none is given."""
    if request is None:
        messages = Message.objects.filter(thread=thread, author__kind=Participant.Kind.MEMBER, deleted_at=None)
        request = messages.select_related("author").order_by("-seq").first()
    if isinstance(request, Message):
        if request.thread_id != thread.pk:
            raise Missing
        return RequestMessage(request.body, request.author, request.created_at, request)
    return RequestMessage(request or "", asked_by, now or timezone.now())
