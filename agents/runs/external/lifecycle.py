"""Runs that an agent carries out elsewhere and answers through the API: request, begin, context, words, end, silence.

The agent begins a run for a message that is meant for it, and sends the words of its reply as it writes them. Whatever
it sends names the run's attempt and where the words go, so that a call sent twice, or by a process that lost the run,
changes nothing. A person's Stop ends the run at once; the agent is told with its next words, as of what people say
meanwhile and of Interrupt. A process that was begun again goes on with the run of the one before
(`resume_external_run`).

What people ask it for waits as a run that is queued, from the transaction of the message on. Of another try, another
answer or a draft its events tell the agent of the message once more, and it begins the run as any other. A message that
it posts in place of that is the answer, too. Nobody waits for ever (`fail_silent_runs`)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from agents.agent.models import EXTERNAL_RUNS, RUNS, Agent, Run, Snapshot
from agents.agent.permissions import reply_denied_reason
from agents.prompts.assembler.assemble import OFFLINE_MODEL, Prompt, assemble
from agents.prompts.assembler.continuation import Session
from agents.prompts.citations.store import save_citations
from agents.prompts.snapshots.sessions import read_session
from agents.prompts.snapshots.store import store_snapshot
from agents.runs.error_text import read_error
from agents.runs.heard import (
    HEARD_FIELDS,
    answering_run,
    count_unheard,
    end_heard_runs,
    forget_heard,
    heard_until,
    hears_people,
    keep_heard,
    read_unheard,
)
from agents.runs.permissions.answers import lapse_run_permissions
from agents.runs.steps import MAX_ERROR_CHARACTERS as STEP_ERROR_CHARACTERS
from agents.runs.steps import StepKind, add_step
from agents.runs.store import clean_reply_body, emit_reply_changed, lock_external_run, replace_earlier_answers
from agents.runs.thoughts import remove_steps
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Dive, Message
from openvibe.chat.queries import MessageSaid
from openvibe.chat.services import check_not_archived, create_reply, finish_reply
from openvibe.engines.llm.tokens import count_tokens, counter_for
from openvibe.engines.llm.values import ChatMessage, ToolSpec
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS
from openvibe.engines.text.masking import mask_secrets
from openvibe.workspaces.models import Participant

MAX_ERROR_CHARACTERS = 2_000
END_STEPS: dict[str, StepKind] = {"done": "done", "failed": "failed", "stopped": "stopped"}
NOT_BEGUN = "not_begun"
MAX_LATENESS = timedelta(hours=1)
"""How long after it failed a message that the agent posts is still the answer of a run that was not begun."""
RUN_REQUESTED = "run_requested"
"""The event that asks an agent elsewhere. Nobody else is told."""


class ReplyState(NamedTuple):
    """How far a reply is: the run's state, the reply's id once it has words, and its length in characters. `unheard`:
    how many messages of people it was not told of; `interrupt`: whether somebody wants it to hear them now. `attempt`:
    the one that holds now."""

    state: str
    reply_id: int | None
    length: int
    unheard: int = 0
    interrupt: bool = False
    attempt: int = 0


class HeardReport(NamedTuple):
    """What an agent elsewhere is told of: the message for its model, None where there is nothing, the messages that it
    is made of, and whether somebody pressed Interrupt."""

    message: ChatMessage | None
    heard: tuple[MessageSaid, ...]
    interrupt: bool


class ReportedUsage(NamedTuple):
    """What the agent says of the model it asked. Tokens it does not know are counted here."""

    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


def queue_external_run(run: Run) -> None:
    """Asks the agent elsewhere for the answer, in the transaction that holds the run. Its events tell it of the message
    as of one that names it; what it does not begin in time fails (`fail_silent_runs`)."""
    run.state, run.heard_at = Run.State.QUEUED, timezone.now()
    run.queued_at = run.heard_at  # what it uses counts for today
    run.save()
    thread = run.thread
    emit(
        RUN_REQUESTED,
        workspace_id=thread.workspace_id,
        channel_id=thread.channel_id,
        thread_id=thread.pk,
        message_id=run.trigger_id,
        participant_id=run.agent.participant_id,
    )


def begin_external_run(*, agent: Agent, message: Message) -> Run:
    """The run in which the agent answers `message`, which it sees: `reading`, its own until it is over.

    What people asked it for and it has not begun comes first, then what failed, which is begun anew with the next
    attempt. Raises Refused where the agent may not answer, or the message is not meant for it; Conflict `being_written`
    while it writes here already, `answered` when it has answered.
    """
    if not agent.answers_itself:
        raise Refused(
            "OpenVibe answers for this agent. Choose “A program elsewhere, through the API” in its settings first.",
            code="answered_here",
        )
    check_not_archived(message.thread)
    try:
        with transaction.atomic():
            run = _lock_latest(agent, message)
            is_asked = run is not None and run.state == Run.State.QUEUED
            task = run.task if run is not None and is_asked else _check_addressed(agent, message)
            reason = reply_denied_reason(agent, message.thread, task)
            if reason is not None:
                raise Refused(reason, code="agent_silent")
            return _create_or_restart(agent, message, run, task)
    except IntegrityError:  # two processes of the agent began at once
        raise _unfinished_answer_error(_runs_under_way(agent, message).first()) from None


def _lock_latest(agent: Agent, message: Message) -> Run | None:
    """The agent's run for the message that is to be begun now, if any: one that people asked for, else the newest."""
    rows = Run.objects.select_for_update(no_key=True, of=("self",)).filter(agent=agent, trigger=message)
    runs = list(rows.order_by("-pk"))
    asked_runs = [run for run in runs if run.is_external and run.state == Run.State.QUEUED]
    return next(iter((*reversed(asked_runs), *runs)), None)


