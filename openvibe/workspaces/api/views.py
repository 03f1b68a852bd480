"""The caller of the API, and the caller's tokens."""

from typing import Any, cast

from django.conf import settings
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe import __version__
from openvibe.api.auth import caller_of
from openvibe.api.etags import IF_MATCH_PARAMETER, check_if_match, set_etag
from openvibe.api.idempotency import idempotent
from openvibe.api.models import SCOPES, Token
from openvibe.api.pagination import MAX_PAGE_SIZE
from openvibe.api.services import issue_token, revoke_token
from openvibe.api.views import ApiView
from openvibe.base.problems import Refused
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.serializers import (
    AuditOut,
    AuditQuery,
    MeOut,
    NewTokenOut,
    SnippetChange,
    SnippetIn,
    SnippetOut,
    TokenIn,
    TokenOut,
    WorkspaceChange,
    WorkspaceSettingsOut,
)
from openvibe.workspaces.decorators import request_access
from openvibe.workspaces.models import Participant, Snippet, Workspace
from openvibe.workspaces.queries import audit_records
from openvibe.workspaces.services import create_snippet, delete_snippet, update_snippet, update_workspace


class Me(ApiView):
    @extend_schema(operation_id="me_get", responses=MeOut)
    def get(self, request: Request) -> Response:
        """Who is calling, what it may do, and its limits."""
        caller, access = caller_of(request), request_access(request)
        return Response(
            MeOut(
                {
                    "participant": caller.participant,
                    "workspace": cast(Participant, caller.participant).workspace,
                    "role": access.role,
                    "level": access.level,
                    "scopes": sorted(caller.scopes),
                    "token": caller.token,
                    "limits": {"calls_per_minute": settings.API_CALLS_PER_MINUTE, "page_rows": MAX_PAGE_SIZE},
                    "version": __version__,
                }
            ).data
        )


class Audit(ApiView):
    scopes = {"GET": "admin"}

    @extend_schema(operation_id="audit_list", parameters=[AuditQuery], responses=AuditOut(many=True))
    def get(self, request: Request) -> Response:
        """Who changed what in the workspace, newest first. Owners and admins; others get none."""
        return self.paginated_response(
            audit_records(request_access(request), **self.validated_query(AuditQuery)), AuditOut
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
        if not caller.scopes.issuperset(set(values["scopes"]) & set(SCOPES)) and caller.token is not None:
            raise Refused("A token cannot make one that may do more than itself.", code="more_scopes")
        token, secret = issue_token(
            participant=caller.participant,
            name=values["name"],
            scopes=values["scopes"],
            days=values.get("days"),
            by=request_access(request),
            made_by_id=caller.token.made_by_id if caller.token else caller.participant.pk,  # who holds one, holds both
        )
        data: dict[str, Any] = {**TokenOut(token).data, "secret": secret}
        return Response(data, status=201)


class OneToken(ApiView):
    scopes = {"DELETE": "admin"}

    @extend_schema(operation_id="tokens_revoke", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Revoke one of the caller's own tokens, at once."""
        own = Token.objects.filter(participant_id=request_access(request).participant_id)
        revoke_token(token=get_object_or_404(own, pk=pk), by=request_access(request))
        return Response(status=204)


class WorkspaceSettings(ApiView):
    scopes = {"GET": "read", "PATCH": "admin"}

    @extend_schema(operation_id="workspace_get", responses=WorkspaceSettingsOut)
    def get(self, request: Request) -> Response:
        """What the workspace is called, who it is, and what all its agents are told."""
        access = request_access(request)
        workspace = Workspace.objects.get(pk=access.workspace_id)
        return Response(WorkspaceSettingsOut(workspace, context={"access": access}).data)

    @extend_schema(operation_id="workspace_update", request=WorkspaceChange, responses=WorkspaceSettingsOut)
    def patch(self, request: Request) -> Response:
        """Owners and admins. What is not sent stays. A line `@include name` in the instructions puts in a snippet."""
        data, access = self.validated_body(WorkspaceChange), request_access(request)
        workspace = Workspace.objects.get(pk=access.workspace_id)
        current_workspace = update_workspace(workspace=workspace, by=access, **data)
        return Response(WorkspaceSettingsOut(current_workspace, context={"access": access}).data)


def _visible_snippets(access: Access) -> QuerySet[Snippet]:
    """All of the workspace for admins, none for others: they read them where they are included."""
    rows = Snippet.objects.filter(workspace=access.workspace_id).select_related("workspace", "changed_by")
    return rows if access.administers else rows.none()


class Snippets(ApiView):
    scopes = {"GET": "admin", "POST": "admin"}

    @extend_schema(operation_id="snippets_list", responses=SnippetOut(many=True))
    def get(self, request: Request) -> Response:
        """Texts that instructions include by name, newest first; owners and admins."""
        return self.paginated_response(_visible_snippets(request_access(request)), SnippetOut)

    @extend_schema(operation_id="snippets_create", request=SnippetIn, responses={201: SnippetOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """A new one; owners and admins. 409 for a name that is taken."""
        access = request_access(request)
        workspace = Workspace.objects.get(pk=access.workspace_id)
        snippet = create_snippet(workspace=workspace, by=access, **self.validated_body(SnippetIn))
        return set_etag(Response(SnippetOut(snippet).data, status=201), snippet.version)


class OneSnippet(ApiView):
    scopes = {"GET": "admin", "PATCH": "admin", "DELETE": "admin"}

    @extend_schema(operation_id="snippets_get", responses=SnippetOut)
    def get(self, request: Request, pk: int) -> Response:
        """One snippet, with its version as ETag."""
        snippet = get_object_or_404(_visible_snippets(request_access(request)), pk=pk)
        return set_etag(Response(SnippetOut(snippet).data), snippet.version)

    @extend_schema(
        operation_id="snippets_update", parameters=[IF_MATCH_PARAMETER], request=SnippetChange, responses=SnippetOut
    )
    def patch(self, request: Request, pk: int) -> Response:
        """Another text. Refused where instructions that include it could not hold it any more."""
        access = request_access(request)
        snippet = get_object_or_404(_visible_snippets(access), pk=pk)
        version = check_if_match(request, snippet.version)
        new_snippet = update_snippet(
            snippet=snippet, by=access, text=self.validated_body(SnippetChange)["text"], version=version
        )
        return set_etag(Response(SnippetOut(new_snippet).data), new_snippet.version)

    @extend_schema(operation_id="snippets_delete", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Refused while anything includes it."""
        access = request_access(request)
        delete_snippet(snippet=get_object_or_404(_visible_snippets(access), pk=pk), by=access)
        return Response(status=204)
