"""Feedback, episodes and proposals: serializers and endpoints."""

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memory.episodes.models import Episode, Feedback, Proposal
from memory.episodes.proposals import accept_proposal, reject_proposal, undo_proposal
from memory.episodes.queries import access_episode, access_proposal, visible_episodes, visible_proposals
from memory.episodes.services import give_feedback, mark_applied, suggest_always
from openvibe.api.fields import ChoiceField, IdField, TextField
from openvibe.api.idempotency import idempotent
from openvibe.api.views import ApiView
from openvibe.base.problems import Refused
from openvibe.chat.models import Message
from openvibe.chat.queries import access_message
from openvibe.workspaces.decorators import request_access


class FeedbackOut(serializers.ModelSerializer[Feedback]):
    tags = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Feedback
        fields = ("id", "message", "verdict", "text", "tags", "created_at", "updated_at")
        read_only_fields = fields


class FeedbackIn(serializers.Serializer[Any]):
    message = IdField(help_text="A message an agent wrote.")
    verdict = ChoiceField(choices=Feedback.Verdict.choices)
    text = TextField(required=False, default="", help_text="At most 2,000 characters.")
    tags = serializers.ListField(
        child=ChoiceField(choices=Feedback.Tag.choices), required=False, default=list, max_length=10
    )


class EpisodeOut(serializers.ModelSerializer[Episode]):
    agent = serializers.CharField(source="agent.handle", read_only=True)
    subject = serializers.CharField(
        read_only=True,
        help_text="What it tells of, such as `work:12` or `approval:3`; empty where that is no one thing.",
    )
    message = serializers.SerializerMethodField(help_text="The message the feedback was about.")

    class Meta:
        model = Episode
        fields = (
            "id",
            "agent",
            "kind",
            "summary",
            "learning",
            "subject",
            "thread",
            "message",
            "created_at",
            "expires_at",
            "prompt_count",
            "applied_at",
            "applied_how",
            "soul_version",
            "suggested_at",
        )
        read_only_fields = fields

    def get_message(self, episode: Episode) -> int | None:
        return episode.feedback.message_id if episode.feedback else None


class EpisodesQuery(serializers.Serializer[Any]):
    agent = serializers.CharField(required=False, max_length=40, help_text="A handle; for admins.")
    kind = ChoiceField(choices=Episode.Kind.choices, required=False)
    open = serializers.BooleanField(required=False, default=False, help_text="Only feedback not yet applied.")


class FeedbackList(ApiView):
    @extend_schema(operation_id="feedback_list", responses=FeedbackOut(many=True))
    def get(self, request: Request) -> Response:
        """Verdicts the caller gave."""
        access = request_access(request)
        own = Feedback.objects.filter(participant_id=access.participant_id)
        return self.paginated_response(own.filter(message__in=Message.objects.visible_to(access)), FeedbackOut)

    @extend_schema(operation_id="feedback_create", request=FeedbackIn, responses={201: FeedbackOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """A verdict on an agent's message: one per person and message, giving another changes it. People only."""
        payload, access = self.validated_body(FeedbackIn), request_access(request)
        feedback = give_feedback(
            message=access_message(access, payload["message"]),
            by=access,
            verdict=payload["verdict"],
            text=payload["text"],
            tags=payload["tags"],
        )
        feedback.refresh_from_db()
        return Response(FeedbackOut(feedback).data, status=201)


class Episodes(ApiView):
    scopes = {"GET": "memory"}

    @extend_schema(operation_id="episodes_list", parameters=[EpisodesQuery], responses=EpisodeOut(many=True))
    def get(self, request: Request) -> Response:
        """What an agent remembers: its own for an agent, all agents' for admins, one's own feedback for members."""
        access, params = request_access(request), self.validated_query(EpisodesQuery)
        episodes = visible_episodes(access)
        if "agent" in params:
            if not access.administers:
                raise Refused("Only owners and admins may choose an agent.")
            episodes = episodes.filter(agent__handle=params.pop("agent").lstrip("@"))
        if params.pop("open"):
            episodes = episodes.filter(kind=Episode.Kind.FEEDBACK_RECEIVED, applied_at=None)
        return self.paginated_response(episodes.filter(**params), EpisodeOut)


class MarkApplied(ApiView):
    scopes = {"POST": "memory"}

    @extend_schema(operation_id="episodes_mark_applied", request=None, responses=EpisodeOut)
    def post(self, request: Request, pk: int) -> Response:
        """The feedback has been taken up: it leaves the agent's prompts. Admins and whoever gave it."""
        access = request_access(request)
        mark_applied(episode=access_episode(access, pk), by=access)
        return Response(EpisodeOut(access_episode(access, pk)).data)


class SuggestAlways(ApiView):
    scopes = {"POST": "memory"}

    @extend_schema(operation_id="episodes_suggest_always", request=None, responses=EpisodeOut)
    def post(self, request: Request, pk: int) -> Response:
        """Suggest that the agent's SOUL says it from now on: whoever gave the feedback. Admins decide."""
        access = request_access(request)
        suggest_always(episode=access_episode(access, pk), by=access)
        return Response(EpisodeOut(access_episode(access, pk)).data)


class ProposalOut(serializers.ModelSerializer[Proposal]):
    agent = serializers.CharField(source="agent.handle", read_only=True)
    person = serializers.CharField(
        source="person.handle", read_only=True, allow_null=True, default=None, help_text="Whom profile notes are about."
    )
    decided_by = serializers.CharField(source="decided_by.handle", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Proposal
        fields = (
            "id",
            "agent",
            "thread",
            "kind",
            "person",
            "text",
            "before",
            "because",
            "since_seq",
            "upto_seq",
            "state",
            "decided_by",
            "decided_at",
            "created_at",
        )
        read_only_fields = fields


class ProposalsQuery(serializers.Serializer[Any]):
    state = ChoiceField(choices=Proposal.State.choices, required=False)


class Proposals(ApiView):
    scopes = {"GET": "memory"}

    @extend_schema(operation_id="proposals_list", parameters=[ProposalsQuery], responses=ProposalOut(many=True))
    def get(self, request: Request) -> Response:
        """What agents propose to learn: their own for agents, all agents' for admins."""
        proposals = visible_proposals(request_access(request))
        return self.paginated_response(proposals.filter(**self.validated_query(ProposalsQuery)), ProposalOut)


class ProposalDecision(ApiView):
    """Shared by the three verbs."""

    scopes = {"POST": "memory"}

    def decide(self, request: Request, pk: int, verb: Callable[..., Proposal]) -> Response:
        access = request_access(request)
        verb(proposal=access_proposal(access, pk), by=access)
        return Response(ProposalOut(access_proposal(access, pk)).data)


class AcceptProposal(ProposalDecision):
    @extend_schema(operation_id="proposals_accept", request=None, responses=ProposalOut)
    def post(self, request: Request, pk: int) -> Response:
        """The agent learns it: an episode for 90 days, or new profile notes. Admins only."""
        return self.decide(request, pk, accept_proposal)


class RejectProposal(ProposalDecision):
    @extend_schema(operation_id="proposals_reject", request=None, responses=ProposalOut)
    def post(self, request: Request, pk: int) -> Response:
        """It never takes effect. Admins only."""
        return self.decide(request, pk, reject_proposal)


class UndoProposal(ProposalDecision):
    @extend_schema(operation_id="proposals_undo", request=None, responses=ProposalOut)
    def post(self, request: Request, pk: int) -> Response:
        """What was accepted is taken back; notes that were changed since are a 409. Admins only."""
        return self.decide(request, pk, undo_proposal)
