"""Loads a run with its relations, and every write of a worker to its run and reply, fenced by the run's attempt.

A worker that lost the run (its database session broke, recovery gave the run to another) cannot write any more."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple, Self

from django.db.models import DateTimeField, Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from agents.agent.models import EXTERNAL_RUNS, RUNS, Run
from agents.prompts.assembler.assemble import Prompt
from agents.prompts.citations.store import save_citations
from agents.prompts.snapshots.store import store_snapshot
from agents.runs.heard import HEARD_FIELDS, end_heard_runs
from agents.runs.steps import MAX_ERROR_CHARACTERS, Step, add_step, append_step, make_step
from agents.runs.thoughts import ThoughtWriter, remove_steps
from memory.models import Approval
from memory.services import record_failure
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Problem
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import create_reply, finish_reply, replace_replies, restore_reply
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.engines.jobs.jobs import JobLost, lock_queued
from openvibe.engines.llm.errors import EmptyAnswer
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.llm.values import CallNotice, Usage
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS, has_visible_character

RECENT_RUNS = 20
"""The runs that are looked at for how much a model has read."""

TRUNCATION_NOTICE = "\n\n[The answer was longer than a message may be and was cut here.]"

CUT_NOTICES = {
    "length": "\n\n[The answer reached the most tokens it may have and was cut here.]",
    "content_filter": "\n\n[The provider's content filter cut the answer off here.]",
    "pause": "\n\n[The model paused here before it came to an end: this may be no whole answer. Ask it to go on.]",
    "calls": "\n\n[The model went on to call tools here, which it could not any more: this may be no whole answer.]",
}
"""What readers are told where the model came to no end of its own, by why."""


THREAD_CLOSED = (
    "This thread was made for people only while the agent was answering, so it did not go on. What it had written "
    "until then is kept. Open the thread to agents and try again, or ask elsewhere."
)


@dataclass(frozen=True)
class AnsweredTurn:
    """Tokens of a turn that ended, as its provider says or as they were planned and counted, and the step that tells
    of it."""

    planned: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int | None
    first_word_at: datetime | None
    step: Step


@dataclass
class PartialReply:
    """What the model has said so far, round by round. `cut_reason`: of CUT_NOTICES, where the last turn was
    cut off. `last_turn`: that it ended, which is saved with the end of the run. `thoughts`: of the newest turn.
    `has_heard`: the run was told of what people said meanwhile."""

    finished_rounds: list[str] = field(default_factory=list)
    current_round: str = ""
    is_stopped: bool = False
    cut_reason: str = ""
    first_word_at: datetime | None = None
    last_turn: AnsweredTurn | None = None
    thoughts: ThoughtWriter | None = None
    has_heard: bool = False

    @property
    def uncounted_tokens(self) -> int:
        """Tokens of what was thought and said in a turn that did not end."""
        thoughts = self.thoughts.count_tokens() if self.thoughts and not self.thoughts.is_counted else 0
        return count_tokens(self.current_round) + thoughts

    @property
    def text(self) -> str:
        """All of it, a paragraph for each round."""
        return "\n\n".join(filter(None, (text.strip() for text in (*self.finished_rounds, self.current_round))))

    def end_round(self, text: str) -> None:
        self.finished_rounds.append(clean_text(text))
        self.current_round = ""


class PeoplesRequests(NamedTuple):
    """What people asked of a run under way: that it stops, or hears at once what they said."""

    stop: bool
    interrupt: bool


def read_requests(run: Run) -> PeoplesRequests:
    """Raises JobLost when the run is not this worker's any more, Problem when its thread is closed to agents by now."""
    row = RUNS.owned_row(run).values_list("stop_requested_at", "interrupt_requested_at", "thread__access").first()
    if row is None:
        raise JobLost
    stop_requested_at, interrupt_requested_at, access = row
    if stop_requested_at is None:
        check_open(access)
    return PeoplesRequests(stop_requested_at is not None, interrupt_requested_at is not None)


def is_stop_requested(run: Run) -> bool:
    """Whether a person asked to stop. Raises as `read_requests`."""
    return read_requests(run).stop


def lock_last_seq(run: Run) -> int:
    """The number of the newest message of the run's thread, in the caller's transaction: whoever posts there waits for
    its end. To be taken ahead of the run's own lock, as those who post do."""
    threads = Thread.objects.select_for_update(no_key=True).filter(pk=run.thread_id)
    return threads.values_list("last_seq", flat=True).get()


