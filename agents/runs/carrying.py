"""Carrying a run out: claim it, assemble, stream the model's words into the reply, finish.

Every write is fenced by the run's attempt: a worker that lost the run (its database session broke, the sweeper gave
the run to another) cannot write any more. What a person said is never touched.
"""

from dataclasses import dataclass

import structlog
from django.db import InterfaceError, OperationalError, transaction
from django.utils import timezone

from agents.assembler.assemble import Prompt, assemble, endpoint_of
from agents.assembler.snapshot import store_snapshot
from agents.models import Run
from agents.runs.ownership import owned
from agents.runs.streaming import ticking
from agents.visibility import why_silent
from memory.services import record_failure
from openvibe.base.problems import Problem
from openvibe.chat.models import Message
from openvibe.chat.services import finish_reply, write_reply
from openvibe.chat.text import MAX_BODY_CHARACTERS
from openvibe.llm.errors import BadAnswer, ContextTooLong, ModelError
from openvibe.llm.fences import clean
from openvibe.llm.protocol import ModelClient
from openvibe.llm.registry import client_for
from openvibe.llm.values import Completion, Finished, TextDelta

log = structlog.get_logger(__name__)
CUT = "\n\n[The answer was longer than a message may be and was cut here.]"
OWN_FAULTS = (BadAnswer, ContextTooLong)
"""Failures worth remembering for the agent; an endpoint that is down says nothing about it."""


class RunLost(Exception):
    """Somebody else carries the run out by now."""


@dataclass
class Answer:
    """What the model has said so far."""

    text: str = ""
    completion: Completion | None = None
    stopped: bool = False


def carry_out(run_id: int, *, client: ModelClient | None = None) -> int | None:
    """Carry the run out if nobody else does, and return the id of the run that waited for it, if any.

    Safe to call any number of times. `client` stands in for the agent's own endpoint. Raises only when the database
    is out of reach; the sweeper then finds the run without an owner.
    """
    with structlog.contextvars.bound_contextvars(run_id=run_id), owned(run_id) as mine:
        run = claim(run_id) if mine else None
        if run is None:
            return None
        try:
            _answer(run, client)
        except RunLost:
            log.warning("run_lost")
            return None
        except ModelError as error:
            _failed(run, error.code, f"{error} {error.advice}", remember=isinstance(error, OWN_FAULTS))
        except Problem as problem:
            _failed(run, problem.code, problem.message)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("run_failed")
            _failed(
                run,
                "internal",
                f"Something went wrong in OpenVibe itself; the log has it under run {run.pk}. Try again.",
            )
    return waiting_behind(run)


def claim(run_id: int) -> Run | None:
    """Take a queued run whose turn it is: `reading`, one attempt more. None when there is nothing to do."""
    with transaction.atomic():
        run = (
            Run.objects.select_for_update(of=("self",), skip_locked=True)
            .select_related("agent__participant", "agent__workspace", "agent__soul", "agent__endpoint")
            .select_related("thread__channel", "trigger__author", "requested_by", "reply")
            .filter(pk=run_id, state=Run.State.QUEUED)
            .first()
        )
        if run is None:
            return None
        unfinished = (*Run.ACTIVE, Run.State.QUEUED)
        ahead = Run.objects.filter(agent=run.agent, thread=run.thread, pk__lt=run.pk, state__in=unfinished)
        if ahead.exists() or Run.objects.active().filter(agent=run.agent, thread=run.thread).exists():
            return None
        run.state, run.attempt, run.started_at = Run.State.READING, run.attempt + 1, timezone.now()
        run.save(update_fields=["state", "attempt", "started_at"])
    return run


def waiting_behind(run: Run) -> int | None:
    """The next queued run of the same agent and thread."""
    waiting = Run.objects.filter(agent=run.agent, thread=run.thread, state=Run.State.QUEUED).order_by("pk")
    return waiting.values_list("pk", flat=True).first()


def _answer(run: Run, client: ModelClient | None) -> None:
    reason = why_silent(run.agent, run.thread, run.task)
    if reason is not None:
        raise Problem(reason, code="agent_silent")
    if run.trigger.is_deleted:
        raise Problem("The message was deleted before it was answered.", code="deleted")
    endpoint = endpoint_of(run.agent)
    client = client or client_for(endpoint)
    prompt = assemble(agent=run.agent, thread=run.thread, task=run.task, request=run.trigger, model=client.model)
    reply = _begin_writing(run, prompt)
    answer = Answer()
    try:
        _stream(run, reply, prompt, client, answer)
    except ModelError:
        _keep(run, reply, answer)
        raise
    _finish(run, reply, answer, planned=prompt.tokens)


