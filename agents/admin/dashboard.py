"""The first page of the admin: what needs a look today. Counts only, of workspaces the asker administers."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Avg, Count, F, FloatField, Q, Sum
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from agents.access import TOTAL_TOKENS
from agents.models import Run, Snapshot
from agents.statistics import tokens_per_day
from knowledge.models import Entry
from knowledge.queries import freshness_condition
from memory.models import Episode
from openvibe.base.admin import administered_workspace_ids
from openvibe.workspaces.models import Spending, Workspace


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Adds `cards`, `spend` and `bars` to the index page."""
    user: Any = request.user
    workspaces = (
        Workspace.objects.all()
        if user.is_superuser
        else Workspace.objects.filter(pk__in=administered_workspace_ids(request))
    )
    ids = list(workspaces.order_by("name").values_list("pk", flat=True)[:200])
    context["cards"] = _cards(ids)
    context["spend"] = _token_spend(ids)
    context["bars"] = tokens_per_day(workspace_ids=ids)
    return context


def _cards(ids: list[int]) -> list[dict[str, str]]:
    day_ago = datetime.now(UTC) - timedelta(days=1)
    runs = Run.objects.filter(workspace__in=ids).aggregate(
        failed=Count("id", filter=Q(state="failed", queued_at__gte=day_ago)),
        queued=Count("id", filter=Q(state="queued")),
    )
    thumbs_down = Episode.objects.filter(
        agent__workspace__in=ids, kind=Episode.Kind.FEEDBACK_RECEIVED, applied_at=None, archived_at=None
    ).count()
    share = Cast(F("prefix_shared"), FloatField()) / Cast(F("tokens"), FloatField())
    week = Snapshot.objects.filter(run__workspace__in=ids, tokens__gt=0, created_at__gte=day_ago - timedelta(days=6))
    prefix = week.exclude(prefix_shared=0).aggregate(share=Avg(share))["share"]
    run_list, entry_list = reverse("admin:agents_run_changelist"), reverse("admin:knowledge_entry_changelist")
    knowledge_counts = _knowledge_counts(ids)
    return [
        {"title": "Failed runs, 24 h", "number": f"{runs['failed']:,}", "link": f"{run_list}?state__exact=failed"},
        {"title": "Runs waiting", "number": f"{runs['queued']:,}", "link": f"{run_list}?state__exact=queued"},
        {
            "title": "Open thumbs down",
            "number": f"{thumbs_down:,}",
            "link": reverse("admin:memory_episode_changelist") + "?settled=no",
        },
        {
            "title": "Shared prefix, 7 days",
            "number": "–" if prefix is None else f"{100 * prefix:.0f} %",
            "link": reverse("admin:agents_snapshot_changelist"),
        },
        {
            "title": "Knowledge expiring, 14 days",
            "number": f"{knowledge_counts['expiring']:,}",
            "link": f"{entry_list}?o=4",
        },
        {
            "title": "Knowledge to review",
            "number": f"{knowledge_counts['review']:,}",
            "link": f"{entry_list}?status__exact=needs_review",
        },
    ]


def _knowledge_counts(ids: list[int]) -> dict[str, int]:
    """How much expires within two weeks, and how much waits for somebody: proposed, flagged, or over already."""
    now, entries = timezone.now(), Entry.objects.filter(workspace__in=ids)
    waits = Q(status__in=[Entry.Status.PROPOSED, Entry.Status.NEEDS_REVIEW])
    return {
        "expiring": entries.filter(freshness_condition("expiring", now)).count(),
        "review": entries.filter(waits | freshness_condition("expired", now)).count(),
    }


def _token_spend(ids: list[int]) -> list[dict[str, Any]]:
    """Tokens used today against the cap, per workspace; `percent` is at most 100."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    runs = Run.objects.filter(workspace__in=ids, queued_at__gte=midnight)
    spending = Spending.objects.filter(workspace__in=ids, created_at__gte=midnight)
    in_runs, in_background = (
        dict(rows.order_by().values("workspace").annotate(tokens=Sum(TOTAL_TOKENS)).values_list("workspace", "tokens"))
        for rows in (runs, spending)
    )
    used = Counter(in_runs) + Counter(in_background)
    return [
        {
            "workspace": workspace,
            "used": used.get(workspace.pk, 0),
            "background": in_background.get(workspace.pk, 0),
            "cap": workspace.daily_token_budget,
            "percent": min(100, round(100 * used.get(workspace.pk, 0) / max(workspace.daily_token_budget, 1), 1)),
        }
        for workspace in Workspace.objects.filter(pk__in=ids).order_by("name")
    ]