def check_open(access: str) -> None:
    """Raises Problem where the thread is for people only."""
    if access == Thread.Access.HUMAN_ONLY:
        raise Problem(THREAD_CLOSED, code="thread_closed")


@dataclass(frozen=True)
class Prices:
    """Prices per million tokens; None where nobody said."""

    tokens_in: Decimal | None
    tokens_out: Decimal | None

    @classmethod
    def of(cls, endpoint: Endpoint | None) -> Self:
        """The prices of an endpoint; the offline model costs nothing."""
        if endpoint is None or endpoint.kind == Endpoint.Kind.OFFLINE:
            return cls(Decimal(0), Decimal(0))
        return cls(endpoint.price_in, endpoint.price_out)

    @property
    def known(self) -> bool:
        return self.tokens_in is not None and self.tokens_out is not None

    def cost(self, run: Run) -> Decimal:
        """The price of what the run has used so far."""
        per_million = run.input_tokens * (self.tokens_in or 0) + run.output_tokens * (self.tokens_out or 0)
        return Decimal(per_million) / 1_000_000


def begin_reply(run: Run, prompt: Prompt, *, is_free: bool, prices: Prices) -> Message:
    """The snapshot, the reply and `writing`, in the caller's transaction. Later attempts write the same reply, anew or
    after what stood when it paused.

    A run is free as long as every model that it asked is.
    """
    current = RUNS.lock_owned(run)
    store_snapshot(run, prompt, is_new=run.attempt == 1)
    said = text_before_pause(current)
    if run.attempt > 1 and not _is_resumed(current):
        remove_steps(run)
        current.heard_messages.all().delete()
    reply = create_reply(thread=run.thread, author=run.agent.participant, client_id=f"run:{run.pk}")
    if said:
        Message.objects.filter(pk=reply.pk).update(body=said)
        reply.body = said
    current.state, current.reply = Run.State.WRITING, reply
    _set_model(current, prompt.model, is_free=is_free, prices=prices)
    current.first_model = current.first_error = ""
    current.first_word_at = current.interrupt_requested_at = None
    current.heard_seq = prompt.last_seq
    add_step(current, "assembled", attempt=run.attempt, tokens=prompt.tokens, model=prompt.model)
    current.save(update_fields=["state", "reply", *MODEL_FIELDS, "first_word_at", *HEARD_FIELDS])
    run.reply, run.model, run.first_model = reply, prompt.model, ""
    return reply


MODEL_FIELDS = ("model", "is_free", "price_in", "price_out", "cost_correction", "first_model", "first_error")


def _set_model(current: Run, model: str, *, is_free: bool, prices: Prices) -> None:
    """Sets the model that answers from now on, in a row that is locked; the caller saves MODEL_FIELDS. What was used
    until now keeps the price that it had."""
    before = Prices(current.price_in, current.price_out)
    current.cost_correction += before.cost(current) - prices.cost(current) if before.known and prices.known else 0
    current.model = model
    current.is_free = is_free and (current.is_free or not current.input_tokens)
    current.price_in, current.price_out = prices.tokens_in, prices.tokens_out


def switch_model(run: Run, prompt: Prompt, *, first_error: str, is_free: bool, prices: Prices) -> None:
    """Another model answers from now on, because the first did not. In the caller's transaction. Raises JobLost."""
    current = RUNS.lock_owned(run)
    store_snapshot(run, prompt)
    current.first_model, current.first_error = current.model, first_error[:500]
    _set_model(current, prompt.model, is_free=is_free, prices=prices)
    add_step(current, "switched", attempt=run.attempt, model=prompt.model, error=first_error[:MAX_ERROR_CHARACTERS])
    add_step(current, "assembled", attempt=run.attempt, tokens=prompt.tokens, model=prompt.model)
    current.save(update_fields=[*MODEL_FIELDS, "steps"])
    run.model, run.first_model = prompt.model, current.first_model


def shorten_prompt(run: Run, prompt: Prompt, notice: CallNotice) -> None:
    """The run goes on with this shorter prompt. In the caller's transaction. Raises JobLost."""
    current = RUNS.lock_owned(run)
    store_snapshot(run, prompt)
    add_step(current, "notice", attempt=run.attempt, code=notice.code, text=notice.text)
    add_step(current, "assembled", attempt=run.attempt, tokens=prompt.tokens, model=prompt.model)
    current.save(update_fields=["steps"])


