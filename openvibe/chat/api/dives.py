"""Dives: started, drafted, published and discarded. What is said in one goes through its thread's messages."""

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.idempotency import creates
from openvibe.api.views import ApiView
from openvibe.base.problems import Problem
from openvibe.chat.api.dive_serializers import DiveIn, DiveOut, DivesAsked, DraftOut, ResultIn
from openvibe.chat.api.messages import messages_of
from openvibe.chat.api.serializers import MessageOut
from openvibe.chat.drafting import newest_draft
from openvibe.chat.models import Dive
from openvibe.chat.querysets import participants_known_to
from openvibe.chat.services import ask_for_draft, discard_dive, publish_dive, start_dive
from openvibe.llm.drafts import ResultDraft
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker
from openvibe.workspaces.models import Participant


def dives_of(access: Access) -> QuerySet[Dive]:
    dives: QuerySet[Dive] = Dive.objects.visible_to(access)
    return dives.select_related("agent", "started_by", "ended_by", "result__dive_result__published_by")


def shown(pk: int, access: Access) -> dict[str, object]:
    return dict(DiveOut(dives_of(access).get(pk=pk)).data)


class Dives(ApiView):
    @extend_schema(operation_id="dives_list", parameters=[DivesAsked], responses=DiveOut(many=True))
    def get(self, request: Request) -> Response:
        """Dives from the threads the caller sees, newest first. Agents below L2 see none."""
        asked = self.asked(DivesAsked)
        dives = dives_of(asker(request))
        if "thread" in asked:
            dives = dives.filter(parent_id=asked["thread"])
        return self.page(dives.filter(state=asked["state"]) if "state" in asked else dives, DiveOut)

    @extend_schema(operation_id="dives_start", request=DiveIn, responses={201: DiveOut})
    @creates
    def post(self, request: Request) -> Response:
        """Start a dive from a message, with an agent. People only; at most 7 active ones in a thread."""
        access, said = asker(request), self.said(DiveIn)
        source = get_object_or_404(messages_of(access), pk=said["message"])
        handle = said["agent"].lstrip("@").lower()
        agent = participants_known_to(access).filter(kind=Participant.Kind.AGENT, handle=handle).first()
        if agent is None:
            raise Problem("There is no agent of that handle here.", code="unknown_agent", field="agent")
        dive = start_dive(source=source, by=access, agent=agent, body=said["body"], client_id=said["client_id"])
        return Response(shown(dive.pk, access), status=201)


class OneDive(ApiView):
    @extend_schema(operation_id="dives_get", responses=DiveOut)
    def get(self, request: Request, pk: int) -> Response:
        """One dive, with its result once it is published."""
        return Response(DiveOut(get_object_or_404(dives_of(asker(request)), pk=pk)).data)


class Draft(ApiView):
    @extend_schema(operation_id="dives_draft", responses=DraftOut)
    def get(self, request: Request, pk: int) -> Response:
        """What the agent drafted, in its parts; `draft` is null while nobody asked or the agent has not answered."""
        return Response(DraftOut(newest_draft(get_object_or_404(dives_of(asker(request)), pk=pk))).data)

    @extend_schema(operation_id="dives_ask_for_draft", request=None, responses={202: MessageOut})
    @creates
    def post(self, request: Request, pk: int) -> Response:
        """Have the dive's agent draft the result; its next reply in the dive is the draft. The starter and admins."""
        access = asker(request)
        message = ask_for_draft(dive=get_object_or_404(dives_of(access), pk=pk), by=access)
        return Response(MessageOut(messages_of(access).get(pk=message.pk)).data, status=202)


class Publish(ApiView):
    @extend_schema(operation_id="dives_publish", request=ResultIn, responses={201: DiveOut})
    @creates
    def post(self, request: Request, pk: int) -> Response:
        """Post the result in the thread the dive started in, and end the dive. The starter and admins."""
        access, said = asker(request), self.said(ResultIn)
        result = ResultDraft(
            headline=said["headline"],
            bullets=tuple(said["bullets"]),
            full=said["full"],
            deferred=tuple(said["deferred"]),
            questions=tuple(said["questions"]),
        )
        publish_dive(dive=get_object_or_404(dives_of(access), pk=pk), by=access, result=result)
        return Response(shown(pk, access), status=201)


class Discard(ApiView):
    @extend_schema(operation_id="dives_discard", request=None, responses=DiveOut)
    def post(self, request: Request, pk: int) -> Response:
        """End the dive without a result. The starter and admins; twice is once."""
        access = asker(request)
        discard_dive(dive=get_object_or_404(dives_of(access), pk=pk), by=access)
        return Response(shown(pk, access))
