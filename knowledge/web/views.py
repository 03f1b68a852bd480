"""Pages of knowledge: the list, one entry and its actions, import and export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, QuerySet, Window
from django.http import HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from knowledge.exchange.csv_jsonl import CONTENT_TYPES, MAX_BYTES
from knowledge.exchange.entry_export import export_entries
from knowledge.exchange.uploads import import_upload
from knowledge.expiry import EXPIRY_PRESETS, FRESHNESS_STATES, format_instant
from knowledge.filters import EntryCriteria, filter_entries
from knowledge.models import LIVE_STATUSES, Entry
from knowledge.queries import ENTRY_USES, visible_revisions
from knowledge.search import EntryHit, find_entries
from knowledge.services import (
    accept_entry,
    archive_entry,
    flag_entry,
    mark_notices_seen,
    reject_entry,
    renew_entry,
    restore_entry,
    undo_decision,
)
from knowledge.services.validation import check_may_manage, may_manage
from knowledge.web.forms import EntryFormData, access_entry, find_owner, read_form_data, suggest_owners
from knowledge.web.presenters import LISTED_COLUMNS, ListedEntry, entry_items, entry_row, revision_rows
from knowledge.web.review import decided_version, list_contradictions, render_queue, renewal_expiries
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Message
from openvibe.chat.queries import AccessQuery
from openvibe.engines.serving.fragments import render_fragments
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import Participant

ENTRIES_PAGE_SIZE = 50
MAX_QUERY_CHARACTERS = 10_000
MAX_HITS = 200  # entries of one search
MAX_TOPICS_OFFERED = 100
MAX_TOPICS_COUNTED = 1_000  # of the newest entries
FRESHNESS_LABELS = {"expiring": "Expiring soon", "needs_review": "Needs review"}
FILTER_NAMES = ("q", "topic", "tag", "status", "owner", "freshness")
FRESHNESS_CHOICES = tuple((state, FRESHNESS_LABELS.get(state, state.capitalize())) for state in FRESHNESS_STATES)


@workspace_view
@require_safe
def entry_list(request: WorkspaceRequest) -> HttpResponse:
    """`q` searches, `topic`, `tag`, `status`, `owner` and `freshness` narrow; nothing said: what holds or waits."""
    params = {
        name: value.replace("\x00", "").strip()[:MAX_QUERY_CHARACTERS] for name, value in request.GET.dict().items()
    }
    is_narrowed = any(params.get(name) for name in FILTER_NAMES)
    owner = find_owner(request, params["owner"]) if params.get("owner") else None
    if not is_narrowed and "page" not in params:
        page = _newest_page(request.access)
    else:
        page = Paginator(_list_entries(request, params, owner), ENTRIES_PAGE_SIZE).get_page(request.GET.get("page"))
    query = request.GET.copy()
    query.pop("page", None)
    context = {
        "params": params,
        "page": page,
        "items": render_fragments(
            "knowledge/_list_item.html", ({"slug": request.workspace.slug, "entry": item} for item in entry_items(page))
        ),
        "search": ListSearch(
            q=params.get("q", ""),
            topic=params.get("topic", ""),
            tag=params.get("tag", ""),
            status=params.get("status", ""),
            owner=params.get("owner", ""),
            freshness=params.get("freshness", ""),
            topics=tuple(suggest_topics(request)),
        ),
        "is_narrowed": is_narrowed,
        "is_owner_unknown": bool(params.get("owner")) and owner is None,
        "is_capped": bool(params.get("q")) and page.paginator.count == MAX_HITS,
        "chips": _filter_chips(request, params),
        "query": query.urlencode(),
        "may_manage": may_manage(request.access),
    }
    return render(request, "knowledge/_list.html" if request.htmx else "knowledge/list.html", context)


@workspace_view
@require_safe
def topic_suggestions(request: WorkspaceRequest) -> HttpResponse:
    """`{"topics": […]}` that hold what `q` says, the most used first: for completing what is typed."""
    return JsonResponse({"topics": suggest_topics(request, request.GET.get("q", "")[:MAX_QUERY_CHARACTERS])})


@workspace_view
@require_safe
def owner_suggestions(request: WorkspaceRequest) -> HttpResponse:
    """`{"owners": [{"handle", "name"}]}`: the first who are called what `q` says, for completing what is typed."""
    owners = suggest_owners(request, request.GET.get("q", ""))
    return JsonResponse({"owners": [{"handle": owner.handle, "name": owner.name} for owner in owners]})


def suggest_topics(request: WorkspaceRequest, part: str = "") -> list[str]:
    """Topics of what the asker may read, without what was put aside, the most used lately first. At most a hundred."""
    if part := part.replace("\x00", "").strip():
        recent = list(_newest_topics(request.access).filter(topic__icontains=part)[:MAX_TOPICS_COUNTED])
    else:
        recent = _recent_topics.rows(request.access)
    return [topic for (topic,), _ in Counter(recent).most_common(MAX_TOPICS_OFFERED)]


def _newest_topics(access: Access) -> QuerySet[Entry, tuple[str]]:
    entries = Entry.objects.visible_to(access).filter(status__in=LIVE_STATUSES)
    return entries.order_by("-id").values_list("topic")


@AccessQuery
def _recent_topics(access: Access) -> QuerySet[Entry, tuple[str]]:
    return _newest_topics(access)[:MAX_TOPICS_COUNTED]


def _filter_chips(request: WorkspaceRequest, params: dict[str, str]) -> list[dict[str, str]]:
    """The filters that are on; `rest` is the address' query without one."""
    chips = []
    for name in ("topic", "tag"):
        if params.get(name):
            rest = request.GET.copy()
            rest.pop(name)
            rest.pop("page", None)
            chips.append({"name": name, "value": params[name], "rest": rest.urlencode()})
    return chips


