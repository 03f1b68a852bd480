"""The transcript of one run: each request to the model, built from the prompt and the rounds so far, never over the
ceiling.

A call and its result never part, and nothing is made up: what does not fit is named as left out. Where room is short,
the results of earlier rounds become references first; then the prompt is assembled anew with less history; when there
is still no room, the tools are withdrawn and the model is asked for its answer. Sizes in tokens of the prompt's
counter."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agents.prompts.assembler.assemble import Prompt, told_text, with_told
from agents.prompts.assembler.items import Item
from agents.tools.toolbox import MAX_ARGUMENT_CHARS
from openvibe.base.problems import Problem
from openvibe.engines.llm.answers.provider_fields import has_fields, rename_ids
from openvibe.engines.llm.answers.tool_calls import clean_identifier
from openvibe.engines.llm.fences import clean_text, fence
from openvibe.engines.llm.tokens import TokenCounter, count_message, count_prompt_tokens, counter_for, truncate_middle
from openvibe.engines.llm.transcripts import CLOSING, clean_name, message_line, opening
from openvibe.engines.llm.values import ChatMessage, ToolCallRequest, ToolSpec
from openvibe.engines.text.masking import mask_secrets

MAX_ROUNDS = 8
"""Rounds of tool calls in one run; after them the model is asked once more, without tools."""

FEW_ROUNDS, FEW_TURNS, MAX_REFUSAL_LINES = 2, 3, 2
"""The number of rounds from which on the model is told how many are left; of its tokens for today, once they are fewer
than so many turns take; and of calls that are refused again and again, so many are named."""

MIN_RESULT_TOKENS = 150
"""Tokens that a result of the newest round keeps, its fence included; with less room there is no use in calling."""


HEARD_SHARE = 6
"""What people said meanwhile takes at most one in so many tokens of the ceiling, each time the run looks."""

NO_ROUNDS_LEFT = "The rounds for tools are used up. Answer the request now with what you have."
NO_ROOM_LEFT = "There is no room left for tools. Answer the request now with what you have."
_CUT_MARKER = "\n[… cut here to make room …]\n"


@dataclass(frozen=True)
class ToolResult:
    """A call and what came of it."""

    call: ToolCallRequest
    result: str
    is_refused: bool = False


@dataclass(frozen=True)
class Round:
    """What the model said and called in one turn, with every result; `provider_fields` as in ChatMessage.

    `is_told`: its calls and results stand in a text of ours. So do those whose provider wants something back that
    cannot be sent: it is another's, was erased, or takes more room than there is. `heard`: what people said meanwhile,
    which the model is told after it, before it speaks again.
    """

    text: str
    results: tuple[ToolResult, ...]
    provider_fields: Mapping[str, Any] = field(default_factory=dict)
    is_told: bool = False
    heard: tuple[Item, ...] = ()

    @property
    def has_fields(self) -> bool:
        return has_fields(self.provider_fields, (result.call for result in self.results))

    def as_told(self) -> "Round":
        """The same without what the provider wants back."""
        if not self.has_fields:
            return self
        return Round(self.text, without_fields(self.results), is_told=True, heard=self.heard)


def without_fields(results: Iterable[ToolResult]) -> tuple[ToolResult, ...]:
    return tuple(replace(result, call=replace(result.call, provider_fields={})) for result in results)


@dataclass(frozen=True)
class _RoundMessage:
    """A message of a round, and the result that it holds, if it does."""

    message: ChatMessage
    result: ToolResult | None = None
    is_told: bool = False


@dataclass(frozen=True)
class ModelTurn:
    """What the model is asked next. `tokens` is all of it, definitions included, as `counter` counts."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...]
    tokens: int
    counter: TokenCounter

    @property
    def surely_sent(self) -> int:
        """Tokens that it counts in hardly any vocabulary less than: `tokens`, where these are not an estimate."""
        if self.counter.exact:
            return self.tokens
        return min(self.tokens, count_prompt_tokens(self.messages, self.tools, counter_for("offline")))


