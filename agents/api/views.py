"""Endpoints of agents, their SOULs, prompts, and the uses of an entry of knowledge."""

from typing import Any, cast

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from agents.agent.access import model_takes_tools, visible_to
from agents.agent.audience import shown_to_readers
from agents.agent.models import Agent
from agents.agent.services import (
    apply_feedback_always,
    create_connected_agent,
    deactivate_agent,
    reactivate_agent,
    save_soul,
    set_trust_level,
    update_answering,
)
from agents.agent.soul import SoulError
from agents.agent.soul.plain import FORM_FIELDS
from agents.agent.soul.rules import SoulRule, rule_from_reason
from agents.api.prompt_serializers import AssembledOut, AssembleIn, CacheHistoryOut, CacheQuery, UseOut
from agents.api.serializers import AgentChange, AgentIn, AgentOut, SoulIn, SoulOut, SoulRuleIn
from agents.prompts.assembler.assemble import assemble
from agents.prompts.snapshots.redaction import prompt_payload
from agents.prompts.snapshots.store import shared_prefix_with_last_run
from agents.statistics.cache_rates import cache_history, visible_runs
from agents.statistics.knowledge_uses import entry_uses
from agents.tools.toolbox import Toolbox
from knowledge.queries import access_plain_entry
from memory.queries import access_workspace_episode, is_public_thread
from openvibe.api.auth import caller_of
from openvibe.api.etags import PreconditionFailed, require_if_match
from openvibe.api.idempotency import idempotent
from openvibe.api.views import ApiView
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Thread
from openvibe.chat.queries import access_by, access_channel, participants_known_to
from openvibe.engines.text.cleaning import TextRefused, clean_body
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import request_access
from openvibe.workspaces.models import Participant

IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    required=True,
    description="The ETag the SOUL was read with; `0` (quoted) for the first version.",
)


def agents_visible_to(access: Access) -> QuerySet[Agent]:
    """Active agents the asker knows; admins also know deactivated ones."""
    agents = Agent.objects.filter(workspace_id=access.workspace_id).select_related("participant", "workspace", "soul")
    participant_ids = participants_known_to(access).order_by().values("pk")
    return agents if access.administers else agents.filter(participant__in=participant_ids)


access_agent_by_handle = access_by("participant__handle", agents_visible_to)


