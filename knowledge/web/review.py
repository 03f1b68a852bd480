"""What waits for a person: suggestions, what expired, what somebody said was wrong, what may contradict."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Case, Exists, IntegerField, OuterRef, Q, QuerySet, Value, When
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from knowledge.models import Contradiction, Entry, EntryQuerySet
from knowledge.presets import PRESETS
from knowledge.services import see_notices, settle_contradiction
from knowledge.services.revising import check_may_manage
from knowledge.web.finding import entry_of
from knowledge.web.forms import this_minute
from knowledge.web.shown import EntryShown, entry_shown
from openvibe.base.problems import Missing
from openvibe.chat.web.numbers import LARGEST_ID, number
from openvibe.chat.web.shell import shell_of
from openvibe.workspaces.access import Access
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

SHOWN, PAIRS_SHOWN = 50, 20
UNUSED_SHOWN = timedelta(days=7)
SHORTEST_SPAN = timedelta(days=1)
Status, Reason = Entry.Status, Entry.Reason
SECTIONS = (
    "Archived because nobody used them for 90 days",
    "Said to be wrong",
    "Expired",
    "What they were made from was deleted",
    "Somebody asked for a review",
    "Suggested",
)


@dataclass(frozen=True)
class Waiting:
    """One entry of the queue. `span` is the expiry that renewing it for the same time again would give."""

    row: EntryShown
    span: datetime | None
    section: str
    begins_section: bool
    supersedes: Entry | None = None


@dataclass(frozen=True)
class Pair:
    """Two entries that may contradict each other, the older first."""

    contradiction: Contradiction
    first: EntryShown
    second: EntryShown


@in_workspace
@require_safe
def queue(request: WorkspaceRequest) -> HttpResponse:
    """The review queue. Looking at it is having seen one's notices."""
    shell_of(request).position  # noqa: B018  where live updates begin, asked before anything is read
    check_may_manage(request.access)
    see_notices(by=request.access)
    return render(request, "knowledge/_review.html" if request.htmx else "knowledge/review.html", _page(request))


def queue_again(request: WorkspaceRequest) -> HttpResponse:
    """The queue after something was decided in it."""
    if request.htmx:
        return render(request, "knowledge/_review.html", _page(request))
    return redirect("knowledge-review", request.workspace.slug)


@in_workspace
@require_POST
def settle(request: WorkspaceRequest, contradiction_id: int) -> HttpResponse:
    """Both hold (`how` both_hold), or one takes the other's place or stays alone (`keep` is its id)."""
    check_may_manage(request.access)
    found = Contradiction.objects.filter(workspace=request.workspace, pk=min(contradiction_id, LARGEST_ID)).first()
    if found is None:
        raise Missing
    keep = number(request.POST, "keep")
    settle_contradiction(
        contradiction=found, by=request.access, how=request.POST.get("how", ""),
        keep=entry_of(request, keep) if keep else None, note=request.POST.get("note", ""),
    )  # fmt: skip
    return queue_again(request)


# --- reads --------------------------------------------------------------------------------------------------
def waiting_for(access: Access, now: datetime) -> EntryQuerySet:
    """Entries that need a decision: suggestions, those under review, those whose time is over."""
    over = Q(status=Status.ACTIVE, expires_at__lte=now)
    waits = Q(status__in=[Status.PROPOSED, Status.NEEDS_REVIEW])
    return Entry.objects.visible_to(access).filter(waits | over)


def open_contradictions(access: Access) -> QuerySet[Contradiction]:
    """Pairs of which the asker may read both."""
    seen = Entry.objects.visible_to(access).order_by()
    first, second = (Exists(seen.filter(pk=OuterRef(side))) for side in ("first_id", "second_id"))
    return Contradiction.objects.filter(first, second, workspace_id=access.workspace_id, settled_at=None)


def same_span(entry: Entry, now: datetime | None = None) -> datetime | None:
    """The expiry that gives the entry as much time again as it was last given; None when it never expires."""
    if entry.expires_at is None:
        return None
    given = entry.expires_at - (entry.decided_at or entry.created_at)
    return this_minute((now or timezone.now()) + max(given, SHORTEST_SPAN))


def pairs_of(request: WorkspaceRequest, among: QuerySet[Contradiction]) -> list[Pair]:
    """Open contradictions the asker may see. Two queries."""
    found = list(open_contradictions(request.access).filter(pk__in=among.values("pk"))[:PAIRS_SHOWN])
    ids = {pk for pair in found for pk in (pair.first_id, pair.second_id)}
    entries = Entry.objects.with_people().in_bulk(ids)
    return [Pair(pair, entry_shown(entries[pair.first_id]), entry_shown(entries[pair.second_id])) for pair in found]


def _queued(access: Access, now: datetime) -> EntryQuerySet:
    """Archived as unused in the last week first, then what waits, by reason and then the longest first."""
    unused = Q(status=Status.ARCHIVED, reason=Reason.UNUSED, status_since__gt=now - UNUSED_SHOWN)
    entries = waiting_for(access, now) | Entry.objects.visible_to(access).filter(unused)
    section = Case(
        When(unused, then=Value(0)),
        When(status=Status.PROPOSED, then=Value(5)),
        When(reason=Reason.WRONG, then=Value(1)),
        When(reason=Reason.SOURCE_GONE, then=Value(3)),
        When(reason__in=[Reason.ASKED, Reason.CONTRADICTION], then=Value(4)),
        default=Value(2),
        output_field=IntegerField(),
    )
    rows = entries.with_people().select_related("supersedes").annotate(section=section)
    return rows.order_by("section", "status_since", "id")


def _page(request: WorkspaceRequest) -> dict[str, Any]:
    now = timezone.now()
    page = Paginator(_queued(request.access, now), SHOWN).get_page(request.GET.get("page"))
    pairs = pairs_of(request, Contradiction.objects.all()) if page.number == 1 else []
    return {
        "page": page,
        "waiting": _rows(page, now, request.access),
        "pairs": pairs,
        "presets": PRESETS.items(),
        "count": waiting_for(request.access, now).count() + open_contradictions(request.access).count(),
    }


def _rows(page: Page[Entry], now: datetime, access: Access) -> list[Waiting]:
    rows, before = [], None
    seen = set(
        Entry.objects.visible_to(access).filter(pk__in=[e.supersedes_id for e in page if e.supersedes_id])
        .order_by().values_list("pk", flat=True)
    )  # fmt: skip
    for entry in page:
        section = SECTIONS[entry.section]  # type: ignore[attr-defined]
        rows.append(Waiting(entry_shown(entry, now), same_span(entry, now), section, section != before,
                            entry.supersedes if entry.supersedes_id in seen else None))  # fmt: skip
        before = section
    return rows
