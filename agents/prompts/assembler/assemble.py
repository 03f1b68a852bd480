"""The one service that builds every prompt: for runs, previews and the API. It only reads; same input, same bytes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate, groupby, takewhile
from typing import cast

from django.utils import timezone

from agents.agent.access import endpoint_for, visible_to
from agents.agent.audience import has_new_readers, shown_to_readers
from agents.agent.models import Agent
from agents.agent.soul import TaskType
from agents.prompts.assembler.continuation import (
    HeadFacts,
    Session,
    continuation_words,
    continue_session,
    render_continuation,
    why_whole,
)
from agents.prompts.assembler.history_fit import dropped_items, fit_with_history, room_beside, with_view
from agents.prompts.assembler.items import (
    PART_SEPARATOR,
    DroppedItem,
    FitResult,
    Item,
    SectionCandidates,
    dropped_tools,
    left_out_of,
    make_tool_item,
    reachable_tools,
    section_candidates,
)
from agents.prompts.assembler.render import render, sent_tokens
from agents.prompts.assembler.sections import (
    blocks,
    constraints,
    dive,
    episodes,
    files,
    history,
    identity,
    images,
    knowledge,
    reminders,
    situation,
    work,
)
from agents.prompts.assembler.sections.recall_blocks import RecallBlock
from agents.prompts.assembler.sections.request import (
    PromptRequest,
    RequestMessage,
    ThreadContext,
    read_thread,
    request_candidates,
)
from agents.prompts.assembler.stack import (
    BUDGETS,
    MIN_REQUEST_TOKENS,
    SMALL_WINDOW_SKIPS,
    SMALL_WINDOW_TOOL_SKIPS,
    TaskBudget,
    bounded_by_window,
    is_small_window,
    raise_ceiling,
    scale_caps,
    with_stored_overrides,
)
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Message, Thread
from openvibe.engines.llm.images import is_known_to_see
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.tokens import TokenCounter, count_message, counter_for
from openvibe.engines.llm.transcripts import CLOSING
from openvibe.engines.llm.values import ChatMessage, ToolSpec
from openvibe.engines.text.cleaning import text_version
from openvibe.workspaces.models import Participant

ASSEMBLER_VERSION = 2
"""1 ended with a fenced request; 2 ends with the question in its own words."""

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
    head: HeadFacts = field(default_factory=dict)
    last_seq: int = 0
    """The number of the thread's newest message when it was read."""
    continues: int | None = None
    """The run whose session it goes on with; None for a whole prompt."""
    after_attempt: int = 0
    """The attempt of that run."""
    continuation: str = ""
    """What is new for the session that was to go on, or why the prompt is whole all the same."""

    @property
    def ceiling(self) -> int:
        return self.budget.ceiling

    @property
    def history_start(self) -> int | None:
        """The number of the first of the messages that run up to the request; None where not one does."""
        history = sorted((item for item in self.included if item.section == "history"), key=lambda item: -item.order)
        running = takewhile(lambda item: item.key.startswith("message:"), history)
        return min((item.order for item in running), default=None)

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
    endpoint: Endpoint | None = None,
    may_hold_images: bool = True,
    session: Session | None = None,
) -> Prompt:
    """The prompt for `agent` in `thread`, for a stored request, for text not sent yet, or for the thread as it stands.

    `budget` (tokens) may only lower the ceiling. `tools` come in the order of need: where room is short the last ones
    are left out, unless calls of theirs are under way (not `may_drop_tools`). `endpoint` answers in place of the
    agent's own. Not `may_hold_images`: the model refused some. For a `session` that may go on the prompt
    holds what is new for it alone. Raises Missing when the agent may not see the thread, Problem for an unknown task,
    or for a budget (or a model's window) too small for what every prompt needs.
    """
    if task not in BUDGETS:
        raise Problem(f"A task is one of {', '.join(BUDGETS)}.", code="bad_task", field="task")
    message = _request_message(request, thread, asked_by, now)
    if not agent.is_active:
        raise Missing
    access = shown_to_readers(visible_to(agent), thread.pk)
    context = read_thread(access, thread.pk)
    window = endpoint or endpoint_for(agent)
    is_small = window is not None and is_small_window(window.usable_window, window.usable_reserve)
    task_budget = _task_budget(cast(TaskType, task), context, window, budget)
    model_name = model or (window.model if window and window.model else OFFLINE_MODEL)
    may_see = may_hold_images and _may_see(agent, window, model_name)
    return _build_prompt(
        PromptRequest(
            agent=agent,
            access=access,
            thread=context,
            task=cast(TaskType, task),
            message=message,
            counter=counter_for(model_name, window.token_factor if window and window.model == model_name else 1.0),
            budget=scale_caps(task_budget) if is_small else task_budget,
            has_small_window=is_small,
        ),
        model_name,
        tools,
        may_drop_tools,
        may_see,
        session,
    )


