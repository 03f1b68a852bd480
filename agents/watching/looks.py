"""Looks of agents that watch: which are due, the one question to the model, and what comes of its answer.

What people say in a watched channel marks its thread: a trigger on messages does (`agents_note_talk`, in the migration
`watching`), with the message itself and at no statement of its own. Nothing else does, so what agents say wakes no
watch, and a thread that nobody writes in costs nothing. A look is written in the transaction that takes the mark,
before the model is asked: whatever is killed, the same words are asked about once. The line in the thread, its run and
the end of the look are one transaction, too.

Locks are taken in this order: agent, thread, look, watch; marks after agents and threads, alone."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.utils import timezone

from agents.agent.access import online_endpoint
from agents.agent.models import Agent, Run, Watch, WatchedThread, WatchLook
from agents.agent.pace import pace_denial
from agents.prompts.assembler.assemble import Prompt
from agents.prompts.assembler.watch import NO_MODEL, assemble_watch, proactive_triggers
from agents.prompts.snapshots.content import pack_content
from agents.prompts.snapshots.store import snapshot_content
from agents.watching.decisions import MAX_WHY_CHARACTERS, Decision, read_decision
from agents.watching.services import watch_denied_reasons
from agents.watching.thresholds import BASE_PERCENT, Threshold, read_thresholds
from openvibe.base.events import emit
from openvibe.base.problems import Problem
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import create_system_message
from openvibe.engines.llm.endpoints.endpoints import client_for
from openvibe.engines.llm.errors import ModelError
from openvibe.engines.llm.protocol import ModelClient
from openvibe.engines.llm.values import CallOptions
from openvibe.workspaces.models import Spending
from openvibe.workspaces.services import meter_client

log = structlog.get_logger(__name__)

BATCH_SIZE = 100
MAX_ANSWER_TOKENS = 2_000
"""Tokens of an answer: the decision takes fifty, what a model thinks before it the rest."""


def due_threads(now: datetime | None = None) -> list[int]:
    """Ids of the marks that are due, the oldest first, a bounded number. One statement, of an index that holds only
    threads in which somebody said something."""
    due = WatchedThread.objects.filter(due_at__lte=now or timezone.now()).order_by("due_at", "pk")
    return list(due.values_list("pk", flat=True)[:BATCH_SIZE])


@dataclass(frozen=True)
class Question:
    """A look that was begun: who asks about what. `percent`: how sure it has to be."""

    look: WatchLook
    agent: Agent
    triggers: tuple[str, ...]
    since_seq: int
    percent: int


def look(watched_id: int, now: datetime | None = None, *, client: ModelClient | None = None) -> int | None:
    """Looks at what is new in a thread that is due, if nobody else does; the id of the run that speaks up, if it does.

    Safe to call any number of times. `client` answers in place of the agent's own endpoint.
    """
    question = _begin_look(watched_id, now or timezone.now())
    if question is None:
        return None
    look, agent = question.look, question.agent
    try:
        prompt = assemble_watch(
            agent=agent,
            thread_id=look.thread_id,
            triggers=question.triggers,
            since_seq=question.since_seq,
            upto_seq=look.upto_seq,
        )
        _save_prompt(look, prompt)
        answer = _ask(question, prompt, client)
    except (ModelError, Problem) as error:
        log.warning("watch_look_failed", watch=look.watch_id, thread_id=look.thread_id, error=type(error).__name__)
        _end_look(look, WatchLook.Outcome.FAILED, error.message if isinstance(error, Problem) else str(error))
        return None
    return _decide(question, read_decision(answer, question.triggers))


def _save_prompt(look: WatchLook, prompt: Prompt) -> None:
    """Saves what the model is about to be asked, so that what is deleted meanwhile finds it."""
    content = pack_content(snapshot_content(prompt))
    looks = WatchLook.objects.filter(pk=look.pk, outcome=WatchLook.Outcome.ASKING)
    looks.update(model=prompt.model[:120], tokens=prompt.tokens, content=content)


def _ask(question: Question, prompt: Prompt, client: ModelClient | None) -> str:
    agent, endpoint = question.agent, online_endpoint(question.agent)
    if endpoint is None:
        raise Problem(NO_MODEL, code="no_model")
    client = meter_client(
        client or client_for(endpoint),
        workspace_id=agent.workspace_id,
        purpose=Spending.Purpose.WATCHING,
        agent_id=agent.participant_id,
        channel_id=question.look.thread.channel_id,
    )
    limit = min(MAX_ANSWER_TOKENS, endpoint.usable_reserve)
    options = CallOptions(effort=agent.effort or None)  # type: ignore[arg-type]  # its choices are those
    return client.complete(prompt.messages, max_output_tokens=limit, options=options).text


@transaction.atomic
def _begin_look(watched_id: int, now: datetime) -> Question | None:
    """The mark taken and the look written, together; None where there is nothing to look at, or not yet.

    The agent's row is held: two threads that are due at once are looked at one after the other.
    """
    agent = _lock_agent(WatchedThread.objects.filter(pk=watched_id).values("watch__agent"))
    rows = WatchedThread.objects.select_for_update(of=("self",), no_key=True, skip_locked=True)
    watched = rows.select_related("watch__channel", "thread__channel").filter(pk=watched_id, due_at__lte=now).first()
    if agent is None or watched is None:
        return None
    threshold = read_thresholds([watched.watch])[watched.watch_id]
    since_seq = _answered_seq(agent, watched)
    if later := _later(agent, watched, threshold, now):
        watched.due_at = later
        watched.save(update_fields=["due_at"])
        return None
    reason = _no_look_reason(agent, watched, since_seq, now)
    _take_mark(watched, reason or "")
    if reason is not None:
        return None
    look, is_new = WatchLook.objects.get_or_create(
        watch=watched.watch, thread=watched.thread, upto_seq=watched.talk_seq
    )
    triggers = proactive_triggers(agent)
    return Question(look, agent, triggers, since_seq, threshold.percent) if is_new else None


def _later(agent: Agent, watched: WatchedThread, threshold: Threshold, now: datetime) -> datetime | None:
    """The time at which it is to look, where that is later: people may go on, it is at work there, or it posted
    unasked a moment ago."""
    if (rests_at := watched.talked_at + threshold.rest) > now:
        return rests_at
    if Run.objects.filter(agent=agent, thread=watched.thread).exclude(state__in=Run.FINISHED_STATES).exists():
        return now + timedelta(minutes=watched.watch.rest_minutes)
    denial = pace_denial(agent, now)
    return denial.until if denial and not denial.is_for_today else None


def _no_look_reason(agent: Agent, watched: WatchedThread, since_seq: int, now: datetime) -> str | None:
    """The reason why it does not look at these words at all, empty where there is nothing to say about it; None where
    it looks."""
    if not watched.watch.is_active or not _talk(watched.thread_id, since_seq, watched.talk_seq).exists():
        return ""
    (reason,) = watch_denied_reasons(agent, [watched.thread])
    if reason is None and (denial := pace_denial(agent, now)):
        return denial.reason
    return reason


def _lock_agent(pk: Any) -> Agent | None:
    agents = Agent.objects.select_related("participant", "workspace", "soul", "endpoint")
    return agents.select_for_update(of=("self",), no_key=True).filter(pk__in=pk).first()


def _take_mark(watched: WatchedThread, note: str = "") -> None:
    """Nothing more is to be looked at until somebody says something. `note`: why it did not look, for the page."""
    watched.due_at, watched.looked_seq = None, watched.talk_seq
    watched.save(update_fields=["due_at", "looked_seq"])
    if watched.watch.is_active:
        Watch.objects.filter(pk=watched.watch_id).exclude(note=note[:300]).update(note=note[:300])


def _answered_seq(agent: Agent, watched: WatchedThread) -> int:
    """The number up to which the thread's talk needs no look: it looked already, or was asked there and answers."""
    runs = Run.objects.filter(agent=agent, trigger=OuterRef("pk")).order_by()
    new = Message.objects.filter(thread=watched.thread_id, seq__gt=watched.looked_seq, seq__lte=watched.talk_seq)
    asked = new.filter(Q(Exists(runs)) | Q(mentions__participant=agent.participant_id))
    return asked.order_by().aggregate(seq=Max("seq"))["seq"] or watched.looked_seq


