"""Endpoints of webhooks: admins manage all of their workspace, an agent its own."""

from typing import cast

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.auth import caller_of
from openvibe.api.idempotency import idempotent
from openvibe.api.views import ApiView
from openvibe.base.problems import Problem
from openvibe.chat.queries import access_by, participants_known_to
from openvibe.webhooks import services
from openvibe.webhooks.api.serializers import (
    ChangedWebhookOut,
    DeliveryOut,
    NewWebhookOut,
    WebhookChange,
    WebhookIn,
    WebhookOut,
    WebhookSecretOut,
)
from openvibe.webhooks.models import Delivery, Webhook
from openvibe.webhooks.tasks import enqueue_send_on_commit
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import request_access
from openvibe.workspaces.models import Participant


def _token_maker_id(request: Request) -> int | None:
    """The member who holds the token that an agent calls with; None for the operator's, and for members."""
    caller = caller_of(request)
    return caller.token.made_by_id if caller.token and request_access(request).is_agent else None


def _visible_webhooks(access: Access) -> QuerySet[Webhook]:
    return Webhook.objects.visible_to(access).with_backlog().select_related("participant")


_access_webhook = access_by("pk", _visible_webhooks)


class WebhookView(ApiView):
    scopes = dict.fromkeys(("GET", "POST", "PATCH", "DELETE"), "admin")

    def access_webhook(self, pk: int) -> Webhook:
        return _access_webhook(request_access(self.request), pk)


class Webhooks(WebhookView):
    @extend_schema(operation_id="webhooks_list", responses=WebhookOut(many=True))
    def get(self, request: Request) -> Response:
        """Lists the webhooks of the workspace, for admins; an agent's own."""
        return self.paginated_response(_visible_webhooks(request_access(request)), WebhookOut)

    @extend_schema(operation_id="webhooks_create", request=WebhookIn, responses={201: NewWebhookOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """A new one, told from now on what its agent sees, or the admin who makes it. Not of an agent that reads a
        private channel without her. The secret is in this answer only."""
        values, access = self.validated_body(WebhookIn), request_access(request)
        participant = cast(Participant, caller_of(request).participant)
        if handle := values.pop("agent", "").lstrip("@"):
            agents = participants_known_to(access).filter(kind=Participant.Kind.AGENT, is_active=True)
            agent = agents.filter(handle=handle).first()
            if agent is None:
                raise Problem(f"There is no agent @{handle} here.", code="unknown_agent", field="agent")
            participant = agent
        made_by_id = _token_maker_id(request)
        webhook, secret = services.create_webhook(by=access, participant=participant, made_by_id=made_by_id, **values)
        return Response({**WebhookOut(_access_webhook(access, webhook.pk)).data, "secret": secret}, status=201)


class OneWebhook(WebhookView):
    @extend_schema(operation_id="webhooks_get", responses=WebhookOut)
    def get(self, request: Request, pk: int) -> Response:
        """One webhook, with why it rests where it does."""
        return Response(WebhookOut(self.access_webhook(pk)).data)

    @extend_schema(operation_id="webhooks_update", request=WebhookChange, responses=ChangedWebhookOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Another address, other kinds, a pause. What is not sent stays. One made before Standard Webhooks gets a new
        secret with its address or kinds."""
        webhook, values = self.access_webhook(pk), self.validated_body(WebhookChange)
        made_by_id = _token_maker_id(request)
        secret = services.update_webhook(webhook=webhook, by=request_access(request), made_by_id=made_by_id, **values)
        return Response({**WebhookOut(self.access_webhook(pk)).data, "secret": secret})

    @extend_schema(operation_id="webhooks_delete", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Deletes the webhook with its deliveries; what waits is not sent any more."""
        services.delete_webhook(webhook=self.access_webhook(pk), by=request_access(request))
        return Response(status=204)


class RotateSecret(WebhookView):
    @extend_schema(operation_id="webhooks_rotate", request=None, responses=WebhookSecretOut)
    def post(self, request: Request, pk: int) -> Response:
        """A new secret, in this answer only; the one before signs too for a day."""
        secret = services.rotate_secret(webhook=self.access_webhook(pk), by=request_access(request))
        return Response({"secret": secret})


class ResumeWebhook(WebhookView):
    @extend_schema(operation_id="webhooks_resume", request=None, responses=WebhookOut)
    def post(self, request: Request, pk: int) -> Response:
        """Try again, now, whether it rests, is paused or waits for its next attempt."""
        services.resume_webhook(webhook=self.access_webhook(pk), by=request_access(request))
        enqueue_send_on_commit()
        return Response(WebhookOut(self.access_webhook(pk)).data)


class SendTest(WebhookView):
    @extend_schema(operation_id="webhooks_test", request=None, responses={202: DeliveryOut})
    def post(self, request: Request, pk: int) -> Response:
        """Send a delivery of kind `test` ahead of what waits. 409 `not_active` while it rests."""
        delivery = services.send_test(webhook=self.access_webhook(pk), by=request_access(request))
        enqueue_send_on_commit()
        return Response(DeliveryOut(delivery).data, status=202)


class Deliveries(WebhookView):
    @extend_schema(operation_id="deliveries_list", responses=DeliveryOut(many=True))
    def get(self, request: Request, pk: int) -> Response:
        """Lists what was sent, waits, or was given up, the newest first; nothing of a webhook that tells what the
        caller may not see."""
        rows = Delivery.objects.visible_to(request_access(request)).filter(webhook=self.access_webhook(pk))
        return self.paginated_response(rows, DeliveryOut)


class SendAgain(WebhookView):
    @extend_schema(operation_id="deliveries_send", request=None, responses={202: DeliveryOut})
    def post(self, request: Request, pk: int, number: int) -> Response:
        """The same delivery once more, with the same `uid`. 409 `not_active` while the webhook rests."""
        rows = Delivery.objects.visible_to(request_access(request)).filter(webhook=self.access_webhook(pk))
        rows = rows.select_related("webhook")
        delivery = services.send_again(delivery=get_object_or_404(rows, pk=number), by=request_access(request))
        enqueue_send_on_commit()
        return Response(DeliveryOut(delivery).data, status=202)
