"""The search page: the best match first, or the newest; everywhere, or in one thread."""

import re
from datetime import UTC, datetime

import pytest
from django.test import Client

from openvibe.chat.models import Message, Thread
from openvibe.chat.wiring import embed_pending_messages
from openvibe.workspaces.models import Member
from tests.factories import make_thread, say

pytestmark = pytest.mark.django_db


def page(by: Member, *, status: int = 200, **asked: str | int) -> str:
    browser = Client()
    browser.force_login(by.user)
    answer = browser.get(f"/w/{by.workspace.slug}/search/", asked)
    assert answer.status_code == status
    return str(answer.content.decode())


def test_the_best_match_takes_any_word_and_marks_it(ana: Member, thread: Thread) -> None:
    say(thread, ana, "Prune the roses in March, after the frost")
    say(thread, ana, "Roses again")
    html = page(ana, q="when do we prune the roses?")
    assert "the frost" in html
    assert "<mark>Prune</mark> the <mark>roses</mark>" in html
    assert html.index("in March") < html.index("again")
    assert 'value="newest" selected' not in html


def test_the_newest_takes_all_words_and_so_do_operators(ana: Member, thread: Thread) -> None:
    say(thread, ana, "Prune the roses in March")
    say(thread, ana, "Roses again")
    assert "again" not in page(ana, q="prune roses", order="newest")
    for order in ("best", "newest"):
        html = page(ana, q="roses -prune", order=order)
        assert "in March" not in html
        assert "again" in html
        html = page(ana, q='"prune the roses"', order=order)
        assert "in March" in html
        assert "again" not in html
        assert "in March" in page(ana, q="prun*", order=order)
    assert 'value="newest" selected' in page(ana, q="roses OR tulips", order="")


def test_meaning_is_found_and_nonsense_is_not(ana: Member, thread: Thread) -> None:
    say(thread, ana, "The invoice was paid by wire transfer")
    embed_pending_messages()
    assert "wire transfer" in page(ana, q="money payment bill bank")
    assert "Nothing you may see matches" in page(ana, q="zebra")


@pytest.mark.parametrize(("name", "value"), [("since", "31.12.2026"), ("until", "2026-02-30"), ("since", "\x00")])
def test_what_is_no_date_is_said_beside_its_field(ana: Member, thread: Thread, name: str, value: str) -> None:
    say(thread, ana, "Roses again")
    html = page(ana, status=400, q="roses", **{name: value})
    assert f'aria-describedby="id_{name}_error"' in html
    assert f'id="id_{name}_error"' in html
    assert "is no date. Write the year, the month and the day: 2026-12-31." in html
    assert "again" not in html, "what was asked for is not known"
    assert 'aria-expanded="true"' in html, "on a phone, the field is in sight"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("channel", "abc", "“abc” is no number of a channel. Choose one from the list."),
        ("channel", "-1", "“-1” is no number of a channel."),
        ("channel", "\x00", "“” is no number of a channel."),
        ("thread", "abc", "“abc” is no number of a thread. Search from the thread&#x27;s own page, or everywhere."),
        ("kind", "novel", "“novel” is no type of message. Choose one from the list."),
        ("order", "oldest", "“oldest” is no order. Choose one from the list."),
    ],
)
def test_a_filter_that_says_nothing_is_said_and_not_left_out(
    ana: Member, thread: Thread, name: str, value: str, sentence: str
) -> None:
    say(thread, ana, "Roses again")
    html = page(ana, status=400, q="roses", **{name: value})
    assert sentence in html
    assert f'id="id_{name}_error"' in html
    assert "again" not in html, "what was asked for is not known"
    assert 'aria-expanded="true"' in html, "on a phone, the field is in sight"


def test_the_number_of_a_channel_narrows_the_search(ana: Member, thread: Thread) -> None:
    say(thread, ana, "Roses again")
    assert "again" in page(ana, q="roses", channel=thread.channel_id)
    assert "Nothing you may see matches" in page(ana, q="roses", channel=thread.channel_id + 1)
    assert "Nothing you may see matches" in page(ana, q="roses", channel="9" * 5_000)


def test_dates_narrow_the_search(ana: Member, thread: Thread) -> None:
    say(thread, ana, "Roses again")
    assert "again" in page(ana, q="roses", since="2020-01-01", until="2999-12-31")
    html = page(ana, q="roses", until="2020-01-01")
    assert "again" not in html
    assert 'value="2020-01-01"' in html


def test_days_among_the_words_are_offered_as_a_filter(ana: Member, thread: Thread) -> None:
    said = say(thread, ana, "We decided: larch wood.")
    Message.objects.filter(pk=said.pk).update(created_at=datetime(2024, 3, 12, 9, tzinfo=UTC))
    say(thread, ana, "Decided for March: the roses.")
    html = page(ana, q="what was decided in March 2024")
    link = re.search(r'<a href="([^"]*)">Only what was said in March 2024</a>', html)
    assert link
    narrowed = page(ana, q="what was decided in March 2024", since="2024-03-01", until="2024-03-31")
    assert link[1].replace("&amp;", "&") == "?q=what+was+decided+in+March+2024&since=2024-03-01&until=2024-03-31"
    assert "larch wood" in narrowed
    assert "the roses" not in narrowed
    assert "Only what was said" not in narrowed
    assert "Only what was said on 12 March 2024" in page(ana, q="what was decided on 12 March 2024")
    assert "Only what was said from 1 January 2024 to 31 December 2024" in page(ana, q="what was decided in 2024")
    assert "Only what was said" not in page(ana, q="what may we decide")