@dataclass(frozen=True)
class ListSearch:
    """What `knowledge/_list_search.html` shows: the filters as asked for, and what can be chosen. `owner`: a handle."""

    q: str
    topic: str
    tag: str
    status: str
    owner: str
    freshness: str
    topics: tuple[str, ...]
    statuses: tuple[tuple[str, str], ...] = tuple(Entry.Status.choices)
    freshness_choices: tuple[tuple[str, str], ...] = FRESHNESS_CHOICES

    @property
    def filter_count(self) -> int:
        """How many filters are on."""
        return sum(map(bool, (self.topic, self.tag, self.status, self.owner, self.freshness)))


def _newest_page(access: Access) -> Page[Any]:
    """The first page where nothing is asked for, as most often: the newest of what holds or waits. One query."""
    rows = _newest_entries.rows(access)
    page: Page[Any] = Paginator(range(rows[0][-1] if rows else 0), ENTRIES_PAGE_SIZE).get_page(1)
    page.object_list = [ListedEntry(*columns) for *columns, _ in rows]
    return page


@AccessQuery
def _newest_entries(access: Access) -> QuerySet[Entry, tuple[Any, ...]]:
    """LISTED_COLUMNS of each, and how many there are."""
    entries = Entry.objects.visible_to(access).filter(status__in=LIVE_STATUSES).annotate(total=Window(Count("*")))
    return entries.order_by("-id").values_list(*LISTED_COLUMNS, "total")[:ENTRIES_PAGE_SIZE]


def _list_entries(
    request: WorkspaceRequest, params: dict[str, str], owner: Participant | None
) -> Sequence[EntryHit] | QuerySet[Entry]:
    """What holds, the best match first, where a question is asked, as API and prompts find it; else the newest of what
    holds or waits. Anything else only when its status or freshness is asked for."""
    if params.get("owner") and owner is None:
        return Entry.objects.none()
    criteria: EntryCriteria = {
        "topic": params.get("topic", ""),
        "tag": params.get("tag", ""),
        "status": params.get("status", ""),
        "freshness": params.get("freshness", ""),
        "owner_id": owner.pk if owner else None,
    }
    if params.get("q"):
        return find_entries(request.access, params["q"], most=MAX_HITS, **criteria).hits
    entries = Entry.objects.visible_to(request.access).with_related()
    if not criteria["status"] and not criteria["freshness"]:
        entries = entries.filter(status__in=LIVE_STATUSES)
    return filter_entries(entries, **criteria).order_by("-id")


MAX_REVISIONS = 50
DECISIONS: dict[str, Callable[..., Entry]] = {
    "archive": archive_entry,
    "restore": restore_entry,
    "accept": accept_entry,
    "reject": reject_entry,
}


@workspace_view
@require_safe
def entry_detail(request: WorkspaceRequest, entry_id: int) -> HttpResponse:
    """The entry's page. Looking at it is having seen its notices; a panel that renews itself (`?unasked`) is not."""
    entry = access_entry(request, entry_id)
    if "unasked" not in request.GET:
        mark_notices_seen(by=request.access, entry=entry)
    return render(
        request, "knowledge/_entry.html" if request.htmx else "knowledge/entry.html", _entry_context(request, entry)
    )


