"""Carrying a run out: claim it, assemble, let the model speak and call tools round by round, finish.

Every write is fenced by the run's attempt (`agents.runs.writing`), so a worker that lost the run changes nothing.
A new attempt starts afresh: rounds of an earlier one stay on record and are not gone on with. What a person said is
never touched.
"""

from functools import partial

import structlog
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents.assembler.assemble import assemble, endpoint_of
from agents.models import Agent, Run
from agents.runs.afterwards import tell_memory
from agents.runs.calling import call_all, with_ids
from agents.runs.rounds import Conversation, Round, Turn
from agents.runs.streaming import ticking
from agents.runs.writing import (
    Answer,
    RunLost,
    begin_writing,
    count_answered,
    count_asked,
    count_unfinished,
    fail,
    finish,
    keep,
    stop_wanted,
)
from agents.tools.toolbox import Toolbox
from agents.visibility import why_silent
from openvibe.base.ownership import Piece, owned
from openvibe.base.problems import Problem
from openvibe.chat.models import Message
from openvibe.chat.text import MAX_BODY_CHARACTERS
from openvibe.llm.errors import BadAnswer, ContextTooLong, ModelError
from openvibe.llm.fences import clean
from openvibe.llm.models import Endpoint
from openvibe.llm.protocol import ModelClient
from openvibe.llm.registry import client_for
from openvibe.llm.values import Completion, Finished, TextDelta

log = structlog.get_logger(__name__)
OWN_FAULTS = (BadAnswer, ContextTooLong)
"""Failures worth remembering for the agent; an endpoint that is down says nothing about it."""