def _may_see(agent: Agent, endpoint: Endpoint | None, model: str) -> bool:
    """Whether the prompt holds images: not for what answers elsewhere, which asks for those that it wants."""
    if agent.answers_itself:
        return False
    if endpoint is not None and endpoint.model == model:
        return endpoint.is_sent_images
    return is_known_to_see(model) is True


def _build_prompt(
    request: PromptRequest,
    model: str,
    tools: Sequence[ToolSpec],
    may_drop_tools: bool,
    may_see: bool,
    session: Session | None,
) -> Prompt:
    """Every section's candidates, what fits of them, rendered."""
    request, offered_tools, basis = _lay_basis(request, tools, may_drop_tools)
    max_request = request.budget.caps["P1"] or request.budget.ceiling
    message = request_candidates(request, min(max_request, room_beside(request, basis)))
    feedback, older_episodes, dropped_episodes = episodes.episode_candidates(request)
    topics, entries, unreadable = knowledge.knowledge_candidates(request, timezone.now())
    work_rows, unseen_results = work.work_candidates(request, reachable_tools(offered_tools))
    sections = [
        *basis,
        message,
        history.later_candidates(request),
        dive.source_candidates(request),
        *files.file_candidates(request, {tool.name for tool in offered_tools}),
        *images.image_candidates(request, may_see=may_see),
        work_rows,
        *constraints.preference_candidates(request),
        reminders.reminder_candidates(
            request, (tool.name for tool in offered_tools), has_feedback=bool(feedback.groups)
        ),
        blocks.block_candidates(request),
        feedback,
        blocks.profile_candidates(request),
        *blocks.skill_candidates(request),
        topics,
        entries,
        identity.workspace_candidates(request),
        dive.headline_candidates(request),
    ]
    if request.has_small_window:
        sections = [left_out_of(section) if section.section in SMALL_WINDOW_SKIPS else section for section in sections]
        older_episodes = left_out_of(older_episodes)
    fit_result, hidden_dives, recall_section = fit_with_history(request, sections, older_episodes)
    fit_result, unseen = with_view(request, fit_result, is_whole=recall_section is None, hidden_count=len(hidden_dives))
    fit_result, pixels = images.read_pixels(fit_result)
    prompt = Prompt(
        task=request.task,
        model=model,
        counter=request.counter,
        budget=request.budget,
        messages=render(fit_result, pixels),
        tools=offered_tools,
        included=fit_result.included,
        dropped=(
            *dropped_items(fit_result),
            *dropped_tools(tools, offered_tools),
            *unseen,
            *hidden_dives,
            *dropped_episodes,
            *unreadable,
            *unseen_results,
            *identity.dropped_includes(request),
        ),
        tokens=sent_tokens(fit_result, request.counter),
        soul_number=request.agent.soul.number if request.agent.soul else None,
        recall=recall_section.blocks if recall_section else (),
        head=_head_facts(request, fit_result),
        last_seq=request.thread.last_seq,
    )
    return prompt if session is None else _continued(request, prompt, fit_result, session)


def _head_facts(request: PromptRequest, fit_result: FitResult) -> dict[str, str]:
    """What a session of the agent in this thread rests on: where any of it is another, the session begins anew."""
    texts = {item.key: item.text for item in fit_result.included if item.slot == "system"}
    soul = request.agent.soul
    return {
        "its policy": text_version(texts.get("policy", "")),
        "its SOUL": text_version(texts["soul:file"]) if "soul:file" in texts else str(soul.number if soul else 0),
        "its trust level": f"L{request.agent.level}",
        "the organisation's instructions": text_version(texts.get("instructions:organisation", "")),
        "the memory plugin": history.active_memory(request).name,
        "who reads along": request.access.shut_out,
        "the assembler": str(ASSEMBLER_VERSION),
    }


