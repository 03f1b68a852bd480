"""Runs: what they are, what they read, and answering in them from elsewhere."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from agents.agent.models import Run, Snapshot
from agents.api.prompt_serializers import RunContextOut, RunReadOut
from agents.api.run_serializers import (
    AttemptIn,
    FinishIn,
    HeardOut,
    ReplyPieceIn,
    ReplyStateOut,
    ResumeIn,
    RunContextIn,
    RunDetailOut,
    RunIn,
    RunOut,
    RunsQuery,
    RunStepIn,
    RunStepOut,
)
from agents.api.views import access_own_agent
from agents.prompts.snapshots.redaction import message_payload, prompt_payload, read_snapshot, visible_tool_calls
from agents.runs.external.lifecycle import (
    ReportedUsage,
    append_words,
    assemble_for_session,
    begin_external_run,
    fail_external_run,
    finish_external_run,
    keep_context,
    resume_external_run,
    tell_heard,
)
from agents.runs.external.reported_steps import report_step
from agents.runs.lifecycle import interrupt_run, regenerate_run, retry_run, stop_run
from agents.runs.steps import read_reasoning
from agents.runs.timeline import run_timeline
from agents.statistics.cache_rates import visible_runs
from agents.tasks import enqueue_run_on_commit
from agents.tools.toolbox import Toolbox
from memory.wiring import enqueue_compaction_check_on_commit
from openvibe.api.idempotency import idempotent
from openvibe.api.views import ApiView
from openvibe.base.problems import Conflict, Refused
from openvibe.chat.queries import access_by, access_message
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import request_access


def runs_visible_to(access: Access) -> QuerySet[Run]:
    """Runs in threads the asker sees, with their relations; an agent knows only its own."""
    return visible_runs(access).select_related("agent__participant", "requested_by", "thread", "trigger")


_access_run = access_by("pk", runs_visible_to)


_access_detailed_run = access_by("pk", lambda access: runs_visible_to(access).select_related("approval"))


class Runs(ApiView):
    @extend_schema(operation_id="runs_list", parameters=[RunsQuery], responses=RunOut(many=True))
    def get(self, request: Request) -> Response:
        """Runs in threads the caller may read, newest first; an agent gets its own."""
        runs = runs_visible_to(request_access(request)).filter(**self.validated_query(RunsQuery))
        return self.paginated_response(runs, RunOut)

    @extend_schema(operation_id="runs_begin", request=RunIn, responses={201: RunOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Begin to answer a message: agents that answer themselves. 409 `being_written` while they write in its thread
        already: `run` then says which run that is, its attempt and how long its reply is, to go on with it after your
        program was begun again (`resume/`). 409 `answered` afterwards, also where another run of yours heard the
        message and answered it; a run that failed is begun anew. Where people pressed Retry or Regenerate, or asked for
        a dive's draft, it is that run, which was `queued`."""
        access, data = request_access(request), self.validated_body(RunIn)
        agent = access_own_agent(access)
        run = begin_external_run(agent=agent, message=access_message(access, data["message"]))
        return Response(RunOut(_access_run(access, run.pk)).data, status=201)


class OneRun(ApiView):
    @extend_schema(operation_id="runs_get", responses=RunDetailOut)
    def get(self, request: Request, pk: int) -> Response:
        """State, usage, what went wrong, and every step with its time; tool calls as far as the caller may see them."""
        access = request_access(request)
        run = _access_detailed_run(access, pk)
        context = {"events": run_timeline(run, access), "reasoning": read_reasoning(run)}
        return Response(RunDetailOut(run, context=context).data)