def _talk(thread_id: int, since_seq: int, upto_seq: int | None = None) -> QuerySet[Message]:
    """What people said after `since_seq`, and still say."""
    messages = Message.objects.filter(thread=thread_id, seq__gt=since_seq, author__kind="member")
    messages = messages.filter(kind=Message.Kind.TEXT, deleted_at=None).order_by()
    return messages if upto_seq is None else messages.filter(seq__lte=upto_seq)


@transaction.atomic
def _decide(question: Question, decision: Decision) -> int | None:
    """Ends the look: silent, or with the line in the thread that its run answers; the run's id then.

    Everything is looked up anew: who may speak there by now, what others of its looks have posted meanwhile, and
    whether people went on, which the next look reads.
    """
    look, now = question.look, timezone.now()
    agent = _lock_agent([question.agent.pk])
    rows = Thread.objects.select_for_update(of=("self",), no_key=True).select_related("channel", "workspace")
    thread = rows.filter(pk=look.thread_id).first()
    if agent is None or thread is None:
        return None
    if not WatchLook.objects.filter(pk=look.pk, content__isnull=False).exists():  # something was deleted meanwhile
        _end_look(look, WatchLook.Outcome.OVERTAKEN, "")
        return None
    look.trigger, look.sure = decision.trigger, decision.sure
    if _talk(thread.pk, look.upto_seq).exists():
        _end_look(look, WatchLook.Outcome.OVERTAKEN, decision.why)
        return None
    reason = _held_back_reason(question, decision, agent, thread, now)
    if not decision.trigger or reason:
        _end_look(look, WatchLook.Outcome.SILENT, reason or decision.why)
        return None
    look.line = create_system_message(thread=thread, author=agent.participant, body=_line(decision))
    run = Run.objects.create(
        workspace_id=agent.workspace_id,
        agent=agent,
        thread=thread,
        trigger=look.line,
        requested_by_id=look.watch.author_id,
        task=Run.Task.PROACTIVE,
    )
    _end_look(look, WatchLook.Outcome.SPOKE, decision.why)
    return run.pk


