"""The tool loop of one run: ask the model, execute its tool calls, ask again, until it only answers or is stopped.

`RunSession` asks what the `Transcript` holds, has a `CallExecutor` execute each call, and saves the answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any

from django.db import transaction
from django.db.models import Count, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Extract
from django.utils import timezone

from agents.agent.access import visible_to
from agents.agent.audience import has_new_readers, shown_to_readers
from agents.agent.models import RUNS, Agent, Run, RunStep, ToolCall
from agents.agent.models.run import ERASED_FIELDS
from agents.agent.permissions import reply_denied_reason
from agents.agent.token_budgets import check_budgets_left
from agents.prompts.assembler.sections.work import CHANGED_NOTICE
from agents.prompts.snapshots.store import store_snapshot
from agents.runs.answer_format import answer_format
from agents.runs.client_tools import client_turn_of, record_client_calls
from agents.runs.context_window import MAX_SHORTENINGS, fit_prompt, window_after
from agents.runs.fallback import Fallback, both_failed, choose_fallback, no_fallback
from agents.runs.heard import (
    HEARD_FIELDS,
    HEARD_TOKENS,
    has_unanswered,
    hears_people,
    keep_heard,
    read_heard,
    read_unheard,
)
from agents.runs.previous_attempts import PreviousCall, decided_calls, previous_calls, request_of, rounds_of
from agents.runs.provider_fields import dump_fields
from agents.runs.store import (
    PartialReply,
    Prices,
    answered_turn,
    begin_request,
    check_open,
    discount_request,
    end_interrupted_turn,
    has_read_more,
    is_stop_requested,
    lock_last_seq,
    read_requests,
    run_as_it_is,
    save_answered_turn,
    save_notice,
    save_partial,
    shorten_prompt,
    switch_model,
)
from agents.runs.stream_reader import STREAM_TIMEOUT, iter_with_timeout
from agents.runs.thoughts import ThoughtWriter
from agents.runs.tool_calls import CALL_MAY_QUOTE, CallExecutor
from agents.runs.transcript import (
    MAX_ROUNDS,
    ModelTurn,
    Reassembly,
    Round,
    ToolResult,
    Transcript,
    with_renamed_calls,
    with_unique_ids,
    without_endless_arguments,
)
from agents.tools.toolbox import MAX_ARGUMENT_CHARS, Toolbox, too_long_arguments
from agents.tools.values import ToolOutcome
from openvibe.base.problems import Problem
from openvibe.chat.models import Dive, Message
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.engines.llm.adaptations.adapted_calls import ToolsRefused
from openvibe.engines.llm.answers.provider_fields import origin_of
from openvibe.engines.llm.answers.structured_output import UnparsableAnswer
from openvibe.engines.llm.answers.tool_calls import read_call
from openvibe.engines.llm.endpoints.endpoints import save_adaptations
from openvibe.engines.llm.endpoints.token_factors import learn_token_factor
from openvibe.engines.llm.endpoints.windows import learn_window, note_unread, unread_sentence, unread_tokens
from openvibe.engines.llm.errors import BudgetExceeded, ContextTooLong, EmptyAnswer, ModelError
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.protocol import ModelClient
from openvibe.engines.llm.values import (
    NO_OPTIONS,
    CallNotice,
    CallOptions,
    ChatMessage,
    Completion,
    ReasoningDelta,
    StreamEnd,
    TextDelta,
    TextReset,
    ToolCallRequest,
    ToolSpec,
    Usage,
)
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS, has_visible_character
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
    """One attempt of a run, from the first word to the last. `find_fallback` is called once the model fails; `tools`
    are those that were offered. `heard_seq`: the number of the newest message of the thread that it was shown, or could
    have been; `heard_ids`: the messages that it was told of in its course. `is_interrupted`: people ended the turn, so
    that it hears what they said."""

    run: Run
    reply: Message
    client: ModelClient
    max_output_tokens: int | None
    block_stamps: dict[str, str]
    changes_read: MessageChanges
    readers: Access
    client_tools: frozenset[str] = frozenset()
    tools: tuple[ToolSpec, ...] = ()
    find_fallback: Callable[[], Fallback | None] = no_fallback
    options: CallOptions = NO_OPTIONS
    correction: tuple[ChatMessage, ...] = ()
    failures: int = 0
    shortenings: int = 0
    first_error: ModelError | None = None
    heard_seq: int = 0
    heard_ids: list[int] = field(default_factory=list)
    is_interrupted: bool = False
    stop_reason: str = ""
    keeps_fields: bool = False
    answer: PartialReply = field(default_factory=PartialReply)
    calls: CallExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.calls = CallExecutor(self.run, self.reply, self.answer)

    def run_turns(self, transcript: Transcript) -> bool:
        """Model, calls, results, until it only speaks or is stopped. False when the run waits for an approval now.

        Calls are executed one after the other; once one has to wait, the rest are not executed. Raises JobLost.
        """
        self._resume(transcript)
        return self._take_turns(transcript)

    def go_on(self, transcript: Transcript) -> bool:
        """Takes one more turn after the last, in which the model hears what people said meanwhile. Returns as
        `run_turns`. Raises JobLost."""
        assert self.answer.last_turn is not None
        save_answered_turn(self.run, self.answer.last_turn)
        self.answer.last_turn = None
        save_partial(self.run, self.reply, self.answer)
        transcript.add(Round(self.answer.finished_rounds[-1], ()))
        return self._take_turns(transcript)

    def has_more_to_hear(self, transcript: Transcript) -> bool:
        """Whether people said something since the run last looked that nothing else answers. In the transaction that
        ends the run: who posts meanwhile waits for its end, and speaks to an agent that is not at work. One query,
        where nobody did."""
        is_whole = self.answer.last_turn is not None and not (self.answer.is_stopped or self.answer.cut_reason)
        if not is_whole or transcript.number > MAX_ROUNDS or answer_format(self.options) or not hears_people(self.run):
            return False
        own = int(self.reply.seq > self.heard_seq)
        return lock_last_seq(self.run) > self.heard_seq + own and has_unanswered(self.run, self.heard_seq)

    def _take_turns(self, transcript: Transcript) -> bool:
        while True:
            if transcript.rounds:
                self._check_trust_level()
                transcript.tokens_left_today = self._check_budget()
                self._hear(transcript)
            self._renew_if_changed(transcript)
            completion, turn = self._ask_model(transcript)
            if self.is_interrupted:
                self.is_interrupted = False
                transcript.add(Round(self.answer.current_round, ()))
                end_interrupted_turn(self.run, self.reply, self.answer)
                continue
            if completion is not None and not completion.tool_calls and self._asks_again(completion):
                continue
            if completion is None or not completion.tool_calls or self._is_last(completion, turn):
                return True
            if self._hand_over(completion, transcript.number):
                return True
            asked = completion.tool_calls[:MAX_CALLS_ON_RECORD]
            toolbox = self._toolbox()
            used_ids = (result.call.id for earlier in transcript.rounds for result in earlier.results)
            results = []
            calls = with_unique_ids(asked, used_ids)
            fields = with_renamed_calls(completion.provider_fields, asked, calls)
            kept_fields = dump_fields(fields, calls)
            self.keeps_fields = self.keeps_fields or any(kept_fields)
            for position, (call, kept) in enumerate(zip(calls, kept_fields, strict=True)):
                if is_stop_requested(self.run):
                    self.answer.is_stopped = True
                    return True
                outcome = self._execute_tool_call(toolbox, call, transcript.number, position, kept)
                if outcome.approval is not None:
                    return False
                is_refused = outcome.decision == ToolCall.Decision.REFUSED
                results.append(ToolResult(without_endless_arguments(call), outcome.result, is_refused))
                if toolbox.is_remote(call):  # it may have taken long: people may have taken tools away meanwhile
                    toolbox = self._toolbox()
            transcript.add(Round(completion.text, tuple(results), fields))
            self._offer_more(transcript, toolbox, results)

    def _hear(self, transcript: Transcript) -> None:
        """Tells the model what people said since the run last looked, after all that it has read. One query, where
        nobody did. Raises JobLost."""
        if not hears_people(self.run):
            return
        counter = transcript.counter
        heard = read_unheard(self.run, self.heard_seq, counter, min(HEARD_TOKENS, transcript.heard_room))
        if heard is None:
            return
        with transaction.atomic():
            current = RUNS.lock_owned(self.run)
            current.reply, current.thread = self.reply, self.run.thread
            keep_heard(current, heard, reply_length=len(self.answer.text))
            current.save(update_fields=HEARD_FIELDS)
        self.heard_seq, self.answer.has_heard = heard.last_seq, True
        self.heard_ids += [row.pk for row in heard.rows]
        transcript.hear(heard.items)

    def _is_last(self, completion: Completion, turn: ModelTurn) -> bool:
        """Whether the turn had no tools to call: what it said ends the run. Raises EmptyAnswer if it only called."""
        if turn.tools:
            return False
        if not has_visible_character(completion.text):
            raise EmptyAnswer("The model called tools when it was asked for its answer, and said nothing.")
        self.answer.cut_reason = "" if self._is_for_program() else "calls"
        return True

    def _asks_again(self, completion: Completion) -> bool:
        """Whether an answer that has to be JSON is none, and the model is asked for it once more. Raises Problem where
        it was already; an answer that was cut off or stopped is given as it is."""
        wanted = answer_format(self.options)
        if wanted is None or self.answer.is_stopped or completion.stop_reason in ("length", "content_filter", "pause"):
            return False
        try:
            self.answer.finished_rounds = [wanted.read(completion.text)]
        except UnparsableAnswer as problem:
            if self.correction:
                raise Problem(
                    f"The model did not answer in the format that was asked for, asked twice. {problem}",
                    code="answer_not_json",
                ) from None
            self.correction = wanted.correction(completion.text, str(problem))
            assert self.answer.last_turn is not None
            save_answered_turn(self.run, self.answer.last_turn)
            self.answer.last_turn = None
            self.answer.finished_rounds.pop()
            save_notice(
                self.run, CallNotice("json_again", f"Its answer was not the JSON that was asked for: {problem}")
            )
            return True
        return False

    def _messages(self, turn: ModelTurn) -> tuple[ChatMessage, ...]:
        """Those of the turn, and what is said of the answer's format last."""
        wanted = answer_format(self.options)
        return turn.messages if wanted is None else (*turn.messages, wanted.instruction, *self.correction)

    def _toolbox(self) -> Toolbox:
        """What the agent may call as things are now. Raises Problem when it may not answer (any more)."""
        for run in run_as_it_is.objects(self.run.pk):
            return toolbox_for_run(run, self.block_stamps)
        raise Run.DoesNotExist

    def _hand_over(self, completion: Completion, round_number: int) -> bool:
        """Whether the model called tools of the client: that ends the run. Our own beside them are not called."""
        calls = [call for call in completion.tool_calls if call.name in self.client_tools]
        if calls:
            fields: Mapping[str, Any] = completion.provider_fields
            if len(calls) < len(completion.tool_calls):  # what signs the turn signs all of its calls
                fields, calls = {}, [replace(call, provider_fields={}) for call in calls]
            self.answer.finished_rounds.append(record_client_calls(self.run, calls, round_number, fields))
        return bool(calls)

    def _offer_more(self, transcript: Transcript, toolbox: Toolbox, results: Iterable[ToolResult]) -> None:
        """Offers the tools that were asked for, and stores the prompt that does. Raises JobLost."""
        asked = toolbox.offered_by(result.call for result in results if not result.is_refused)
        prompt = transcript.offer(asked, partial(toolbox.within_budget, asked=asked))
        if prompt is not None:
            with transaction.atomic():
                RUNS.lock_owned(self.run)
                store_snapshot(self.run, transcript.with_heard(prompt))

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
        if self.heard_ids and transcript.rounds:
            transcript.hear(read_heard(self.run, self.heard_ids, transcript.counter))
        with transaction.atomic():
            RUNS.lock_owned(self.run)
            store_snapshot(self.run, transcript.with_heard(prompt))
            RunStep.objects.filter(run=self.run.pk).forget()

    def _withdraw_tools(self, transcript: Transcript, turn: ModelTurn, notice: CallNotice) -> None:
        """The model takes no tools, as it says now: it is asked anew, and its prompt says nothing of them."""
        discount_request(self.run, turn.tokens)
        save_notice(self.run, notice)
        prompt = transcript.withdraw_tools()
        with transaction.atomic():
            RUNS.lock_owned(self.run)
            store_snapshot(self.run, transcript.with_heard(prompt))

    def _check_trust_level(self) -> None:
        """What tools answered before is not shown at a lower trust level. Raises Problem once it was lowered."""
        level = Agent.objects.values_list("level", flat=True).get(pk=self.run.agent_id)
        if level < self.run.agent.level:
            raise Problem(
                "Its trust level was lowered while it answered, so it did not go on with what it had read. Ask again.",
                code="level_lowered",
            )

    def _check_budget(self) -> int | None:
        """Tokens left of the budgets of today; None where the model costs nothing. Raises Problem where none are."""
        return None if self.client.is_free else check_budgets_left(self.run.agent, self.run.thread.channel_id)

    def _stream_turn(self, turn: ModelTurn, round_number: int) -> Completion | None:
        """One turn, its words saved as they come; None when a person stopped it, or interrupted it."""
        if not begin_request(self.run, turn.tokens, round_number):
            self.answer.is_stopped = True
            return None
        first_word_at: datetime | None = None
        messages = self._messages(turn)
        saved_text, saved_at = self.answer.text, monotonic()
        thoughts = self.answer.thoughts = ThoughtWriter(self.run, round_number)
        for events in iter_with_timeout(
            lambda: self.client.stream(
                messages, tools=turn.tools, max_output_tokens=self.max_output_tokens, options=self.options
            )
        ):
            for event in events:
                if isinstance(event, TextReset):
                    self.answer.current_round = ""
                    thoughts.reset()
                elif isinstance(event, CallNotice):
                    save_notice(self.run, event)
                elif isinstance(event, ReasoningDelta):
                    thoughts.add(event.text)
                elif isinstance(event, TextDelta) and len(self.answer.current_round) < MAX_BODY_CHARACTERS:
                    self.answer.current_round += clean_text(event.text)
            if first_word_at is None and self.answer.current_round:
                thoughts.answer_begins()
                first_word_at = timezone.now()
                self.answer.first_word_at = self.answer.first_word_at or first_word_at
            if events and isinstance(events[-1], StreamEnd):  # all of it is saved in a moment
                save_adaptations(self.client)
                completion = with_read_calls(events[-1].completion, turn.tools)
                self._end_round(completion, turn, round_number, first_word_at)
                return completion
            is_due = not events or monotonic() - saved_at >= STREAM_TIMEOUT
            if is_due:
                saved_at = monotonic()
                if not events:
                    thoughts.save_pending()
                requests = read_requests(self.run)
                if requests.stop or (requests.interrupt and hears_people(self.run)):
                    self.answer.is_stopped, self.is_interrupted = requests.stop, not requests.stop
                    thoughts.answer_begins()
                    return None
            if (is_due or not saved_text) and self.answer.text != saved_text:  # the first word waits for nothing
                saved_text = self.answer.text
                save_partial(self.run, self.reply, self.answer)
        return None

    def _ask_model(self, transcript: Transcript) -> tuple[Completion | None, ModelTurn]:
        """The next turn, asked again with a shorter prompt where it was too long, and of the fallback where the model
        fails. Raises what neither helps against."""
        while True:
            turn = transcript.next_turn()
            try:
                return self._stream_turn(turn, transcript.number), turn
            except BudgetExceeded:
                raise
            except ToolsRefused as refusal:
                self._withdraw_tools(transcript, turn, refusal.notice)
            except ContextTooLong as error:
                discount_request(self.run, turn.tokens)
                if self.shortenings < MAX_SHORTENINGS:
                    self._shorten(transcript, turn, error)
                else:
                    self._ask_another(transcript, error)
            except ModelError as error:
                self._ask_another(transcript, error)
            self.answer.current_round = ""

    def _shorten(self, transcript: Transcript, turn: ModelTurn, error: ContextTooLong) -> None:
        """Makes the prompt anew for the window that the refusal names, or for a third less. Where what every prompt
        needs does not fit into that, another model is asked, if there is one."""
        self.shortenings += 1
        limit = self.max_output_tokens
        window = window_after(error, turn, limit)
        if (endpoint := getattr(self.client, "endpoint", None)) is not None:
            learn_window(endpoint, window.tokens, str(error))
        try:
            prompt = fit_prompt(transcript, window, turn if error.window is None else None)
        except Problem as problem:
            too_little = (
                f"The model takes {window.tokens:,} tokens at most, prompt and answer together, which is too few. "
            )
            self._ask_another(transcript, ContextTooLong(f"{too_little}{problem.message}", window=window.tokens))
            return
        self.max_output_tokens = limit and window.reserve
        text = f"The model takes {window.tokens:,} tokens at most: the prompt was made shorter, and asked again."
        with transaction.atomic():
            shorten_prompt(self.run, transcript.with_heard(prompt), CallNotice("window_learned", text))

    def _ask_another(self, transcript: Transcript, error: ModelError) -> None:
        """Asks the model once more where that may help; after its second failure, its fallback. Raises the error where
        there is none, with both reasons where that fails, too."""
        self.failures += error.attempts
        fallback = choose_fallback(
            self.run, error, self.find_fallback, failures=self.failures, first_error=self.first_error
        )
        if fallback is None:
            return

        def may_drop_tools() -> bool:
            return not (transcript.rounds or self.client_tools)  # whoever sent tools waits for their calls

        try:
            prompt = fallback.assemble(tools=self.tools, may_drop_tools=may_drop_tools())
        except Problem as problem:
            raise both_failed(self.run, error, problem, fallback.model) from error
        with transaction.atomic():
            switch_model(
                self.run,
                transcript.with_heard(prompt),
                first_error=str(error),
                is_free=fallback.client.is_free,
                prices=Prices.of(fallback.endpoint),
            )
        transcript.change_model(prompt, Reassembly(fallback.assemble, prompt.tools, may_drop_tools))
        self.client, self.max_output_tokens = fallback.client, fallback.max_output_tokens
        self.first_error, self.shortenings = error, 0
        try:
            transcript.tokens_left_today = self._check_budget()
        except Problem as problem:
            raise both_failed(self.run, error, problem) from error

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
        self._compare_counts(turn, completion.usage)
        if not completion.tool_calls:
            self.answer.last_turn = round_turn
            self.answer.cut_reason = "" if self._is_for_program() else cut_reason
        else:
            save_answered_turn(self.run, round_turn)
            save_partial(self.run, self.reply, self.answer)

    def _compare_counts(self, turn: ModelTurn, usage: Usage) -> None:
        """What the endpoint says it read, against what it was sent: whether it left anything out, and how it counts."""
        if unread_tokens(turn.surely_sent, usage):
            self._say_unread(turn.surely_sent, usage.input_tokens)
        elif (endpoint := getattr(self.client, "endpoint", None)) is not None and not any(
            message.images for message in turn.messages
        ):
            learn_token_factor(endpoint, estimated=turn.tokens, exact=turn.counter.exact, usage=usage)

    def _say_unread(self, sent: int, read: int) -> None:
        """The server read clearly less than it was sent. Not said where it has read more before: then it counts only
        what it had not read yet."""
        if has_read_more(self.run, 2 * read):
            return
        save_notice(self.run, CallNotice("not_all_read", unread_sentence(sent, read)))
        if (endpoint := getattr(self.client, "endpoint", None)) is not None:
            note_unread(endpoint, sent=sent, read=read)

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
        self, toolbox: Toolbox, call: ToolCallRequest, round_number: int, position: int, kept_fields: str
    ) -> ToolOutcome:
        """Executes one of the calls of a round, unless what it may quote was changed or is not for all who read along
        by now, or they are too many."""
        refusal = None
        if read_message_changes(self.run.thread_id) != self.changes_read:
            refusal, call = toolbox.refuse(call, CALL_MAY_QUOTE), replace(call, arguments="{}")
            kept_fields = kept_fields and ERASED_FIELDS
        elif has_new_readers(self.readers, readers_of(self.run)):
            refusal, call = toolbox.refuse(call, CALL_BEFORE_READERS), replace(call, arguments="{}")
            kept_fields = kept_fields and ERASED_FIELDS
        elif position >= MAX_CALLS_PER_ROUND:
            refusal = toolbox.refuse(call, f"At most {MAX_CALLS_PER_ROUND} calls in one turn.")
        elif len(call.arguments) > MAX_ARGUMENT_CHARS:
            refusal = toolbox.refuse(call, too_long_arguments(call.arguments))
            call = without_endless_arguments(call)
        return self.calls.execute(toolbox, call, round_number, refusal, provider_fields=kept_fields)

    def _resume(self, transcript: Transcript) -> None:
        """Tells the model what earlier attempts did, and executes what people approved since. Raises JobLost."""
        if self.run.attempt == 1:
            return
        calls = previous_calls(self.run)
        for row in decided_calls(self.run):
            toolbox = self._toolbox()
            outcome = self.calls.settle(toolbox, row)
            result = ToolResult(request_of(row), outcome.result, outcome.decision == ToolCall.Decision.REFUSED)
            calls.append(PreviousCall(row, result))
        used_ids: list[str] = []
        for finished in rounds_of(self.run, calls, self.answer.text, origin_of(self.client)):
            made = [result.call for result in finished.results]
            renamed = with_unique_ids(made, used_ids)
            used_ids += [call.id for call in renamed]
            results = (replace(each, call=call) for each, call in zip(finished.results, renamed, strict=True))
            fields = with_renamed_calls(finished.provider_fields, made, renamed)
            transcript.add(replace(finished, results=tuple(results), provider_fields=fields))
            transcript.rounds_before += 1
            self.keeps_fields = self.keeps_fields or finished.has_fields or finished.is_told


def with_read_calls(completion: Completion, tools: Sequence[ToolSpec]) -> Completion:
    """The completion with its calls by the names and schemas of the tools that were offered, whichever client read
    it."""
    return replace(completion, tool_calls=tuple(read_call(call, tools) for call in completion.tool_calls))


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
