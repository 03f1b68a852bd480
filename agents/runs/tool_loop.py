"""The tool loop of one run: ask the model, execute its tool calls, ask again, until it only answers or is stopped.

`RunSession` asks what the `Transcript` holds, has a `CallExecutor` execute each call, and saves the answer."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from time import monotonic
from typing import Any

from django.db import transaction
from django.db.models import Count, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Extract
from django.utils import timezone

from agents.access import budget_denial, reply_denied_reason, tokens_used_by_agent, visible_to
from agents.assembler.sections.work import CHANGED_NOTICE
from agents.assembler.snapshots.store import store_snapshot
from agents.audience import has_new_readers, shown_to_readers
from agents.models import RUNS, Agent, Run, RunStep, ToolCall
from agents.runs.client_tools import client_turn_of, record_client_calls
from agents.runs.previous_attempts import decided_calls, previous_results, request_of
from agents.runs.store import (
    PartialReply,
    answered_turn,
    begin_request,
    check_open,
    is_stop_requested,
    run_as_it_is,
    save_answered_turn,
    save_partial,
)
from agents.runs.stream_reader import STREAM_TIMEOUT, iter_with_timeout
from agents.runs.thoughts import ThoughtWriter
from agents.runs.tool_calls import CALL_MAY_QUOTE, CallExecutor
from agents.runs.transcript import ModelTurn, Round, ToolResult, Transcript, with_unique_ids, without_endless_arguments
from agents.tools.toolbox import MAX_ARGUMENT_CHARS, Toolbox, too_long_arguments
from agents.tools.values import ToolOutcome
from openvibe.base.problems import Problem
from openvibe.base.query_cache import CompiledQuery
from openvibe.base.text import MAX_BODY_CHARACTERS, has_visible_character
from openvibe.chat.models import Dive, Message
from openvibe.llm.errors import EmptyAnswer
from openvibe.llm.fences import clean_text
from openvibe.llm.protocol import ModelClient
from openvibe.llm.values import Completion, ReasoningDelta, StreamEnd, TextDelta, TextReset, ToolCallRequest
from openvibe.workspaces.access import Access

NEW_READERS_NOTICE = "[Left out: somebody reads along by now who may not see all of it.]"

CALL_BEFORE_READERS = "It was not made: somebody reads along by now who may not see all that you had read."

TRIGGER_DELETED = "The message was deleted before it was answered."

MAX_CALLS_PER_ROUND = 16
"""Calls executed in one round; what a model asks for beyond that is refused."""

MAX_CALLS_ON_RECORD = 64
"""Calls of one round that are answered and kept, refused ones included."""

MessageChanges = list[tuple[Any, ...]]


@dataclass
class RunSession:
    """One attempt of a run, from the first word to the last."""

    run: Run
    reply: Message
    client: ModelClient
    max_output_tokens: int | None
    block_stamps: dict[str, str]
    changes_read: MessageChanges
    readers: Access
    client_tools: frozenset[str] = frozenset()
    stop_reason: str = ""
    answer: PartialReply = field(default_factory=PartialReply)
    calls: CallExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.calls = CallExecutor(self.run, self.reply, self.answer)

    def run_turns(self, transcript: Transcript) -> bool:
        """Model, calls, results, until it only speaks or is stopped. False when the run waits for an approval now.

        Calls are executed one after the other; once one has to wait, the rest are not executed. Raises JobLost.
        """
        self._resume(transcript)
        while True:
            if transcript.rounds:
                self._check_trust_level()
                transcript.tokens_left_today = self._check_budget()
            self._renew_if_changed(transcript)
            turn = transcript.next_turn()
            completion = self._stream_turn(turn, transcript.number)
            if completion is None or not completion.tool_calls or self._is_last(completion, turn):
                return True
            if self._hand_over(completion, transcript.number):
                return True
            toolbox = self._toolbox()
            used_ids = (result.call.id for earlier in transcript.rounds for result in earlier.results)
            results = []
            calls = with_unique_ids(completion.tool_calls[:MAX_CALLS_ON_RECORD], used_ids)
            for position, call in enumerate(calls):
                if is_stop_requested(self.run):
                    self.answer.is_stopped = True
                    return True
                outcome = self._execute_tool_call(toolbox, call, transcript.number, position)
                if outcome.approval is not None:
                    return False
                is_refused = outcome.decision == ToolCall.Decision.REFUSED
                results.append(ToolResult(without_endless_arguments(call), outcome.result, is_refused))
                if toolbox.is_remote(call):  # it may have taken long: people may have taken tools away meanwhile
                    toolbox = self._toolbox()
            transcript.add(Round(completion.text, tuple(results), completion.provider_fields))

    def _is_last(self, completion: Completion, turn: ModelTurn) -> bool:
        """Whether the turn had no tools to call: what it said ends the run. Raises EmptyAnswer if it only called."""
        if turn.tools:
            return False
        if not has_visible_character(completion.text):
            raise EmptyAnswer("The model called tools when it was asked for its answer, and said nothing.")
        self.answer.cut_reason = "" if self._is_for_program() else "calls"
        return True

    def _toolbox(self) -> Toolbox:
        """What the agent may call as things are now. Raises Problem when it may not answer (any more)."""
        for run in run_as_it_is.objects(self.run.pk):
            return toolbox_for_run(run, self.block_stamps)
        raise Run.DoesNotExist

    def _hand_over(self, completion: Completion, round_number: int) -> bool:
        """Whether the model called tools of the client: that ends the run. Our own beside them are not called."""
        calls = [call for call in completion.tool_calls if call.name in self.client_tools]
        if calls:
            self.answer.finished_rounds.append(record_client_calls(self.run, calls, round_number))
        return bool(calls)

    def _renew_if_changed(self, transcript: Transcript) -> None:
        """A message was edited or deleted since it was read, or somebody reads along by now who may not see all that
        was read: it is neither sent nor kept."""
        changes, readers = read_message_changes(self.run.thread_id), readers_of(self.run)
        are_new = has_new_readers(self.readers, readers)
        if changes == self.changes_read and not are_new:
            return
        self.changes_read, self.readers = changes, readers
        self.run.trigger.refresh_from_db(fields=["body", "edited_at", "deleted_at"])
        if self.run.trigger.is_deleted:
            raise Problem(TRIGGER_DELETED, code="deleted")
        prompt = transcript.renew(NEW_READERS_NOTICE if are_new else CHANGED_NOTICE)
        with transaction.atomic():
            RUNS.lock_owned(self.run)
            store_snapshot(self.run, prompt)
            RunStep.objects.filter(run=self.run.pk).forget()

    def _check_trust_level(self) -> None:
        """What tools answered before is not shown at a lower trust level. Raises Problem once it was lowered."""
        level = Agent.objects.values_list("level", flat=True).get(pk=self.run.agent_id)
        if level < self.run.agent.level:
            raise Problem(
                "Its trust level was lowered while it answered, so it did not go on with what it had read. Ask again.",
                code="level_lowered",
            )

    def _check_budget(self) -> int | None:
        """Tokens left of the budgets of today, the agent's and the workspace's; None where the model costs nothing.

        Raises Problem once one of them is used up: by this run, or by others meanwhile.
        """
        if self.client.is_free:
            return None
        agent = self.run.agent
        tokens_by_agent = tokens_used_by_agent(agent.workspace_id)
        if denial := budget_denial(agent, tokens_by_agent):
            raise Problem(f"@{agent.handle} did not go on: {denial.reason}", code="budget_used_up")
        own = agent.daily_token_budget - tokens_by_agent.get(agent.participant_id, 0)
        return min(own, agent.workspace.daily_token_budget - sum(tokens_by_agent.values()))

    def _stream_turn(self, turn: ModelTurn, round_number: int) -> Completion | None:
        """One turn, its words saved as they come; None when a person stopped it."""
        if not begin_request(self.run, turn.tokens, round_number):
            self.answer.is_stopped = True
            return None
        first_word_at: datetime | None = None
        saved_text, saved_at = self.answer.text, monotonic()
        thoughts = self.answer.thoughts = ThoughtWriter(self.run, round_number)
        for events in iter_with_timeout(
            lambda: self.client.stream(turn.messages, tools=turn.tools, max_output_tokens=self.max_output_tokens)
        ):
            for event in events:
                if isinstance(event, TextReset):
                    self.answer.current_round = ""
                    thoughts.reset()
                elif isinstance(event, ReasoningDelta):
                    thoughts.add(event.text)
                elif isinstance(event, TextDelta) and len(self.answer.current_round) < MAX_BODY_CHARACTERS:
                    self.answer.current_round += clean_text(event.text)
            if first_word_at is None and self.answer.current_round:
                thoughts.answer_begins()
                first_word_at = timezone.now()
                self.answer.first_word_at = self.answer.first_word_at or first_word_at
            if events and isinstance(events[-1], StreamEnd):  # all of it is saved in a moment
                self._end_round(events[-1].completion, turn, round_number, first_word_at)
                return events[-1].completion
            is_due = not events or monotonic() - saved_at >= STREAM_TIMEOUT
            if is_due:
                saved_at = monotonic()
                if is_stop_requested(self.run):
                    self.answer.is_stopped = True
                    thoughts.answer_begins()
                    return None
            if (is_due or not saved_text) and self.answer.text != saved_text:  # the first word waits for nothing
                saved_text = self.answer.text
                save_partial(self.run, self.reply, self.answer)
        return None

    def _end_round(
        self, completion: Completion, turn: ModelTurn, round_number: int, first_word_at: datetime | None
    ) -> None:
        thought_tokens = self._end_thoughts(completion)
        text, self.stop_reason = completion.text or self.answer.current_round, completion.stop_reason
        cut_reason = self.stop_reason if self.stop_reason in ("length", "content_filter", "pause") else ""
        round_turn = answered_turn(
            self.run,
            completion.usage,
            planned_tokens=turn.tokens,
            text=text,
            round_number=round_number,
            first_word_at=first_word_at,
            cut_reason=cut_reason,
            thought_tokens=thought_tokens,
        )
        self.answer.end_round(text)
        if not completion.tool_calls:
            self.answer.last_turn = round_turn
            self.answer.cut_reason = "" if self._is_for_program() else cut_reason
        else:
            save_answered_turn(self.run, round_turn)
            save_partial(self.run, self.reply, self.answer)

    def _end_thoughts(self, completion: Completion) -> int:
        """The tokens that the turn thought. Its words are not kept where a message was edited or deleted meanwhile that
        they may quote, or somebody reads along by now for whom they were not meant."""
        thoughts, tokens = self.answer.thoughts, completion.usage.reasoning_tokens
        if thoughts is None or not (tokens or completion.reasoning or thoughts.has_any):
            return 0
        is_kept = read_message_changes(self.run.thread_id) == self.changes_read and not has_new_readers(
            self.readers, readers_of(self.run)
        )
        return thoughts.end(tokens, text=completion.reasoning, is_kept=is_kept)

    def _is_for_program(self) -> bool:
        """Whether a program reads the answer: one that is told why it ended, or the form of a dive's result."""
        return self.run.task == Run.Task.PUBLISH or client_turn_of(self.run) is not None

    def _execute_tool_call(
        self, toolbox: Toolbox, call: ToolCallRequest, round_number: int, position: int
    ) -> ToolOutcome:
        """Execute one of the calls of a round, unless what it may quote was changed or is not for all who read along by
        now, or they are too many."""
        refusal = None
        if read_message_changes(self.run.thread_id) != self.changes_read:
            refusal, call = toolbox.refuse(call, CALL_MAY_QUOTE), replace(call, arguments="{}")
        elif has_new_readers(self.readers, readers_of(self.run)):
            refusal, call = toolbox.refuse(call, CALL_BEFORE_READERS), replace(call, arguments="{}")
        elif position >= MAX_CALLS_PER_ROUND:
            refusal = toolbox.refuse(call, f"At most {MAX_CALLS_PER_ROUND} calls in one turn.")
        elif len(call.arguments) > MAX_ARGUMENT_CHARS:
            refusal = toolbox.refuse(call, too_long_arguments(call.arguments))
            call = without_endless_arguments(call)
        return self.calls.execute(toolbox, call, round_number, refusal)

    def _resume(self, transcript: Transcript) -> None:
        """Tell the model what earlier attempts did, and carry out what people approved since. Raises JobLost."""
        if self.run.attempt == 1:
            return
        results = previous_results(self.run)
        for row in decided_calls(self.run):
            toolbox = self._toolbox()
            outcome = self.calls.settle(toolbox, row)
            results.append(ToolResult(request_of(row), outcome.result, outcome.decision == ToolCall.Decision.REFUSED))
        if results:
            calls = with_unique_ids((result.call for result in results), ())
            renamed = (replace(result, call=call) for result, call in zip(results, calls, strict=True))
            transcript.add(Round(self.answer.text, tuple(renamed)))


