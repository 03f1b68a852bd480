"""The search page: words and filters, hits grouped by thread."""

from dataclasses import dataclass, field
from itertools import groupby

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from openvibe.chat.markdown import plain_text
from openvibe.chat.models import Message, Thread
from openvibe.chat.querysets import END, FOUND, search_messages
from openvibe.chat.text import MAX_BODY_CHARACTERS
from openvibe.chat.web.numbers import day, number
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

HITS_SHOWN = 50
EXCERPT = 240
MAX_QUERY = 400


@dataclass
class Found:
    """One thread's hits, each a message and its excerpt."""

    thread: Thread
    hits: list[tuple[Message, SafeString]] = field(default_factory=list)


@in_workspace
@require_safe
def search(request: WorkspaceRequest) -> HttpResponse:
    """`q` in web search syntax; `channel`, `author`, `kind`, `since` and `until` narrow it."""
    asked = {name: value.replace("\x00", "")[:MAX_QUERY].strip() for name, value in request.GET.dict().items()}
    groups: list[Found] = []
    page = None
    if any(asked.get(name) for name in ("q", "channel", "author", "kind", "since", "until")):
        hits = search_messages(
            request.access,
            asked.get("q", ""),
            channel_id=number(request.GET, "channel"),
            author=asked.get("author", ""),
            kind=asked.get("kind", ""),
            since=day(request.GET, "since"),
            until=day(request.GET, "until"),
        )
        page = Paginator(hits, HITS_SHOWN).get_page(request.GET.get("page"))
        groups = grouped(list(page))
    query = request.GET.copy()
    query.pop("page", None)
    context = {
        "asked": asked,
        "groups": groups,
        "page": page,
        "kinds": Message.Kind.choices,
        "query": query.urlencode(),
    }
    return render(request, "chat/search.html", context)


def grouped(hits: list[Message]) -> list[Found]:
    """By thread, in the order of each thread's best hit."""
    threads: dict[int, Found] = {}
    for thread_id, rows in groupby(hits, key=lambda hit: hit.thread_id):
        for hit in rows:
            threads.setdefault(thread_id, Found(hit.thread)).hits.append((hit, excerpt(hit)))
    return list(threads.values())


def excerpt(hit: Message) -> SafeString:
    """What the message says around the words found, escaped, those words marked."""
    snippet: str = hit.snippet or plain_text(hit.body[:MAX_BODY_CHARACTERS])[:EXCERPT]  # type: ignore[attr-defined]
    safe = str(conditional_escape(" ".join(snippet.split())))
    return mark_safe(safe.replace(FOUND, "<mark>").replace(END, "</mark>"))
