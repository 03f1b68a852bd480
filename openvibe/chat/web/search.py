"""The search page: words and filters, hits grouped by thread; the best match first, or the newest."""

import re
from calendar import monthrange
from collections.abc import Iterable
from dataclasses import asdict
from datetime import date
from typing import Any, NamedTuple

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpResponse, JsonResponse, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.utils.dateformat import format as date_format
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from openvibe.base.params import MAX_ID
from openvibe.base.problems import Problem
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import HIT_END, HIT_START, find_places, parse_recent, search_messages
from openvibe.chat.search.message_query import MessageQuery, parse_message_query
from openvibe.chat.search.thread import SEARCHED_KINDS
from openvibe.chat.search.workspace import best_messages
from openvibe.chat.web.shell import channel_choices
from openvibe.chat.web.thread_lists import PAGE_SIZE, OpenEndedPage, page_number
from openvibe.chat.wiring import PlaceQuery
from openvibe.engines.search.expressions import parse_expression
from openvibe.engines.search.lexemes import find_matches
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS
from openvibe.engines.text.dates import DateRange, find_dates
from openvibe.engines.text.markdown import plain_text
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

MAX_BEST_HITS = PAGE_SIZE
"""The most hits of the best match, which has no end: everything bears on a question a little."""
MAX_COUNTED_HITS = 300
"""Hits that are counted: all there are may be half of the workspace."""
MAX_PAGES = 200
"""Pages of the newest: each reads past all before it. Whoever looks for older ones says until when."""
EXCERPT_CHARACTERS = 240
MAX_QUERY_CHARACTERS = 400
SHOWN_FILTERS = ("channel", "author", "kind", "since", "until")
FILTERS = ("thread", *SHOWN_FILTERS)
ALTERNATIVES = re.compile(r"\sOR\s")
SPACE = re.compile(r"\s+")


def _quote(value: Any) -> str:
    text = str(value).replace("\x00", "")
    return f"“{text[:40]}”"


class DayField(forms.DateField):
    """A day of the browser's own picker. The browser shows nothing of what is no date, so the problem repeats it."""

    def to_python(self, value: Any) -> date | None:
        try:
            return super().to_python(value)
        except ValidationError:
            sentence = f"{_quote(value)} is no date. Write the year, the month and the day: 2026-12-31."
            raise ValidationError(sentence) from None


class OptionalIdField(forms.Field):
    """The number of a row, or None for none; the problem repeats what is no number, since a list shows nothing of it.

    One longer than any row's is that of no row.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(required=False)
        self.problem = problem

    def to_python(self, value: str | None) -> int | None:
        if not value:
            return None
        if not (value.isascii() and value.isdigit()):
            raise ValidationError(f"{_quote(value)} {self.problem}")
        return MAX_ID if len(value) >= len(str(MAX_ID)) else int(value)


class WordField(forms.ChoiceField):
    """One of a list's words, or none; the problem repeats what is none of them, since the list shows nothing of it."""

    def __init__(self, choices: Iterable[tuple[str, str]], problem: str) -> None:
        super().__init__(required=False, choices=choices)
        self.problem = problem

    def validate(self, value: str) -> None:
        if value and not self.valid_value(value):
            raise ValidationError(f"{_quote(value)} {self.problem}")


class QueryField(forms.Field):
    """The words typed into the search field, as a MessageQuery."""

    def __init__(self) -> None:
        super().__init__(required=False)

    def to_python(self, value: str | None) -> MessageQuery:
        try:
            return parse_message_query((value or "")[:MAX_QUERY_CHARACTERS], "q")
        except Problem as problem:
            raise ValidationError(problem.message) from None


class FiltersForm(forms.Form):
    q = QueryField()
    channel = OptionalIdField("is no number of a channel. Choose one from the list.")
    thread = OptionalIdField("is no number of a thread. Search from the thread's own page, or everywhere.")
    kind = WordField(Message.Kind.choices, "is no type of message. Choose one from the list.")
    order = WordField([("best", ""), ("newest", "")], "is no order. Choose one from the list.")
    since = DayField(required=False, input_formats=["%Y-%m-%d"], widget=forms.DateInput({"type": "date"}))
    until = DayField(required=False, input_formats=["%Y-%m-%d"], widget=forms.DateInput({"type": "date"}))


