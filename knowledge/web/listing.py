"""The list of what is known: searched, filtered, fifty at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from knowledge.finding import find_entries
from knowledge.models import LIVING, Entry
from knowledge.narrowing import narrowed
from knowledge.services.revising import may_manage
from knowledge.web.forms import owners_of
from knowledge.web.shown import entries_shown
from openvibe.chat.web.numbers import number
from openvibe.chat.web.shell import shell_of
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

SHOWN = 50
MAX_QUERY = 10_000
MOST_FOUND = 200  # entries of one search
TOPICS_OFFERED = 100
TOPICS_COUNTED = 1_000  # of the newest entries
FRESHNESS = (
    ("fresh", "Fresh"),
    ("expiring", "Expiring soon"),
    ("expired", "Expired"),
    ("proposed", "Proposed"),
    ("needs_review", "Needs review"),
    ("superseded", "Superseded"),
    ("archived", "Archived"),
)
NARROWING = ("topic", "tag", "status", "owner", "freshness")


@dataclass(frozen=True)
class Chip:
    """A filter that is on; `rest` is the address' query without it."""

    name: str
    value: str
    rest: str


@in_workspace
@require_safe
def knowledge(request: WorkspaceRequest) -> HttpResponse:
    """`q` searches, `topic`, `tag`, `status`, `owner` and `freshness` narrow; nothing asked: what holds or waits."""
    shell_of(request).position  # noqa: B018  where live updates begin, asked before anything is read
    asked = {name: value.replace("\x00", "").strip()[:MAX_QUERY] for name, value in request.GET.dict().items()}
    page = Paginator(_asked(request, asked), SHOWN).get_page(request.GET.get("page"))
    query = request.GET.copy()
    query.pop("page", None)
    context = {
        "asked": asked,
        "page": page,
        "rows": entries_shown(page),
        "freshness_choices": FRESHNESS,
        "statuses": Entry.Status.choices,
        "owners": owners_of(request),
        "topics": topics_known(request),
        "is_narrowed": any(asked.get(name) for name in ("q", *NARROWING)),
        "chips": _chips(request, asked),
        "query": query.urlencode(),
        "may_manage": may_manage(request.access),
    }
    return render(request, "knowledge/_list.html" if request.htmx else "knowledge/list.html", context)


@in_workspace
@require_safe
def topics(request: WorkspaceRequest) -> HttpResponse:
    """`{"topics": […]}` that hold what `q` says, the most used first: for completing what is typed."""
    return JsonResponse({"topics": topics_known(request, request.GET.get("q", "")[:MAX_QUERY])})


def topics_known(request: WorkspaceRequest, part: str = "") -> list[str]:
    """Topics of what the asker may read, without what was put aside, the most used lately first. At most a hundred."""
    entries = Entry.objects.visible_to(request.access).filter(status__in=LIVING)
    if part := part.replace("\x00", "").strip():
        entries = entries.filter(topic__icontains=part)
    lately = entries.order_by("-id").values_list("topic", flat=True)[:TOPICS_COUNTED]
    return [topic for topic, _ in Counter(lately).most_common(TOPICS_OFFERED)]


def _chips(request: WorkspaceRequest, asked: dict[str, str]) -> list[Chip]:
    chips = []
    for name in ("topic", "tag"):
        if asked.get(name):
            rest = request.GET.copy()
            rest.pop(name)
            rest.pop("page", None)
            chips.append(Chip(name, asked[name], rest.urlencode()))
    return chips


def _asked(request: WorkspaceRequest, asked: dict[str, str]) -> Sequence[Entry] | QuerySet[Entry]:
    """What holds, the best match first, where something is asked, as API and prompts find it; else the newest of what
    holds or waits. Anything else only when its status or freshness is asked for."""
    owner_id = number(request.GET, "owner")
    topic, tag, status, freshness = (asked.get(name, "") for name in ("topic", "tag", "status", "freshness"))
    if asked.get("q"):
        found = find_entries(
            request.access, asked["q"], most=MOST_FOUND, topic=topic, tag=tag, status=status, freshness=freshness,
            owner_id=owner_id,
        )  # fmt: skip
        return [hit.entry for hit in found.hits]
    entries = Entry.objects.visible_to(request.access).with_people()
    if not status and not freshness:
        entries = entries.filter(status__in=LIVING)
    entries = narrowed(entries, topic=topic, tag=tag, status=status, freshness=freshness, owner_id=owner_id)
    return entries.order_by("-id")
