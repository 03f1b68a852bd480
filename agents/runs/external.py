"""Runs that an agent carries out elsewhere and answers through the API: request, begin, context, words, end, silence.

The agent begins a run for a message that is meant for it, and sends the words of its reply as it writes them. Whatever
it sends names the run's attempt and where the words go, so that a call sent twice, or by a process that lost the run,
changes nothing. A person's Stop ends the run at once; the agent is told with its next words.

What people ask it for waits as a run that is queued, from the transaction of the message on. Of another try, another
answer or a draft its events tell the agent of the message once more, and it begins the run as any other. A message that
it posts in place of that is the answer, too. Nobody waits for ever (`fail_silent_runs`)."""

from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from agents.agent.access import visible_to
from agents.agent.models import EXTERNAL_RUNS, RUNS, Agent, Run, Snapshot
from agents.agent.permissions import reply_denied_reason
from agents.prompts.assembler.assemble import Prompt
from agents.prompts.snapshots.store import store_snapshot
from agents.runs.permission_answers import lapse_run_permissions
from agents.runs.programs import programs_heard_at
from agents.runs.steps import MAX_ERROR_CHARACTERS as STEP_ERROR_CHARACTERS
from agents.runs.steps import StepKind, add_step
from agents.runs.store import clean_reply_body, emit_reply_changed, replace_earlier_answers
from agents.runs.thoughts import remove_steps
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Dive, Message
from openvibe.chat.queries import sees_thread
from openvibe.chat.services import check_not_archived, create_reply, finish_reply
from openvibe.engines.jobs.jobs import JobLost
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS
from openvibe.engines.text.masking import mask_secrets
from openvibe.workspaces.models import Participant

MAX_ERROR_CHARACTERS = 2_000
END_STEPS: dict[str, StepKind] = {"done": "done", "failed": "failed", "stopped": "stopped"}
BATCH_SIZE = 200
CONNECT_SECONDS = 45.0
"""How long a run waits before it is said that its program was not heard since."""
MAX_LATENESS = timedelta(hours=1)
"""How long after it failed a message that the agent posts is still the answer of a run that was not begun."""
NOT_CONNECTED, NOT_BEGUN = "not_connected", "not_begun"
NOT_CONNECTED_MESSAGE = "Its program is not connected. The question waits for it up to {minutes} min, then it fails."
RUN_REQUESTED = "run_requested"
"""The event that asks an agent elsewhere. Nobody else is told."""
START_TIMEOUT_MESSAGE = (
    "{name} runs elsewhere and did not begin within {minutes} min. See that its program is running, then press Retry."
)


class ReplyState(NamedTuple):
    """How far a reply is: the run's state, the reply's id once it has words, and its length in characters."""

    state: str
    reply_id: int | None
    length: int


class ReportedUsage(NamedTuple):
    """What the agent says of the model it asked. Tokens it does not know are counted here."""

    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None


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
        raise _unfinished_answer_error() from None


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
    if run is not None and is_posted:  # that was a word in between
        run.reply = None
    if message.is_deleted:
        raise _deleted_error()
    is_here = Q(state__in=RUNS.active) | (Q(state=Run.State.QUEUED) & RUNS.condition)
    if Run.objects.filter(is_here, agent=agent, thread=message.thread_id).exists():
        raise _unfinished_answer_error()
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
    run.finished_at = run.stop_requested_at = run.first_word_at = None
    add_step(run, "claimed", attempt=run.attempt)
    run.save()
    remove_steps(run)
    lapse_run_permissions(run, "The answer was begun anew, which asks anew.")
    return run


def _deleted_error() -> Conflict:
    return Conflict("The message was deleted. There is nothing to answer.", code="deleted")


def _unfinished_answer_error() -> Conflict:
    return Conflict("An answer of yours is being written in this thread. Finish it first.", code="being_written")


@transaction.atomic
def keep_context(*, run: Run, prompt: Prompt) -> None:
    """Stores what the agent is given to read, as the prompt of its run. Raises Conflict when the run is over, or its
    message was deleted: the request would be empty."""
    current = lock_external_run(run)
    if current.trigger.is_deleted:  # read anew: it took a moment to assemble
        raise _deleted_error()
    store_snapshot(run, prompt)
    current.heard_at = timezone.now()
    add_step(current, "assembled", attempt=run.attempt, tokens=prompt.tokens)
    current.save(update_fields=["heard_at", "steps"])


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
    return ReplyState(current.state, current.reply_id if reply else None, len(body) + len(new))


def _create_reply(run: Run) -> Message:
    """The empty reply of this attempt; that of an earlier one is written again."""
    run.reply = create_reply(thread=run.thread, author=run.agent.participant, client_id=f"run:{run.pk}")
    run.state, run.first_word_at = Run.State.WRITING, timezone.now()
    return run.reply