def _check_addressed(agent: Agent, message: Message) -> str:
    """The task that the message is for the agent. Raises Refused when it is none."""
    thread = message.thread
    dive_agent = thread.parent_id and Dive.objects.filter(thread=thread).values_list("agent_id", flat=True).first()
    is_from_person = message.author.kind == Participant.Kind.MEMBER and message.kind == Message.Kind.TEXT
    if is_from_person and not message.is_deleted:
        if dive_agent == agent.participant_id:
            return Run.Task.DIVE
        if message.mentions.filter(participant=agent.participant_id).exists():
            return Run.Task.MENTION
        if thread.following_agents.filter(pk=agent.participant_id).exists():
            return Run.Task.THREAD
    raise Refused(
        "Nobody asked you here: answer messages of people that name you, or in threads you follow.",
        code="not_addressed",
    )


def _create_or_restart(agent: Agent, message: Message, run: Run | None, task: str) -> Run:
    is_posted = run is not None and run.state == Run.State.DONE and not run.attempt and task != Run.Task.PUBLISH
    if run is not None and run.state in (Run.State.DONE, Run.State.STOPPED) and not is_posted:
        raise Conflict("This message is answered, or people stopped the answer.", code="answered")
    if (run is None or is_posted) and (other := answering_run(agent, message.pk)):
        raise Conflict(f"You heard this message in run {other}, which answers it.", code="answered")
    if run is not None and is_posted:  # that was a word in between
        run.reply = None
    if message.is_deleted:
        raise _deleted_error()
    if under_way := _runs_under_way(agent, message).first():
        raise _unfinished_answer_error(under_way)
    if run is None:
        run = Run(
            workspace_id=agent.workspace_id,
            agent=agent,
            thread_id=message.thread_id,
            trigger=message,
            requested_by_id=message.author_id,
            task=task,
        )
    now = timezone.now()
    run.state, run.attempt, run.error, run.error_code = Run.State.READING, run.attempt + 1, "", ""
    run.heard_at = run.queued_at = run.started_at = now
    run.finished_at = run.stop_requested_at = run.first_word_at = run.interrupt_requested_at = None
    run.heard_seq = message.seq
    add_step(run, "claimed", attempt=run.attempt)
    run.save()
    remove_steps(run)
    run.heard_messages.all().delete()
    lapse_run_permissions(run, "The answer was begun anew, which asks anew.")
    return run


def _deleted_error() -> Conflict:
    return Conflict("The message was deleted. There is nothing to answer.", code="deleted")


