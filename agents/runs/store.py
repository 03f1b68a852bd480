"""Loads a run with its relations, and every write of a worker to its run and reply, fenced by the run's attempt.

A worker that lost the run (its database session broke, recovery gave the run to another) cannot write any more."""

from dataclasses import dataclass, field

from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from agents.assembler.assemble import Prompt
from agents.assembler.snapshots.store import store_snapshot
from agents.models import RUNS, Run
from memory.models import Approval
from memory.services import record_failure
from openvibe.base.jobs import JobLost, lock_queued
from openvibe.base.query_cache import CompiledQuery
from openvibe.base.text import MAX_BODY_CHARACTERS
from openvibe.chat.models import Message
from openvibe.chat.services import create_reply, finish_reply
from openvibe.llm.errors import BadAnswer
from openvibe.llm.fences import clean_text
from openvibe.llm.tokens import count_tokens
from openvibe.llm.values import Usage

TRUNCATION_NOTICE = "\n\n[The answer was longer than a message may be and was cut here.]"


@dataclass
class PartialReply:
    """What the model has said so far, round by round."""

    finished_rounds: list[str] = field(default_factory=list)
    current_round: str = ""
    is_stopped: bool = False

    @property
    def text(self) -> str:
        """All of it, a paragraph for each round."""
        return "\n\n".join(filter(None, (text.strip() for text in (*self.finished_rounds, self.current_round))))

    def end_round(self, text: str) -> None:
        self.finished_rounds.append(clean_text(text))
        self.current_round = ""


def is_stop_requested(run: Run) -> bool:
    """Whether a person asked to stop. Raises JobLost when the run is not this worker's any more."""
    row = RUNS.owned(run).values_list("stop_requested_at").first()
    if row is None:
        raise JobLost
    return row[0] is not None


def begin_reply(run: Run, prompt: Prompt, *, is_free: bool) -> Message:
    """The snapshot, the empty reply and `writing`, in the caller's transaction. Later attempts write the same reply.

    A run is free as long as every model that it asked is.
    """
    current = RUNS.lock_owned(run)
    store_snapshot(run, prompt)
    reply = create_reply(thread=run.thread, author=run.agent.participant, client_id=f"run:{run.pk}")
    current.state, current.reply, current.model = Run.State.WRITING, reply, prompt.model
    current.is_free = is_free and (current.is_free or not current.input_tokens)
    current.save(update_fields=["state", "reply", "model", "is_free"])
    run.reply = reply
    return reply


def add_request_tokens(run: Run, tokens: int) -> None:
    """What is about to be sent. Every attempt costs and counts against the budgets, however it ends."""
    RUNS.update_owned(run, input_tokens=F("input_tokens") + tokens)


def add_answer_tokens(run: Run, usage: Usage, *, planned: int, text: str) -> None:
    """What the provider says it read and wrote, in place of what was planned and counted."""
    cached = (
        {} if usage.cached_tokens is None else {"cached_tokens": Coalesce("cached_tokens", 0) + usage.cached_tokens}
    )
    RUNS.update_owned(
        run,
        input_tokens=F("input_tokens") + (usage.input_tokens or planned) - planned,
        output_tokens=F("output_tokens") + (usage.output_tokens or count_tokens(text)),
        **cached,
    )


def save_partial(run: Run, reply: Message, answer: PartialReply) -> None:
    """Save the text so far, in one statement that only this attempt can make."""
    Message.objects.filter(pk=reply.pk, state=Message.State.WRITING, run__attempt=run.attempt).update(
        body=answer.text[:MAX_BODY_CHARACTERS]
    )


def save_unfinished_turn(run: Run, reply: Message, answer: PartialReply) -> None:
    """What was said in a turn that did not end is kept, and counted here: no provider counted it."""
    RUNS.update_owned(run, output_tokens=F("output_tokens") + count_tokens(answer.current_round))
    save_partial(run, reply, answer)


def finish_run(run: Run, reply: Message, answer: PartialReply) -> None:
    """The answer stands, in the caller's transaction. Raises BadAnswer when there is none and nobody stopped it."""
    text = _clean_reply_body(answer.text)
    if not text and not answer.is_stopped:
        raise BadAnswer("The model answered nothing.")
    current = RUNS.lock_owned(run)
    finish_reply(reply=reply, body=text, state=Message.State.STOPPED if answer.is_stopped else Message.State.COMPLETE)
    current.state = Run.State.STOPPED if answer.is_stopped else Run.State.DONE
    current.finished_at = timezone.now()
    current.output_tokens += count_tokens(answer.current_round)  # empty unless it was stopped in the middle of a turn
    current.save(update_fields=["state", "finished_at", "output_tokens"])


def wait_for_approval(current: Run, reply: Message, answer: PartialReply, approval: Approval) -> None:
    """The run waits for people, in the transaction that holds `current`. What was said so far is kept."""
    finish_reply(reply=reply, body=_clean_reply_body(answer.text), state=Message.State.STOPPED)
    current.state, current.approval = Run.State.WAITING, approval
    current.save(update_fields=["state", "approval"])


def fail_run(run: Run, code: str, reason: str, *, remember: bool = False) -> None:
    """The run and its reply, if it began one, are failed with a reason people can read, in the caller's transaction.

    Text so far stays. `remember`: the agent learns of it.
    """
    try:
        current = RUNS.lock_owned(run)
    except JobLost:
        return
    if current.reply_id is not None:
        reply = Message.objects.get(pk=current.reply_id)
        finish_reply(reply=reply, body=reply.body, state=Message.State.FAILED)
    RUNS.fail(current, reason, error_code=code[:40])
    if remember:
        record_failure(agent=run.agent.participant, thread=run.thread, summary=f"An answer failed: {reason}")


def _clean_reply_body(text: str) -> str:
    """The text as a message may hold it."""
    text = clean_text(text).strip()
    if len(text) > MAX_BODY_CHARACTERS:
        text = text[: MAX_BODY_CHARACTERS - len(TRUNCATION_NOTICE)] + TRUNCATION_NOTICE
    return text


def runs_with_relations() -> QuerySet[Run]:
    agent = ("agent__participant", "agent__workspace", "agent__soul", "agent__endpoint")
    return Run.objects.select_related(*agent, "thread__channel", "trigger__author", "requested_by", "reply")


@CompiledQuery
def queued_run(run_id: int) -> QuerySet[Run]:
    """For the claim: nine tables, whose SQL took a tenth of a run to write."""
    return lock_queued(runs_with_relations(), run_id)