def save_notice(run: Run, notice: CallNotice) -> None:
    """Says once per run, in the timeline, what was done to get an answer. Raises JobLost."""
    is_told = {"kind": "notice", "code": notice.code}
    if any(is_told.items() <= step.items() for step in run.steps):
        return
    step = make_step("notice", attempt=run.attempt, code=notice.code, text=notice.text)
    RUNS.update_owned(run, steps=append_step(step))
    run.steps = [*run.steps, step]


def has_read_more(run: Run, tokens: int) -> bool:
    """Whether the run's model has read more than so many tokens in one of its newest turns in this workspace."""
    runs = Run.objects.filter(workspace=run.workspace_id, model=run.model).order_by("-queued_at")
    for steps in runs.values_list("steps", flat=True)[:RECENT_RUNS]:
        if any(step["kind"] == "answered" and step.get("tokens", 0) > tokens for step in steps):
            return True
    return False


def discount_request(run: Run, tokens: int) -> None:
    """A request that was refused before it was read costs nothing. Raises JobLost."""
    RUNS.update_owned(run, input_tokens=F("input_tokens") - tokens)


def emit_reply_changed(run: Run) -> None:
    """The reply of a run that waited does not change, but what its page says of it does."""
    if run.reply_id:
        thread = run.thread
        emit(
            "message_changed",
            workspace_id=thread.workspace_id,
            channel_id=thread.channel_id,
            thread_id=thread.pk,
            message_id=run.reply_id,
        )


def emit_run_changed(run: Run) -> None:
    """Sends the events that the database sends where the state changes."""
    thread = run.thread
    emit(
        "run_changed",
        workspace_id=thread.workspace_id,
        channel_id=thread.channel_id,
        thread_id=thread.pk,
        message_id=run.trigger_id,
    )
    emit_reply_changed(run)


def answer_versions(run: Run) -> QuerySet[Run]:
    """The runs with a reply that answer the same message for the same agent, in order: versions of one answer."""
    return Run.objects.filter(trigger=run.trigger_id, agent=run.agent_id, reply__isnull=False).order_by("pk")


def has_later_answer(run: Run) -> bool:
    """Whether the agent has answered the same message in a later run, and that answer stands."""
    standing = (Message.State.COMPLETE, Message.State.STOPPED)
    later = answer_versions(run).filter(pk__gt=run.pk, reply__deleted_at=None, reply__state__in=standing)
    return later.exclude(state=Run.State.FAILED).exists()


def replace_earlier_answers(run: Run) -> None:
    """The run's reply takes the place of those given before to the same message, in the caller's transaction; where a
    later run was faster, that one's answer stays, and this is an earlier version of it."""
    if has_later_answer(run):
        replace_replies([run.reply_id] if run.reply_id else [])
    elif run.regenerates_id is not None:
        replace_replies(answer_versions(run).filter(pk__lt=run.pk).values_list("reply", flat=True))


_STATE_OF_REPLY: dict[str, str] = {Run.State.DONE: Message.State.COMPLETE, Run.State.STOPPED: Message.State.STOPPED}


def restore_answer(deleted: Message) -> None:
    """The newest version that is left takes the place of a deleted answer, in the caller's transaction: one that did
    not fail, if there is any."""
    run = Run.objects.filter(reply=deleted.pk).first()
    if run is None:
        return
    left = answer_versions(run).filter(reply__deleted_at=None).exclude(reply__state=Message.State.WRITING)
    newest = left.filter(state__in=_STATE_OF_REPLY).last() or left.last()
    if newest is not None and newest.reply_id is not None:
        restore_reply(newest.reply_id, state=_STATE_OF_REPLY.get(newest.state, Message.State.FAILED))


def text_before_pause(run: Run) -> str:
    """What a run that people let go on had said until it paused: it stands, and the answer goes on after it.

    Of one whose worker died after they had asked it to stop: all that it had said.
    """
    if run.reply is not None and run.stop_requested_at is not None:
        return run.reply.body
    if run.reply is None or not _is_resumed(run):
        return ""
    return run.reply.body[: _turning_points(run)[-2].get("characters", 0)]


def _is_resumed(run: Run) -> bool:
    """Whether the run goes on because people decided what it waited for."""
    return [step["kind"] for step in _turning_points(run)[-2:]] == ["waiting", "resumed"]


def _turning_points(run: Run) -> list[Step]:
    return [step for step in run.steps if step["kind"] in ("waiting", "resumed", "retried")]