def _runs_under_way(agent: Agent, message: Message) -> QuerySet[Run]:
    """The agent's runs in the message's thread that have to end before another is begun."""
    is_here = Q(state__in=RUNS.active) | (Q(state=Run.State.QUEUED) & RUNS.condition)
    return Run.objects.filter(is_here, agent=agent, thread=message.thread_id).select_related("reply").order_by("pk")


def _unfinished_answer_error(run: Run | None) -> Conflict:
    """Says which run it is, so that a process that was begun again can go on with it."""
    facts = {}
    if run is not None and run.is_external:
        heard_at = run.heard_at.isoformat() if run.heard_at else None
        facts = {"run": {"id": run.pk, "message": run.trigger_id, "heard_at": heard_at, **_place_in_reply(run)}}
    message = "An answer of yours is being written in this thread. Finish it first, or go on with it (resume)."
    return Conflict(message, code="being_written", facts=facts)


def _place_in_reply(run: Run) -> dict[str, object]:
    state = reply_state(run)
    return {"attempt": run.attempt, "state": state.state, "reply": state.reply_id, "length": state.length}


@transaction.atomic
def resume_external_run(*, run: Run, is_rewritten: bool) -> ReplyState:
    """The run goes on in the hands of another process of its agent, as its next attempt: the process before, if it
    still lives, is told `run_over`. The words so far stay, to be followed from their length on; `is_rewritten`: they
    go, and the reply is written anew from its first character.

    What people had said and nothing was written after is told again. Raises Conflict where the run is over.
    """
    current = lock_external_run(run)
    reply = current.reply if current.state == Run.State.WRITING else None
    forget_heard(current, reply_length=0 if is_rewritten or reply is None else len(reply.body))
    current.attempt, current.heard_at = current.attempt + 1, timezone.now()
    if is_rewritten and reply is not None:
        current.reply = create_reply(thread=current.thread, author=current.agent.participant, client_id=f"run:{run.pk}")
    if is_rewritten:
        remove_steps(current)
    add_step(current, "continued", attempt=current.attempt)
    current.save(update_fields=["attempt", "heard_at", "heard_seq", "interrupt_requested_at", "steps"])
    emit_reply_changed(current)
    return reply_state(current)


def assemble_for_session(*, run: Run, after_run: int | None, tools: Sequence[ToolSpec], **options: Any) -> Prompt:
    """What the agent reads for the run: what is new for the session that read the context of `after_run`, where it can
    go on; else all of it. `options`: `budget` and `model`, as of `assemble`."""
    session = "A session begins." if after_run is None else read_session(run, after_run)
    prompt = assemble(
        agent=run.agent,
        thread=run.thread,
        task=run.task,
        request=run.trigger,
        tools=tools,
        session=session if isinstance(session, Session) else None,
        **options,
    )
    return prompt if isinstance(session, Session) else replace(prompt, continuation=session)


@transaction.atomic
def keep_context(*, run: Run, prompt: Prompt) -> None:
    """Stores what the agent is given to read, as the prompt of its run. Raises Conflict when the run is over, or its
    message was deleted: the request would be empty."""
    current = lock_external_run(run)
    if current.trigger.is_deleted:  # read anew: it took a moment to assemble
        raise _deleted_error()
    store_snapshot(run, prompt)
    current.heard_at, current.heard_seq = timezone.now(), prompt.last_seq
    add_step(current, "assembled", attempt=run.attempt, tokens=prompt.tokens)
    current.save(update_fields=["heard_at", "heard_seq", "steps"])


@transaction.atomic
def tell_heard(*, run: Run) -> HeardReport:
    """What people said since the run read its context, or since the last such call, for its agent's model: it counts as
    heard. Nothing for a draft. Raises Conflict where the run is over."""
    current = lock_external_run(run)
    interrupt, current.heard_at = current.interrupt_requested_at is not None, timezone.now()
    model = Snapshot.objects.filter(run=run).values_list("model", flat=True).first()
    counter = counter_for(model or OFFLINE_MODEL)
    heard = read_unheard(current, heard_until(current), counter) if hears_people(current) else None
    current.interrupt_requested_at = None
    if heard is not None:
        keep_heard(current, heard, reply_length=reply_state(current).length)
    current.save(update_fields=["heard_at", *HEARD_FIELDS])
    return HeardReport(heard.message if heard else None, heard.rows if heard else (), interrupt)


