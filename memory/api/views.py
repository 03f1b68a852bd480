"""Verdicts people give, and what agents remember of them."""

from django.db.models import Q, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.serializers import EpisodeOut, EpisodesAsked, FeedbackIn, FeedbackOut
from memory.models import Episode, Feedback
from memory.services import give_feedback, mark_applied
from openvibe.api.idempotency import creates
from openvibe.api.views import ApiView
from openvibe.base.problems import Refused
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker


def visible_messages(access: Access) -> QuerySet[Message]:
    messages: QuerySet[Message] = Message.objects.visible_to(access)
    return messages


def episodes_of(access: Access) -> QuerySet[Episode]:
    """An agent's own; all agents' for admins; for others those their own feedback made.

    Whatever was learned in a thread the asker may not see (any more) is not among them.
    """
    threads = Thread.objects.visible_to(access)
    episodes = Episode.objects.filter(Q(thread=None) | Q(thread__in=threads), agent__workspace_id=access.workspace_id)
    episodes = episodes.filter(archived_at=None).select_related("agent", "feedback")
    if access.is_agent:
        return episodes.filter(agent_id=access.participant_id)
    return episodes if access.administers else episodes.filter(feedback__participant_id=access.participant_id)


class FeedbackGiven(ApiView):
    @extend_schema(operation_id="feedback_list", responses=FeedbackOut(many=True))
    def get(self, request: Request) -> Response:
        """Verdicts the caller gave."""
        access = asker(request)
        own = Feedback.objects.filter(participant_id=access.participant_id, message__in=visible_messages(access))
        return self.page(own, FeedbackOut)

    @extend_schema(operation_id="feedback_create", request=FeedbackIn, responses={201: FeedbackOut})
    @creates
    def post(self, request: Request) -> Response:
        """A verdict on an agent's message: one per person and message, giving another changes it. People only."""
        said, access = self.said(FeedbackIn), asker(request)
        feedback = give_feedback(
            message=get_object_or_404(visible_messages(access), pk=said["message"]),
            by=access,
            verdict=said["verdict"],
            text=said["text"],
            tags=said["tags"],
        )
        feedback.refresh_from_db()
        return Response(FeedbackOut(feedback).data, status=201)


class Episodes(ApiView):
    scopes = {"GET": "memory"}

    @extend_schema(operation_id="episodes_list", parameters=[EpisodesAsked], responses=EpisodeOut(many=True))
    def get(self, request: Request) -> Response:
        """What an agent remembers: its own for an agent, all agents' for admins, one's own feedback for members."""
        access, asked = asker(request), self.asked(EpisodesAsked)
        episodes = episodes_of(access)
        if "agent" in asked:
            if not access.administers:
                raise Refused("Only owners and admins may choose an agent.")
            episodes = episodes.filter(agent__handle=asked["agent"].lstrip("@"))
        if "kind" in asked:
            episodes = episodes.filter(kind=asked["kind"])
        if asked["open"]:
            episodes = episodes.filter(kind=Episode.Kind.FEEDBACK_RECEIVED, applied_at=None)
        return self.page(episodes, EpisodeOut)


class Applied(ApiView):
    scopes = {"POST": "memory"}

    @extend_schema(operation_id="episodes_applied", request=None, responses=EpisodeOut)
    def post(self, request: Request, pk: int) -> Response:
        """The feedback has been taken up: it leaves the agent's prompts. Admins and whoever gave it."""
        access = asker(request)
        mark_applied(episode=get_object_or_404(episodes_of(access), pk=pk), by=access)
        return Response(EpisodeOut(episodes_of(access).get(pk=pk)).data)
