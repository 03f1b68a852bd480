"""Cursor pages: `?limit=` (1 to 100) and an opaque `?cursor=`; rows written meanwhile neither repeat nor shift."""

import base64
from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.base.params import MAX_ID
from openvibe.base.problems import Problem

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 100


def encode_cursor(order: str, position: int) -> str:
    """An opaque cursor: the rows after `position` in this order."""
    return base64.urlsafe_b64encode(f"1 {order} {position}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str, order: str) -> int:
    """The id that a cursor points to. Raises Problem for one that was not given for this order."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        position = int(text.rpartition(" ")[2])
    except ValueError:
        position = -1
    if not 0 <= position <= MAX_ID or encode_cursor(order, position) != cursor:
        message = "This cursor was not given by this list. Start again without one."
        raise Problem(message, code="bad_cursor", field="cursor")
    return position


class KeysetPagination(BasePagination):
    """Pages over one unique whole-number column, named by the view's `page_order` (`-id` unless it says)."""

    next: str | None = None

    def paginate_queryset(
        self, queryset: QuerySet[Any] | Sequence[Any], request: Request, view: object = None
    ) -> list[Any]:
        if not isinstance(queryset, QuerySet):
            raise TypeError("Only rows of the database come in pages.")
        order: str = getattr(view, "page_order", "-id")
        column, is_descending = order.lstrip("-"), order.startswith("-")
        limit, position = self.page_bounds(request, order)
        if position is not None:
            queryset = queryset.filter(**{f"{column}__{'lt' if is_descending else 'gt'}": position})
        return self.cut_page(list(queryset.order_by(order)[: limit + 1]), limit, order)

    def page_bounds(self, request: Request, order: str) -> tuple[int, int | None]:
        """How many rows a page has, and the place it begins after: None for the first. Raises Problem."""
        limit_param = request.query_params.get("limit", str(DEFAULT_PAGE_SIZE))
        limit = int(limit_param) if limit_param.isascii() and limit_param.isdigit() and len(limit_param) < 10 else 0
        if not 1 <= limit <= MAX_PAGE_SIZE:
            raise Problem(f"limit is a number from 1 to {MAX_PAGE_SIZE}.", code="bad_limit", field="limit")
        cursor = request.query_params.get("cursor")
        return limit, decode_cursor(cursor, order) if cursor else None

    def cut_page(self, rows: list[Any], limit: int, order: str) -> list[Any]:
        """The rows of a page, of one more than it has; the answer then says where the next begins."""
        if len(rows) > limit:
            rows.pop()
            self.next = encode_cursor(order, getattr(rows[-1], order.lstrip("-")))
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

    def get_schema_operation_parameters(self, view: object) -> list[dict[str, Any]]:
        return [
            {
                "name": "limit",
                "in": "query",
                "description": "Most rows of a page.",
                "schema": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE, "default": DEFAULT_PAGE_SIZE},
            },
            {
                "name": "cursor",
                "in": "query",
                "description": "`next` of the page before.",
                "schema": {"type": "string"},
            },
        ]
