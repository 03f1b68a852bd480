"""The tool loop of one run: ask the model, execute its tool calls, ask again, until it only answers or is stopped.

`Transcript` builds each request from the prompt and the rounds so far, never over the ceiling. A call and its result
never part, and nothing is made up: what does not fit is named as left out. Where room is short, the results of
earlier rounds become references first; then the prompt is assembled anew with less history; when there is still no
room, the tools are withdrawn and the model is asked for its answer. `RunSession` asks, executes each call with its row
in one transaction, fenced by the run's attempt, and saves the answer. Sizes in tokens of the prompt's counter."""

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import perf_counter

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from agents.access import reply_denied_reason, tokens_used_today
from agents.assembler.assemble import Prompt
from agents.assembler.items import data_block
from agents.assembler.render import exact_tokens, message_tokens
from agents.assembler.sections.work import CHANGED_NOTICE
from agents.assembler.snapshots.store import store_snapshot
from agents.audience import save_sources
from agents.models import RUNS, Agent, Run, ToolCall
from agents.runs.store import (
    PartialReply,
    add_answer_tokens,
    add_request_tokens,
    is_stop_requested,
    runs_with_relations,
    save_partial,
    wait_for_approval,
)
from agents.tools.toolbox import Toolbox
from agents.tools.values import ToolOutcome
from memory.services import record_trust_check
from openvibe.base.problems import Problem
from openvibe.base.text import MAX_BODY_CHARACTERS
from openvibe.chat.models import Message
from openvibe.llm.errors import BadAnswer
from openvibe.llm.fences import clean_text, fence
from openvibe.llm.protocol import ModelClient
from openvibe.llm.tokens import TokenCounter, count_tokens, truncate_middle
from openvibe.llm.values import ChatMessage, Completion, StreamEnd, TextDelta, ToolCallRequest, ToolSpec

MAX_ROUNDS = 8
"""Rounds of tool calls in one run; after them the model is asked once more, without tools."""

FEW_ROUNDS, FEW_TURNS, MAX_REFUSAL_LINES = 2, 3, 2
"""From so few rounds on the model is told how many are left; of its tokens for today, once they are fewer than so many
turns take; and of calls that are refused again and again, so many are named."""

MIN_RESULT_TOKENS = 150
"""Tokens that a result of the newest round keeps, its fence included; with less room there is no use in calling."""

NO_ROUNDS_LEFT = "The rounds for tools are used up. Answer the request now with what you have."
NO_ROOM_LEFT = "There is no room left for tools. Answer the request now with what you have."
CALL_MAY_QUOTE = "A message was edited or deleted meanwhile, which this call may quote. Look again at what stands now."
TRIGGER_DELETED = "The message was deleted before it was answered."
_CUT_MARKER = "\n[… cut here to make room …]\n"


@dataclass(frozen=True)
class ToolResult:
    """A call and what came of it."""

    call: ToolCallRequest
    result: str
    is_refused: bool = False


@dataclass(frozen=True)
class Round:
    """What the model said and called in one turn, with every result."""

    text: str
    results: tuple[ToolResult, ...]


