"""What every endpoint's view starts from, and the addresses that belong to no other app."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.generics import GenericAPIView
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, Serializer

from openvibe.api.problems import LengthRequired
from openvibe.api.schema import operations_by_group
from openvibe.base.problems import Missing


class ApiView(GenericAPIView[Any]):
    """Reads input through serializers, answers pages and rows. `scopes` names what a token needs per method."""

    scopes: ClassVar[dict[str, str]] = {}
    http_method_names = ["get", "post", "put", "patch", "delete", "head"]
    page_order = "-id"
    serializer_class: type[BaseSerializer[Any]] | None = Serializer

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.META.get("HTTP_TRANSFER_ENCODING") and not request.META.get("CONTENT_LENGTH"):
            raise LengthRequired("Send the body with a Content-Length: a body in chunks is not read here.")

    def validated_body(self, serializer: type[Serializer[Any]]) -> dict[str, Any]:
        """The request's body, checked."""
        return self._validate(serializer, self.request.data)

    def validated_query(self, serializer: type[Serializer[Any]]) -> dict[str, Any]:
        """The query's parameters, checked."""
        return self._validate(serializer, self.request.query_params)

    def _validate(self, serializer: type[Serializer[Any]], data: Any) -> dict[str, Any]:
        bound = serializer(data=data)
        bound.is_valid(raise_exception=True)
        values: dict[str, Any] = bound.validated_data
        return values

    def paginated_response(self, rows: QuerySet[Any], serializer: type[BaseSerializer[Any]]) -> Response:
        """One cursor page of `rows`, in the view's `page_order`."""
        return self.get_paginated_response(serializer(self.paginate_queryset(rows), many=True).data)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        final: Response = super().finalize_response(request, response, *args, **kwargs)
        rate_limit = request.META.get("openvibe.allowance")
        for name, value in (rate_limit.headers if rate_limit else {}).items():
            final.headers[name] = value
        final.headers.setdefault("Cache-Control", "no-store")
        return final


class NotHere(ApiView):
    """Every address below /api/v1/ that nothing else answers."""

    permission_classes = (AllowAny,)
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise Missing


@extend_schema(exclude=True)
class Schema(SpectacularAPIView):
    """OpenAPI 3.1: YAML, or JSON for who asks for it (`Accept`, `?format=json`). For everybody."""

    permission_classes = (AllowAny,)
    authentication_classes = ()
    throttle_classes = ()
    content_negotiation_class = DefaultContentNegotiation


def docs(request: HttpRequest) -> HttpResponse:
    """The operations as a page to read: no script, nothing from elsewhere."""
    return render(request, "api/docs.html", {"groups": operations_by_group()})
