"""The search page: words and filters, hits grouped by thread; the best match first, or the newest."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from openvibe.chat.markdown import plain_text
from openvibe.chat.models import Message, Thread
from openvibe.chat.querysets import END, FOUND, search_messages
from openvibe.chat.searching import SAID, best_messages
from openvibe.chat.text import MAX_BODY_CHARACTERS
from openvibe.chat.web.numbers import day, number
from openvibe.search.lexical import question_terms
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

HITS_SHOWN = 50
EXCERPT = 240
MAX_QUERY = 400
NARROWING = ("channel", "thread", "author", "kind", "since", "until")
OPERATORS = re.compile(r'"|(?:^|\s)-\w|\sOR\s')


@dataclass
class Found:
    """One thread's hits, each a message and its excerpt."""

    thread: Thread
    hits: list[tuple[Message, SafeString]] = field(default_factory=list)


@in_workspace
@require_safe
def search(request: WorkspaceRequest) -> HttpResponse:
    """`q`; `channel`, `thread`, `author`, `kind`, `since` and `until` narrow it; `order` is `best` or `newest`.

    The best match understands a question: any of its words, and what is near in meaning. The newest holds all words
    that are asked for, in web search syntax, and that is what is meant where a query uses it.
    """
    asked = {name: value.replace("\x00", "")[:MAX_QUERY].strip() for name, value in request.GET.dict().items()}
    words, page, groups = asked.get("q", ""), None, []
    by_match = bool(words) and (asked.get("order") or ("newest" if OPERATORS.search(words) else "best")) == "best"
    if any(asked.get(name) for name in ("q", *NARROWING)):
        hits = narrowed(request, asked, "" if by_match else words)
        found = best_messages(request.access, words, hits, kinds=kinds_of(asked)) if by_match else hits
        page = Paginator(found, HITS_SHOWN).get_page(request.GET.get("page"))
        groups = grouped(list(page), words)
    query = request.GET.copy()
    query.pop("page", None)
    context = {
        "asked": asked,
        "by_match": by_match,
        "groups": groups,
        "page": page,
        "place": thread_named(request),
        "kinds": Message.Kind.choices,
        "query": query.urlencode(),
    }
    return render(request, "chat/search.html", context)


def narrowed(request: WorkspaceRequest, asked: dict[str, str], words: str) -> QuerySet[Message]:
    """The messages the filters leave, those that hold all `words` where there are any."""
    messages = search_messages(
        request.access,
        words,
        channel_id=number(request.GET, "channel"),
        author=asked.get("author", ""),
        kind=asked.get("kind", ""),
        since=day(request.GET, "since"),
        until=day(request.GET, "until"),
    )
    thread_id = number(request.GET, "thread")
    return messages.filter(thread_id=thread_id) if thread_id is not None else messages


def kinds_of(asked: dict[str, str]) -> Sequence[str]:
    return [asked["kind"]] if asked.get("kind") else SAID


def thread_named(request: WorkspaceRequest) -> Thread | None:
    """The thread the search stays in, when the asker sees it."""
    thread_id = number(request.GET, "thread")
    threads: QuerySet[Thread] = Thread.objects.visible_to(request.access)
    return threads.filter(pk=thread_id).first() if thread_id is not None else None


def grouped(hits: list[Message], words: str = "") -> list[Found]:
    """By thread, in the order of each thread's best hit."""
    threads: dict[int, Found] = {}
    for thread_id, rows in groupby(hits, key=lambda hit: hit.thread_id):
        for hit in rows:
            threads.setdefault(thread_id, Found(hit.thread)).hits.append((hit, excerpt(hit, words)))
    return list(threads.values())


def excerpt(hit: Message, words: str = "") -> SafeString:
    """What the message says around the words found, escaped, those words marked."""
    snippet: str = hit.snippet or around(plain_text(hit.body[:MAX_BODY_CHARACTERS], between=" · "), words)  # type: ignore[attr-defined]
    safe = str(conditional_escape(" ".join(snippet.split())))
    return mark_safe(safe.replace(FOUND, "<mark>").replace(END, "</mark>"))


def around(text: str, words: str) -> str:
    """At most 240 characters from where the first word of a question stands, its words between FOUND and END."""
    terms = [re.escape(term[: max(3, len(term) - 2)]) for term in question_terms(words)]
    holding = re.compile(rf"(?:{'|'.join(terms)})\w*", re.IGNORECASE) if terms else None
    first = holding.search(text) if holding else None
    start = max(first.start() - EXCERPT // 3, 0) if first else 0
    end = start + EXCERPT
    piece = ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
    return holding.sub(lambda word: f"{FOUND}{word[0]}{END}", piece) if holding else piece
