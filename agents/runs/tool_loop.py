"""The tool loop of one run: ask the model, execute its tool calls, ask again, until it only answers or is stopped.

`RunSession` asks what the `Transcript` holds, executes each call with its row in one transaction, fenced by the run's
attempt, and saves the answer."""

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import perf_counter

from django.db import transaction
from django.db.models import Q, Subquery
from django.utils import timezone

from agents.access import reply_denied_reason, tokens_used_today
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
from agents.runs.transcript import ModelTurn, Round, ToolResult, Transcript, with_unique_ids
from agents.tools.toolbox import Toolbox
from agents.tools.values import ToolOutcome
from memory.services import record_trust_check
from openvibe.base.problems import Problem
from openvibe.base.text import MAX_BODY_CHARACTERS
from openvibe.chat.models import Dive, Message
from openvibe.llm.errors import BadAnswer
from openvibe.llm.fences import clean_text
from openvibe.llm.protocol import ModelClient
from openvibe.llm.tokens import count_tokens
from openvibe.llm.values import Completion, StreamEnd, TextDelta, ToolCallRequest

CALL_MAY_QUOTE = "A message was edited or deleted meanwhile, which this call may quote. Look again at what stands now."
TRIGGER_DELETED = "The message was deleted before it was answered."

MAX_CALLS_PER_ROUND = 16
"""Calls executed in one round; what a model asks for beyond that is refused."""

BULKY_RESULT_TOKENS = 2_000
"""Tokens from which on a result is a reason to compact."""

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
            transcript.add(Round(completion.text, tuple(results), completion.thinking))

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
    source = Dive.objects.filter(thread=run.thread_id).values("source")
    read = Q(thread=run.thread_id) | Q(pk=Subquery(source[:1]))  # not a join: no index would be used
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
