"""The times at which the programs of agents elsewhere were last heard: in any process, by any door.

A call with one of the agent's tokens is a sign of life, and so is an event stream that is open with one (both are noted
once a minute, a stream also when it tells of a mention), a delivery that its webhook took, and what it sends of an
answer."""

from collections.abc import Collection
from datetime import datetime

from django.db.models import Max, OuterRef, Subquery

from agents.agent.models import EXTERNAL_RUNS, Run
from openvibe.api.models import Token
from openvibe.webhooks.models import Delivery, Webhook


def programs_heard_at(participant_ids: Collection[int]) -> dict[int, datetime]:
    """Returns times by the agent's participant id; none for those never heard. Three queries."""
    tokens = Token.objects.filter(participant__in=participant_ids).exclude(last_used_at=None)
    begun = Run.objects.filter(EXTERNAL_RUNS.condition, agent__participant__in=participant_ids)
    begun = begun.filter(state__in=EXTERNAL_RUNS.active)
    taken = Delivery.objects.filter(webhook=OuterRef("pk"), state=Delivery.State.DELIVERED).order_by("-id")
    webhooks = Webhook.objects.annotate(taken_at=Subquery(taken.values("attempted_at")[:1]))
    receiving = webhooks.filter(participant__in=participant_ids).exclude(taken_at=None)
    heard: dict[int, datetime] = {}
    for rows in (
        tokens.order_by().values_list("participant").annotate(at=Max("last_used_at")),
        begun.order_by().values_list("agent__participant").annotate(at=Max("heard_at")),
        receiving.order_by().values_list("participant", "taken_at"),
    ):
        for participant_id, at in rows:
            heard[participant_id] = max(at, heard.get(participant_id, at))
    return heard


def workspaces_last_heard(after: datetime, until: datetime) -> frozenset[int]:
    """Returns the workspaces with a program of an agent elsewhere that was last heard between the two. One query."""
    tokens = Token.objects.filter(last_used_at__range=(after, until), participant__agent__answers_itself=True)
    return frozenset(tokens.order_by().values_list("participant__workspace", flat=True))
