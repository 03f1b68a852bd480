"""Pages of the review queue: what waits for a decision, what may contradict each other, and what was just decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Page, Paginator
from django.db.models import Q, QuerySet
from django.db.models.fields.json import KT
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import replace_url

from knowledge.expiry import EXPIRY_PRESETS
from knowledge.models import Contradiction, Entry, Revision
from knowledge.queries import access_plain_entry, entries_to_review, open_contradictions, ordered_review_queue
from knowledge.services import is_undoable, mark_notices_seen, settle_contradiction
from knowledge.services.validation import check_may_manage
from knowledge.web.forms import access_entry, whole_minute
from knowledge.web.presenters import EntryRow, entry_row
from openvibe.base.params import MAX_ID, int_param
from openvibe.base.problems import Missing
from openvibe.chat.models import Message
from openvibe.chat.queries import AccessQuery
from openvibe.engines.database.compiled_queries import CompiledQuery, array_literal
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

REVIEW_PAGE_SIZE, MAX_PAIRS = 50, 20
MAX_BEGAN_WITH = 10_000
SETTLING_ACTIONS = (Revision.Action.SETTLED, Revision.Action.EDITED)
"""What settling a contradiction is called in the revisions of the entry that stays."""
MIN_RENEWAL = timedelta(days=1)
REVIEW_SECTIONS = (
    "Archived because nobody used them for 90 days",
    "Said to be wrong",
    "Expired",
    "What they were made from was deleted",
    "Somebody asked for a review",
    "Proposed",
)


@dataclass(frozen=True)
class ReviewItem:
    """One entry of the queue. `span` is the expiry that renewing it for the same time again would give."""

    row: EntryRow
    span: datetime | None
    section: str
    begins_section: bool
    supersedes: Entry | None = None
    source: Message | None = None


@dataclass(frozen=True)
class LastDecision:
    """What was just decided in the queue, and can be undone while nothing else became of the entry."""

    entry: Entry
    label: str


@dataclass(frozen=True)
class ContradictionItem:
    """Two entries that may contradict each other, the older first."""

    contradiction: Contradiction
    first: EntryRow
    second: EntryRow


@workspace_view
@require_safe
def review_queue(request: WorkspaceRequest) -> HttpResponse:
    """The review queue. Looking at it is having seen one's notices."""
    check_may_manage(request.access)
    mark_notices_seen(by=request.access)
    params = request.GET
    context = _review_context(
        request, int_param(params, "of"), int_param(params, "decided"), int_param(params, "page") or 1
    )
    return render(request, "knowledge/_review.html" if request.htmx else "knowledge/review.html", context)


def render_queue(request: WorkspaceRequest, decided_id: int | None) -> HttpResponse:
    """The queue after something was decided in it, about the entry of that id; `of` is how many it began with, `page`
    the one that was looked at.

    All stand in the page's address, so that a reload, and what is fetched when something changed, show the same."""
    began_with, number = int_param(request.POST, "of"), int_param(request.POST, "page") or 1
    params = {"of": began_with, "decided": decided_id, "page": number if number > 1 else None}
    query = urlencode({name: value for name, value in params.items() if value})
    address = f"{reverse('knowledge-review', args=[request.workspace.slug])}?{query}"
    if not request.htmx:
        return redirect(address)
    context = _review_context(request, began_with, decided_id, number)
    return replace_url(render(request, "knowledge/_review.html", context), address)


@workspace_view
@require_POST
def settle(request: WorkspaceRequest, contradiction_id: int) -> HttpResponse:
    """Both hold (`how` both_hold), or one takes the other's place or stays alone (`keep` is its id)."""
    check_may_manage(request.access)
    pairs = Contradiction.objects.select_related("first", "second").filter(workspace=request.workspace)
    contradiction = pairs.filter(pk=min(contradiction_id, MAX_ID)).first()
    if contradiction is None:
        raise Missing
    keep = int_param(request.POST, "keep")
    settle_contradiction(
        contradiction=contradiction,
        by=request.access,
        how=request.POST.get("how", ""),
        keep=access_entry(request, keep) if keep else None,
        note=request.POST.get("note", ""),
        based_on=(
            decided_version(contradiction.first, int_param(request.POST, "first")),
            decided_version(contradiction.second, int_param(request.POST, "second")),
        ),
    )
    return render_queue(request, keep or contradiction.first_id)


def decided_version(entry: Entry, shown_version: int | None) -> int | None:
    """What a button on a page that showed `shown_version` decides about: the entry as it is, where nothing became of it
    but that its time was over. The queue lists it from that instant; the job that says so comes up to a minute later.
    """
    if shown_version is None or shown_version == entry.version:
        return shown_version
    later = Revision.objects.filter(entry=entry, number__gt=shown_version).values_list("action", flat=True)
    return entry.version if set(later) == {Revision.Action.EXPIRED} else shown_version


