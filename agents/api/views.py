"""Runs, and the prompt an agent would get."""

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.agents import agents_known_to
from agents.api.prompts import seen
from agents.api.serializers import AssembledOut, AssembleIn, RunContextOut, RunOut, RunsAsked
from agents.assembler.answer import assembled_answer
from agents.assembler.assemble import assemble
from agents.assembler.snapshot import shared_prefix
from agents.assembler.viewing import read_snapshot
from agents.models import Agent, Run
from agents.runs.queue import retry_run, stop_run
from agents.tasks import send_after_commit
from agents.tools.toolbox import Toolbox
from agents.tools.viewing import calls_of
from agents.visibility import visible_to
from openvibe.api.callers import caller_of
from openvibe.api.views import ApiView
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.chat.text import TextRefused, clean_body
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker
from openvibe.workspaces.models import Participant


def runs_of(access: Access) -> QuerySet[Run]:
    """Runs in threads the asker sees; an agent knows only its own."""
    runs: QuerySet[Run] = Run.objects.visible_to(access)
    runs = runs.select_related("agent__participant", "requested_by", "thread", "trigger")
    return runs.filter(agent__participant_id=access.participant_id) if access.is_agent else runs


class Runs(ApiView):
    @extend_schema(operation_id="runs_list", parameters=[RunsAsked], responses=RunOut(many=True))
    def get(self, request: Request) -> Response:
        """Runs in threads the caller may read, newest first; an agent gets its own."""
        asked = self.asked(RunsAsked)
        names = {"thread": "thread_id", "agent": "agent__participant__handle", "state": "state"}
        filters = {names[name]: value for name, value in asked.items()}
        return self.page(runs_of(asker(request)).filter(**filters), RunOut)


class OneRun(ApiView):
    @extend_schema(operation_id="runs_get", responses=RunOut)
    def get(self, request: Request, pk: int) -> Response:
        """State, usage, and what went wrong."""
        return Response(RunOut(get_object_or_404(runs_of(asker(request)), pk=pk)).data)


class RunContext(ApiView):
    @extend_schema(operation_id="runs_context", responses=RunContextOut)
    def get(self, request: Request, pk: int) -> Response:
        """Exactly what the run saw, without what the caller may not see. 409 `nothing_read` before it has read."""
        access = asker(request)
        run = get_object_or_404(runs_of(access), pk=pk)
        view = read_snapshot(run, access)
        if view is None:
            raise Conflict("This run has read nothing yet.", code="nothing_read")
        return Response(RunContextOut(seen(run, view, calls_of(run, access))).data)


class StopRun(ApiView):
    @extend_schema(operation_id="runs_stop", request=None, responses=RunOut)
    def post(self, request: Request, pk: int) -> Response:
        """Stop it; the text so far stays. A run that is over stays as it is."""
        access = asker(request)
        stop_run(run=get_object_or_404(runs_of(access), pk=pk), by=access)
        return Response(RunOut(runs_of(access).get(pk=pk)).data)


class RetryRun(ApiView):
    @extend_schema(operation_id="runs_retry", request=None, responses={202: RunOut})
    def post(self, request: Request, pk: int) -> Response:
        """Put a failed or stopped run back in the queue. People only."""
        access = asker(request)
        run = retry_run(run=get_object_or_404(runs_of(access), pk=pk), by=access)
        send_after_commit(run.pk)
        return Response(RunOut(runs_of(access).get(pk=pk)).data, status=202)


class Assemble(ApiView):
    scopes = {"POST": "read"}

    @extend_schema(operation_id="context_assemble", request=AssembleIn, responses=AssembledOut)
    def post(self, request: Request) -> Response:
        """The prompt an agent would get now, and why. A dry run: nothing is stored, no model is asked."""
        said, access = self.said(AssembleIn), asker(request)
        agent = _agent_of(said.get("agent"), access)
        threads = Thread.objects.visible_to(access)
        both = threads.filter(pk__in=Thread.objects.visible_to(visible_to(agent)).values("pk"))
        thread = get_object_or_404(both, pk=said["thread"])
        prompt = assemble(
            agent=agent,
            thread=thread,
            task=said["task"],
            request=_text_of(said["request"]),
            asked_by=_asked_by(request),
            budget=said["budget"],
            model=said["model"],
            tools=Toolbox.of(agent, thread).specs,
        )
        shared = shared_prefix(None, prompt, agent_id=agent.pk, thread_id=thread.pk)
        return Response(AssembledOut(assembled_answer(prompt, shared, access)).data)


def _agent_of(handle: str | None, access: Access) -> Agent:
    if access.is_agent:
        own = Agent.objects.select_related("participant", "workspace", "soul").get(participant_id=access.participant_id)
        if handle is not None and handle.lstrip("@") != own.handle:
            raise Refused("An agent assembles for itself only.")
        return own
    if not access.administers:
        raise Refused("Only owners, admins and the agent itself may assemble its context.")
    if handle is None:
        raise Problem("Say for which agent, by its handle.", code="required", field="agent")
    return get_object_or_404(agents_known_to(access), participant__handle=handle.lstrip("@"))


def _text_of(request: str | None) -> str | None:
    if request is None:
        return None
    try:
        return clean_body(request)
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="request") from None


def _asked_by(request: Request) -> Participant | None:
    participant = caller_of(request).participant
    return participant if isinstance(participant, Participant) else None