class RunContext(ApiView):
    @extend_schema(operation_id="runs_get_context", responses=RunContextOut)
    def get(self, request: Request, pk: int) -> Response:
        """Exactly what the run saw, without what the caller may not see. 409 `nothing_read` before it has read."""
        access = request_access(request)
        run = _access_run(access, pk)
        view = read_snapshot(run, access)
        if view is None:
            raise Conflict("This run has read nothing yet.", code="nothing_read")
        items = [item for section in view.sections for item in section.items]
        layers = [
            {"layer": layer, "tokens": tokens, "items": [item for item in items if item.layer == layer]}
            for layer, tokens in view.snapshot.layers.items()
        ]
        payload = {
            "snapshot": view.snapshot,
            "view": view,
            "kept": bool(view.messages),
            "layers": layers,
            "tool_calls": visible_tool_calls(run, access),
        }
        return Response(RunContextOut(payload).data)

    @extend_schema(operation_id="runs_read", request=RunContextIn, responses=RunReadOut)
    def post(self, request: Request, pk: int) -> Response:
        """Assemble what the agent reads for a run that it began, and keep it as what the run saw. With `after_run` only
        what is new for the session that read that run's context, where it can go on."""
        data, access = self.validated_body(RunContextIn), request_access(request)
        run = access_begun_run(access, pk, data.pop("attempt"))
        tools = () if run.task == Run.Task.PUBLISH else Toolbox.for_agent(run.agent, run.thread).offered_specs
        prompt = assemble_for_session(run=run, tools=tools, **data)
        keep_context(run=run, prompt=prompt)
        shared = Snapshot.objects.values_list("prefix_shared", flat=True).get(run=run)
        payload = prompt_payload(prompt, shared, access)
        facts = {"is_continuation": prompt.continues is not None, "continuation": prompt.continuation}
        return Response(RunReadOut({**payload, **facts}).data)


class Reply(ApiView):
    @extend_schema(operation_id="runs_write", request=ReplyPieceIn, responses=ReplyStateOut)
    def patch(self, request: Request, pk: int) -> Response:
        """The next words of a reply, for everyone who looks, or a sign of life. Sent again they are taken once. 409
        `wrong_offset`: others stand there; `run_over`: the run failed or is done. The answer says whether people
        stopped it, said anything that it was not told of, or want it to hear that at once."""
        data, access = self.validated_body(ReplyPieceIn), request_access(request)
        run = access_begun_run(access, pk, data["attempt"])
        return Response(ReplyStateOut(append_words(run=run, offset=data["offset"], words=data["body"])).data)


class HeardInRun(ApiView):
    @extend_schema(operation_id="runs_hear", request=AttemptIn, responses=HeardOut)
    @idempotent
    def post(self, request: Request, pk: int) -> Response:
        """What people said in the thread since the run read its context, or since the last such call, as a prompt has
        it, each once; nothing new: no messages. It counts as heard: the reply says whom the run heard, and a mention
        among it is answered by this run and gets none of its own. 409 `run_over` once the run is over."""
        access = request_access(request)
        told = tell_heard(run=access_begun_run(access, pk, self.validated_body(AttemptIn)["attempt"]))
        heard = [{"id": row.pk, "author": row.author} for row in told.heard]
        messages = [message_payload(told.message)] if told.message else []
        return Response(HeardOut({"messages": messages, "heard": heard, "interrupt": told.interrupt}).data)


class InterruptRun(ApiView):
    @extend_schema(operation_id="runs_interrupt", request=None, responses=RunOut)
    def post(self, request: Request, pk: int) -> Response:
        """Have a run under way hear at once what people said since. People only. 409 `nothing_new` where they said
        nothing that it was not told of, `not_working` where it is not under way."""
        access = request_access(request)
        interrupt_run(run=_access_run(access, pk), by=access)
        return Response(RunOut(_access_run(access, pk)).data)


class ResumeRun(ApiView):
    @extend_schema(operation_id="runs_resume", request=ResumeIn, responses=ReplyStateOut)
    def post(self, request: Request, pk: int) -> Response:
        """Go on with an unfinished run of yours after your program was begun again, as the next attempt: the answer
        says which, and how long the reply is. Another process that still writes it is told `run_over`. 409 `run_over`
        where the run is over, or `attempt` is not the newest."""
        data, access = self.validated_body(ResumeIn), request_access(request)
        run = access_begun_run(access, pk, data["attempt"])
        return Response(ReplyStateOut(resume_external_run(run=run, is_rewritten=data["rewrite"])).data)


