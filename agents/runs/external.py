"""Runs that an agent carries out elsewhere and answers through the API: begin, context, words, end, silence.

The agent begins a run for a message that is meant for it, and sends the words of its reply as it writes them. Whatever
it sends names the run's attempt and where the words go, so that a call sent twice, or by a process that lost the run,
changes nothing. A person's Stop ends the run at once; the agent is told with its next words."""

from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.access import reply_denied_reason, visible_to
from agents.assembler.assemble import Prompt
from agents.assembler.snapshots.store import store_snapshot
from agents.models import EXTERNAL_RUNS, RUNS, Agent, Run, Snapshot
from agents.runs.steps import MAX_ERROR_CHARACTERS as STEP_ERROR_CHARACTERS
from agents.runs.steps import StepKind, add_step
from agents.runs.store import clean_reply_body
from openvibe.base.jobs import JobLost
from openvibe.base.masking import mask_secrets
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.base.text import MAX_BODY_CHARACTERS
from openvibe.chat.models import Dive, Message, sees_thread
from openvibe.chat.services import check_not_archived, create_reply, finish_reply
from openvibe.llm.tokens import count_tokens
from openvibe.workspaces.models import Participant

MAX_ERROR_CHARACTERS = 2_000
END_STEPS: dict[str, StepKind] = {"done": "done", "failed": "failed", "stopped": "stopped"}
BATCH_SIZE = 200


class ReplyState(NamedTuple):
    """How far a reply is: the run's state, the reply's id once it has words, and its length in characters."""

    state: str
    reply_id: int | None
    length: int


class Usage(NamedTuple):
    """What the agent says of the model it asked. Tokens it does not know are counted here."""

    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None


def begin_external_run(*, agent: Agent, message: Message) -> Run:
    """The run in which the agent answers `message`, which it sees: `reading`, its own until it is over.

    A run that failed is begun anew, with the next attempt. Raises Refused where the agent may not answer, or the
    message is not meant for it; Conflict `being_written` while it writes here already, `answered` when it has answered.
    """
    task = _check_addressed(agent, message)
    check_not_archived(message.thread)
    reason = reply_denied_reason(agent, message.thread, task)
    if reason is not None:
        raise Refused(reason, code="agent_silent")
    try:
        with transaction.atomic():
            return _create_or_restart(agent, message, task)
    except IntegrityError:  # two processes of the agent began at once
        raise _unfinished_answer_error() from None


def _check_addressed(agent: Agent, message: Message) -> str:
    """The task that the message is for the agent. Raises Refused when it is none, or OpenVibe answers itself."""
    if not agent.answers_itself:
        raise Refused(
            "OpenVibe answers for this agent. Tick “Answers itself” on its page in the admin first.",
            code="answered_here",
        )
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


def _create_or_restart(agent: Agent, message: Message, task: str) -> Run:
    rows = Run.objects.select_for_update(no_key=True, of=("self",))
    run = rows.filter(agent=agent, trigger=message, regenerates=None).first()
    if run is not None and run.state in (Run.State.DONE, Run.State.STOPPED):
        raise Conflict("This message is answered, or people stopped the answer.", code="answered")
    unfinished = Run.objects.filter(agent=agent, thread=message.thread_id, state__in=RUNS.unfinished)
    if unfinished.exists() or (run is not None and run.state != Run.State.FAILED):
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
    return run


def _unfinished_answer_error() -> Conflict:
    return Conflict("An answer of yours is being written in this thread. Finish it first.", code="being_written")


@transaction.atomic
def keep_context(*, run: Run, prompt: Prompt) -> None:
    """Store what the agent is given to read, as the prompt of its run. Raises Conflict when the run is over."""
    current = _lock_run(run)
    store_snapshot(run, prompt)
    current.heard_at = timezone.now()
    add_step(current, "assembled", attempt=run.attempt, tokens=prompt.tokens)
    current.save(update_fields=["heard_at", "steps"])


