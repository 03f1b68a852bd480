"""Cursor pages: `?limit=` (1 to 100) and an opaque `?cursor=`; rows written meanwhile neither repeat nor shift."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.problems import BadCursor
from openvibe.base.problems import Problem

if TYPE_CHECKING:
    from rest_framework.views import APIView

LIMIT = 50
MOST = 100
LARGEST = 2**63 - 1


def cursor_after(order: str, place: int) -> str:
    """An opaque cursor: the rows after `place` in this order."""
    return base64.urlsafe_b64encode(f"1 {order} {place}".encode()).decode().rstrip("=")


def place_of(cursor: str, order: str) -> int:
    """Where a cursor points. Raises BadCursor for one that was not given for this order."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        version, named, place = text.split(" ")
        number = int(place)
    except (binascii.Error, ValueError):
        raise _not_ours() from None
    if (version, named) != ("1", order) or not 0 <= number <= LARGEST or cursor_after(order, number) != cursor:
        raise _not_ours()
    return number


def _not_ours() -> BadCursor:
    return BadCursor("This cursor was not given by this list. Start again without one.", field="cursor")


def limit_of(request: Request) -> int:
    given = request.query_params.get("limit", str(LIMIT))
    if not (given.isascii() and given.isdigit() and len(given) < 10 and 1 <= int(given) <= MOST):
        raise Problem(f"limit is a number from 1 to {MOST}.", code="bad_limit", field="limit")
    return int(given)


class CursorPages(BasePagination):
    """Pages over one unique whole-number column, named by the view's `page_order` (`-id` unless it says)."""

    next: str | None = None

    def paginate_queryset(
        self, queryset: QuerySet[Any] | Sequence[Any], request: Request, view: APIView | None = None
    ) -> list[Any]:
        if not isinstance(queryset, QuerySet):
            raise TypeError("Only rows of the database come in pages.")
        order: str = getattr(view, "page_order", "-id")
        column, falling = order.lstrip("-"), order.startswith("-")
        limit = limit_of(request)
        if cursor := request.query_params.get("cursor"):
            place = place_of(cursor, order)
            queryset = queryset.filter(**{f"{column}__{'lt' if falling else 'gt'}": place})
        rows = list(queryset.order_by(order)[: limit + 1])
        if len(rows) > limit:
            rows.pop()
            self.next = cursor_after(order, getattr(rows[-1], column))
        return rows

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.next})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["results", "next"],
            "properties": {
                "results": schema,
                "next": {"type": ["string", "null"], "description": "The cursor of the next page; null on the last."},
            },
        }

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        return [
            {
                "name": "limit",
                "in": "query",
                "description": "Most rows of a page.",
                "schema": {"type": "integer", "minimum": 1, "maximum": MOST, "default": LIMIT},
            },
            {
                "name": "cursor",
                "in": "query",
                "description": "`next` of the page before.",
                "schema": {"type": "string"},
            },
        ]
