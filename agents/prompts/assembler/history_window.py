"""The beginning of the messages that run up to the request: the same as in the prompt before, while they fit, and then
a large step later. Whatever stands after a beginning that moved has to be read anew by a provider."""

from collections.abc import Sequence
from itertools import accumulate, takewhile

from agents.prompts.assembler.items import AtomicGroup, summarised_messages
from agents.prompts.assembler.sections.history import COMPACTED_SHARE, MENTION_TAIL, WINDOW_SHARE
from agents.prompts.assembler.sections.request import PromptRequest
from agents.prompts.assembler.sections.work import previous_answer
from agents.prompts.assembler.stack import SMALL_WINDOW_SHARE

STEP_SHARE = 0.25
"""Share of its room that the history gives up at once when it is full."""

MENTION_SHARE = 0.08
"""Share of a mention's prompt that its running messages may grow to, while one mention follows the other."""


def history_room(request: PromptRequest, *, has_summaries: bool) -> int:
    """Tokens of the prompt that history may take before anything is recalled."""
    share = COMPACTED_SHARE if has_summaries else WINDOW_SHARE
    if request.task == "mention":
        share = MENTION_SHARE
    if request.has_small_window:
        share = min(share, SMALL_WINDOW_SHARE)
    return int(request.budget.ceiling * share)


def steady_window(request: PromptRequest, groups: Sequence[AtomicGroup]) -> tuple[AtomicGroup, ...]:
    """The groups of the history, the newest first, without those before its beginning.

    Where summaries stand before the messages, compaction moves the beginning, and all stay.
    """
    running = tuple(takewhile(lambda group: not summarised_messages(group.items[0]), groups))
    summaries = tuple(groups[len(running) :])
    if request.task == "mention":
        return (*_steady_tail(request, running), *summaries)
    room = history_room(request, has_summaries=bool(summaries))
    if summaries or _tokens(running) <= room:
        return tuple(groups)
    return tuple(_since_last(request, running, room) or _first_fitting(running, int(room * (1 - STEP_SHARE))))


def _steady_tail(request: PromptRequest, running: Sequence[AtomicGroup]) -> Sequence[AtomicGroup]:
    """The messages of a mention: those that stood in the mention before it and what was said since, else the newest."""
    room = history_room(request, has_summaries=False)
    return _since_last(request, running, room) or _newest_messages(running, MENTION_TAIL)


def _since_last(request: PromptRequest, running: Sequence[AtomicGroup], room: int) -> Sequence[AtomicGroup]:
    """The groups from the message on with which the prompt before this began, empty where they do not fit any more or
    nothing tells."""
    previous = previous_answer(request)
    start = previous.history_start if previous and not previous.was_compacted else None
    if start is None or not running or start > request.end_seq:
        return ()
    groups = tuple(takewhile(lambda group: group.items[0].order >= start, running))
    return groups if _tokens(groups) <= room else ()


def _first_fitting(groups: Sequence[AtomicGroup], room: int) -> tuple[AtomicGroup, ...]:
    """The newest groups, as many as fit, and at least one."""
    count = sum(tokens <= room for tokens in accumulate(group.tokens for group in groups))
    return tuple(groups[: max(count, 1)])


def _newest_messages(groups: Sequence[AtomicGroup], limit: int) -> tuple[AtomicGroup, ...]:
    """The newest groups, as few as hold so many messages."""
    counts = accumulate((len(group.items) for group in groups), initial=0)
    return tuple(group for group, before in zip(groups, counts, strict=False) if before < limit)


def _tokens(groups: Sequence[AtomicGroup]) -> int:
    return sum(group.tokens for group in groups)
