"""The first page of the admin: what needs a look today, and how things went. Counts only, of every workspace; each
number leads to the rows it counts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from agents.agent.token_budgets import token_rows
from agents.statistics.overview import Overview, Tile, read_overview
from agents.statistics.statistics import sum_tokens
from knowledge.queries import EXPIRING_WITHIN
from memory.models import Episode
from openvibe.workspaces.models import Workspace


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Adds `cards`, `spend` and `charts` to the index page."""
    ids = list(Workspace.objects.order_by("name").values_list("pk", flat=True)[:200])
    overview = read_overview(ids)
    cards = [*_run_tiles(overview), *_knowledge_tiles(overview), _feedback_tile(request), *_memory_tiles(overview)]
    return context | {"cards": cards, "spend": _token_spend(ids), "charts": overview.charts}


def _list_address(model: str, **filters: object) -> str:
    values = {name: value.isoformat() if isinstance(value, datetime) else str(value) for name, value in filters.items()}
    return f"{reverse(f'admin:{model}_changelist')}?{urlencode(values)}"


def _run_tiles(overview: Overview) -> tuple[Tile, ...]:
    return overview.run_tiles(
        failed=_list_address("agents_run", state__exact="failed", queued_at__gte=overview.day_ago),
        waiting=_list_address("agents_run", state__exact="queued"),
    )


def _feedback_tile(request: HttpRequest) -> Tile:
    """What the list of open feedback shows."""
    is_open = {"kind": Episode.Kind.FEEDBACK_RECEIVED, "applied_at": None, "archived_at": None}
    count = admin.site._registry[Episode].get_queryset(request).filter(**is_open).count()
    return Tile("Open thumbs down", f"{count:,}", _list_address("memory_episode", settled="no"))


def _knowledge_tiles(overview: Overview) -> tuple[Tile, ...]:
    soon = {"expires_at__gt": overview.now, "expires_at__lte": overview.now + EXPIRING_WITHIN}
    expiring = _list_address("knowledge_entry", status__exact="active", **soon)
    return (
        overview.expiring_tile(expiring),
        Tile(
            "Knowledge to review", f"{overview.entries_to_review:,}", _list_address("knowledge_entry", review="waits")
        ),
        Tile(
            "Contradictions",
            f"{overview.contradictions:,}",
            _list_address("knowledge_contradiction", settled_at__isnull="True"),
        ),
    )


def _memory_tiles(overview: Overview) -> tuple[Tile, ...]:
    compactions, first = "memory_compaction", overview.first_day
    since = datetime(first.year, first.month, first.day, tzinfo=UTC)
    return overview.memory_tiles(
        waiting=_list_address(compactions, state__in="queued,running"),
        failed=_list_address(compactions, state__exact="failed", finished_at__gte=since),
        stuck=_list_address("lcm_conversation", stuck="yes"),
        summarised=_list_address(compactions, state__exact="done"),
        prompts=reverse("admin:agents_snapshot_changelist"),
    )


def _token_spend(ids: list[int]) -> list[dict[str, Any]]:
    """Tokens used today against the cap, per workspace; `percent` is at most 100."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    runs, background = token_rows(None, ids)
    in_runs = sum_tokens(runs.filter(queued_at__gte=midnight), "workspace")
    in_background = sum_tokens(background.filter(created_at__gte=midnight), "workspace")
    tokens_by_workspace = in_runs + in_background
    return [
        {
            "workspace": workspace,
            "used": tokens_by_workspace[workspace.pk],
            "background": in_background[workspace.pk],
            "cap": workspace.daily_token_budget,
            "percent": min(
                100, round(100 * tokens_by_workspace[workspace.pk] / max(workspace.daily_token_budget, 1), 1)
            ),
        }
        for workspace in Workspace.objects.filter(pk__in=ids).order_by("name")
    ]
