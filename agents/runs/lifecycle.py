"""A run's states, from request to retry: request, draft, interrupt, stop, retry, resume, regenerate."""

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from agents.agent.models import EXTERNAL_RUNS, RUNS, Agent, Run
from agents.agent.permissions import reply_denied_reason
from agents.runs.external.lifecycle import queue_external_run, stop_external_run
from agents.runs.heard import count_unheard
from agents.runs.permissions.answers import lapse_run_permissions
from agents.runs.steps import MAX_ERROR_CHARACTERS, add_step
from agents.runs.store import emit_reply_changed, emit_run_changed, has_later_answer
from memory.models import Approval
from memory.services import lapse_approval
from openvibe.base.problems import Conflict, Refused
from openvibe.chat.models import Dive, Mention, Message
from openvibe.chat.services import is_archived
from openvibe.workspaces.access import Access


def request_run(*, agent: Agent, message: Message, task: str) -> Run | None:
    """The run that `message` causes, in the caller's transaction; the same message and agent give the same run.

    When the agent may not answer there is no run, and a mention holds the reason for people to see: in a dive even
    where it was not named, for everything said there is said to it. For agents that answer by themselves, through the
    API, it waits for their program, which hears of the message by itself; in threads that they only follow they may
    say nothing, and there is no run until they begin one.
    """
    reason = reply_denied_reason(agent, message.thread, task)
    if reason is not None:
        if task in (Run.Task.MENTION, Run.Task.DIVE) or message.thread.channel.is_direct:
            Mention.objects.update_or_create(
                message=message, participant_id=agent.participant_id, defaults={"note": reason[:200]}
            )
        return None
    if agent.answers_itself and task == Run.Task.THREAD and not message.thread.channel.is_direct:
        return None
    run = Run(
        agent=agent,
        trigger=message,
        workspace_id=agent.workspace_id,
        thread_id=message.thread_id,
        requested_by_id=message.author_id,
        task=task,
        heard_at=timezone.now() if agent.answers_itself else None,
    )
    try:
        with transaction.atomic():
            run.save(force_insert=True)
    except IntegrityError as error:
        existing = Run.objects.filter(agent=agent, trigger=message, regenerates=None).first()
        if existing is None:
            raise error from None
        return existing
    if agent.answers_itself and task == Run.Task.PUBLISH:
        queue_external_run(run)
    return run


def request_draft_run(*, dive: Dive, message: Message) -> Run | None:
    """The run that drafts a dive's result, in the caller's transaction. An agent that answers by itself is asked for it
    (`queue_external_run`); None where the agent may not answer.

    Raises Conflict while the agent has another run to finish in the dive; one elsewhere may still have to begin what
    was said there.
    """
    agent = Agent.objects.select_related("participant", "workspace").get(participant_id=dive.agent_id)
    unfinished = Run.objects.filter(thread_id=dive.thread_id).exclude(state__in=Run.FINISHED_STATES)
    is_not_begun = EXTERNAL_RUNS.condition & Q(state=Run.State.QUEUED, task=Run.Task.DIVE)
    if unfinished.exclude(is_not_begun).exists():
        raise Conflict(
            f"@{agent.participant.handle} is still busy in this dive. Wait until it is done, or stop it.",
            code="being_written",
        )
    return request_run(agent=agent, message=message, task=Run.Task.PUBLISH)