def reply_state(run: Run) -> ReplyState:
    return ReplyState(run.state, run.reply_id, len(run.reply.body) if run.reply else 0)


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
    run.state, run.model, run.finished_at = state, usage.model or run.model, timezone.now()
    if reply is not None:
        step = {"attempt": run.attempt, "tokens": tokens, "output_tokens": output_tokens}
        add_step(run, "answered", **step)
    add_step(run, END_STEPS[state], attempt=run.attempt, by=by, error=run.error[:STEP_ERROR_CHARACTERS])
    run.save()
    lapse_run_permissions(run)


def _prompt_tokens(run: Run) -> int:
    """Tokens of the prompt that this attempt was given; that of an earlier one was counted at its end."""
    if not any(step["kind"] == "assembled" and step.get("attempt") == run.attempt for step in run.steps):
        return 0
    return Snapshot.objects.filter(run=run).values_list("tokens", flat=True).first() or 0


def lock_external_run(run: Run) -> Run:
    """The run, locked, as long as it is this attempt's. Raises Conflict."""
    try:
        return EXTERNAL_RUNS.lock_owned(run)
    except JobLost:
        message = "This run is over, or another process of yours began it anew. Nothing was taken."
        raise Conflict(message, code="run_over") from None


def fail_silent_runs() -> None:
    """Ends external runs whose agent was not heard any more or did not begin, whose message was deleted, or whose
    thread it lost."""
    awaited = Run.objects.filter(heard_at__isnull=False, state__in=EXTERNAL_RUNS.unfinished)
    unfinished = list(awaited.order_by("pk").values_list("pk", "agent__participant")[:BATCH_SIZE])
    heard_at = programs_heard_at({participant_id for _, participant_id in unfinished}) if unfinished else {}
    for run_id, participant_id in unfinished:
        with transaction.atomic():
            rows = awaited.select_for_update(no_key=True, of=("self",), skip_locked=True)
            run = rows.select_related("agent__participant", "thread__channel", "trigger").filter(pk=run_id).first()
            if run is None:
                continue
            code, reason = _lapse_of(run)
            if code and run.state == Run.State.QUEUED:
                _fail_queued(run, code, reason)
            elif code:
                fail_external_run(run=run, error=reason, usage=ReportedUsage(), code=code)
            elif run.state == Run.State.QUEUED:
                _note_connection(run, heard_at.get(participant_id))


def _note_connection(run: Run, program_heard_at: datetime | None) -> None:
    """Stores with a run that waits that its program was not heard since it was asked, or that it is there again."""
    asked_at = run.heard_at or run.queued_at
    is_heard = program_heard_at is not None and program_heard_at >= asked_at
    is_late = timezone.now() - asked_at >= timedelta(seconds=CONNECT_SECONDS)
    code = NOT_CONNECTED if is_late and not is_heard else ""
    if code == run.error_code:
        return
    run.error_code = code
    run.error = NOT_CONNECTED_MESSAGE.format(minutes=settings.AGENT_BEGIN_MINUTES) if code else ""
    run.save(update_fields=["error_code", "error"])
    _emit_run_changed(run)


def _emit_run_changed(run: Run) -> None:
    """Sends the events that the database sends where the state changes."""
    emit(
        "run_changed",
        workspace_id=run.workspace_id,
        channel_id=run.thread.channel_id,
        thread_id=run.thread_id,
        message_id=run.trigger_id,
    )
    emit_reply_changed(run)


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


def _fail_queued(run: Run, code: str, reason: str) -> None:
    """Nothing was written: the reply of an earlier attempt stays as it is."""
    run.state, run.finished_at, run.error_code, run.error = Run.State.FAILED, timezone.now(), code, reason
    add_step(run, "failed", attempt=run.attempt, error=reason[:STEP_ERROR_CHARACTERS])
    run.save(update_fields=["state", "finished_at", "error_code", "error", "steps"])
    emit_reply_changed(run)


def _lapse_of(run: Run) -> tuple[str, str]:
    """The reason why the run cannot go on, as a code and words for people; empty when it can."""
    is_queued = run.state == Run.State.QUEUED
    seconds = 60 * settings.AGENT_BEGIN_MINUTES if is_queued else settings.AGENT_SILENCE_SECONDS
    if run.trigger.is_deleted:
        return "deleted", "The message was deleted before it was answered."
    if not run.agent.is_active:
        return "agent_silent", "The agent was deactivated before it answered."
    if not sees_thread(visible_to(run.agent), run.thread):
        return "agent_silent", reply_denied_reason(run.agent, run.thread, run.task) or "It sees this thread no more."
    if is_queued and not run.agent.answers_itself:
        return "answered_here", "Its answers are written here by now, and not elsewhere. Press Retry."
    if run.heard_at is None or run.heard_at > timezone.now() - timedelta(seconds=seconds):
        return "", ""
    if is_queued:
        return NOT_BEGUN, START_TIMEOUT_MESSAGE.format(
            name=run.agent.participant.name, minutes=settings.AGENT_BEGIN_MINUTES
        )
    return "silent", f"It fell silent while it answered: nothing was heard of it for {seconds:g} seconds."
