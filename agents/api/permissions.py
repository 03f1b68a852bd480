"""Permissions that agents elsewhere ask for, rules about them, and plans: serializers and endpoints."""

from typing import Any, get_args

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.agent.call_patterns import MAX_PATTERN_CHARACTERS
from agents.agent.call_rules import create_call_rule, delete_call_rule, rules_of
from agents.agent.models import AgentPlan, CallRule, Permission
from agents.agent.trust import CallKind
from agents.api.run_serializers import AttemptIn
from agents.api.runs import access_begun_run, access_run_to_answer
from agents.api.views import access_agent_by_handle
from agents.runs.external.plans import MAX_ENTRIES, MAX_ENTRY_CHARACTERS, replace_plan
from agents.runs.permissions.answers import allow_always, read_permission
from agents.runs.permissions.requests import (
    MAX_COMMAND_CHARACTERS,
    MAX_PATH_CHARACTERS,
    MAX_PATHS,
    PermissionRequest,
    request_permission,
)
from memory.queries import access_approval
from openvibe.api.fields import ChoiceField, IdField, TextField
from openvibe.api.idempotency import idempotent
from openvibe.api.views import ApiView
from openvibe.base.problems import Refused
from openvibe.chat.queries import access_channel, access_thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.serializers import ParticipantOut
from openvibe.workspaces.decorators import request_access

KINDS = get_args(CallKind)
MAX_TEXT_CHARACTERS = 5_000_000


class PermissionIn(AttemptIn):
    key = serializers.CharField(max_length=100, help_text="Yours, one for each call: asked again it is not asked anew.")
    kind = serializers.CharField(
        max_length=40, help_text=f"One of {', '.join(KINDS)}, as in the Agent Client Protocol; any other is `other`."
    )
    title = TextField(max_length=2_000, help_text="The call in words for people; 300 characters of it are kept.")
    command = TextField(
        required=False,
        default="",
        max_length=MAX_COMMAND_CHARACTERS,
        help_text="Of `execute`: the whole command line, which patterns of rules are about.",
    )
    paths = serializers.ListField(
        child=TextField(max_length=MAX_PATH_CHARACTERS),
        required=False,
        default=list,
        max_length=MAX_PATHS,
        help_text="Files that it is about. Patterns of rules are about all of them.",
    )
    arguments = TextField(
        required=False, default="", max_length=MAX_TEXT_CHARACTERS, help_text="What else it is called with, as text."
    )
    diff = TextField(
        required=False,
        default="",
        max_length=MAX_TEXT_CHARACTERS,
        help_text="What it would change, as a unified diff. Of a long one the first 200,000 characters are kept.",
    )
    folder = TextField(
        required=False,
        default="",
        max_length=MAX_PATH_CHARACTERS,
        help_text="The agent's own folder, absolute: paths within it are shown, and matched, relative to it.",
    )


class PermissionOut(serializers.ModelSerializer[Permission]):
    approval = serializers.IntegerField(source="approval_id", allow_null=True, help_text="The card that people see.")
    expires_at = serializers.DateTimeField(allow_null=True, help_text="When it is denied for want of an answer.")

    class Meta:
        model = Permission
        fields = ("key", "state", "scope", "why", "note", "approval", "expires_at")
        read_only_fields = fields


class RunPermissions(ApiView):
    @extend_schema(
        operation_id="runs_ask_permission", request=PermissionIn, responses={200: PermissionOut, 201: PermissionOut}
    )
    def post(self, request: Request, pk: int) -> Response:
        """Ask leave for a call of the agent's own tools, in a run that it began. Its trust level and rules decide at
        once, or people are asked: `waiting`. Asked again under the same `key` the answer is the same (200). What
        nobody answers by `expires_at` is denied. 409 `run_over` once the run is over, `too_many_permissions` after
        1,000."""
        access, data = request_access(request), self.validated_body(PermissionIn)
        run = access_begun_run(access, pk, data.pop("attempt"))
        wanted = PermissionRequest(**{**data, "paths": tuple(data["paths"])})
        permission, is_new = request_permission(run=run, request=wanted)
        return Response(PermissionOut(permission).data, status=201 if is_new else 200)


class OnePermission(ApiView):
    @extend_schema(operation_id="runs_get_permission", responses=PermissionOut)
    def get(self, request: Request, pk: int, key: str) -> Response:
        """How it was answered, for the agent that asked. The event `work_changed` of the thread tells when to look."""
        access = request_access(request)
        run = access_run_to_answer(access, pk)
        if not access.is_agent or not run.is_external:
            raise Refused("Only the agent that began a run asks in it. People find its calls under the run's events.")
        return Response(PermissionOut(read_permission(run=run, key=key)).data)


class PlanEntryIn(serializers.Serializer[Any]):
    content = TextField(max_length=MAX_ENTRY_CHARACTERS, help_text="What is to be done, in a line.")
    status = ChoiceField(choices=AgentPlan.Status.choices, default="pending")
    priority = ChoiceField(choices=AgentPlan.Priority.choices, default="medium")


class PlanIn(AttemptIn):
    entries = serializers.ListField(
        child=PlanEntryIn(), max_length=MAX_ENTRIES, help_text="All of them, in order; none takes it away."
    )


