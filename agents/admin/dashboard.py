"""The first page of the admin: what needs a look today. Counts only, of workspaces the asker administers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Avg, Count, F, FloatField, Q
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from agents.access import token_rows
from agents.models import Run, Snapshot
from agents.statistics import sum_tokens, tokens_per_day
from knowledge.models import Entry
from knowledge.queries import count_to_review, freshness_condition
from memory.models import Episode
from openvibe.base.admin_site import administered_workspace_ids
from openvibe.workspaces.models import Workspace


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Adds `cards`, `spend` and `bars` to the index page."""
    user: Any = request.user
    workspaces = Workspace.objects.all()
    if not user.is_superuser:
        workspaces = workspaces.filter(pk__in=administered_workspace_ids(request))
    ids = list(workspaces.order_by("name").values_list("pk", flat=True)[:200])
    return context | {"cards": _cards(ids, user), "spend": _token_spend(ids), "bars": tokens_per_day(workspace_ids=ids)}


def _cards(ids: list[int], user: Any) -> list[dict[str, str]]:
    now = timezone.now()
    day_ago = now - timedelta(days=1)
    runs = Run.objects.filter(workspace__in=ids).aggregate(
        failed=Count("id", filter=Q(state="failed", queued_at__gte=day_ago)),
        queued=Count("id", filter=Q(state="queued")),
    )
    thumbs_down = Episode.objects.filter(
        agent__workspace__in=ids, kind=Episode.Kind.FEEDBACK_RECEIVED, applied_at=None, archived_at=None
    )
    share = Cast(F("prefix_shared"), FloatField()) / Cast(F("tokens"), FloatField())
    week = Snapshot.objects.filter(run__workspace__in=ids, tokens__gt=0, created_at__gte=now - timedelta(days=7))
    prefix = week.aggregate(share=Avg(share))["share"]
    entries = Entry.objects.filter(workspace__in=ids)
    expiring = entries.filter(freshness_condition("expiring", now))
    run_list, entry_list = reverse("admin:agents_run_changelist"), reverse("admin:knowledge_entry_changelist")
    episode_list = reverse("admin:memory_episode_changelist")
    shared = "–" if prefix is None else f"{100 * prefix:.0f} %"
    cards = (
        ("Failed runs, 24 h", f"{runs['failed']:,}", f"{run_list}?state__exact=failed"),
        ("Runs waiting", f"{runs['queued']:,}", f"{run_list}?state__exact=queued"),
        ("Open thumbs down", f"{thumbs_down.count():,}", f"{episode_list}?settled=no"),
        ("Shared prefix, 7 days", shared, reverse("admin:agents_snapshot_changelist")),
        ("Knowledge expiring, 14 days", f"{expiring.count():,}", f"{entry_list}?o=4"),
        ("Knowledge to review", f"{count_to_review(ids, now):,}", _review_address(ids, user)),
    )
    return [{"title": title, "number": number, "link": link} for title, number, link in cards]


def _review_address(ids: list[int], user: Any) -> str:
    """The review page in the app for a member of the only workspace, else the admin's list."""
    own = Workspace.objects.filter(pk__in=ids, members__user=user, members__removed_at=None)
    workspace = own.first() if len(ids) == 1 else None
    if workspace is None:
        return f"{reverse('admin:knowledge_entry_changelist')}?status__exact=needs_review"
    return reverse("knowledge-review", args=[workspace.slug])


def _token_spend(ids: list[int]) -> list[dict[str, Any]]:
    """Tokens used today against the cap, per workspace; `percent` is at most 100."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    runs, background = token_rows(None, ids)
    in_runs = sum_tokens(runs.filter(queued_at__gte=midnight), "workspace")
    in_background = sum_tokens(background.filter(created_at__gte=midnight), "workspace")
    used = in_runs + in_background
    return [
        {
            "workspace": workspace,
            "used": used[workspace.pk],
            "background": in_background[workspace.pk],
            "cap": workspace.daily_token_budget,
            "percent": min(100, round(100 * used[workspace.pk] / max(workspace.daily_token_budget, 1), 1)),
        }
        for workspace in Workspace.objects.filter(pk__in=ids).order_by("name")
    ]