@workspace_view
@require_safe
def search(request: WorkspaceRequest) -> HttpResponse:
    """`q`; `channel`, `thread`, `author`, `kind`, `since` and `until` narrow it; `order` is `best` or `newest`.

    The best match understands a question: any of its words, and what is near in meaning. The newest holds all words
    that are asked for. In both, phrases stand in quotes, `-word` is left out, `word*` begins a word, `after:`,
    `before:` and `from:` say when and who; a query with `OR`, or without words, is one for the newest.
    """
    params = {
        name: value.replace("\x00", "")[:MAX_QUERY_CHARACTERS].strip() for name, value in request.GET.dict().items()
    }
    groups = []
    page: OpenEndedPage[Message] | None = None
    count, is_capped = 0, False
    filters = FiltersForm(request.GET)
    is_valid = filters.is_valid()
    thread_id = filters.cleaned_data.get("thread")
    query = filters.cleaned_data.get("q") or MessageQuery(params.get("q", ""))
    words = query.words
    is_best_match = (
        bool(words) and (params.get("order") or ("newest" if ALTERNATIVES.search(words) else "best")) == "best"
    )
    if is_valid and any(params.get(name) for name in ("q", *FILTERS)):
        page, count, is_capped = _find_hits(request, filters, query, params, is_best_match=is_best_match)
        groups = group_by_thread(page, words)
    threads = Thread.objects.visible_to(request.access)
    address = request.GET.copy()
    address.pop("page", None)
    newest_first = address.copy()
    newest_first["order"] = "newest"
    context = {
        "params": params,
        "filters": filters,
        "is_best_match": is_best_match,
        "groups": groups,
        "page": page,
        "count": count,
        "is_capped": is_capped,
        "filter_count": sum(bool(params.get(name)) for name in ("order", *SHOWN_FILTERS)),
        "newest_first": f"?{newest_first.urlencode()}",
        "said_then": _said_then(address, query) if is_valid else None,
        "thread": threads.filter(pk=thread_id).first() if thread_id is not None else None,
        "kinds": Message.Kind.choices,
        "rooms": channel_choices(request, filters.cleaned_data.get("channel")),
        "query": address.urlencode(),
    }
    return render(request, "chat/search.html", context, status=200 if is_valid else 400)


class SaidThen(NamedTuple):
    """The same search among what was said on the days that its words name. `when`: the days, with a preposition."""

    when: str
    href: str


def _said_then(address: QueryDict, query: MessageQuery) -> SaidThen | None:
    """None where the words name no days, more than one stretch of them, or the search is narrowed to days already.

    "What was decided in March" asks for what was said then as a rule, and its best match is what speaks of March."""
    if query.since or query.until or address.get("since") or address.get("until"):
        return None
    ranges = find_dates(query.words, timezone.localdate())
    if len(ranges) != 1:
        return None
    narrowed = address.copy()
    narrowed["since"], narrowed["until"] = (day.isoformat() for day in ranges[0])
    return SaidThen(_format_days(ranges[0]), f"?{narrowed.urlencode()}")


def _format_days(days: DateRange) -> str:
    first, last = days
    if first == last:
        return date_format(first, "\\o\\n j F Y")
    if first.replace(day=monthrange(first.year, first.month)[1]) == last and first.day == 1:
        return date_format(first, "\\i\\n F Y")
    return f"from {date_format(first, 'j F Y')} to {date_format(last, 'j F Y')}"


