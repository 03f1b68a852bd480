"""The execution of a run: it is claimed, its prompt is assembled, the model answers and calls tools, and it is
finished.

Every write is fenced by the run's attempt (`agents.runs.store`), so a worker that lost the run changes nothing.
A new attempt starts afresh: rounds of an earlier one stay on record and are not continued. What a person wrote is
never touched. Memory takes in what was said in the background, where it keeps nobody waiting."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Q, QuerySet
from django.urls import reverse
from psycopg.errors import DeadlockDetected

from agents.agent.access import endpoint_for, fallback_for, visible_to
from agents.agent.models import RUNS, ClientTurn, Run
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.runs.answer_format import AnswerFormat, answer_format
from agents.runs.client_tools import client_specs, client_turn_of, earlier_rounds, options_of
from agents.runs.fallback import MAX_FAILURES, Fallback
from agents.runs.provider_fields import forget_fields
from agents.runs.steps import add_step
from agents.runs.store import Prices, begin_reply, claimable_run, fail_run, finish_run, save_unfinished_turn
from agents.runs.tool_loop import RunSession, read_message_changes, readers_of, toolbox_for_run
from agents.runs.transcript import Reassembly, Transcript
from memory.wiring import enqueue_compaction_check_on_commit
from openvibe.base.problems import Problem
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import best_messages
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.engines.jobs.jobs import JobLost
from openvibe.engines.llm.answers.provider_fields import origin_of
from openvibe.engines.llm.endpoints.endpoints import client_for, is_adapted
from openvibe.engines.llm.errors import ModelError
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.offline.offline import KnownPlace, OfflineModel
from openvibe.engines.llm.protocol import ModelClient
from openvibe.engines.llm.values import ToolSpec
from openvibe.workspaces.queries import participant_access

log = structlog.get_logger(__name__)

MAX_OFFLINE_PLACES = 2
"""Threads to which the offline model sends who asks it in direct messages about what was said elsewhere."""


def execute_run(run_id: int, *, client: ModelClient | None = None) -> int | None:
    """Executes the run if nobody else does, and returns the id of the run that waited for it, if any.

    Safe to call any number of times. `client` stands in for the agent's own endpoint. Raises only when the database
    is out of reach; recovery then finds the run without an owner.
    """
    log_context = structlog.contextvars.bound_contextvars(run_id=run_id)
    with log_context, RUNS.claim(run_id, claimable_run, prepare=_prepare_claim) as run:
        if run is not None:
            _execute_claimed(run, client)
    return _next_in_thread(run_id)  # only now that the lock is free: what came meanwhile found it taken


def _execute_claimed(run: Run, client: ModelClient | None) -> None:
    try:
        _generate_reply(run, client)
    except JobLost:
        log.warning("run_lost")
    except ModelError as error:
        _fail_run(run, error.code, f"{error} {error.advice}", remember=error.concerns_task)
    except Problem as problem:
        _fail_run(run, problem.code, problem.message)
    except (OperationalError, InterfaceError) as error:
        if not isinstance(error.__cause__, DeadlockDetected) or not RUNS.has_attempts_left(run):
            raise
        log.warning("run_deadlocked")
        RUNS.requeue(run)
    except Exception:
        log.exception("run_failed")
        reason = f"Something went wrong in OpenVibe itself; the log has it under run {run.pk}. Try again."
        _fail_run(run, "internal", reason)


def _next_in_thread(run_id: int) -> int | None:
    """The first queued run of the same agent and thread while none is under way; None when its message is still to
    come, as that of a run before this one is.

    So a queued run is never left without a message: one that came too early, or found the run locked, is sent again.
    """
    states = dict(_unfinished_beside.rows(run_id))
    if any(state != Run.State.QUEUED for state in states.values()):
        return None
    first = next(iter(states), None)
    return first if first == run_id or run_id not in states else None


@CompiledQuery
def _unfinished_beside(run_id: int) -> QuerySet[Any, Any]:
    """Id and state of each unfinished run of the same agent and thread, itself included. What an agent elsewhere was
    asked and has not begun holds up nobody."""
    this = Run.objects.filter(pk=run_id)[:1]
    is_unfinished = Q(state__in=RUNS.active) | (Q(state=Run.State.QUEUED) & RUNS.condition)
    runs = Run.objects.filter(is_unfinished, agent=this.values("agent"), thread=this.values("thread"))
    return runs.order_by("pk").values_list("pk", "state")


def _prepare_claim(run: Run) -> bool:
    """The step is saved with the claim."""
    add_step(run, "claimed", attempt=run.attempt + 1)
    return True


def _generate_reply(run: Run, client: ModelClient | None) -> None:
    block_stamps: dict[str, str] = {}
    toolbox = toolbox_for_run(run, block_stamps)
    turn = client_turn_of(run)
    is_draft = run.task == Run.Task.PUBLISH  # made of the dive and nothing else
    specs = () if is_draft else toolbox.offered_specs
    specs = (*client_specs(turn), *specs)
    endpoint = endpoint_for(run.agent)
    if endpoint is not None and (run.agent.fallback_id or run.has_stand_in):  # type: ignore[attr-defined]  # annotated
        endpoint.attempts, endpoint.waits_for_start = MAX_FAILURES, False
    is_offline = endpoint is None or endpoint.kind == Endpoint.Kind.OFFLINE
    client = client or (_offline_model_for(run) if is_offline else client_for(endpoint, for_run=True))
    if is_adapted(client, "no_tools"):
        specs = ()
    client_limit = turn.max_output_tokens if turn else None
    changes_read, readers = read_message_changes(run.thread_id), readers_of(run)
    assemble_prompt, options = _prompt_maker(run, client, endpoint), options_of(run, turn)
    prompt = _first_prompt(assemble_prompt, specs, turn, answer_format(options))
    with transaction.atomic():
        reply = begin_reply(run, prompt, is_free=client.is_free, prices=Prices.of(endpoint))
    limit = _max_output_tokens(run, endpoint, client_limit)
    client_tools = frozenset(tool.name for tool in client_specs(turn))
    find_fallback = partial(_fallback_of, run, endpoint, client_limit)
    session = RunSession(
        run, reply, client, limit, block_stamps, changes_read, readers, client_tools, specs, find_fallback, options
    )
    session.heard_seq = prompt.last_seq
    session.answer.finished_rounds += filter(None, [reply.body])
    reassemble = Reassembly(
        assemble_prompt,
        prompt.tools,
        lambda: not (transcript.rounds or turn),  # else their calls are under way
    )
    transcript = Transcript(prompt, reassemble)
    transcript.rounds.extend(earlier_rounds(turn, origin_of(client)))
    try:
        is_over = session.run_turns(transcript)
        while is_over and not _finish(session, transcript, turn):
            is_over = session.go_on(transcript)
    except (ModelError, Problem):
        save_unfinished_turn(run, reply, session.answer)
        raise
    if is_over:
        enqueue_compaction_check_on_commit(run.thread_id, had_bulky_result=session.calls.had_bulky_result)


def _finish(session: RunSession, transcript: Transcript, turn: ClientTurn | None) -> bool:
    """Whether the run is ended; it is not while people's words are unheard that nothing else answers."""
    with transaction.atomic():
        if session.has_more_to_hear(transcript):
            return False
        finish_run(session.run, session.reply, session.answer)
        if session.keeps_fields and not turn and not session.answer.is_stopped:
            forget_fields(session.run)
        if turn:
            ClientTurn.objects.filter(pk=turn.pk).update(stop_reason=session.stop_reason[:20])
    return True