def begin_request(run: Run, tokens: int, round_number: int) -> bool:
    """Counts what is about to be sent: every attempt costs and counts against the budgets, however it ends.

    False, with nothing counted, where a person asked to stop. Raises as `is_stop_requested`.
    """
    step = make_step("called", attempt=run.attempt, round=round_number, tokens=tokens, model=run.model)
    rows = RUNS.owned_row(run).filter(stop_requested_at=None)
    if rows.update(input_tokens=F("input_tokens") + tokens, steps=append_step(step)):
        return True
    return not is_stop_requested(run)


def answered_turn(
    run: Run,
    usage: Usage,
    *,
    planned_tokens: int,
    text: str,
    round_number: int,
    first_word_at: datetime | None,
    cut_reason: str = "",
    thought_tokens: int = 0,
) -> AnsweredTurn:
    """What the provider says it read and wrote, in place of what was planned and counted. `thought_tokens` are among
    those it says."""
    input_tokens = usage.input_tokens or planned_tokens
    output_tokens = usage.output_tokens or count_tokens(text) + thought_tokens
    step = make_step(
        "answered",
        attempt=run.attempt,
        round=round_number,
        tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=usage.cached_tokens,
        first_word_at=first_word_at and first_word_at.isoformat(),
        **({"cut_reason": cut_reason} if cut_reason else {}),
        **({"reasoning_tokens": usage.reasoning_tokens} if usage.reasoning_tokens else {}),
    )
    return AnsweredTurn(planned_tokens, input_tokens, output_tokens, usage.cached_tokens, first_word_at, step)


def save_answered_turn(run: Run, turn: AnsweredTurn) -> None:
    """Saves a turn after which the run goes on, or fails. Raises JobLost."""
    cached = {} if turn.cached_tokens is None else {"cached_tokens": Coalesce("cached_tokens", 0) + turn.cached_tokens}
    RUNS.update_owned(
        run,
        input_tokens=F("input_tokens") + turn.input_tokens - turn.planned,
        output_tokens=F("output_tokens") + turn.output_tokens,
        first_word_at=Coalesce("first_word_at", Value(turn.first_word_at, DateTimeField())),
        steps=append_step(turn.step),
        **cached,
    )


def _add_answered_turn(current: Run, turn: AnsweredTurn) -> None:
    """The same, to a row that is locked; the caller saves it."""
    current.input_tokens += turn.input_tokens - turn.planned
    current.output_tokens += turn.output_tokens
    if turn.cached_tokens is not None:
        current.cached_tokens = (current.cached_tokens or 0) + turn.cached_tokens
    current.steps = [*current.steps, turn.step]


def save_partial(run: Run, reply: Message, answer: PartialReply) -> None:
    """Saves the text so far, in one statement that only this attempt can make."""
    Message.objects.filter(pk=reply.pk, state=Message.State.WRITING, run__attempt=run.attempt).update(
        body=answer.text[:MAX_BODY_CHARACTERS]
    )


def save_unfinished_turn(run: Run, reply: Message, answer: PartialReply) -> None:
    """What was said in a turn that did not end is kept, and counted here: no provider counted it."""
    if answer.last_turn:
        save_answered_turn(run, answer.last_turn)
    RUNS.update_owned(
        run,
        output_tokens=F("output_tokens") + answer.uncounted_tokens,
        first_word_at=Coalesce("first_word_at", Value(answer.first_word_at, DateTimeField())),
    )
    save_partial(run, reply, answer)


def finish_run(run: Run, reply: Message, answer: PartialReply) -> None:
    """The answer stands, in the caller's transaction, and says where the model was cut off. Raises EmptyAnswer when
    there is none, and Problem when the thread was closed to agents meanwhile, unless somebody stopped it."""
    text = clean_reply_body(answer.text)
    if not text and not answer.is_stopped:
        raise EmptyAnswer("The model answered nothing.")
    if answer.cut_reason and not answer.is_stopped:
        text = clean_reply_body(text + CUT_NOTICES[answer.cut_reason])
    current = RUNS.lock_owned(run)
    state = Message.State.STOPPED if answer.is_stopped else Message.State.COMPLETE
    finished = finish_reply(reply=reply, body=text, state=state)
    if not answer.is_stopped:
        check_open(finished.thread.access)
    if text:
        replace_earlier_answers(current)
    current.state = Run.State.STOPPED if answer.is_stopped else Run.State.DONE
    current.finished_at = timezone.now()
    current.output_tokens += answer.uncounted_tokens  # none unless it was stopped in the middle of a turn
    current.first_word_at = current.first_word_at or answer.first_word_at
    if answer.last_turn:
        _add_answered_turn(current, answer.last_turn)
    add_step(current, "stopped" if answer.is_stopped else "done", attempt=run.attempt)
    tokens = ("input_tokens", "output_tokens", "cached_tokens")
    current.save(update_fields=["state", "finished_at", *tokens, "first_word_at", "steps"])
    save_citations(run, text)
    if answer.has_heard:
        end_heard_runs(current, min_length=len(text) if answer.is_stopped else None)