def _held_back_reason(
    question: Question, decision: Decision, agent: Agent, thread: Thread, now: datetime
) -> str | None:
    """The reason why it stays silent though it decided to speak; None where it speaks, or did not want to."""
    if not decision.trigger:
        return None
    if not Watch.objects.filter(pk=question.look.watch_id, is_active=True).exists():
        return "It was stopped while it looked."
    if decision.trigger not in proactive_triggers(agent):
        return "Its SOUL does not name this trigger any more."
    sure = BASE_PERCENT if decision.sure is None else decision.sure
    if sure < question.percent:
        return f"It was {sure} % sure, and has to be {question.percent} % sure here."
    (reason,) = watch_denied_reasons(agent, [thread])
    if reason is None and (denial := pace_denial(agent, now)):
        reason = denial.reason
    return reason


def _line(decision: Decision) -> str:
    words = f"Speaks up by itself because of: {' '.join(decision.trigger.split())}"
    return f"{words} – {decision.why}" if decision.why else words


def _end_look(look: WatchLook, outcome: WatchLook.Outcome, why: str) -> None:
    """Writes what came of it, and counts it, in one transaction: once, whoever else ended it meanwhile."""
    look.outcome, look.why, look.finished_at = outcome, why[:MAX_WHY_CHARACTERS], timezone.now()
    names = ("outcome", "why", "finished_at", "trigger", "sure", "line")
    values = {name: getattr(look, name) for name in names}
    with transaction.atomic():
        if not WatchLook.objects.filter(pk=look.pk, outcome=WatchLook.Outcome.ASKING).update(**values):
            return
        watch = Watch.objects.filter(pk=look.watch_id)
        if outcome == WatchLook.Outcome.SPOKE:
            watch.update(post_count=F("post_count") + 1)
        elif outcome == WatchLook.Outcome.SILENT:
            watch.update(silence_count=F("silence_count") + 1)
        elif outcome == WatchLook.Outcome.FAILED:
            watch.filter(is_active=True).update(note=f"Its last look failed. {why}"[:300])
            emit("agent_changed", workspace_id=look.thread.workspace_id)
