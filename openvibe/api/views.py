"""What every endpoint's view starts from, and the addresses that belong to no other app."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.generics import GenericAPIView
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, ListSerializer, Serializer

from openvibe.api.problems import LengthRequired
from openvibe.api.schema import operations_by_group, query_parameters, rendered_schema
from openvibe.base.problems import Missing

COMMON_PARAMETERS = ("workspace",)
"""The parameters in the address of every call: which workspace, for whoever is in several."""


class ApiView(GenericAPIView[Any]):
    """Reads input through serializers, answers pages and rows. `scopes` names what a token needs per method."""

    scopes: ClassVar[dict[str, str]] = {}
    http_method_names = ["get", "post", "put", "patch", "delete", "head"]
    page_order = "-id"
    serializer_class: type[BaseSerializer[Any]] | None = Serializer
    field_names: Mapping[str, str] = {}  # what services call a field, as the caller knows it

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.check_parameters(request)
        if request.META.get("HTTP_TRANSFER_ENCODING") and not request.META.get("CONTENT_LENGTH"):
            raise LengthRequired("Send the body with a Content-Length: a body in chunks is not read here.")

    def validated_body(self, serializer: type[Serializer[Any]], *, may_hold_more: bool = False) -> dict[str, Any]:
        """The request's body, checked. A field the serializer does not know is refused, unless it `may_hold_more`."""
        return self._validate(serializer, self.request.data, may_hold_more=may_hold_more)

    def validated_query(self, serializer: type[Serializer[Any]]) -> dict[str, Any]:
        """The query's parameters, checked."""
        return self._validate(serializer, self.request.query_params, may_hold_more=True)

    def check_parameters(self, request: Request) -> None:
        """Raises ValidationError for a parameter in the address that the method does not take: none is ignored."""
        parameter_names = {*query_parameters(self, request.method or "GET"), *COMMON_PARAMETERS}
        if unknown := [name for name in request.query_params if name not in parameter_names]:
            raise ValidationError({str(name)[:80]: _unknown("parameter", parameter_names) for name in unknown})

    def _validate(self, serializer: type[Serializer[Any]], data: Any, *, may_hold_more: bool = False) -> dict[str, Any]:
        bound_serializer = serializer(data=data)
        self.field_names = {str(field.source): name for name, field in bound_serializer.fields.items()}
        unknown = {} if may_hold_more else unknown_fields(bound_serializer, data)
        if not bound_serializer.is_valid() or unknown:
            raise ValidationError({**unknown, **bound_serializer.errors})
        values: dict[str, Any] = bound_serializer.validated_data
        return values

    def paginated_response(self, rows: QuerySet[Any], serializer: type[BaseSerializer[Any]]) -> Response:
        """One cursor page of `rows`, in the view's `page_order`."""
        page, context = self.paginate_queryset(rows), {"request": self.request}
        return self.get_paginated_response(serializer(page, many=True, context=context).data)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        final: Response = super().finalize_response(request, response, *args, **kwargs)
        rate_limit = request.META.get("openvibe.allowance")
        for name, value in (rate_limit.headers if rate_limit else {}).items():
            final.headers[name] = value
        final.headers.setdefault("Cache-Control", "no-store")
        return final


def unknown_fields(serializer: Any, data: Any, path: str = "") -> dict[str, Any]:
    """An error for every field in the data, at any depth, that its serializer does not know."""
    if isinstance(serializer, ListSerializer):
        rows = enumerate(data) if isinstance(data, list) else ()
        return {k: v for n, row in rows for k, v in unknown_fields(serializer.child, row, f"{path}{n}.").items()}
    if not isinstance(serializer, Serializer) or not isinstance(data, Mapping):
        return {}
    fields = serializer.fields
    errors = {f"{path}{name[:80]}": _unknown("field", fields) for name in data if name not in fields}
    for name, field in fields.items():
        if isinstance(field, BaseSerializer):
            errors |= unknown_fields(field, data.get(name), f"{path}{name}.")
    return errors


def _unknown(what: str, known_names: Iterable[str]) -> list[ErrorDetail]:
    names = ", ".join(sorted(known_names)) or "none"
    message = f"There is no {what} of this name here; there are: {names}. Nothing was done."
    return [ErrorDetail(message, f"unknown_{what}")]


class NotHere(ApiView):
    """Every address below /api/v1/ that nothing else answers."""

    permission_classes = (AllowAny,)
    schema = None

    def check_parameters(self, request: Request) -> None:
        raise Missing


@extend_schema(exclude=True)
class Schema(SpectacularAPIView):
    """OpenAPI 3.1: YAML, or JSON for who asks for it (`Accept`, `?format=json`). For everybody."""

    permission_classes = (AllowAny,)
    authentication_classes = ()
    throttle_classes = ()
    content_negotiation_class = DefaultContentNegotiation

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """The same for everybody, so no parameter of the library's view is read but the format."""
        renderer = request.accepted_renderer
        return HttpResponse(
            rendered_schema(renderer.format),
            content_type=f"{renderer.media_type}; charset=utf-8",
            headers={"Content-Disposition": f'inline; filename="OpenVibe.{renderer.format}"'},
        )


def docs(request: HttpRequest) -> HttpResponse:
    """The operations as a page to read: no script, nothing from elsewhere."""
    return render(request, "api/docs.html", {"groups": operations_by_group()})
