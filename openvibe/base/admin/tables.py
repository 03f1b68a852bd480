"""The page *Tables* of the admin: how much room each table of the database takes."""

from typing import NamedTuple

from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from openvibe.base.events import EVENT_RETENTION_HOURS

_SELECT_SIZES = """SELECT relname, reltuples::bigint, pg_table_size(oid), pg_indexes_size(oid)
FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
ORDER BY pg_total_relation_size(oid) DESC, relname"""


class TableSize(NamedTuple):
    """A table's room on disk in bytes; `rows` as the planner estimates them, None before it ever looked."""

    name: str
    holds: str
    rows: int | None
    data: int
    indexes: int

    @property
    def total(self) -> int:
        return self.data + self.indexes


def table_sizes() -> list[TableSize]:
    """Every table of the database, the largest first. One statement, which reads no row of them."""
    names = {model._meta.db_table: str(model._meta.verbose_name_plural) for model in apps.get_models(True)}
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_SIZES)
        return [
            TableSize(name, capfirst(names.get(name, "")), rows if rows >= 0 else None, data, indexes)
            for name, rows, data, indexes in cursor.fetchall()
        ]


def tables_page(request: HttpRequest) -> HttpResponse:
    """The tables, and for how long what grows by itself is kept."""
    tables = table_sizes()
    context = {
        **admin.site.each_context(request),
        "title": "Tables",
        "tables": tables,
        "total": sum(table.total for table in tables),
        "prompt_days": settings.PROMPT_RETENTION_DAYS,
        "delivery_days": settings.WEBHOOK_DELIVERY_DAYS,
        "event_hours": EVENT_RETENTION_HOURS,
    }
    return TemplateResponse(request, "admin/tables.html", context)