def read_message_changes(thread_id: int) -> MessageChanges:
    """Stands for all edits and deletions of the thread's messages, and of the one its dive began from: after another
    one it is not the same. Times are not compared with ours, since clocks differ, and go back."""
    return _message_changes.rows(thread_id)


@CompiledQuery
def _message_changes(thread_id: int) -> QuerySet[Any, Any]:
    ever_changed = Q(edited_at__isnull=False) | Q(deleted_at__isnull=False)  # few, and an index has them
    source = Dive.objects.filter(thread=thread_id).values("source")
    was_read = Q(thread=thread_id) | Q(pk=Subquery(source[:1]))  # not a join: no index would be used
    changed = Message.objects.filter(ever_changed, was_read).order_by().annotate(all=Value(1)).values_list("all")
    return changed.annotate(deletions=Count("deleted_at"), edits=Sum(Extract("edited_at", "epoch")))


def readers_of(run: Run) -> Access:
    """What the agent may read and say in the thread, by its level as the run knows it and who reads there now."""
    return shown_to_readers(visible_to(run.agent), run.thread_id)


def toolbox_for_run(run: Run, block_stamps: dict[str, str]) -> Toolbox:
    """What the agent may call as things are now. Raises Problem when it may not answer (any more)."""
    if run.state == Run.State.WRITING:
        check_open(run.thread.access)
    access = visible_to(run.agent)
    reason = reply_denied_reason(run.agent, run.thread, run.task, access=access)
    if reason is not None:
        raise Problem(reason, code="agent_silent")
    if run.trigger.is_deleted:
        raise Problem(TRIGGER_DELETED, code="deleted")
    return Toolbox.for_agent(run.agent, run.thread, run=run, block_stamps=block_stamps, access=access)