class Agents(ApiView):
    page_order = "id"
    scopes = {"POST": "admin"}

    @extend_schema(operation_id="agents_list", responses=AgentOut(many=True))
    def get(self, request: Request) -> Response:
        """The workspace's agents."""
        return self.paginated_response(agents_visible_to(request_access(request)), AgentOut)

    @extend_schema(operation_id="agents_create", request=AgentIn, responses={201: AgentOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Make an agent. Owners and admins. 409 `conflict` where the handle is taken. Its program joins with a code
        (`agents/{handle}/join-codes/`)."""
        access, data = request_access(request), self.validated_body(AgentIn)
        if not access.administers:
            raise Refused("Only owners and admins may make agents.")
        channels = [access_channel(access, pk) for pk in dict.fromkeys(data.pop("channels"))]
        workspace: Any = caller_of(request).participant.workspace
        try:
            agent = create_connected_agent(by=access, workspace=workspace, channels=channels, **data)
        except SoulError as error:
            raise Problem(str(error), code="bad_soul", field=_form_field(error)) from None
        return Response(AgentOut(_access_agent(agent.handle, access)).data, status=201)


def _form_field(error: SoulError) -> str:
    """The field of the request that a SOUL could not be made of."""
    field = error.problems[0].field.partition("[")[0] if error.problems else ""
    return FORM_FIELDS.get(field, "purpose")


class OneAgent(ApiView):
    scopes = {"PATCH": "admin"}

    @extend_schema(operation_id="agents_get", responses=AgentOut)
    def get(self, request: Request, handle: str) -> Response:
        """One agent."""
        return Response(AgentOut(_access_agent(handle, request_access(request))).data)

    @extend_schema(operation_id="agents_update", request=AgentChange, responses=AgentOut)
    def patch(self, request: Request, handle: str) -> Response:
        """Set its trust level, with a note for the audit trail, who writes its answers, what it may use in a day, how
        long its model may think, how long one answer may take where its program writes it, how long a call of that
        program's own tools waits for an answer, and whether it is active.

        Owners and admins; what is left out stays. A level holds from its next prompt on.
        """
        access, changes = request_access(request), self.validated_body(AgentChange)
        agent = _access_agent(handle, access)
        with transaction.atomic():
            update_answering(
                agent=agent,
                by=access,
                answers_itself=changes.get("answers_itself"),
                daily_token_budget=changes.get("daily_token_budget"),
                effort=changes.get("effort"),
                run_minutes=changes.get("run_minutes"),
                permission_minutes=changes.get("permission_minutes"),
            )
            if "level" in changes:
                set_trust_level(agent=agent, by=access, level=changes["level"], note=changes["note"])
            if "active" in changes:
                set_activity = reactivate_agent if changes["active"] else deactivate_agent
                set_activity(agent=agent, by=access)
        return Response(AgentOut(_access_agent(handle, access)).data)


class AgentCacheHistory(ApiView):
    @extend_schema(operation_id="agents_get_cache", parameters=[CacheQuery], responses=CacheHistoryOut)
    def get(self, request: Request, handle: str) -> Response:
        """How well its prompts were cached in threads the caller may read: its newest 200 runs, oldest first, and the
        compactions of their threads meanwhile."""
        access = request_access(request)
        runs = visible_runs(access).filter(agent=_access_agent(handle, access), **self.validated_query(CacheQuery))
        return Response(CacheHistoryOut(cache_history(runs)).data)


class OneSoul(ApiView):
    scopes = {"PUT": "admin"}

    @extend_schema(operation_id="agents_get_soul", responses=SoulOut)
    def get(self, request: Request, handle: str) -> Response:
        """The SOUL and its versions: admins, and the agent its own."""
        access = request_access(request)
        return _soul_response(_check_soul_access(_access_agent(handle, access), access))

    @extend_schema(operation_id="agents_save_soul", parameters=[IF_MATCH], request=SoulIn, responses=SoulOut)
    def put(self, request: Request, handle: str) -> Response:
        """Save the next version, made on the one that If-Match names. Admins."""
        access = request_access(request)
        agent, data = _check_soul_access(_access_agent(handle, access), access), self.validated_body(SoulIn)
        based_on, newest = _matched_version(request), agent.soul.number if agent.soul else 0
        if access.administers and based_on != newest:
            raise PreconditionFailed(f"The newest version is {newest}. Read it, compare, then save again.")
        try:
            save_soul(agent=agent, by=access, text=data["source"], note=data["note"], based_on=based_on)
        except SoulError as error:
            raise Problem(str(error), code="bad_soul", field="source") from None
        return _soul_response(_access_agent(handle, access))


class SoulRules(ApiView):
    scopes = {"POST": "admin"}

    @extend_schema(operation_id="agents_apply_feedback", parameters=[IF_MATCH], request=SoulRuleIn, responses=SoulOut)
    def post(self, request: Request, handle: str) -> Response:
        """Apply feedback always: save the next version of the SOUL, on the one that If-Match names, with a rule made
        from it. The feedback is applied by that version and leaves the agent's prompts. Admins."""
        access, data = request_access(request), self.validated_body(SoulRuleIn)
        agent = _check_soul_access(_access_agent(handle, access), access)
        based_on = _matched_version(request)
        if access.administers and based_on != (agent.soul.number if agent.soul else 0):
            raise PreconditionFailed("There is a newer version. Read it, compare, then send this again.")
        if data["rule"]:
            rule = SoulRule(data["place"], " ".join(data["rule"].split()))
        else:
            episode = access_workspace_episode(access, data["feedback"][0])
            if episode.thread_id is None or not is_public_thread(episode.thread_id):
                sentence = "Not everybody reads where this was said. Word the rule yourself."
                raise Problem(sentence, code="bad_rule", field="rule")
            rule = rule_from_reason(episode.feedback.text if episode.feedback else "")
        try:
            apply_feedback_always(
                agent=agent, by=access, feedback=data["feedback"], rule=rule, note=data["note"], based_on=based_on
            )
        except SoulError as error:
            raise Problem(str(error), code="bad_soul", field="rule") from None
        return _soul_response(_access_agent(handle, access))


def _access_agent(handle: str, access: Access) -> Agent:
    return access_agent_by_handle(access, handle)


def _check_soul_access(agent: Agent, access: Access) -> Agent:
    if not access.administers and access.participant_id != agent.participant_id:
        raise Refused("Only owners, admins and the agent itself may read a SOUL.")
    return agent


def _matched_version(request: Request) -> int:
    number = require_if_match(request)
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise PreconditionFailed('If-Match is the ETag of the SOUL, such as "3".', field="If-Match")
    return int(number)


def _soul_response(agent: Agent) -> Response:
    soul = agent.soul
    payload: dict[str, Any] = {
        "number": soul.number if soul else 0,
        "source": soul.source if soul else "",
        "content": soul.content if soul else {},
        "versions": agent.soul_versions.select_related("author")[:100],
    }
    return Response(SoulOut(payload).data, headers={"ETag": f'"{payload["number"]}"'})


class Assemble(ApiView):
    scopes = {"POST": "read"}

    @extend_schema(operation_id="context_assemble", request=AssembleIn, responses=AssembledOut)
    def post(self, request: Request) -> Response:
        """The prompt an agent would get now, and why. A dry run: nothing is stored, no model is asked."""
        data, access = self.validated_body(AssembleIn), request_access(request)
        agent = _access_agent_to_assemble(data.get("agent"), access)
        threads_of_agent = Thread.objects.visible_to(visible_to(agent)).values("pk")
        thread = get_object_or_404(Thread.objects.visible_to(access).filter(pk__in=threads_of_agent), pk=data["thread"])
        prompt = assemble(
            agent=agent,
            thread=thread,
            task=data["task"],
            request=_clean_request_text(data["request"]),
            asked_by=cast(Participant, caller_of(request).participant),
            budget=data["budget"],
            model=data["model"],
            tools=Toolbox.for_agent(agent, thread).offered_specs if model_takes_tools(agent) else (),
        )
        shared = shared_prefix_with_last_run(None, prompt, agent_id=agent.pk, thread_id=thread.pk)
        return Response(AssembledOut(prompt_payload(prompt, shared, shown_to_readers(access, thread.pk))).data)


def access_own_agent(access: Access) -> Agent:
    if not access.is_agent:
        raise Refused("Only agents answer so.")
    return Agent.objects.select_related("participant", "workspace", "soul").get(participant_id=access.participant_id)


def _access_agent_to_assemble(handle: str | None, access: Access) -> Agent:
    if access.is_agent:
        own = access_own_agent(access)
        if handle is not None and handle.lstrip("@") != own.handle:
            raise Refused("An agent assembles for itself only.")
        return own
    if not access.administers:
        raise Refused("Only owners, admins and the agent itself may assemble its context.")
    if handle is None:
        raise Problem("Say for which agent, by its handle.", code="required", field="agent")
    return access_agent_by_handle(access, handle.lstrip("@"))


def _clean_request_text(request: str | None) -> str | None:
    if request is None:
        return None
    try:
        return clean_body(request)
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="request") from None


class EntryUses(ApiView):
    @extend_schema(operation_id="knowledge_list_uses", responses=UseOut(many=True))
    def get(self, request: Request, pk: int) -> Response:
        """Runs that had the entry before them, in threads the caller sees, the newest first; an agent gets its own."""
        access = request_access(request)
        return self.paginated_response(entry_uses(access_plain_entry(access, pk), access), UseOut)