def end_interrupted_turn(run: Run, reply: Message, answer: PartialReply) -> None:
    """Keeps what was said in a turn that people interrupted; the answer goes on after it. Raises JobLost."""
    save_unfinished_turn(run, reply, answer)
    RUNS.update_owned(run, interrupt_requested_at=None)
    answer.end_round(answer.current_round)


def wait_for_approval(current: Run, reply: Message, answer: PartialReply, approval: Approval) -> None:
    """The run waits for people, in the transaction that holds `current`. What was said so far is kept."""
    body = clean_reply_body(answer.text)
    finish_reply(reply=reply, body=body, state=Message.State.STOPPED)
    current.state, current.approval = Run.State.WAITING, approval
    add_step(current, "waiting", attempt=current.attempt, characters=len(body))
    current.save(update_fields=["state", "approval", "steps"])
    if answer.has_heard:
        end_heard_runs(current, min_length=len(body))


def fail_run(run: Run, code: str, reason: str, *, remember: bool = False) -> None:
    """The run and its reply, if it began one, are failed with a reason people can read, in the caller's transaction.

    Text so far stays. `remember`: the agent learns of it: for what says something about the task, not about a model or
    a server that failed.
    """
    try:
        current = RUNS.lock_owned(run)
    except JobLost:
        return
    if current.reply_id is not None:
        reply = Message.objects.get(pk=current.reply_id)
        finish_reply(reply=reply, body=reply.body, state=Message.State.FAILED)
    step = make_step("failed", attempt=current.attempt, error=reason[:MAX_ERROR_CHARACTERS])
    RUNS.fail(current, reason, error_code=code[:40], steps=append_step(step))
    if remember:
        record_failure(agent=run.agent.participant, thread=run.thread, summary=f"An answer failed: {reason}")


def clean_reply_body(text: str) -> str:
    """The text as a message may hold it; empty where nothing of it can be seen."""
    text = clean_text(text).strip()
    if not has_visible_character(text):
        return ""
    if len(text) > MAX_BODY_CHARACTERS:
        text = text[: MAX_BODY_CHARACTERS - len(TRUNCATION_NOTICE)] + TRUNCATION_NOTICE
    return text


def _runs_with_relations() -> QuerySet[Run]:
    """`has_stand_in`: the workspace has a fallback."""
    agent = ("agent__participant", "agent__workspace", "agent__soul", "agent__endpoint")
    relations = (*agent, "thread__channel", "trigger__author", "requested_by", "reply", "client_turn__continues")
    stand_ins = Endpoint.objects.filter(workspace=OuterRef("workspace"), is_fallback=True)
    return Run.objects.select_related(*relations).annotate(has_stand_in=Exists(stand_ins))


@CompiledQuery
def claimable_run(run_id: int) -> QuerySet[Run]:
    """The query that claims a run when it is the run's turn: no run of its agent in its thread is under way or comes
    first. One that waits for an approval holds up no other. Nine tables, whose SQL took a tenth of a run to write."""
    beside = Run.objects.filter(agent=OuterRef("agent"), thread=OuterRef("thread"))
    is_ahead = Q(pk__lt=OuterRef("pk"), state=Run.State.QUEUED) & RUNS.condition
    is_held_up = Exists(beside.filter(is_ahead | Q(state__in=RUNS.active)))
    return lock_queued(_runs_with_relations().filter(RUNS.condition, ~is_held_up), run_id)


@CompiledQuery
def run_as_it_is(run_id: int) -> QuerySet[Run]:
    """The query for what asks again while a run goes on: the server would plan its joins for 9 ms each time."""
    return _runs_with_relations().filter(pk=run_id)


def lock_external_run(run: Run) -> Run:
    """The run, locked, as long as it is this attempt's, with its agent and thread as they were loaded. Raises
    Conflict."""
    try:
        current = EXTERNAL_RUNS.lock_owned(run)
    except JobLost:
        message = "This run is over, or another process of yours began it anew. Nothing was taken."
        raise Conflict(message, code="run_over") from None
    current.agent, current.thread = run.agent, run.thread
    return current