@transaction.atomic
def append_words(*, run: Run, offset: int, words: str) -> ReplyState:
    """Take the next words of the reply, from character `offset` on; without any, only hear that the agent is there.

    Words that stand there already are not taken again. Raises Conflict `wrong_offset` for others than stand there and
    for a gap, `run_over` once the run failed or is done; Problem `too_long`. A run that people stopped takes nothing
    and says so in its state.
    """
    if run.state == Run.State.STOPPED:
        return reply_state(run)
    current = _lock_run(run)
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
def finish_external_run(*, run: Run, words: str | None, usage: Usage) -> Run:
    """The answer stands, as it was sent or as `words`. Sent again, or after people stopped it, it changes nothing."""
    if run.state in (Run.State.DONE, Run.State.STOPPED):
        return run
    current = _lock_run(run)
    reply = current.reply if current.state == Run.State.WRITING else None
    body = clean_reply_body(reply.body if words is None and reply else words or "")
    if not body:
        raise Problem("There is no answer yet. Send its words, or say why there is none.", code="empty", field="body")
    _end(current, reply or _create_reply(current), body, Run.State.DONE, Message.State.COMPLETE, usage)
    return current


@transaction.atomic
def fail_external_run(*, run: Run, error: str, usage: Usage, code: str = "agent_failed") -> Run:
    """The agent could not answer, and says why in words for people, whose secrets are masked. What it wrote is kept."""
    if run.state in (Run.State.FAILED, Run.State.STOPPED):
        return run
    current = _lock_run(run)
    current.error = mask_secrets(clean_reply_body(error))[:MAX_ERROR_CHARACTERS] or "It gave no reason."
    current.error_code = code
    reply = current.reply if current.state == Run.State.WRITING else None
    _end(current, reply, reply.body if reply else "", Run.State.FAILED, Message.State.FAILED, usage)
    return current


def stop_external_run(run: Run, *, by: int | None) -> None:
    """Stop the run, which the caller has locked, at once. The words so far stay. `by`: a participant's id, if known."""
    run.stop_requested_at = run.stop_requested_at or timezone.now()
    reply = run.reply if run.state == Run.State.WRITING else None
    _end(run, reply, reply.body if reply else "", Run.State.STOPPED, Message.State.STOPPED, Usage(), by=by)


def _end(
    run: Run, reply: Message | None, body: str, state: str, reply_state: str, usage: Usage, *, by: int | None = None
) -> None:
    """Write the end of a locked run: its reply's last words, and its tokens, once."""
    if reply is not None:
        finish_reply(reply=reply, body=body, state=reply_state)
    prompt_tokens = Snapshot.objects.filter(run=run).values_list("tokens", flat=True).first() or 0
    tokens = prompt_tokens if usage.input_tokens is None else usage.input_tokens
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


def _lock_run(run: Run) -> Run:
    """The run, locked, as long as it is this attempt's. Raises Conflict."""
    try:
        return EXTERNAL_RUNS.lock_owned(run)
    except JobLost:
        message = "This run is over, or another process of yours began it anew. Nothing was taken."
        raise Conflict(message, code="run_over") from None


def fail_silent_runs() -> None:
    """End external runs whose agent was not heard any more, whose message was deleted, or whose thread it lost."""
    under_way = Run.objects.filter(heard_at__isnull=False, state__in=EXTERNAL_RUNS.active)
    for run_id in under_way.order_by("pk").values_list("pk", flat=True)[:BATCH_SIZE]:
        with transaction.atomic():
            rows = under_way.select_for_update(no_key=True, of=("self",), skip_locked=True)
            run = rows.select_related("agent__participant", "thread__channel", "trigger").filter(pk=run_id).first()
            code, reason = _lapse_of(run) if run else ("", "")
            if run is not None and code:
                fail_external_run(run=run, error=reason, usage=Usage(), code=code)


def _lapse_of(run: Run) -> tuple[str, str]:
    """Why the run cannot go on, as a code and words for people; empty when it can."""
    seconds = settings.AGENT_SILENCE_SECONDS
    if run.heard_at is not None and run.heard_at < timezone.now() - timedelta(seconds=seconds):
        return "silent", f"It fell silent while it answered: nothing was heard of it for {seconds:g} seconds."
    if run.trigger.is_deleted:
        return "deleted", "The message was deleted before it was answered."
    if not sees_thread(visible_to(run.agent), run.thread):
        return "agent_silent", reply_denied_reason(run.agent, run.thread, run.task) or "It sees this thread no more."
    return "", ""
