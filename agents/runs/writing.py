"""Every write of a worker to its run and reply, fenced by the run's attempt.

A worker that lost the run (its database session broke, the sweeper gave the run to another) cannot write any more.
"""

from dataclasses import dataclass, field

from django.db.models import F
from django.utils import timezone

from agents.assembler.assemble import Prompt
from agents.assembler.snapshot import store_snapshot
from agents.models import Run
from memory.models import Approval
from memory.services import record_failure
from openvibe.chat.models import Message
from openvibe.chat.services import finish_reply, write_reply
from openvibe.chat.text import MAX_BODY_CHARACTERS
from openvibe.llm.errors import BadAnswer
from openvibe.llm.fences import clean
from openvibe.llm.tokens import count
from openvibe.llm.values import Usage

CUT = "\n\n[The answer was longer than a message may be and was cut here.]"


class RunLost(Exception):
    """Somebody else carries the run out by now."""


@dataclass
class Answer:
    """What the model has said so far, round by round."""

    said: list[str] = field(default_factory=list)
    current: str = ""
    stopped: bool = False

    @property
    def text(self) -> str:
        """All of it, a paragraph for each round."""
        return "\n\n".join(filter(None, (text.strip() for text in (*self.said, self.current))))

    def end_round(self, text: str) -> None:
        self.said.append(clean(text))
        self.current = ""


def still_mine(run: Run) -> Run:
    """The row, locked until the transaction ends. Raises RunLost."""
    current = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
    if current.attempt != run.attempt or current.state not in Run.ACTIVE:
        raise RunLost
    return current


def stop_wanted(run: Run) -> bool:
    """Whether a person asked to stop. Raises RunLost when the run is not this worker's any more."""
    found = Run.objects.filter(pk=run.pk).values_list("attempt", "state", "stop_requested_at").first()
    if found is None or found[0] != run.attempt or found[1] not in Run.ACTIVE:
        raise RunLost
    return found[2] is not None


def begin_writing(run: Run, prompt: Prompt) -> Message:
    """The snapshot, the empty reply and `writing`, in the caller's transaction. Later attempts write the same reply."""
    current = still_mine(run)
    store_snapshot(run, prompt)
    reply = write_reply(thread=run.thread, author=run.agent.participant, client_id=f"run:{run.pk}")
    current.state, current.reply, current.model = Run.State.WRITING, reply, prompt.model
    current.save(update_fields=["state", "reply", "model"])
    run.reply = reply
    return reply


def count_asked(run: Run, tokens: int) -> None:
    """What is about to be sent. Every attempt costs and counts against the budgets, however it ends."""
    _count(run, input_tokens=F("input_tokens") + tokens)


def count_answered(run: Run, usage: Usage, *, planned: int, text: str) -> None:
    """What the provider says it read and wrote, in place of what was planned and counted."""
    _count(
        run,
        input_tokens=F("input_tokens") + (usage.input_tokens or planned) - planned,
        cached_tokens=F("cached_tokens") + usage.cached_tokens,
        output_tokens=F("output_tokens") + (usage.output_tokens or count(text)),
    )


def count_unfinished(run: Run, answer: Answer) -> None:
    """What was said in a turn that did not end: no provider counted it."""
    _count(run, output_tokens=F("output_tokens") + count(answer.current))


def _count(run: Run, **added: object) -> None:
    if not Run.objects.filter(pk=run.pk, attempt=run.attempt, state__in=Run.ACTIVE).update(**added):
        raise RunLost


def keep(run: Run, reply: Message, answer: Answer) -> None:
    """Save the text so far, in one statement that only this attempt can make."""
    Message.objects.filter(pk=reply.pk, state=Message.State.WRITING, run__attempt=run.attempt).update(
        body=answer.text[:MAX_BODY_CHARACTERS]
    )


def finish(run: Run, reply: Message, answer: Answer) -> None:
    """The answer stands, in the caller's transaction. Raises BadAnswer when there is none and nobody stopped it."""
    text = fitting(answer.text)
    if not text and not answer.stopped:
        raise BadAnswer("The model answered nothing.")
    current = still_mine(run)
    finish_reply(reply=reply, body=text, state=Message.State.STOPPED if answer.stopped else Message.State.COMPLETE)
    current.state = Run.State.STOPPED if answer.stopped else Run.State.DONE
    current.finished_at = timezone.now()
    current.output_tokens += count(answer.current)  # empty unless it was stopped in the middle of a turn
    current.save(update_fields=["state", "finished_at", "output_tokens"])


def wait(current: Run, reply: Message, answer: Answer, approval: Approval) -> None:
    """The run waits for people, in the transaction that holds `current`. What was said so far is kept."""
    finish_reply(reply=reply, body=fitting(answer.text), state=Message.State.STOPPED)
    current.state, current.approval = Run.State.WAITING, approval
    current.save(update_fields=["state", "approval"])


def fail(run: Run, code: str, reason: str, *, remember: bool) -> None:
    """The run and its reply, if it began one, are failed with a reason people can read, in the caller's transaction.

    Text so far stays. `remember`: the agent learns of it.
    """
    try:
        current = still_mine(run)
    except RunLost:
        return
    current.state, current.finished_at = Run.State.FAILED, timezone.now()
    current.error_code, current.error = code[:40], reason
    if current.reply_id is not None:
        written = Message.objects.get(pk=current.reply_id)
        finish_reply(reply=written, body=written.body, state=Message.State.FAILED)
    current.save(update_fields=["state", "finished_at", "error_code", "error"])
    if remember:
        record_failure(agent=run.agent.participant, thread=run.thread, summary=f"An answer failed: {reason}")


def fitting(text: str) -> str:
    """The text as a message may hold it."""
    text = clean(text).strip()
    return text if len(text) <= MAX_BODY_CHARACTERS else text[: MAX_BODY_CHARACTERS - len(CUT)] + CUT
