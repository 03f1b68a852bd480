"""Fits a prompt around its thread: all of the thread where there is room; else the window of its newest messages, and
in what is left what bears on the request of all that was said before it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from agents.prompts.assembler.fit import RequiredPartsTooLarge, fit
from agents.prompts.assembler.history_window import history_room, steady_window
from agents.prompts.assembler.items import DroppedItem, FitResult, Item, SectionCandidates, summarised_seqs
from agents.prompts.assembler.render import overhead_tokens
from agents.prompts.assembler.sections import dive, history, recall, situation
from agents.prompts.assembler.sections.request import PromptRequest
from memory.queries import ContextEntry
from openvibe.base.problems import Problem
from openvibe.engines.text.cleaning import pluralize


def room_beside(request: PromptRequest, sections: Iterable[SectionCandidates]) -> int:
    """Tokens that the required ones of these sections leave."""
    required = sum(group.tokens for section in sections if section.required for group in section.groups)
    return request.budget.ceiling - overhead_tokens(request.counter) - required


def fit_with_history(
    request: PromptRequest, sections: Sequence[SectionCandidates], older_episodes: SectionCandidates
) -> tuple[FitResult, list[DroppedItem], recall.Recall | None]:
    """The prompt with all of a thread that fits; else with the window of P1 and, in what is left, what bears on the
    request of all that was said before it. Hidden results of dives besides, and what is recalled; None where the thread
    stands whole.

    The window depends on nothing that was asked, so that consecutive prompts begin alike: recall fills the rest.
    """
    entries, is_all = history.recall_history(request, room_beside(request, sections))
    hidden_dives = history.hidden_dive_results(request, entries)
    groups = history.history_groups(request, entries)
    has_summaries = any(entry.summary_id for entry in entries)
    if is_all and not has_summaries:
        past = history.history_candidates(request, groups, whole=True)
        others = [section for section in sections if section.section != "dives"]  # results stand in the thread itself
        with_work, fit_result = _fit_with_work(request, others, [*past, older_episodes])
        if not _is_history_over_budget(fit_result):
            middles = _middles(request, entries, fit_result)
            fit_result = _fit_or_problem(request, [*_with_free_knowledge(with_work), *past, older_episodes, middles])
            return fit_result, hidden_dives, None
    groups = steady_window(request, groups)
    window = [*history.history_candidates(request, groups), older_episodes]
    with_work, fit_result = _fit_with_work(request, sections, window)
    in_place = [*with_work, *window]
    if request.task != "mention":
        room = history_room(request, has_summaries=has_summaries) - _history_tokens(fit_result)
        in_place.append(history.more_history(request, groups, room=room))
        in_place, fit_result = _with_whole_results(request, in_place, _fit_or_problem(request, in_place))
    if history.is_ignored_by_memory(request):
        return _fit_or_problem(request, _with_free_knowledge(in_place)), hidden_dives, recall.NO_RECALL
    middles, room = _middles(request, entries, fit_result), _recall_room(request, fit_result)
    room -= sum(group.tokens for group in middles.groups)
    headlines = {item.order: item.tokens for item in fit_result.included if item.section == "dives"}
    recall_section = recall.recall_messages(request, _history_items(fit_result), room, headlines)
    recalled_keys = {item.key for group in recall_section.candidates.groups for item in group.items}
    in_place = list(dive.without_headlines(in_place, fit_result, recalled_keys))
    sections = [*_with_free_knowledge(in_place), recall_section.candidates, middles]
    return _fit_or_problem(request, sections), hidden_dives, recall_section


def _with_free_knowledge(sections: Iterable[SectionCandidates]) -> list[SectionCandidates]:
    """The sections, entries past their cap where nothing else wants the room."""
    return [replace(each, extendable=True) if each.section == "knowledge" else each for each in sections]


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


def with_view(
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
        item.section == "history" and item.key.startswith("message:") for item in dropped_items(fit_result)
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


def dropped_items(fit_result: FitResult) -> tuple[DroppedItem, ...]:
    """What is not in the prompt, each once; a message that stands elsewhere in it was not left out."""
    included_keys = {item.key for item in fit_result.included}
    by_key = {item.key: item for item in reversed(fit_result.dropped) if item.key not in included_keys}
    return tuple(reversed(by_key.values()))