def stop_runs_in_dive(*, dive: Dive) -> None:
    """Stops what is asked in a dive that ends, in the caller's transaction.

    Runs that have not begun to write are stopped at once. One that writes is asked to stop when the dive is discarded;
    when it is published, Conflict is raised: the reply might belong to the result.
    """
    unfinished = Run.objects.select_for_update(no_key=True, of=("self",)).filter(thread_id=dive.thread_id)
    for run in unfinished.exclude(state__in=Run.FINISHED_STATES).select_related("agent__participant").order_by("pk"):
        run.stop_requested_at = run.stop_requested_at or timezone.now()
        if run.state != Run.State.WRITING:
            run.state, run.finished_at, run.error_code, run.error = Run.State.STOPPED, timezone.now(), "", ""
            add_step(run, "stopped")
        elif run.is_external and dive.state != Dive.State.PUBLISHED:
            stop_external_run(run, by=None)
            continue
        elif dive.state == Dive.State.PUBLISHED:
            raise Conflict(
                f"@{run.agent.participant.handle} is still writing in this dive. Wait until it is done, or stop it.",
                code="being_written",
            )
        run.save(update_fields=["state", "finished_at", "stop_requested_at", "error_code", "error", "steps"])
        if run.is_over:
            lapse_run_permissions(run)


def _lock_run(run: Run) -> Run:
    rows = Run.objects.select_for_update(no_key=True, of=("self",))
    return rows.select_related("agent__participant", "thread__channel").get(pk=run.pk)


def _lock_approval(run: Run) -> None:
    """Locks what the run waits for, as whoever decides does: before the run, or the two would wait for each other."""
    Approval.objects.select_for_update(no_key=True, of=("self",)).filter(runs=run).first()


@transaction.atomic
def stop_run(*, run: Run, by: Access) -> Run:
    """Stops the answer; the text so far stays. A run that waits, or that an agent carries out elsewhere, is stopped at
    once, one that is over stays as it is.

    What it asked people to decide can still be decided; the run does not go on then. Whether a call of its may be
    executed is not asked any more, and one that was approved and not executed yet is not executed by a retry.
    """
    _lock_approval(run)
    current = _lock_run(run)
    if by.is_agent and by.participant_id != current.agent.participant_id:
        raise Refused("Only people and the agent itself may stop a run.")
    if current.is_over:
        return current
    if current.is_external and current.state != Run.State.QUEUED:
        stop_external_run(current, by=by.participant_id)
        return current
    is_waiting = current.state == Run.State.WAITING
    if is_waiting or current.is_external:
        emit_reply_changed(current)
    if current.state in (Run.State.QUEUED, Run.State.WAITING):
        current.state, current.finished_at = Run.State.STOPPED, timezone.now()
        current.error_code = current.error = ""  # why it waited
        add_step(current, "stopped", by=by.participant_id)
    elif current.stop_requested_at is None:
        add_step(current, "stop_requested", by=by.participant_id)
    current.stop_requested_at = current.stop_requested_at or timezone.now()
    current.save(update_fields=["state", "finished_at", "stop_requested_at", "error_code", "error", "steps"])
    if current.reply_id and current.state == Run.State.STOPPED:
        Message.objects.filter(pk=current.reply_id, state=Message.State.WRITING).update(state=Message.State.STOPPED)
    if is_waiting and current.approval and current.tool_calls.filter(approval=current.approval).exists():
        lapse_approval(approval=current.approval, note="The answer was stopped.")
    return current


@transaction.atomic
def interrupt_run(*, run: Run, by: Access) -> Run:
    """Has a run that is under way hear at once what people said since: a built-in one ends its model's present round,
    an agent elsewhere is told with its next words. Asked twice, it is done once.

    Raises Conflict `not_working` where it is not under way, `nothing_new` where nobody said anything that it was not
    told of.
    """
    current = _lock_run(run)
    if by.is_agent:
        raise Refused("Only people may interrupt a run.")
    name = current.agent.participant.name
    if current.state not in RUNS.active or current.stop_requested_at is not None:
        raise Conflict(f"{name} is not at work on this any more. Ask in the thread.", code="not_working")
    if not count_unheard(current):
        words = f"There is nothing new for {name}: say it in the thread first, then press Interrupt."
        raise Conflict(words, code="nothing_new")
    if current.interrupt_requested_at is None:
        current.interrupt_requested_at = timezone.now()
        add_step(current, "interrupted", attempt=current.attempt, by=by.participant_id)
        current.save(update_fields=["interrupt_requested_at", "steps"])
        emit_run_changed(current)
    return current