def test_what_was_counted_is_said(ana: Member, thread: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openvibe.chat.web.search.MAX_BEST_HITS", 2)
    monkeypatch.setattr("openvibe.chat.web.search.MAX_COUNTED_HITS", 4)
    counts = ("1 message,", "2 messages,", "3 messages,", "4 messages,", "More than 4 messages,")
    for number, counted in enumerate(counts, start=1):
        say(thread, ana, f"Roses {number}")
        page_text = " ".join(page(ana, q="roses", order="newest").split())
        assert f"> {counted} the newest first. <" in page_text, counted
    page_text = " ".join(page(ana, q="roses", kind="text").split())
    assert "The best 2 messages. To see all" in page_text
    assert 'href="?q=roses&amp;kind=text&amp;order=newest"' in page_text
    assert "Filters (1)" in page_text


def test_the_newest_go_on_beyond_what_is_counted(ana: Member, thread: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openvibe.chat.web.search.PAGE_SIZE", 2)
    monkeypatch.setattr("openvibe.chat.web.search.MAX_COUNTED_HITS", 3)
    monkeypatch.setattr("openvibe.chat.web.search.MAX_PAGES", 4)
    for number in range(1, 10):
        say(thread, ana, f"Rose {number}.")
    shown = {
        at: [number for number in range(1, 10) if f"</mark> {number}." in page(ana, q="rose", order="newest", page=at)]
        for at in (1, 2, 3, 4, 5, "last", 2**60)
    }
    assert shown == {1: [8, 9], 2: [6, 7], 3: [4, 5], 4: [2, 3], 5: [2, 3], "last": [8, 9], 2**60: [2, 3]}
    last = page(ana, q="rose", order="newest", page=4)
    assert "?q=rose&amp;order=newest&amp;page=3" in last
    assert ("page=5" in last, "Page 4" in last, "More than 3 messages" in last) == (False, True, True)
    beyond = page(ana, q="9", order="newest", page=3)
    assert ("1 message," in beyond, "<mark>9</mark>" in beyond) == (True, True)


def test_a_search_stays_in_its_thread(ana: Member, thread: Thread) -> None:
    other = make_thread(thread.channel, ana, "Elsewhere")
    say(thread, ana, "Roses here")
    say(other, ana, "Roses there")
    html = page(ana, q="roses", thread=thread.pk)
    assert "here" in html
    assert "there" not in html.replace("there is", "")
    assert f'name="thread" value="{thread.pk}"' in html


def test_strangers_and_guests_find_nothing_of_it(ana: Member, ben: Member, cleo: Member, thread: Thread) -> None:
    say(thread, ana, "Roses, quarterly")
    assert "quarterly" not in page(ben, q="roses")
    assert "quarterly" not in page(cleo, q="roses", thread=thread.pk)


@pytest.mark.parametrize("order", ["best", "newest"])
@pytest.mark.parametrize("q", ["'", '"', "%", "a & | !b", "\x00", "🌹", "x" * 10_000, "玫瑰", "%(term0)s {} %s"])
def test_any_text_may_be_searched(ana: Member, thread: Thread, q: str, order: str) -> None:
    say(thread, ana, "Roses")
    assert 'name="q"' in page(ana, q=q, order=order, thread=thread.pk if order == "best" else 2**70)


def test_the_operators_are_told_where_nothing_is_found_yet(ana: Member, thread: Thread) -> None:
    say(thread, ana, "Prune the roses in March")
    for html in (page(ana), page(ana, q="zebra")):
        assert 'aria-describedby="search-help"' in html
        assert "<code>word*</code> begins a word" in html
    assert "search-help" not in page(ana, q="roses")


def test_an_excerpt_begins_and_ends_between_words(ana: Member, thread: Thread) -> None:
    say(thread, ana, f"{'before ' * 30}roses {'thereafter ' * 40}")
    html = page(ana, q="roses thereafter")
    (text,) = re.findall(r'class="hit-text" dir="auto">(.*?)</span>', html)
    words = set(re.sub(r"</?mark>|…", "", text).split())
    assert words == {"before", "roses", "thereafter"}


@pytest.mark.parametrize("order", ["best", "newest"])
def test_when_and_who_are_typed_among_the_words(ana: Member, dora: Member, thread: Thread, order: str) -> None:
    for by, day, words in ((ana, 3, "The roses are early"), (dora, 20, "The roses are late")):
        message = say(thread, by, words)
        Message.objects.filter(pk=message.pk).update(created_at=datetime(2026, 3, day, 12, tzinfo=UTC))
    early, late = "are early", "are late"
    for q, expected in (
        ("roses after:2026-03-10", {late}),
        ("roses before:2026-03-20", {early}),
        ("roses from:@dora", {late}),
        ("roses from:ana before:2027", {early}),
        ('"after:2026-03-10"', set()),
    ):
        html = page(ana, q=q, order=order).replace("<mark>", "").replace("</mark>", "")
        assert {words for words in (early, late) if words in html} == expected, q
    assert late not in page(ana, q="roses from:dora", author="ana", order=order), "nobody wrote as both"
    assert late in page(ana, q="from:dora", order=order), "no words are needed"


@pytest.mark.parametrize("q", ["roses after:lunch", "after:2026 after:2027", "from:a/b"])
def test_a_day_that_is_none_is_said_below_the_field(ana: Member, thread: Thread, q: str) -> None:
    assert "Words that look like this go in quotes." in page(ana, status=400, q=q)
