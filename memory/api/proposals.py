"""What agents propose to learn: listed for admins and for the agent itself; only admins decide."""

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memory.models import Proposal
from memory.services.proposals import accept_proposal, reject_proposal, undo_proposal
from openvibe.api.views import ApiView
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker


def proposals_known_to(access: Access) -> QuerySet[Proposal]:
    """An agent's own; all agents' for admins; nobody else's. Only from threads the asker sees now."""
    threads = Thread.objects.visible_to(access)
    proposals = Proposal.objects.filter(agent__workspace_id=access.workspace_id, thread__in=threads)
    proposals = proposals.select_related("agent", "person", "decided_by")
    if access.is_agent:
        return proposals.filter(agent_id=access.participant_id)
    return proposals if access.administers else proposals.none()


class ProposalOut(serializers.ModelSerializer[Proposal]):
    agent = serializers.CharField(source="agent.handle", read_only=True)
    thread = serializers.IntegerField(source="thread_id", read_only=True)
    person = serializers.CharField(
        source="person.handle", read_only=True, allow_null=True, default=None, help_text="Whom profile notes are about."
    )
    decided_by = serializers.CharField(source="decided_by.handle", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Proposal
        fields = (
            "id", "agent", "thread", "kind", "person", "text", "before", "because", "since_seq", "upto_seq", "state",
            "decided_by", "decided_at", "created_at",
        )  # fmt: skip
        read_only_fields = fields


class ProposalsAsked(serializers.Serializer[Any]):
    state = serializers.ChoiceField(choices=Proposal.State.choices, required=False)


class Proposals(ApiView):
    scopes = {"GET": "memory"}

    @extend_schema(operation_id="proposals_list", parameters=[ProposalsAsked], responses=ProposalOut(many=True))
    def get(self, request: Request) -> Response:
        """What agents propose to learn: their own for agents, all agents' for admins."""
        asked = self.asked(ProposalsAsked)
        proposals = proposals_known_to(asker(request))
        if "state" in asked:
            proposals = proposals.filter(state=asked["state"])
        return self.page(proposals, ProposalOut)


class Decision(ApiView):
    """Shared by the three verbs."""

    scopes = {"POST": "memory"}

    def decide(self, request: Request, pk: int, verb: Callable[..., Proposal]) -> Response:
        access = asker(request)
        verb(proposal=get_object_or_404(proposals_known_to(access), pk=pk), by=access)
        return Response(ProposalOut(proposals_known_to(access).get(pk=pk)).data)


class Accepted(Decision):
    @extend_schema(operation_id="proposals_accept", request=None, responses=ProposalOut)
    def post(self, request: Request, pk: int) -> Response:
        """The agent learns it: an episode for 90 days, or new profile notes. Admins only."""
        return self.decide(request, pk, accept_proposal)


class Rejected(Decision):
    @extend_schema(operation_id="proposals_reject", request=None, responses=ProposalOut)
    def post(self, request: Request, pk: int) -> Response:
        """It never takes effect. Admins only."""
        return self.decide(request, pk, reject_proposal)


class Undone(Decision):
    @extend_schema(operation_id="proposals_undo", request=None, responses=ProposalOut)
    def post(self, request: Request, pk: int) -> Response:
        """What was accepted is taken back; notes that were changed since are a 409. Admins only."""
        return self.decide(request, pk, undo_proposal)