@transaction.atomic
def retry_run(*, run: Run, by: Access) -> Run:
    """Puts a failed or stopped run back in the queue. Its reply, when there is one, is written again in place.

    Who carries it out is asked anew: a worker here, or the agent elsewhere, which is told.
    """
    current = _lock_run(run)
    if by.is_agent:
        raise Refused("Only people may try a run again.")
    if current.state not in (Run.State.FAILED, Run.State.STOPPED):
        raise Conflict("This run is under way or done already.", code="not_failed")
    if current.trigger.is_deleted or (current.reply and current.reply.is_deleted):
        raise Conflict("The message was deleted. Ask anew.", code="deleted")
    if has_later_answer(current):
        raise Conflict("A later answer took its place. Ask for another one there.", code="replaced")
    _check_may_answer(current)
    add_step(current, "retried", by=by.participant_id)
    current.error, current.error_code = "", ""
    current.stop_requested_at = current.finished_at = current.started_at = current.first_word_at = None
    if current.agent.answers_itself:
        queue_external_run(current)
        emit_reply_changed(current)
    else:
        current.heard_at = None
        RUNS.restart(current)
    return current


def _check_may_answer(run: Run) -> None:
    if is_archived(run.thread):
        raise Refused("This conversation is archived. Bring it back before asking again.", code="archived")
    reason = reply_denied_reason(run.agent, run.thread, run.task)
    if reason is not None:
        raise Refused(reason, code="agent_silent")


def _lock_waiting(approval: Approval) -> QuerySet[Run]:
    rows = Run.objects.select_for_update(no_key=True, of=("self",))
    return rows.filter(approval=approval, state=Run.State.WAITING)


@transaction.atomic
def resume_runs(*, approval: Approval) -> list[int]:
    """Queue the runs that wait for this approval, granted or denied: their prompts say which. Returns their ids."""
    runs = list(_lock_waiting(approval).order_by("pk"))
    for run in runs:
        add_step(run, "resumed", by=approval.decided_by_id)
        run.first_word_at = None
        RUNS.restart(run)
    return [run.pk for run in runs]


@transaction.atomic
def fail_waiting_runs(*, approval: Approval) -> None:
    """The approval lapsed: the runs that wait for it fail, saying so."""
    for run in _lock_waiting(approval).select_related("thread").order_by("pk"):
        run.state, run.finished_at = Run.State.FAILED, timezone.now()
        run.error_code, run.error = "approval_lapsed", f"It waited for “{approval.what}”. {approval.note} Try again."
        add_step(run, "failed", error=approval.note[:MAX_ERROR_CHARACTERS])
        run.save(update_fields=["state", "finished_at", "error_code", "error", "steps"])
        emit_reply_changed(run)


@transaction.atomic
def regenerate_run(*, run: Run, by: Access) -> Run:
    """Answer the same message once more; the earlier answer is kept. Asked twice, it is done once."""
    current = _lock_run(run)
    if by.is_agent:
        raise Refused("Only people may ask for another answer.")
    if not current.is_over:
        raise Conflict("This run is not over yet. Wait until it is, or stop it first.", code="not_over")
    if current.trigger.is_deleted:
        raise Conflict("The message that was asked has been deleted.", code="deleted")
    _check_may_answer(current)
    under_way = current.regenerations.exclude(state__in=Run.FINISHED_STATES).first()
    if under_way is not None:
        return under_way
    run = Run.objects.create(
        workspace_id=current.workspace_id,
        agent=current.agent,
        thread=current.thread,
        trigger=current.trigger,
        requested_by_id=by.participant_id,
        task=current.task,
        regenerates=current,
    )
    if run.agent.answers_itself:
        queue_external_run(run)
    return run