def _continued(request: PromptRequest, prompt: Prompt, fit_result: FitResult, session: Session) -> Prompt:
    """What of the prompt is new for the session; the whole prompt, and why, where it cannot go on."""
    head = dict(prompt.head)
    if not has_new_readers(request.access.shown_to(session.head.get("who reads along", "")), request.access):
        head["who reads along"] = session.head.get("who reads along", "")  # whoever left hides nothing
    if reason := why_whole(session, fit_result, (item.key for item in prompt.dropped), head):
        return replace(prompt, continuation=reason)
    new = continue_session(session, situation.with_session(request, fit_result))
    messages, tokens = render_continuation(new, request.counter)
    return replace(
        prompt,
        messages=messages,
        included=new.included,
        dropped=tuple(item for item in prompt.dropped if item.key not in session.latest),
        tokens=tokens,
        continues=session.run_id,
        after_attempt=session.attempt,
        continuation=continuation_words(session, new.included),
    )


def _lay_basis(
    request: PromptRequest, tools: Sequence[ToolSpec], may_drop_tools: bool
) -> tuple[PromptRequest, tuple[ToolSpec, ...], list[SectionCandidates]]:
    """What stands in every prompt (P0 and the situation), before there is room for anything else: the request with the
    ceiling that this needs at least, the tools that are offered, and the sections."""
    has_constraints = bool(constraints.standing_constraints(request))
    has_tools = bool(_usable_tools(request, tools, may_drop_tools))
    basis = [
        *basic_candidates(request),
        identity.rule_candidates(request, has_constraints=has_constraints, has_tools=has_tools),
        *identity.narrower_instruction_candidates(request),
        situation.situation_candidates(request),
    ]
    request = replace(request, budget=raise_ceiling(request.budget, needed_tokens(request, basis)))
    basis += constraints.constraint_candidates(request, request.budget.ceiling - needed_tokens(request, basis))
    tool_room = request.budget.ceiling - needed_tokens(request, basis) if may_drop_tools else None
    offered_tools, tool_candidates = _offer_tools(request, tools, tool_room)
    return request, offered_tools, [*basis, *tool_candidates]


def basic_candidates(request: PromptRequest) -> list[SectionCandidates]:
    """P0 without tools: what stands in every prompt of the agent for this task, whatever else does. No queries, but one
    of snippets where instructions include some."""
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
    wanted = _usable_tools(request, tools, room is not None)
    items = [make_tool_item(request.counter, tool) for tool in wanted]
    sums = accumulate(item.tokens for item in items)
    count = len(items) if room is None else sum(1 for total in sums if total <= room)
    skipped = [make_tool_item(request.counter, tool) for tool in tools if tool not in wanted]
    return tuple(wanted[:count]), [
        section_candidates("tools", items[:count], required=True),
        section_candidates("tools", [*items[count:], *skipped], cap=0),
    ]


def _usable_tools(request: PromptRequest, tools: Sequence[ToolSpec], may_drop: bool) -> list[ToolSpec]:
    """Those of which a model with this window makes use."""
    is_small = request.has_small_window and may_drop
    return [tool for tool in tools if not (is_small and tool.name in SMALL_WINDOW_TOOL_SKIPS)]


def needed_tokens(request: PromptRequest, sections: Iterable[SectionCandidates]) -> int:
    """Tokens that a prompt needs for the required ones of these sections and the least of a request."""
    return request.budget.ceiling - room_beside(request, sections) + MIN_REQUEST_TOKENS


def _task_budget(task: TaskType, thread: ThreadContext, endpoint: Endpoint | None, limit: int | None) -> TaskBudget:
    stored = thread.budgets if isinstance(thread.budgets, dict) else {}
    budget = with_stored_overrides(BUDGETS[task], stored.get(task))
    if endpoint is not None:
        try:
            budget = bounded_by_window(budget, endpoint.usable_window, endpoint.usable_reserve)
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


def told_text(items: Sequence[Item]) -> str:
    """Lines of transcripts as the message that tells them, each transcript in its fence."""
    runs = groupby(items, key=lambda item: item.opening)
    return PART_SEPARATOR.join(f"{opening}{''.join(item.text for item in lines)}{CLOSING}" for opening, lines in runs)


def with_told(prompt: Prompt, items: Sequence[Item]) -> Prompt:
    """The prompt and, after it, what was told in the run's course: messages that people posted meanwhile. What stands
    in the prompt is told no second time."""
    keys = {item.key for item in prompt.included}
    items = [item for item in items if item.key not in keys]
    if not items:
        return prompt
    message = ChatMessage("user", told_text(items), ends_stable_part=True)
    return replace(
        prompt,
        messages=(*prompt.messages, message),
        included=(*prompt.included, *items),
        tokens=prompt.tokens + count_message(message, prompt.counter),
    )