@transaction.atomic
def append_words(*, run: Run, offset: int, words: str) -> ReplyState:
    """Takes the next words of the reply, from character `offset` on; without any, it only hears that the agent is
    there.

    Words that stand there already are not taken again. Raises Conflict `wrong_offset` for others than stand there and
    for a gap, `run_over` once the run failed or is done; Problem `too_long`. A run that people stopped takes nothing
    and says so in its state.
    """
    if run.state == Run.State.STOPPED:
        return reply_state(run)
    current = lock_external_run(run)
    reply = current.reply if current.state == Run.State.WRITING else None
    body = reply.body if reply else ""
    stored_words = body[offset : offset + len(words)]
    if offset > len(body) or not words.startswith(stored_words):
        raise Conflict(
            f"The reply has {len(body)} characters, and others than these from {offset} on. Nothing was taken.",
            code="wrong_offset",
        )
    new = words[len(stored_words) :]
    if len(body) + len(new) > MAX_BODY_CHARACTERS:
        raise Problem(
            f"A reply has at most {MAX_BODY_CHARACTERS:,} characters. Nothing of this was taken.",
            code="too_long",
            field="body",
        )
    if new:
        reply = reply or _create_reply(current)
        Message.objects.filter(pk=reply.pk).update(body=body + new)
        reply.body = body + new
    current.heard_at = timezone.now()
    current.save(update_fields=["state", "reply", "heard_at", "first_word_at"])
    return reply_state(current)._replace(length=len(body) + len(new))


def _create_reply(run: Run) -> Message:
    """The empty reply of this attempt; that of an earlier one is written again."""
    run.reply = create_reply(thread=run.thread, author=run.agent.participant, client_id=f"run:{run.pk}")
    run.state, run.first_word_at = Run.State.WRITING, timezone.now()
    return run.reply


def reply_state(run: Run) -> ReplyState:
    reply = None if run.state == Run.State.READING else run.reply
    place = (run.state, reply.pk if reply else None, len(reply.body) if reply else 0)
    if run.is_over:
        return ReplyState(*place, attempt=run.attempt)
    return ReplyState(*place, count_unheard(run), run.interrupt_requested_at is not None, run.attempt)


@transaction.atomic
def finish_external_run(*, run: Run, words: str | None, usage: ReportedUsage) -> Run:
    """The answer stands, as it was sent or as `words`. Sent again, or after people stopped it, it changes nothing."""
    if run.state in (Run.State.DONE, Run.State.STOPPED):
        return run
    current = lock_external_run(run)
    reply = current.reply if current.state == Run.State.WRITING else None
    body = clean_reply_body(reply.body if words is None and reply else words or "")
    if not body:
        raise Problem("There is no answer yet. Send its words, or say why there is none.", code="empty", field="body")
    _end(current, reply or _create_reply(current), body, Run.State.DONE, Message.State.COMPLETE, usage)
    return current


@transaction.atomic
def fail_external_run(*, run: Run, error: str, usage: ReportedUsage, code: str = "agent_failed") -> Run:
    """The agent could not answer, and says why in words for people, whose secrets are masked. What it wrote is kept."""
    if run.state in (Run.State.FAILED, Run.State.STOPPED):
        return run
    current = lock_external_run(run)
    current.error = mask_secrets(clean_reply_body(error))[:MAX_ERROR_CHARACTERS] or "It gave no reason."
    current.error_code = code
    reply = current.reply if current.state == Run.State.WRITING else None
    _end(current, reply, reply.body if reply else "", Run.State.FAILED, Message.State.FAILED, usage)
    return current


def stop_external_run(run: Run, *, by: int | None) -> None:
    """Stops the run, which the caller has locked, at once. The words so far stay. `by`: a participant's id, if
    known."""
    run.stop_requested_at = run.stop_requested_at or timezone.now()
    reply = run.reply if run.state == Run.State.WRITING else None
    _end(run, reply, reply.body if reply else "", Run.State.STOPPED, Message.State.STOPPED, ReportedUsage(), by=by)