@dataclass(frozen=True)
class ModelTurn:
    """What the model is asked next. `tokens` is all of it, definitions included."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...]
    tokens: int


class Transcript:
    """One run's exchange with the model. `reassemble(budget)` assembles its prompt anew within so many tokens.

    Ids of calls are unique in the whole exchange. `tokens_left_today`: of the agent's daily budget, None where nobody
    looked.
    """

    def __init__(self, prompt: Prompt, reassemble: Callable[[int], Prompt]) -> None:
        self._prompt = prompt
        self._reassemble = reassemble
        self._ceiling = prompt.ceiling
        self._counter = prompt.counter
        self._may_shrink = True
        self.rounds: list[Round] = []
        self.tokens_left_today: int | None = None

    @property
    def number(self) -> int:
        """Which round comes next, from 1."""
        return len(self.rounds) + 1

    def add(self, finished: Round) -> None:
        self.rounds.append(finished)

    def renew(self) -> Prompt:
        """The prompt anew, as things are now, and rounds without what may quote a message that was changed since.

        Raises Problem where what every prompt needs does not fit any more.
        """
        self._prompt = self._reassemble(self._ceiling)
        self._may_shrink = True
        self.rounds = [Round("", tuple(map(_emptied, finished.results))) for finished in self.rounds]
        return self._prompt

    def next_turn(self) -> ModelTurn:
        """The next turn, within the ceiling."""
        if not self.rounds:
            return ModelTurn(self._prompt.messages, self._prompt.tools, self._prompt.tokens)
        if len(self.rounds) >= MAX_ROUNDS:
            return self._final_turn(NO_ROUNDS_LEFT)
        reminders = self._reminders()
        round_messages = fit_rounds(self.rounds, self._room_beside(reminders), self._counter, cut_newest=False)
        if round_messages is None:
            self._shrink_prompt()
            round_messages = fit_rounds(self.rounds, self._room_beside(reminders), self._counter)
        if round_messages is None:
            return self._final_turn(NO_ROOM_LEFT)
        return self._build_turn((*round_messages, *reminders), self._prompt.tools)

    def _room_beside(self, reminders: Sequence[ChatMessage]) -> int:
        return self._ceiling - exact_tokens((*self._prompt.messages, *reminders), self._prompt.tools, self._counter)

    def _reminders(self) -> tuple[ChatMessage, ...]:
        """What the model must not forget before it calls again: the last message, where there is anything to say.

        Lines of ours about this run; the prompt's own reminders stand before the request (`sections.reminders`).
        """
        lines = [*_rounds_line(MAX_ROUNDS - len(self.rounds)), *self._budget_line(), *self._refusal_lines()]
        return (ChatMessage("user", fence("reminders", "\n".join(lines), trust="trusted")),) if lines else ()

    def _budget_line(self) -> list[str]:
        left = self.tokens_left_today
        if left is None or left >= FEW_TURNS * self._prompt.tokens:
            return []
        return [
            f"About {max(left, 0):,} tokens of your budget for today are left; a turn here takes more than "
            f"{self._prompt.tokens:,}."
        ]

    def _refusal_lines(self) -> list[str]:
        known = {tool.name for tool in self._prompt.tools}
        results = [result for finished in self.rounds for result in finished.results if result.is_refused]
        refused = Counter((result.call.name, result.call.arguments) for result in results)
        names = {name if name in known else "A tool you do not have": n for (name, _), n in refused.items() if n > 1}
        return [
            f"{name} was refused {times} times with the same arguments: calling it so again changes nothing."
            for name, times in list(names.items())[:MAX_REFUSAL_LINES]
        ]

    def _shrink_prompt(self) -> None:
        """Once: the prompt with less history, so that a third of the ceiling, at most a half, is for rounds."""
        if not self._may_shrink:
            return
        self._may_shrink = False
        needed = sum(message_tokens(message, self._counter) for message in _round_messages(self.rounds))
        reserved = max(self._ceiling // 3, min(needed, self._ceiling // 2))
        try:
            self._prompt = self._reassemble(self._ceiling - reserved)
        except Problem:  # what every prompt needs takes more than that: it stays as it is
            return

    def _final_turn(self, instruction: str) -> ModelTurn:
        """Without tools, with as many rounds as fit, the newest first, and a sentence that asks for the answer."""
        final_request = ChatMessage("user", instruction)
        room = self._ceiling - exact_tokens([*self._prompt.messages, final_request], (), self._counter)
        for start in range(len(self.rounds) + 1):
            round_messages = fit_rounds(self.rounds[start:], room, self._counter)
            if round_messages is not None:
                return self._build_turn((*round_messages, final_request), ())
        return self._build_turn((), ())

    def _build_turn(self, round_messages: Sequence[ChatMessage], tools: tuple[ToolSpec, ...]) -> ModelTurn:
        messages = (*self._prompt.messages, *round_messages)
        return ModelTurn(messages, tools, exact_tokens(messages, tools, self._counter))


def _rounds_line(left: int) -> list[str]:
    if left > FEW_ROUNDS:
        return []
    return [f"{'One round' if left == 1 else f'{left} rounds'} of tool calls left; then you answer with what you have."]


def _emptied(result: ToolResult) -> ToolResult:
    return ToolResult(replace(result.call, arguments="{}"), CHANGED_NOTICE)  # refused or not: it says nothing more


def fit_rounds(
    rounds: Sequence[Round], max_tokens: int, counter: TokenCounter, *, cut_newest: bool = True
) -> tuple[ChatMessage, ...] | None:
    """The rounds as messages of at most `max_tokens` tokens; None when even their shortest form needs more.

    Earlier results become references, the oldest first, until it fits; then the newest round's results share what
    is left, at least MIN_RESULT_TOKENS each.
    """
    messages = list(_round_messages(rounds))
    sizes = [message_tokens(message, counter) for message in messages]
    first_newest = len(messages) - len(rounds[-1].results) if rounds else 0
    names: dict[str | None, str] = {
        result.call.id: result.call.name for earlier in rounds for result in earlier.results
    }
    for position, message in enumerate(messages[:first_newest]):
        if sum(sizes) <= max_tokens:
            break
        if message.role != "tool":
            continue
        name = names[message.tool_call_id][:40]
        text = f"[What {name} answered, {sizes[position]:,} tokens, is left out here to make room.]"
        reference = replace(message, content=text)
        if (size := message_tokens(reference, counter)) < sizes[position]:
            messages[position], sizes[position] = reference, size
    if sum(sizes) > max_tokens and cut_newest and rounds:
        _truncate_results(rounds[-1].results, messages, sizes, max_tokens, counter)
    return tuple(messages) if sum(sizes) <= max_tokens else None


def _truncate_results(
    results: Sequence[ToolResult], messages: list[ChatMessage], sizes: list[int], max_tokens: int, counter: TokenCounter
) -> None:
    """Cut the longest of the newest results, the last messages, so that all of them fit into what the others leave."""
    first_newest = len(messages) - len(results)
    left = max_tokens - sum(sizes[:first_newest])
    shortest_first = sorted(range(first_newest, len(messages)), key=lambda position: sizes[position])
    for seen, position in enumerate(shortest_first):
        share = left // (len(shortest_first) - seen)
        if sizes[position] > share and share >= MIN_RESULT_TOKENS:
            messages[position] = _truncate_result(results[position - first_newest], share, counter)
            sizes[position] = message_tokens(messages[position], counter)
        left -= sizes[position]


def _truncate_result(result: ToolResult, max_tokens: int, counter: TokenCounter) -> ChatMessage:
    """The result with head and tail only, the whole message within `max_tokens` tokens as far as that is possible."""
    limit = max_tokens
    while True:
        message = _result_message(result.call, truncate_middle(result.result, limit, counter, _CUT_MARKER))
        over = message_tokens(message, counter) - max_tokens
        if over <= 0 or limit <= 16:
            return message
        limit = max(limit - max(over, 8), 16)


def _round_messages(rounds: Iterable[Round]) -> Iterable[ChatMessage]:
    for finished in rounds:
        yield ChatMessage("assistant", finished.text, tool_calls=tuple(result.call for result in finished.results))
        for result in finished.results:
            yield _result_message(result.call, result.result)


def _result_message(call: ToolCallRequest, text: str) -> ChatMessage:
    block = data_block(text, source="tool", ref=call.id, author=call.name, trust="untrusted")
    return ChatMessage("tool", block, tool_call_id=call.id)


MAX_CALLS_PER_ROUND = 16
"""Calls executed in one round; what a model asks for beyond that is refused."""

BULKY_RESULT_TOKENS = 2_000
"""Tokens from which on a result is a reason to compact."""


def with_unique_ids(calls: Iterable[ToolCallRequest], used_ids: Iterable[str]) -> list[ToolCallRequest]:
    """The calls with ids that fit their column and are unique in the exchange: some endpoints begin at 0 each time."""
    used = set(used_ids)
    renamed = []
    for call in calls:
        original = clean_text(call.id)[:80] or "call"
        name, suffix = original, 2
        while name in used:
            name, suffix = f"{original}-{suffix}", suffix + 1
        used.add(name)
        renamed.append(
            replace(call, id=name, name=clean_text(call.name)[:100] or "?", arguments=clean_text(call.arguments))
        )
    return renamed


STREAM_TIMEOUT = 0.3
"""Seconds between two looks at the run: a growing reply is saved this often."""

StreamEvent = TextDelta | StreamEnd
_STREAM_END = object()


def iter_with_timeout(stream: Callable[[], Iterator[StreamEvent]]) -> Iterator[StreamEvent | None]:
    """What the stream gives, and None whenever STREAM_TIMEOUT seconds passed without anything.

    The stream is read in a thread of its own, which ends at the stream's next word once this iterator is closed.
    Errors of the stream are raised here; a stream that ends without `StreamEnd` raises BadAnswer.
    """
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    is_open = threading.Event()
    is_open.set()

    def read() -> None:
        try:
            for event in stream():
                events.put(event)
                if not is_open.is_set():
                    return
            events.put(_STREAM_END)
        except BaseException as error:  # handed to the caller, whatever it is
            events.put(error)

    threading.Thread(target=read, name="model-stream", daemon=True).start()
    try:
        while True:
            try:
                event = events.get(timeout=STREAM_TIMEOUT)
            except queue.Empty:
                yield None
                continue
            if event is _STREAM_END:
                raise BadAnswer("The model's answer broke off without an end.")
            if isinstance(event, BaseException):
                raise event
            yield event  # type: ignore[misc]
            if isinstance(event, StreamEnd):
                return
    finally:
        is_open.clear()


@dataclass
class RunSession:
    """One attempt of a run, from the first word to the last."""

    run: Run
    reply: Message
    client: ModelClient
    max_output_tokens: int | None
    block_stamps: dict[str, str]
    read_at: datetime
    answer: PartialReply = field(default_factory=PartialReply)
    had_bulky_result: bool = False
    trust_refusals: dict[str, None] = field(default_factory=dict)

    def run_turns(self, transcript: Transcript) -> bool:
        """Model, calls, results, until it only speaks or is stopped. False when the run waits for an approval now.

        Calls are executed one after the other; once one has to wait, the rest are not executed. Raises JobLost.
        """
        while True:
            if transcript.rounds:
                self._check_trust_level()
                transcript.tokens_left_today = self.run.agent.daily_token_budget - tokens_used_today(
                    agent=self.run.agent
                )
            self._renew_if_changed(transcript)
            turn = transcript.next_turn()
            completion = self._stream_turn(turn)
            if completion is None or not completion.tool_calls or not turn.tools:
                return True
            toolbox = toolbox_for_run(runs_with_relations().get(pk=self.run.pk), self.block_stamps)
            used_ids = (result.call.id for earlier in transcript.rounds for result in earlier.results)
            results = []
            for position, call in enumerate(with_unique_ids(completion.tool_calls, used_ids)):
                if is_stop_requested(self.run):
                    self.answer.is_stopped = True
                    return True
                outcome = self._execute_tool_call(toolbox, call, transcript.number, position)
                if outcome.approval is not None:
                    return False
                results.append(ToolResult(call, outcome.result, outcome.decision == ToolCall.Decision.REFUSED))
            transcript.add(Round(completion.text, tuple(results)))

    def _renew_if_changed(self, transcript: Transcript) -> None:
        """A message was edited or deleted since it was read: what it said is neither sent nor kept."""
        now = timezone.now()
        if not messages_changed(self.run, self.read_at):
            return
        self.read_at = now
        self.run.trigger.refresh_from_db(fields=["body", "edited_at", "deleted_at"])
        if self.run.trigger.is_deleted:
            raise Problem(TRIGGER_DELETED, code="deleted")
        prompt = transcript.renew()
        with transaction.atomic():
            RUNS.lock_owned(self.run)
            store_snapshot(self.run, prompt)

    def _check_trust_level(self) -> None:
        """What tools answered before is not shown at a lower trust level. Raises Problem once it was lowered."""
        level = Agent.objects.values_list("level", flat=True).get(pk=self.run.agent_id)
        if level < self.run.agent.level:
            raise Problem(
                "Its trust level was lowered while it answered, so it did not go on with what it had read. Ask again.",
                code="level_lowered",
            )

    def _stream_turn(self, turn: ModelTurn) -> Completion | None:
        """One turn, its words saved as they come; None when a person stopped it."""
        add_request_tokens(self.run, turn.tokens)
        saved_text, saved_at = self.answer.text, timezone.now()
        for event in iter_with_timeout(
            lambda: self.client.stream(turn.messages, tools=turn.tools, max_output_tokens=self.max_output_tokens)
        ):
            if isinstance(event, StreamEnd):
                self._end_round(event.completion, turn)
                return event.completion
            if isinstance(event, TextDelta) and len(self.answer.current_round) < MAX_BODY_CHARACTERS:
                self.answer.current_round += clean_text(event.text)
            now = timezone.now()
            if event is None or (now - saved_at).total_seconds() >= STREAM_TIMEOUT:
                saved_at = now
                if is_stop_requested(self.run):
                    self.answer.is_stopped = True
                    return None
                if self.answer.text != saved_text:
                    saved_text = self.answer.text
                    save_partial(self.run, self.reply, self.answer)
        return None

    def _end_round(self, completion: Completion, turn: ModelTurn) -> None:
        text = completion.text or self.answer.current_round
        add_answer_tokens(self.run, completion.usage, planned=turn.tokens, text=text)
        self.answer.end_round(text)
        if completion.tool_calls:
            save_partial(self.run, self.reply, self.answer)

    @transaction.atomic
    def _execute_tool_call(
        self, toolbox: Toolbox, call: ToolCallRequest, round_number: int, position: int
    ) -> ToolOutcome:
        """What the tool changes and the record of the call, together or not at all."""
        current = RUNS.lock_owned(self.run)
        started = perf_counter()
        if messages_changed(self.run, self.read_at):
            outcome, call = toolbox.refuse(call, CALL_MAY_QUOTE), replace(call, arguments="{}")
        elif position < MAX_CALLS_PER_ROUND:
            outcome = toolbox.execute(call)
        else:
            outcome = toolbox.refuse(call, f"At most {MAX_CALLS_PER_ROUND} calls in one turn.")
        tokens = count_tokens(outcome.result)
        row = ToolCall.objects.create(
            run=self.run,
            attempt=self.run.attempt,
            round=round_number,
            call_id=call.id,
            name=call.name,
            arguments=call.arguments,
            decision=outcome.decision,
            why=outcome.why,
            result=outcome.result,
            result_tokens=tokens,
            milliseconds=round((perf_counter() - started) * 1000),
        )
        save_sources(row, outcome.sources)
        self.had_bulky_result = self.had_bulky_result or tokens > BULKY_RESULT_TOKENS
        if outcome.trust_refusal:
            self._remember_refusal(outcome.trust_refusal)
        if outcome.approval is not None:
            wait_for_approval(current, self.reply, self.answer, outcome.approval)
        return outcome

    def _remember_refusal(self, refusal: str) -> None:
        """One episode of a run, however often and whatever it was refused; in our words, not in those of the call."""
        self.trust_refusals[refusal] = None
        record_trust_check(
            agent_id=self.run.agent.participant_id,
            thread=self.run.thread,
            subject=f"run:{self.run.pk}",
            summary=f"Refused in “{self.run.thread.title}”: {'; '.join(self.trust_refusals)}.",
        )


def messages_changed(run: Run, since: datetime) -> bool:
    """Whether a message of the run's thread, or the one its dive began from, was edited or deleted since."""
    ever_changed = Q(edited_at__isnull=False) | Q(deleted_at__isnull=False)  # few, and an index has them
    read = Q(thread=run.thread_id) | Q(dives_from_here__thread=run.thread_id)
    changed = Q(edited_at__gte=since) | Q(deleted_at__gte=since)
    return Message.objects.filter(ever_changed, read, changed).exists()


def toolbox_for_run(run: Run, block_stamps: dict[str, str]) -> Toolbox:
    """What the agent may call as things are now. Raises Problem when it may not answer (any more)."""
    reason = reply_denied_reason(run.agent, run.thread, run.task)
    if reason is not None:
        raise Problem(reason, code="agent_silent")
    if run.trigger.is_deleted:
        raise Problem(TRIGGER_DELETED, code="deleted")
    return Toolbox.for_agent(run.agent, run.thread, run=run, block_stamps=block_stamps)