def carry_out(run_id: int, *, client: ModelClient | None = None) -> int | None:
    """Carry the run out if nobody else does, and return the id of the run that waited for it, if any.

    Safe to call any number of times. `client` stands in for the agent's own endpoint. Raises only when the database
    is out of reach; the sweeper then finds the run without an owner.
    """
    with structlog.contextvars.bound_contextvars(run_id=run_id), owned(Piece.RUN, run_id) as mine:
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
    """Take a queued run whose turn it is: `reading`, one attempt more. None when there is nothing to do.

    A run that waits for an approval holds up no other.
    """
    with transaction.atomic():
        run = (
            _runs().select_for_update(of=("self",), skip_locked=True).filter(pk=run_id, state=Run.State.QUEUED).first()
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


def _runs() -> QuerySet[Run]:
    agent = ("agent__participant", "agent__workspace", "agent__soul", "agent__endpoint")
    return Run.objects.select_related(*agent, "thread__channel", "trigger__author", "requested_by", "reply")


def _toolbox(run: Run, seen: dict[str, str]) -> Toolbox:
    """What the agent may call as things are now. Raises Problem when it may not answer (any more)."""
    reason = why_silent(run.agent, run.thread, run.task)
    if reason is not None:
        raise Problem(reason, code="agent_silent")
    if run.trigger.is_deleted:
        raise Problem("The message was deleted before it was answered.", code="deleted")
    return Toolbox.of(run.agent, run.thread, run=run, seen=seen)


def _answer(run: Run, client: ModelClient | None) -> None:
    seen: dict[str, str] = {}
    toolbox = _toolbox(run, seen)
    offered = () if run.task == Run.Task.PUBLISH else toolbox.specs  # a draft is made of the dive and nothing else
    endpoint = endpoint_of(run.agent)
    client = client or client_for(endpoint)
    assembled = partial(
        assemble, agent=run.agent, thread=run.thread, task=run.task, request=run.trigger, model=client.model,
        tools=offered,
    )  # fmt: skip
    try:
        prompt = assembled()
    except Problem as problem:
        if problem.code != "budget_too_small":
            raise
        prompt = assembled(tools=())  # a small window may hold the answer, if not the tools
    with transaction.atomic():
        reply = begin_writing(run, prompt)
    speaking = _Speaking(run, reply, client, _output_limit(run, endpoint), seen)
    try:
        is_over = speaking.exchange(Conversation(prompt, lambda budget: assembled(budget=budget)))
        if is_over:
            with transaction.atomic():
                finish(run, reply, speaking.answer)
    except (ModelError, Problem):
        speaking.broke_off()
        raise
    if is_over:
        tell_memory(run, had_bulky_result=speaking.had_bulky_result)


class _Speaking:
    """One attempt of a run, from the first word to the last."""

    def __init__(self, run: Run, reply: Message, client: ModelClient, limit: int | None, seen: dict[str, str]) -> None:
        self.run = run
        self.reply = reply
        self.client = client
        self.limit = limit
        self.seen = seen
        self.answer = Answer()
        self.had_bulky_result = False

    def exchange(self, talk: Conversation) -> bool:
        """Model, calls, results, until it only speaks or is stopped. False when the run waits for an approval now."""
        while True:
            if talk.rounds:
                self.still_as_trusted()
            turn = talk.turn()
            completion = self.stream(turn)
            if completion is None or not completion.tool_calls or not turn.tools:
                return True
            toolbox = _toolbox(_runs().get(pk=self.run.pk), self.seen)
            calls = with_ids(completion.tool_calls, (done.call.id for r in talk.rounds for done in r.answered))
            called = call_all(self.run, self.reply, self.answer, toolbox, calls, talk.number)
            self.had_bulky_result = self.had_bulky_result or called.is_bulky
            if called.waits:
                return False
            if called.stopped:
                self.answer.stopped = True
                return True
            talk.add(Round(completion.text, called.answered))

    def still_as_trusted(self) -> None:
        """What tools answered before is not shown at a lower trust level. Raises Problem once it was lowered."""
        level = Agent.objects.values_list("level", flat=True).get(pk=self.run.agent_id)
        if level < self.run.agent.level:
            raise Problem(
                "Its trust level was lowered while it answered, so it did not go on with what it had read. Ask again.",
                code="level_lowered",
            )

    def stream(self, turn: Turn) -> Completion | None:
        """One turn, its words saved as they come; None when a person stopped it."""
        count_asked(self.run, turn.tokens)
        saved, due = self.answer.text, timezone.now()
        for said in ticking(lambda: self.client.stream(turn.messages, tools=turn.tools, max_output_tokens=self.limit)):
            if isinstance(said, Finished):
                self.end_round(said.completion, turn)
                return said.completion
            if isinstance(said, TextDelta) and len(self.answer.current) < MAX_BODY_CHARACTERS:
                self.answer.current += clean(said.text)
            now = timezone.now()
            if said is None or (now - due).total_seconds() >= 0.3:
                due = now
                if stop_wanted(self.run):
                    self.answer.stopped = True
                    return None
                if self.answer.text != saved:
                    saved = self.answer.text
                    keep(self.run, self.reply, self.answer)
        return None

    def end_round(self, completion: Completion, turn: Turn) -> None:
        text = completion.text or self.answer.current
        count_answered(self.run, completion.usage, planned=turn.tokens, text=text)
        self.answer.end_round(text)
        if completion.tool_calls:
            keep(self.run, self.reply, self.answer)

    def broke_off(self) -> None:
        """It ends here: what was said so far is kept and counted."""
        count_unfinished(self.run, self.answer)
        keep(self.run, self.reply, self.answer)


def _output_limit(run: Run, endpoint: Endpoint | None) -> int | None:
    """Tokens one turn may take: the SOUL's own limit, within what the endpoint keeps free."""
    behavior = run.agent.soul.content.get("behavior", {}) if run.agent.soul else {}
    limits = [behavior.get("max_output_tokens"), endpoint.output_reserve if endpoint else None]
    return min((limit for limit in limits if limit), default=None)


def _failed(run: Run, code: str, reason: str, *, remember: bool = False) -> None:
    with transaction.atomic():
        fail(run, code, reason, remember=remember)