def _entry_context(request: WorkspaceRequest, entry: Entry) -> dict[str, Any]:
    visible_entries = Entry.objects.visible_to(request.access).with_related()
    revisions = list(visible_revisions(request.access, entry).select_related("by")[: MAX_REVISIONS + 1])
    people = Participant.objects.filter(workspace=request.workspace).values_list("handle", "name")
    return {
        "row": entry_row(entry),
        "formatted_expiry": format_instant(entry.expires_at) if entry.expires_at else "",
        "successor": visible_entries.filter(supersedes=entry).first(),
        "earlier": visible_entries.filter(pk=entry.supersedes_id).first() if entry.supersedes_id else None,
        "source": _source_message(request, entry),
        "revisions": revision_rows(revisions[:MAX_REVISIONS], dict(people)),
        "has_more_revisions": len(revisions) > MAX_REVISIONS,
        "uses": [use for uses in ENTRY_USES for use in uses(entry, request.access)],
        "pairs": list_contradictions(request.access, entry),
        "presets": EXPIRY_PRESETS.items(),
        "span": renewal_expiries([entry])[entry.pk],
        "may_manage": may_manage(request.access),
    }


def _source_message(request: WorkspaceRequest, entry: Entry) -> Message | None:
    """The message it was made from, if the reader may see it and it stands."""
    messages: QuerySet[Message] = Message.objects.visible_to(request.access)
    return messages.filter(pk=entry.source_message_id or 0, deleted_at=None).select_related("thread").first()


@workspace_view
@require_POST
def entry_action(request: WorkspaceRequest, entry_id: int, verb: str) -> HttpResponse:
    """The action that renews, archives, brings back, accepts, rejects, sends to review, or undoes; `from=review` leads
    back to the queue, `from=thread` to a line in the message that the entry is made from."""
    check_may_manage(request.access)
    entry = access_entry(request, entry_id)
    _act(request, entry, verb, read_form_data(request))
    if request.POST.get("from") == "review":
        return render_queue(request, None if verb == "undo" else entry_id)
    if request.POST.get("from") == "thread":
        return render(request, "knowledge/_question_answered.html", {"entry": access_entry(request, entry_id)})
    if request.htmx:
        return render(request, "knowledge/_entry.html", _entry_context(request, access_entry(request, entry_id)))
    return redirect("knowledge-entry", request.workspace.slug, entry_id)


def _act(request: WorkspaceRequest, entry: Entry, verb: str, data: EntryFormData) -> None:
    options: dict[str, Any] = {"entry": entry, "by": request.access, "note": data.note}
    if verb in DECISIONS:
        DECISIONS[verb](**options, based_on=decided_version(entry, data.based_on))
    elif verb == "undo":
        undo_decision(entry=entry, by=request.access, based_on=data.based_on)
    elif verb == "flag":
        flag_entry(**options, reason=request.POST.get("reason", ""))
    elif verb != "renew":
        raise Missing
    elif not data.expires:
        raise Problem("Say until when it is to hold.", code="bad_expiry", field="expires_at")
    else:
        at = renewal_expiries([entry])[entry.pk] if data.expires == "same" else data.expires_at()
        renew_entry(**options, expires_at=at, based_on=decided_version(entry, data.based_on))


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def import_file(request: WorkspaceRequest) -> HttpResponse:
    """A CSV or JSONL file (`file`), Markdown or a zip of it, or rows as `text`; the answer says what became of each."""
    check_may_manage(request.access)
    page: dict[str, object] = {"text": request.POST.get("text", "").replace("\x00", "")}
    status = 200
    if request.method == "POST":
        try:
            raw = _uploaded_bytes(request)
            upload = request.FILES.get("file")
            page["report"] = import_upload(by=request.access, raw=raw, name=upload.name or "" if upload else "")
        except Problem as problem:
            page["problem"], status = problem, problem.status
    return render(request, "knowledge/import.html", page, status=status)


def _uploaded_bytes(request: WorkspaceRequest) -> bytes:
    upload = request.FILES.get("file")
    raw = upload.read(MAX_BYTES + 1) if upload else request.POST.get("text", "").encode(errors="replace")
    if not raw.strip():
        raise Problem("Choose a file, or paste some rows.", code="empty", field="file")
    return bytes(raw)


@workspace_view
@require_safe
def export_file(request: WorkspaceRequest) -> HttpResponseBase:
    """Everything the asker may read, as `?format=` csv or jsonl; `status` narrows."""
    form = request.GET.get("format", "csv")
    lines = export_entries(request.access, form, statuses=request.GET.getlist("status"))
    response = StreamingHttpResponse(lines, content_type=CONTENT_TYPES[form])
    response.headers["Content-Disposition"] = f'attachment; filename="{request.workspace.slug}-knowledge.{form}"'
    return response