def _begin_writing(run: Run, prompt: Prompt) -> Message:
    """The snapshot, the empty reply and `writing`, in one transaction. A later attempt writes the same reply."""
    with transaction.atomic():
        current = _still_mine(run)
        store_snapshot(run, prompt)
        reply = write_reply(thread=run.thread, author=run.agent.participant, client_id=f"run:{run.pk}")
        current.state, current.reply, current.model = Run.State.WRITING, reply, prompt.model
        current.input_tokens += prompt.tokens  # every attempt costs, and counts against the budgets
        current.save(update_fields=["state", "reply", "model", "input_tokens"])
    run.reply = reply
    return reply


def _stream(run: Run, reply: Message, prompt: Prompt, client: ModelClient, answer: Answer) -> None:
    limit = _output_limit(run)
    saved = ""
    due = timezone.now()
    for said in ticking(lambda: client.stream(prompt.messages, tools=prompt.tools, max_output_tokens=limit)):
        if isinstance(said, Finished):
            answer.completion = said.completion
            return
        if isinstance(said, TextDelta) and len(answer.text) < MAX_BODY_CHARACTERS:
            answer.text += clean(said.text)
        now = timezone.now()
        if said is None or (now - due).total_seconds() >= 0.3:
            due = now
            if _stop_wanted(run):
                answer.stopped = True
                return
            if answer.text != saved:
                saved = answer.text
                _keep(run, reply, answer)


def _output_limit(run: Run) -> int | None:
    """Tokens the answer may take: the SOUL's own limit, within what the endpoint keeps free."""
    endpoint = endpoint_of(run.agent)
    behavior = run.agent.soul.content.get("behavior", {}) if run.agent.soul else {}
    limits = [behavior.get("max_output_tokens"), endpoint.output_reserve if endpoint else None]
    return min((limit for limit in limits if limit), default=None)


def _stop_wanted(run: Run) -> bool:
    """Whether a person asked to stop. Raises RunLost when the run is not this worker's any more."""
    found = Run.objects.filter(pk=run.pk).values_list("attempt", "state", "stop_requested_at").first()
    if found is None or found[0] != run.attempt or found[1] not in Run.ACTIVE:
        raise RunLost
    return found[2] is not None


def _keep(run: Run, reply: Message, answer: Answer) -> None:
    """Save the text so far, in one statement that only this attempt can make."""
    Message.objects.filter(pk=reply.pk, state=Message.State.WRITING, run__attempt=run.attempt).update(
        body=answer.text[:MAX_BODY_CHARACTERS]
    )


def _still_mine(run: Run) -> Run:
    current = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
    if current.attempt != run.attempt or current.state not in Run.ACTIVE:
        raise RunLost
    return current


def _finish(run: Run, reply: Message, answer: Answer, *, planned: int) -> None:
    """The answer stands. `planned`: tokens the prompt was counted with, corrected by what the provider says."""
    completion = answer.completion
    text = clean(completion.text if completion and completion.text else answer.text).strip()
    if len(text) > MAX_BODY_CHARACTERS:
        text = text[: MAX_BODY_CHARACTERS - len(CUT)] + CUT
    if not text and not answer.stopped:
        raise BadAnswer("The model answered nothing.")
    with transaction.atomic():
        current = _still_mine(run)
        state = Message.State.STOPPED if answer.stopped else Message.State.COMPLETE
        written = finish_reply(reply=reply, body=text, state=state)
        current.state = Run.State.STOPPED if answer.stopped else Run.State.DONE
        current.finished_at = timezone.now()
        if completion is not None:
            current.input_tokens += (completion.usage.input_tokens or planned) - planned
            current.cached_tokens = completion.usage.cached_tokens
        current.output_tokens += (completion.usage.output_tokens if completion else 0) or written.token_count
        current.save()


def _failed(run: Run, code: str, reason: str, *, remember: bool = False) -> None:
    """The run and its reply, if it began one, are failed with a reason people can read. Text so far stays."""
    with transaction.atomic():
        try:
            current = _still_mine(run)
        except RunLost:
            return
        current.state, current.finished_at = Run.State.FAILED, timezone.now()
        current.error_code, current.error = code[:40], reason
        if current.reply_id is not None:
            written = Message.objects.get(pk=current.reply_id)
            written = finish_reply(reply=written, body=written.body, state=Message.State.FAILED)
            current.output_tokens += written.token_count
        current.save()
        if remember:
            record_failure(agent=run.agent.participant, thread=run.thread, summary=f"An answer failed: {reason}")