def _prompt_maker(run: Run, client: ModelClient, endpoint: Endpoint | None) -> Callable[..., Prompt]:
    """`assemble` for the run and the client's model. `endpoint`: the one that answers, None for the offline model."""
    return partial(
        assemble,
        agent=run.agent,
        thread=run.thread,
        task=run.task,
        request=run.trigger,
        model=client.model,
        endpoint=endpoint,
        may_hold_images=not is_adapted(client, "no_images"),
    )


def _first_prompt(
    assemble_prompt: Callable[..., Prompt],
    specs: Sequence[ToolSpec],
    turn: ClientTurn | None,
    wanted: AnswerFormat | None,
) -> Prompt:
    """The prompt with these tools, the first of them where not all fit. Raises Problem where it cannot be made, or a
    client's tools do not fit."""
    prompt = assemble_prompt(tools=specs)
    if wanted:  # there has to be room to say so, and to ask again
        prompt = assemble_prompt(tools=specs, budget=prompt.ceiling - wanted.count_tokens(prompt.counter))
    if turn and specs and len(prompt.tools) < len(turn.tools):
        raise Problem("The client's tools do not fit into the agent's prompt. Send fewer.", code="tools_too_large")
    if len(prompt.tools) < len(specs):
        log.warning("tools_left_out", why="over budget", tools=[spec.name for spec in specs[len(prompt.tools) :]])
    return prompt


def _offline_model_for(run: Run) -> OfflineModel:
    """The offline model; in direct messages it is told the threads that both the agent and the asker read."""
    return OfflineModel(_find_known_places(run, run.trigger.body) if run.thread.channel.is_direct else ())


def _find_known_places(run: Run, question: str) -> Sequence[KnownPlace]:
    """The threads whose words bear on the question, best first; without any, those of the newest words. Nothing where
    the asker may see nothing any more."""
    access, asker = visible_to(run.agent), participant_access(run.requested_by)
    if asker is None:
        return ()
    shared = Thread.objects.visible_to(asker).filter(pk__in=Thread.objects.visible_to(access).values("pk"))
    threads = shared.filter(parent=None, channel__first_participant=None, archived_at=None, last_seq__gt=0)
    messages = Message.objects.visible_to(access).filter(thread__in=threads.values("pk"))
    ids = list(dict.fromkeys(hit.thread_id for hit in best_messages(access, question, messages, are_few=True)))
    hits = threads.in_bulk(ids[:MAX_OFFLINE_PLACES])
    places = [hits[pk] for pk in ids[:MAX_OFFLINE_PLACES] if pk in hits]
    places = places or list(threads.order_by("-last_message_at")[:MAX_OFFLINE_PLACES])
    slug = run.agent.workspace.slug
    return [KnownPlace(thread.title, reverse("thread", args=[slug, thread.pk]), bool(ids)) for thread in places]


def _max_output_tokens(run: Run, endpoint: Endpoint | None, client_limit: int | None) -> int | None:
    """Tokens one turn may take: the SOUL's own limit, within what the endpoint keeps free and who asks wants."""
    behavior = run.agent.soul.content.get("behavior", {}) if run.agent.soul else {}
    limits = [behavior.get("max_output_tokens"), endpoint.usable_reserve if endpoint else None, client_limit]
    return min((limit for limit in limits if limit), default=None)


def _fallback_of(run: Run, endpoint: Endpoint | None, client_limit: int | None) -> Fallback | None:
    """The model that answers where the endpoint fails. No client stands in for it: it is another model."""
    fallback = fallback_for(run.agent, endpoint)
    if fallback is None:
        return None
    client = client_for(fallback, for_run=True)
    return Fallback(
        fallback, client, _max_output_tokens(run, fallback, client_limit), _prompt_maker(run, client, fallback)
    )


def _fail_run(run: Run, code: str, reason: str, *, remember: bool = False) -> None:
    with transaction.atomic():
        fail_run(run, code, reason, remember=remember)