def _end(
    run: Run,
    reply: Message | None,
    body: str,
    state: str,
    reply_state: str,
    usage: ReportedUsage,
    *,
    by: int | None = None,
) -> None:
    """Writes the end of a locked run: its reply's last words, and its tokens, once."""
    if reply is not None:
        finish_reply(reply=reply, body=body, state=reply_state)
        if body and reply_state != Message.State.FAILED:
            replace_earlier_answers(run)
    tokens = _prompt_tokens(run) if usage.input_tokens is None else usage.input_tokens
    output_tokens = count_tokens(body) if usage.output_tokens is None else usage.output_tokens
    most = run.agent.daily_token_budget  # nobody checks what it says: it must not use up the whole workspace's
    run.input_tokens = min(run.input_tokens + tokens, most)
    run.output_tokens = min(run.output_tokens + output_tokens, most)
    if usage.cached_tokens is not None:
        run.cached_tokens = min((run.cached_tokens or 0) + usage.cached_tokens, run.input_tokens)
    run.state, run.model, run.finished_at = state, usage.model or run.model, timezone.now()
    if reply is not None:
        step = {"attempt": run.attempt, "tokens": tokens, "output_tokens": output_tokens}
        add_step(run, "answered", **step, cached_tokens=usage.cached_tokens)
    add_step(
        run, END_STEPS[state], attempt=run.attempt, by=by, error=read_error(run.error).summary[:STEP_ERROR_CHARACTERS]
    )
    run.interrupt_requested_at = None
    run.save()
    if reply is not None and reply_state != Message.State.FAILED:
        save_citations(run, body)
    if state == Run.State.DONE:
        end_heard_runs(run)
    elif state == Run.State.STOPPED:
        end_heard_runs(run, min_length=len(body))
    lapse_run_permissions(run)
    _begin_waiting_anew(run)


def _begin_waiting_anew(run: Run) -> None:
    """What the agent was asked there meanwhile can be begun from now on: its minutes to do so are counted from now."""
    waiting = Run.objects.filter(EXTERNAL_RUNS.condition, state=Run.State.QUEUED, agent=run.agent_id)
    waiting.filter(thread=run.thread_id).update(heard_at=timezone.now())


def _prompt_tokens(run: Run) -> int:
    """Tokens of the prompt that was given since the run was begun, which another process may have gone on with; that of
    an attempt that ended was counted at its end."""
    kinds = [step["kind"] for step in run.steps]
    if "assembled" not in kinds or "claimed" in kinds[::-1][: kinds[::-1].index("assembled")]:
        return 0
    return Snapshot.objects.filter(run=run).values_list("tokens", flat=True).first() or 0


def finish_posted_runs(message: Message) -> None:
    """Ends the runs that waited where the agent posted a message: that is the answer to all that was asked there
    before, in the transaction of the message. Not while it writes another answer there. A run that was not begun in
    time is answered late."""
    is_waiting = Q(state=Run.State.QUEUED)
    is_late = Q(state=Run.State.FAILED, error_code=NOT_BEGUN, finished_at__gt=timezone.now() - MAX_LATENESS)
    runs_here = Run.objects.filter(
        EXTERNAL_RUNS.condition, agent__participant=message.author_id, thread=message.thread_id
    )
    rows = runs_here.filter(is_waiting | is_late, trigger__seq__lt=message.seq).order_by("pk")
    if message.kind != Message.Kind.TEXT or runs_here.filter(state__in=EXTERNAL_RUNS.active).exists():
        return
    runs = list(rows.select_for_update(no_key=True, of=("self",)).select_related("thread"))
    for run in runs:
        if run is runs[-1]:
            run.reply = message
        run.state, run.finished_at, run.error_code, run.error = Run.State.DONE, timezone.now(), "", ""
        add_step(run, "done", attempt=run.attempt)
        run.save(update_fields=["reply", "state", "finished_at", "error_code", "error", "steps"])
