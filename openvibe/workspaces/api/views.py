"""Who am I, and my tokens."""

from typing import Any

from django.conf import settings
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.auth import caller_of
from openvibe.api.idempotency import idempotent
from openvibe.api.models import Token
from openvibe.api.pagination import MAX_PAGE_SIZE
from openvibe.api.services import issue_token, revoke_token
from openvibe.api.views import ApiView
from openvibe.base.problems import Refused
from openvibe.workspaces.api.serializers import MeOut, NewTokenOut, TokenIn, TokenOut
from openvibe.workspaces.decorators import request_access
from openvibe.workspaces.models import Workspace


class Me(ApiView):
    @extend_schema(operation_id="me", responses=MeOut)
    def get(self, request: Request) -> Response:
        """Who is calling, what it may do, and its limits."""
        caller, access = caller_of(request), request_access(request)
        return Response(
            MeOut(
                {
                    "participant": caller.participant,
                    "workspace": Workspace.objects.get(pk=access.workspace_id),
                    "role": access.role,
                    "level": access.level,
                    "scopes": sorted(caller.scopes),
                    "token": caller.token,
                    "limits": {"calls_per_minute": settings.API_CALLS_PER_MINUTE, "page_rows": MAX_PAGE_SIZE},
                }
            ).data
        )


class Tokens(ApiView):
    scopes = {"GET": "admin", "POST": "admin"}

    @extend_schema(operation_id="tokens_list", responses=TokenOut(many=True))
    def get(self, request: Request) -> Response:
        """The caller's own tokens, without their secrets."""
        return self.paginated_response(
            Token.objects.filter(participant_id=request_access(request).participant_id), TokenOut
        )

    @extend_schema(operation_id="tokens_create", request=TokenIn, responses={201: NewTokenOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """A new token for the caller; the secret is in this answer only. Never with more scopes than the caller's."""
        values, caller = self.validated_body(TokenIn), caller_of(request)
        if not caller.scopes.issuperset(values["scopes"]) and caller.token is not None:
            raise Refused("A token cannot make one that may do more than itself.", code="more_scopes")
        token, secret = issue_token(
            participant=caller.participant, name=values["name"], scopes=values["scopes"], days=values.get("days")
        )
        data: dict[str, Any] = {**TokenOut(token).data, "secret": secret}
        return Response(data, status=201)


class OneToken(ApiView):
    scopes = {"DELETE": "admin"}

    @extend_schema(operation_id="tokens_revoke", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Revoke one of the caller's own tokens, at once."""
        own = Token.objects.filter(participant_id=request_access(request).participant_id)
        revoke_token(token=get_object_or_404(own, pk=pk))
        return Response(status=204)