class RunSteps(ApiView):
    @extend_schema(operation_id="runs_report_step", request=RunStepIn, responses={200: RunStepOut, 201: RunStepOut})
    def post(self, request: Request, pk: int) -> Response:
        """Tell people what the agent does in a run that it began: what it thinks, calls or notes, shown with its reply.
        Reported again under the same `key`, a step is changed (200). 409 `run_over` once the run is over, `other_kind`
        where the key names a step of another kind, `too_many_steps` after 200."""
        access, data = request_access(request), self.validated_body(RunStepIn)
        run = access_begun_run(access, pk, data.pop("attempt"))
        step, is_new = report_step(run=run, **data)
        return Response(RunStepOut(step).data, status=201 if is_new else 200)


class FinishRun(ApiView):
    @extend_schema(operation_id="runs_finish", request=FinishIn, responses=RunOut)
    def post(self, request: Request, pk: int) -> Response:
        """The answer is whole, or failed with an `error`. A run that people stopped stays stopped."""
        data, access = self.validated_body(FinishIn), request_access(request)
        run = access_begun_run(access, pk, data["attempt"])
        usage = ReportedUsage(data["model"], data["input_tokens"], data["output_tokens"], data["cached_tokens"])
        if data["error"] is None:
            finish_external_run(run=run, words=data["body"], usage=usage)
        else:
            fail_external_run(run=run, error=data["error"], usage=usage)
        enqueue_compaction_check_on_commit(run.thread_id)
        return Response(RunOut(_access_run(access, pk)).data)


class StopRun(ApiView):
    @extend_schema(operation_id="runs_stop", request=None, responses=RunOut)
    def post(self, request: Request, pk: int) -> Response:
        """Stop it; the text so far stays. A run that is over stays as it is."""
        access = request_access(request)
        stop_run(run=_access_run(access, pk), by=access)
        return Response(RunOut(_access_run(access, pk)).data)


class RetryRun(ApiView):
    @extend_schema(operation_id="runs_retry", request=None, responses={202: RunOut})
    def post(self, request: Request, pk: int) -> Response:
        """Put a failed or stopped run back in the queue. People only. An agent elsewhere is told as of a mention, and
        has some minutes to begin."""
        access = request_access(request)
        run = retry_run(run=_access_run(access, pk), by=access)
        enqueue_run_on_commit(run.pk)
        return Response(RunOut(_access_run(access, pk)).data, status=202)


class RegenerateRun(ApiView):
    @extend_schema(operation_id="runs_regenerate", request=None, responses={202: RunOut})
    def post(self, request: Request, pk: int) -> Response:
        """Have the same message answered once more, by a run of its own; the earlier answer stays. People only. Twice
        is once while the other answer is not over."""
        access = request_access(request)
        run = regenerate_run(run=_access_run(access, pk), by=access)
        enqueue_run_on_commit(run.pk)
        return Response(RunOut(_access_run(access, run.pk)).data, status=202)


def _runs_to_answer(access: Access) -> QuerySet[Run]:
    agent = ("agent__participant", "agent__workspace", "agent__soul", "thread__channel", "trigger__author", "reply")
    return visible_runs(access).select_related(*agent)


access_run_to_answer = access_by("pk", _runs_to_answer)


def access_begun_run(access: Access, pk: int, attempt: int) -> Run:
    """The agent's own run that it began itself, in a thread it still sees. Raises Refused, Conflict."""
    run = access_run_to_answer(access, pk)
    if not access.is_agent or not run.is_external:
        raise Refused("Only the agent that began a run answers in it.")
    if run.attempt != attempt:
        raise Conflict("Another process of yours began this run anew. Nothing was taken.", code="run_over")
    return run