class Reassembly:
    """Makes the prompt of one model anew; with the tools that it was made with last, where no others are named.
    `may_drop_tools`: whether those that do not fit may be left out by now."""

    def __init__(
        self, assemble: Callable[..., Prompt], tools: tuple[ToolSpec, ...], may_drop_tools: Callable[[], bool]
    ) -> None:
        self._assemble, self._tools, self._may_drop_tools = assemble, tools, may_drop_tools

    def __call__(self, budget: int, tools: tuple[ToolSpec, ...] | None = None) -> Prompt:
        """The prompt within `budget` tokens. Raises Problem where what every prompt needs does not fit."""
        tools = self._tools if tools is None else tools
        prompt = self._assemble(budget=budget, tools=tools, may_drop_tools=self._may_drop_tools())
        self._tools = tools
        return prompt


class Transcript:
    """One run's exchange with the model. `reassemble(budget)` assembles its prompt anew within so many tokens, and
    `reassemble(budget, tools=…)` with these tools from then on, or without any.

    Ids of calls are unique in the whole exchange. `tokens_left_today`: of the daily budgets, None where nobody looked.
    `rounds_before`: of earlier attempts, which count as one.
    """

    def __init__(self, prompt: Prompt, reassemble: Callable[..., Prompt]) -> None:
        self._prompt = prompt
        self._reassemble = reassemble
        self._ceiling = prompt.ceiling
        self._counter = prompt.counter
        self._may_shrink = True
        self.rounds: list[Round] = []
        self.tokens_left_today: int | None = None
        self.rounds_before = 0

    @property
    def number(self) -> int:
        """The number of the round that comes next, from 1."""
        return self._round_count + 1

    @property
    def _round_count(self) -> int:
        return len(self.rounds) - max(self.rounds_before - 1, 0)

    def add(self, finished: Round) -> None:
        self.rounds.append(finished)

    def hear(self, items: Iterable[Item]) -> None:
        """What people said since, after the newest round. There is one."""
        newest = self.rounds[-1]
        self.rounds[-1] = replace(newest, heard=(*newest.heard, *items))

    def with_heard(self, prompt: Prompt) -> Prompt:
        """The prompt and all that the run has heard since, as it is kept for people."""
        return with_told(prompt, [item for finished in self.rounds for item in finished.heard])

    @property
    def heard_room(self) -> int:
        """Tokens of what people said that one look may tell."""
        return self._ceiling // HEARD_SHARE

    def _told_rounds(self) -> list[Round]:
        """The rounds, without what was heard and stands in the prompt by now."""
        keys = {item.key for item in self._prompt.included} if any(each.heard for each in self.rounds) else set()
        return [
            replace(each, heard=tuple(item for item in each.heard if item.key not in keys)) if each.heard else each
            for each in self.rounds
        ]

    def renew(self, notice: str) -> Prompt:
        """The prompt anew, as things are now, and rounds without what may say what is not to be said any more; `notice`
        stands there instead. What people said is to be told anew (`hear`).

        Raises Problem where what every prompt needs does not fit any more.
        """
        self._prompt = self._reassemble(self._ceiling)
        self._may_shrink = True
        self.rounds = [
            Round("", tuple(_empty_result(result, notice) for result in finished.results), is_told=finished.is_told)
            for finished in (each.as_told() for each in self.rounds)
        ]
        return self._prompt

    def withdraw_tools(self) -> Prompt:
        """The prompt anew, without tools and without a word of them: the model takes none.

        Raises Problem where what every prompt needs does not fit any more.
        """
        self._prompt = self._reassemble(self._ceiling, tools=())
        self._may_shrink = True
        return self._prompt

    @property
    def ceiling(self) -> int:
        return self._ceiling

    @property
    def counter(self) -> TokenCounter:
        return self._counter

    def fit(self, ceiling: int) -> Prompt:
        """The prompt anew for a model that reads no more than `ceiling` tokens. Raises Problem where what every prompt
        needs does not fit."""
        prompt = self._reassemble(ceiling)
        self._prompt, self._ceiling, self._may_shrink = prompt, ceiling, True
        return prompt

    def change_model(self, prompt: Prompt, reassemble: Callable[[int], Prompt]) -> None:
        """Goes on with another model's prompt. What the model before added to its rounds, such as signatures, is
        nothing to it."""
        self._prompt, self._reassemble = prompt, reassemble
        self._ceiling, self._counter, self._may_shrink = prompt.ceiling, prompt.counter, True
        self.rounds = [finished.as_told() for finished in self.rounds]

    def offer(
        self, asked: Iterable[ToolSpec], merge: Callable[[Sequence[ToolSpec]], tuple[ToolSpec, ...]]
    ) -> Prompt | None:
        """The prompt with the tools asked for too, from the next turn on: `merge` adds them to those that it offers.
        None where it has them, or there is no room."""
        names = {tool.name for tool in self._prompt.tools}
        if all(tool.name in names for tool in asked):
            return None
        try:
            self._prompt = self._reassemble(self._ceiling, tools=merge(self._prompt.tools))
        except Problem:  # what every prompt needs leaves no room for them
            return None
        self._may_shrink = True
        return self._prompt

    def next_turn(self) -> ModelTurn:
        """The next turn, within the ceiling."""
        if not self.rounds:
            return ModelTurn(self._prompt.messages, self._prompt.tools, self._prompt.tokens, self._counter)
        if self._round_count >= MAX_ROUNDS:
            return self._final_turn(NO_ROUNDS_LEFT)
        reminders = self._reminders()
        room, rounds = self._room_beside(reminders), self._told_rounds()
        round_messages = fit_rounds(rounds, room, self._counter, cut_newest=False)
        if round_messages is None:
            self._shrink_prompt()
            round_messages = self._fit(self._told_rounds(), self._room_beside(reminders))
        if round_messages is None:
            return self._final_turn(NO_ROOM_LEFT)
        return self._build_turn((*round_messages, *reminders), self._prompt.tools)

    def _fit(self, rounds: Sequence[Round], room: int) -> tuple[ChatMessage, ...] | None:
        """The rounds within the room, without what providers want back where that leaves none."""
        messages = fit_rounds(rounds, room, self._counter)
        if messages is None and any(finished.has_fields for finished in rounds):
            return fit_rounds([finished.as_told() for finished in rounds], room, self._counter)
        return messages

    def _room_beside(self, reminders: Sequence[ChatMessage]) -> int:
        return self._ceiling - count_prompt_tokens(
            (*self._prompt.messages, *reminders), self._prompt.tools, self._counter
        )

    def _reminders(self) -> tuple[ChatMessage, ...]:
        """What the model must not forget before it calls again: the last message, where there is anything to say.

        Lines of ours about this run; the prompt's own reminders stand before the request (`sections.reminders`).
        """
        lines = [*_rounds_line(MAX_ROUNDS - self._round_count), *self._budget_line(), *self._refusal_lines()]
        if not lines:
            return ()
        return (ChatMessage("user", fence("reminders", "\n".join(lines), author="OpenVibe", trust="trusted")),)

    def _budget_line(self) -> list[str]:
        tokens_left = self.tokens_left_today
        if tokens_left is None or tokens_left >= FEW_TURNS * self._prompt.tokens:
            return []
        return [
            f"About {max(tokens_left, 0):,} tokens of your budget for today are left; a turn here takes more than "
            f"{self._prompt.tokens:,}."
        ]

    def _refusal_lines(self) -> list[str]:
        tool_names = {tool.name for tool in self._prompt.tools}
        results = [result for finished in self.rounds for result in finished.results if result.is_refused]
        refusal_counts = Counter((result.call.name, result.call.arguments) for result in results)
        names = {
            name if name in tool_names else "A tool you do not have": n
            for (name, _), n in refusal_counts.items()
            if n > 1
        }
        return [
            f"{name} was refused {times} times with the same arguments: calling it so again changes nothing."
            for name, times in list(names.items())[:MAX_REFUSAL_LINES]
        ]

    def _shrink_prompt(self) -> None:
        """Makes the prompt anew, once, with less history, so that a third of the ceiling, at most a half, is for
        rounds."""
        if not self._may_shrink:
            return
        self._may_shrink = False
        needed = sum(count_message(entry.message, self._counter) for entry in _round_messages(self._told_rounds()))
        reserved = max(self._ceiling // 3, min(needed, self._ceiling // 2))
        try:
            self._prompt = self._reassemble(self._ceiling - reserved)
        except Problem:  # what every prompt needs takes more than that: it stays as it is
            return

    def _final_turn(self, instruction: str) -> ModelTurn:
        """The last turn, without tools, with as many rounds as fit, the newest first, and a sentence that asks for the
        answer."""
        final_request = ChatMessage("user", instruction)
        room = self._ceiling - count_prompt_tokens([*self._prompt.messages, final_request], (), self._counter)
        rounds = self._told_rounds()
        for start in range(len(rounds) + 1):
            heard = [Round("", (), heard=each.heard) for each in rounds[:start] if each.heard]
            round_messages = self._fit([*heard, *rounds[start:]], room)
            if round_messages is not None:
                return self._build_turn((*round_messages, final_request), ())
        return self._build_turn((), ())

    def _build_turn(self, round_messages: Sequence[ChatMessage], tools: tuple[ToolSpec, ...]) -> ModelTurn:
        messages = (*self._prompt.messages, *round_messages)
        sent_tokens = count_prompt_tokens(messages, tools, self._counter)
        return ModelTurn(messages, tools, sent_tokens, self._counter)


def _rounds_line(count: int) -> list[str]:
    if count > FEW_ROUNDS:
        return []
    return [
        f"{'One round' if count == 1 else f'{count} rounds'} of tool calls left; then you answer with what you have."
    ]


def _empty_result(result: ToolResult, notice: str) -> ToolResult:
    return ToolResult(replace(result.call, arguments="{}"), notice)  # refused or not: it says nothing more


def fit_rounds(
    rounds: Sequence[Round], max_tokens: int, counter: TokenCounter, *, cut_newest: bool = True
) -> tuple[ChatMessage, ...] | None:
    """The rounds as messages of at most `max_tokens` tokens; None when even their shortest form needs more.

    Earlier results become references, the oldest first, until it fits; then the newest round's results share what
    is left, at least MIN_RESULT_TOKENS each.
    """
    entries = list(_round_messages(rounds))
    messages = [entry.message for entry in entries]
    sizes = [count_message(message, counter) for message in messages]
    newest = rounds[-1] if rounds else None
    last = len(messages) - bool(newest and newest.heard)
    first_newest = last - len(newest.results) if newest else 0
    for position, (message, entry) in enumerate(zip(messages[:first_newest], entries, strict=False)):
        if sum(sizes) <= max_tokens:
            break
        if entry.result is None:
            continue
        name = clean_name(entry.result.call.name)[:40]
        text = f"[What {name} answered, {sizes[position]:,} tokens, is left out here to make room.]"
        reference = replace(message, content=text)
        if (size := count_message(reference, counter)) < sizes[position]:
            messages[position], sizes[position] = reference, size
    if sum(sizes) > max_tokens and cut_newest and rounds:
        _truncate_results(entries[first_newest:last], first_newest, messages, sizes, max_tokens, counter)
    return tuple(messages) if sum(sizes) <= max_tokens else None


def _truncate_results(
    newest: Sequence[_RoundMessage],
    first_newest: int,
    messages: list[ChatMessage],
    sizes: list[int],
    max_tokens: int,
    counter: TokenCounter,
) -> None:
    """Cuts the longest of the newest results, from message `first_newest` on, so that all of them fit into what the
    others leave."""
    results = range(first_newest, first_newest + len(newest))
    tokens_left = max_tokens - sum(size for position, size in enumerate(sizes) if position not in results)
    shortest_first = sorted(results, key=lambda position: sizes[position])
    for index, position in enumerate(shortest_first):
        share = tokens_left // (len(shortest_first) - index)
        if sizes[position] > share and share >= MIN_RESULT_TOKENS:
            messages[position] = _truncate_result(newest[position - first_newest], share, counter)
            sizes[position] = count_message(messages[position], counter)
        tokens_left -= sizes[position]


def _truncate_result(entry: _RoundMessage, max_tokens: int, counter: TokenCounter) -> ChatMessage:
    """The result with head and tail only, the whole message within `max_tokens` tokens as far as that is possible."""
    limit, result = max_tokens, entry.result
    if result is None:
        return entry.message
    make_message = _told_message if entry.is_told else _result_message
    while True:
        message = make_message(result.call, truncate_middle(result.result, limit, counter, _CUT_MARKER))
        over = count_message(message, counter) - max_tokens
        if over <= 0 or limit <= 16:
            return message
        limit = max(limit - max(over, 8), 16)


def _round_messages(rounds: Iterable[Round]) -> Iterable[_RoundMessage]:
    for finished in rounds:
        calls = () if finished.is_told else tuple(result.call for result in finished.results)
        if calls or finished.text.strip():
            said = ChatMessage("assistant", finished.text, tool_calls=calls, provider_fields=finished.provider_fields)
            yield _RoundMessage(said)
        for number, result in enumerate(finished.results, start=1):
            make_message = _told_message if finished.is_told else _result_message
            message = make_message(result.call, result.result)
            message = replace(message, ends_stable_part=True) if number == len(finished.results) else message
            yield _RoundMessage(message, result, finished.is_told)
        if finished.heard:
            yield _RoundMessage(ChatMessage("user", told_text(finished.heard), ends_stable_part=True))


def _result_message(call: ToolCallRequest, text: str) -> ChatMessage:
    return ChatMessage("tool", _result_line(call, text), tool_call_id=call.id)


def _told_message(call: ToolCallRequest, text: str) -> ChatMessage:
    """A call and its result as something that is told."""
    return ChatMessage("user", _result_line(call, f"Called with {clean_text(call.arguments)}, it answered:\n{text}"))


def _result_line(call: ToolCallRequest, text: str) -> str:
    """The result as a line of a transcript, so that code reads as it was written."""
    line = message_line(clean_identifier(call.id), call.name, mask_secrets(text))
    return f"{opening('untrusted', source='tool')}{line}{CLOSING}"


def without_endless_arguments(call: ToolCallRequest) -> ToolCallRequest:
    """The call, without arguments that are longer than any tool reads: they would leave no room for another turn."""
    if len(call.arguments) <= MAX_ARGUMENT_CHARS:
        return call
    return replace(call, arguments=json.dumps({"left_out": f"{len(call.arguments):,} characters"}))


def with_renamed_calls(
    fields: Mapping[str, Any], calls: Sequence[ToolCallRequest], renamed: Sequence[ToolCallRequest]
) -> dict[str, Any]:
    """A message's fields with the ids that its calls were given, where an old id says which call it was."""
    counts = Counter(call.id for call in calls)
    names = {
        call.id: new.id for call, new in zip(calls, renamed, strict=False) if call.id != new.id and counts[call.id] == 1
    }
    return dict(rename_ids(fields, names)) if names else dict(fields)


def with_unique_ids(calls: Iterable[ToolCallRequest], used_ids: Iterable[str]) -> list[ToolCallRequest]:
    """The calls with ids that fit their column and are unique in the exchange: some endpoints begin at 0 each time."""
    names = set(used_ids)
    renamed = []
    for call in calls:
        original = clean_text(call.id)[:80] or "call"
        name, suffix = original, 2
        while name in names:
            name, suffix = f"{original}-{suffix}", suffix + 1
        names.add(name)
        renamed.append(
            replace(call, id=name, name=clean_text(call.name)[:100] or "?", arguments=clean_text(call.arguments))
        )
    return renamed