def renewal_expiries(entries: Sequence[Entry], now: datetime | None = None) -> dict[int, datetime | None]:
    """The expiry, by the entry's id, that gives each entry as much time again as it was last given; None when it never
    expires.

    One query where any expires.
    """
    expiries: dict[int, datetime | None] = {entry.pk: None for entry in entries}
    expiring = {entry.pk: entry for entry in entries if entry.expires_at}
    given_at = _expiry_given_at(expiring) if expiring else {}
    for pk, entry in expiring.items():
        assert entry.expires_at is not None
        since = given_at.get(pk) or entry.decided_at or entry.created_at
        duration = max(entry.expires_at - whole_minute(since), MIN_RENEWAL)
        expiries[pk] = whole_minute(now or timezone.now()) + duration
    return expiries


def _expiry_given_at(entries: Mapping[int, Entry]) -> dict[int, datetime]:
    """The times at which each entry was given the expiry that it has. Taking a later one back gives none."""
    revisions = Revision.objects.filter(entry__in=entries, changes__has_key="expires_at").order_by("number")
    given = revisions.exclude(action=Revision.Action.UNDONE).values_list(
        "entry_id", KT("changes__expires_at__1"), "created_at"
    )
    return {pk: at for pk, expiry, at in given if expiry and parse_datetime(expiry) == entries[pk].expires_at}


@AccessQuery
def _open_contradictions(access: Access) -> QuerySet[Contradiction]:
    return open_contradictions(access)[:MAX_PAIRS]


@AccessQuery
def _open_contradictions_of(access: Access, entry_id: int) -> QuerySet[Contradiction]:
    return open_contradictions(access).filter(Q(first=entry_id) | Q(second=entry_id))[:MAX_PAIRS]


@CompiledQuery
def _entries_with_related(ids: str) -> QuerySet[Entry]:
    return Entry.objects.with_related().filter(pk__any_of=ids).order_by()


def list_contradictions(access: Access, of_entry: Entry | None = None) -> list[ContradictionItem]:
    """Lists open contradictions the asker may see, of one entry or of all. Two queries."""
    contradictions: list[Contradiction] = (
        _open_contradictions_of.objects(access, of_entry.pk) if of_entry else _open_contradictions.objects(access)
    )
    if not contradictions:
        return []
    ids = {pk for pair in contradictions for pk in (pair.first_id, pair.second_id)}
    entries: dict[int, Entry] = {entry.pk: entry for entry in _entries_with_related.objects(array_literal(ids))}
    return [
        ContradictionItem(pair, entry_row(entries[pair.first_id]), entry_row(entries[pair.second_id]))
        for pair in contradictions
    ]


def _review_context(
    request: WorkspaceRequest, began_with: int | None, decided_id: int | None, number: int
) -> dict[str, Any]:
    now = timezone.now()
    page = Paginator(ordered_review_queue(request.access, now), REVIEW_PAGE_SIZE).get_page(number)
    pairs = list_contradictions(request.access) if page.number == 1 else []
    are_all_pairs = page.number == 1 and len(pairs) < MAX_PAIRS
    open_pairs = len(pairs) if are_all_pairs else open_contradictions(request.access).count()
    open_count = page.paginator.count + open_pairs
    total = max(open_count, min(began_with or 0, MAX_BEGAN_WITH))
    return {
        "page": page,
        "waiting": _review_items(page, now, request.access),
        "pairs": pairs,
        "presets": EXPIRY_PRESETS.items(),
        "count": entries_to_review(request.access, now).count() + open_pairs,
        "left": open_count,
        "total": total,
        "query": urlencode({"of": total}) if began_with else "",
        "done": total - open_count,
        "decision": _last_decision(request, decided_id) if decided_id else None,
    }


def _last_decision(request: WorkspaceRequest, entry_id: int) -> LastDecision | None:
    """None unless the newest revision of the entry is a decision of the asker's own."""
    try:
        entry = access_plain_entry(request.access, entry_id)
    except Missing:
        return None
    newest = entry.revisions.order_by("-number").first()
    if newest is None or not is_undoable(newest, request.access):
        return None
    return LastDecision(entry, "Kept" if newest.action in SETTLING_ACTIONS else newest.get_action_display())


def _review_items(page: Page[Entry], now: datetime, access: Access) -> list[ReviewItem]:
    rows, previous_section = [], None
    superseded_ids = [entry.supersedes_id for entry in page if entry.supersedes_id]
    visible_ids: set[int] = set()
    if superseded_ids:
        visible = Entry.objects.visible_to(access).filter(pk__in=superseded_ids).order_by()
        visible_ids.update(visible.values_list("pk", flat=True))
    sources: dict[int, Message] = {}
    if source_ids := [entry.source_message_id for entry in page if entry.source_message_id]:
        messages = Message.objects.visible_to(access).filter(deleted_at=None)
        sources = messages.select_related("thread", "author", "dive_result").in_bulk(source_ids)
    expiries = renewal_expiries(page, now)
    for entry in page:
        section = REVIEW_SECTIONS[entry.section]  # type: ignore[attr-defined]  # annotated by ordered_review_queue
        supersedes = entry.supersedes if entry.supersedes_id in visible_ids else None
        is_first = section != previous_section
        source = sources.get(entry.source_message_id or 0)
        rows.append(ReviewItem(entry_row(entry, now), expiries[entry.pk], section, is_first, supersedes, source))
        previous_section = section
    return rows