class PlanEntryOut(serializers.Serializer[Any]):
    content = serializers.CharField()
    status = ChoiceField(choices=AgentPlan.Status.choices)
    priority = ChoiceField(choices=AgentPlan.Priority.choices)


class PlanOut(serializers.Serializer[Any]):
    entries = PlanEntryOut(many=True)


class RunPlan(ApiView):
    @extend_schema(operation_id="runs_set_plan", request=PlanIn, responses=PlanOut)
    def put(self, request: Request, pk: int) -> Response:
        """Tell the agent's plan of a run that it began, in place of the one before: it stands in the thread's *Work*.
        409 `run_over` once the run is over."""
        access, data = request_access(request), self.validated_body(PlanIn)
        run = access_begun_run(access, pk, data["attempt"])
        plan = replace_plan(run=run, entries=data["entries"])
        return Response(PlanOut({"entries": plan.entries if plan else []}).data)


class AlwaysIn(serializers.Serializer[Any]):
    pattern = serializers.CharField(
        required=False,
        allow_null=True,
        default=None,
        max_length=MAX_PATTERN_CHARACTERS,
        help_text="Which commands or paths; the narrowest that is about this call when left out.",
    )
    note = TextField(required=False, default="", help_text="At most 300 characters.")


class AllowAlways(ApiView):
    scopes = {"POST": "admin"}

    @extend_schema(operation_id="approvals_allow_always", request=AlwaysIn, responses=PermissionOut)
    def post(self, request: Request, pk: int) -> Response:
        """Grant a call that an agent elsewhere asks leave for, and make a rule that allows such calls of this agent in
        this channel from now on. Owners and admins."""
        access, data = request_access(request), self.validated_body(AlwaysIn)
        permission = allow_always(approval_id=access_approval(access, pk).pk, by=access, **data)
        return Response(PermissionOut(permission).data)


class CallRuleOut(serializers.ModelSerializer[CallRule]):
    kind = ChoiceField(choices=[(kind, kind) for kind in KINDS], read_only=True)
    channel = serializers.IntegerField(source="channel_id", read_only=True, allow_null=True)
    thread = serializers.IntegerField(source="thread_id", read_only=True, allow_null=True)
    made_by = ParticipantOut(read_only=True, allow_null=True)

    class Meta:
        model = CallRule
        fields = ("id", "kind", "pattern", "effect", "channel", "thread", "made_by", "created_at")
        read_only_fields = fields


class CallRuleIn(serializers.Serializer[Any]):
    kind = ChoiceField(choices=[(kind, kind) for kind in KINDS])
    effect = ChoiceField(choices=CallRule.Effect.choices)
    pattern = TextField(
        required=False,
        default="",
        help_text="Of `execute` a command, in which `*` is any text without shell operators; of `read`, `search`, "
        "`edit`, `move` and `delete` a path, in which `*` is any text within a name and `**` any folders. Empty: all.",
    )
    channel = IdField(required=False, help_text="It holds only there.")
    thread = IdField(required=False, help_text="It holds only there.")


class CallRules(ApiView):
    scopes = {"POST": "admin"}
    page_order = "id"

    @extend_schema(operation_id="agents_list_rules", responses=CallRuleOut(many=True))
    def get(self, request: Request, handle: str) -> Response:
        """What becomes of calls that the agent asks leave for, besides what its trust level says: for members, and the
        agent itself; not those of places that the caller does not see."""
        access = request_access(request)
        return self.paginated_response(_visible_rules(access, handle), CallRuleOut)

    @extend_schema(operation_id="agents_create_rule", request=CallRuleIn, responses={201: CallRuleOut})
    @idempotent
    def post(self, request: Request, handle: str) -> Response:
        """Allow, deny, or have asked about calls of one kind, everywhere or in one channel or thread. The same rule
        with another effect is changed. Owners and admins."""
        access, data = request_access(request), self.validated_body(CallRuleIn)
        rule = create_call_rule(
            agent=access_agent_by_handle(access, handle),
            by=access,
            kind=data["kind"],
            effect=data["effect"],
            pattern=data["pattern"],
            channel_id=access_channel(access, data["channel"]).pk if "channel" in data else None,
            thread_id=access_thread(access, data["thread"]).pk if "thread" in data else None,
        )
        return Response(CallRuleOut(_visible_rules(access, handle).get(pk=rule.pk)).data, status=201)


class OneCallRule(ApiView):
    scopes = {"DELETE": "admin"}

    @extend_schema(operation_id="agents_delete_rule", responses={204: None})
    def delete(self, request: Request, handle: str, pk: int) -> Response:
        """It holds no more, from the next call on. Owners and admins."""
        access = request_access(request)
        delete_call_rule(rule=get_object_or_404(_visible_rules(access, handle), pk=pk), by=access)
        return Response(status=204)


def _visible_rules(access: Access, handle: str) -> QuerySet[CallRule]:
    agent = access_agent_by_handle(access, handle)
    if access.is_agent and access.participant_id != agent.participant_id:
        raise Refused("Only people and the agent itself read its rules.")
    return rules_of(agent, access)