def _find_hits(
    request: WorkspaceRequest, filters: FiltersForm, query: MessageQuery, params: dict[str, str], *, is_best_match: bool
) -> tuple[OpenEndedPage[Message], int, bool]:
    """A page of hits within valid filters, how many there are as far as they are counted, and whether there are more
    than that."""
    asked, words, kind = filters.cleaned_data, query.words, filters.cleaned_data["kind"]
    query = query.narrowed(since=asked["since"], until=asked["until"], author=params.get("author", ""))
    hits = search_messages(
        request.access,
        "" if is_best_match else words,
        channel_id=asked["channel"],
        thread_id=asked["thread"],
        author=query.author,
        kind=kind,
        since=query.since,
        until=query.until,
    )
    if not is_best_match:
        return newest_messages(hits, page_number(request))
    is_narrow = any(params.get(name) for name in FILTERS) or query != MessageQuery(words)
    best = best_messages(
        request.access,
        words,
        hits,
        max_hits=MAX_BEST_HITS,
        kinds=[kind] if kind else SEARCHED_KINDS,
        are_few=request.access.is_guest or is_narrow,
        has_operators=True,
    )
    return OpenEndedPage(best, 1, False), len(best), len(best) == MAX_BEST_HITS


def newest_messages(hits: QuerySet[Message], number: int) -> tuple[OpenEndedPage[Message], int, bool]:
    """The page of that number (the first for one beyond the last), how many there are, and whether there are more.

    Two statements: the newest are chosen among messages alone, since joined, all of them may be read first.
    """
    number = min(number, MAX_PAGES)
    ids = list(hits.values_list("pk", flat=True)[: max(MAX_COUNTED_HITS, number * PAGE_SIZE) + 1])
    if len(ids) <= (number - 1) * PAGE_SIZE:
        number = 1
    start, end = (number - 1) * PAGE_SIZE, number * PAGE_SIZE
    by_id = hits.in_bulk(ids[start:end])
    messages = [by_id[pk] for pk in ids[start:end] if pk in by_id]
    page = OpenEndedPage(messages, number, len(ids) > end and number < MAX_PAGES)
    return page, min(len(ids), MAX_COUNTED_HITS), len(ids) > MAX_COUNTED_HITS


@workspace_view
@require_safe
def places(request: WorkspaceRequest) -> JsonResponse:
    """The places that the command palette finds by name: `q`, and `recent`, keys of places with commas between them."""
    text, recent = request.GET.get("q", "").replace("\x00", ""), parse_recent(request.GET.get("recent", ""))
    matches = find_places(request.access, PlaceQuery(request.workspace.slug, text, recent))
    return JsonResponse({"places": [asdict(place) for place in matches]})


def group_by_thread(hits: Iterable[Message], words: str) -> list[tuple[Thread, list[tuple[Message, SafeString]]]]:
    """Each thread with its hits and their excerpts, in the order of each thread's best hit."""
    threads: dict[int, tuple[Thread, list[tuple[Message, SafeString]]]] = {}
    for hit in hits:
        threads.setdefault(hit.thread_id, (hit.thread, []))[1].append((hit, excerpt(hit, words)))
    return list(threads.values())


def excerpt(hit: Message, words: str) -> SafeString:
    """The words of the message around the words found, escaped, those words marked."""
    snippet = excerpt_around(plain_text(hit.body[:MAX_BODY_CHARACTERS], separator=" · "), words)
    safe = str(conditional_escape(" ".join(snippet.split())))
    return SafeString(safe.replace(HIT_START, "<mark>").replace(HIT_END, "</mark>"))


def excerpt_around(text: str, words: str) -> str:
    """An excerpt of at most 240 characters from shortly before the first word of the question, its words between
    HIT_START and HIT_END. It begins and ends between words, where there are spaces."""
    expression = parse_expression(words)
    matches = find_matches(text, expression.question, *expression.prefixes)
    start = max(matches[0][0] - EXCERPT_CHARACTERS // 3, 0) if matches else 0
    if start and (space := SPACE.search(text, start - 1, matches[0][0])):
        start = space.end()
    end = start + EXCERPT_CHARACTERS
    if end < len(text) and (spaces := list(SPACE.finditer(text, start + EXCERPT_CHARACTERS // 2, end + 1))):
        end = spaces[-1].start()
    end = min(end, len(text))
    pieces = ["…" if start else ""]
    place = start
    for first, last in matches:
        if first >= end:
            break
        pieces += (text[place:first], HIT_START, text[first : min(last, end)], HIT_END)
        place = min(last, end)
    return "".join((*pieces, text[place:end], "…" if end < len(text) else ""))
