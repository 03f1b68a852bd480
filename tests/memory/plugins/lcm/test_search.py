"""Finding words again, whatever characters they are made of."""

from datetime import UTC, datetime

import pytest

from agents.models import Agent
from memory.plugins.base import MemoryHit, Session
from memory.plugins.lcm.retrieval import search_conversation
from memory.plugins.message_search import MAX_HITS, MAX_SNIPPET_CHARACTERS, make_snippet
from openvibe.base.problems import Problem
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message
from openvibe.workspaces.models import Member
from tests.factories import access, make_thread
from tests.memory.plugins.lcm.factories import condensed, leaf, session_of, taken_in, told


def numbers(hits: list[MemoryHit]) -> list[int]:
    return [hit.ordinal for hit in hits]


def test_a_hit_has_author_and_time(session: Session, thread: Thread, ana: Member, dora: Member) -> None:
    told(thread, ana.participant, "Prune the ROSE in March", "Feed the cat")
    (second,) = told(thread, dora.participant, "My roses bloom")
    hits = search_conversation(session, "rose")
    assert next(hit for hit in hits if hit.ordinal == 3) == MemoryHit(
        "message", second.pk, 3, "Dora", "2026-03-01T12:03:00+00:00", "My roses bloom"
    )
    assert sorted(numbers(hits)) == [1, 3]


def test_what_holds_every_term_is_found_else_what_holds_some(session: Session, thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, "red apple", "green apple", "red pear")
    assert numbers(search_conversation(session, "apple  red")) == [1]
    assert sorted(numbers(search_conversation(session, "apple blue"))) == [1, 2]
    assert search_conversation(session, "zeppelin blue") == []


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("100%", 1),
        ("a_b", 2),
        ("o'clock", 3),
        ('"quoted"', 4),
        ("C:\\temp", 5),
        ("日本", 6),
        ("🎉", 7),
        ("(?:x", 8),
        ("' OR 1=1 --", 9),
        ("%s %(limit)s", 10),
        ("{shown}", 11),
        ("ÄRGER", 12),
        ("cafe\u0301", 13),
        ("a & !b | <->", 14),
    ],
)
def test_signs_and_scripts_are_no_hindrance(
    session: Session, thread: Thread, ana: Member, query: str, number: int
) -> None:
    told(
        thread,
        ana.participant,
        "it rose 100% by noon",
        "the file a_b.txt",
        "at five o'clock",
        'she "quoted" him',
        "in C:\\temp it lies",
        "私は日本に住んでいます",
        "done 🎉🎉",
        "regex (?:x) here",
        "try ' OR 1=1 -- it",
        "say %s and %(limit)s",
        "write {shown} here",
        "viel Ärger",
        "the café",
        "a & !b | <-> c",
        "nothing: 1000 axb o clock quoted temp x 5 OR 1",
    )
    assert numbers(search_conversation(session, query))[0] == number


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "\x00",
        "\ud800",
        "\x00\x00 \t\n",
        "x" * 10_000,
        "word " * 2_000,
        "%" * 10_000,
        "🎉" * 10_000,
        "\\",
        "'",
        "(" * 10_000,
        "a\x00b",
        "\u202e",
    ],
    ids=lambda query: ascii(query[:6]),
)
def test_any_query_is_safe(session: Session, thread: Thread, ana: Member, query: str) -> None:
    told(thread, ana.participant, "word")
    leaf(taken_in(thread), 1, 1, "a summary")
    assert len(search_conversation(session, query)) <= 1


def test_no_more_hits_than_asked_for_in_all(session: Session, thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, *["the rose"] * 120)
    conversation = taken_in(thread)
    for first in range(1, 100, 10):
        leaf(conversation, first, first + 9, "About a rose.")
    for limit in (1, 3, 4, 20, 50):
        assert len(search_conversation(session, "rose", limit)) == limit
    kinds = [hit.kind for hit in search_conversation(session, "rose", 20)]
    assert kinds == ["message"] * 15 + ["summary"] * 5
    assert len(search_conversation(session, "rose", 10**9)) == MAX_HITS
    assert search_conversation(session, "rose", 0) == search_conversation(session, "rose", -3) == []


def test_summaries_are_found_too_wherever_they_are_in_the_graph(session: Session, thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, *["word"] * 20)
    conversation = taken_in(thread)
    low = leaf(conversation, 1, 10, "They agreed on Tuesday.")
    above = condensed(conversation, [low, leaf(conversation, 11, 20)], "They agreed.")
    hits = search_conversation(session, "agreed")
    assert {(hit.kind, hit.id) for hit in hits} == {("summary", low.pk), ("summary", above.pk)}
    assert [hit.snippet for hit in search_conversation(session, "tuesday")] == ["They agreed on Tuesday."]


def test_a_snippet_stands_around_the_match(session: Session, thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, "filler " * 3_000 + "the needle is here" + " filler" * 3_000)
    (hit,) = search_conversation(session, "needle")
    assert "the needle is here" in hit.snippet
    assert len(hit.snippet) <= MAX_SNIPPET_CHARACTERS


@pytest.mark.parametrize("at", [0, 1, 250, 499, 500, 501, 5_000, 9_990])
@pytest.mark.parametrize("needle", ["n", "needle", "n" * 480])
def test_a_snippet_is_never_too_long_and_never_misses(at: int, needle: str) -> None:
    text = "." * at + needle + "." * (10_000 - at)
    snippet = make_snippet(text, needle)
    assert needle in snippet
    assert len(snippet) <= MAX_SNIPPET_CHARACTERS


def test_deleted_hidden_and_unseen_things_are_not_found(thread: Thread, ana: Member, vibe: Agent) -> None:
    told(thread, ana.participant, "rose 1", "rose 2", "rose 3")
    told(thread, vibe.participant, "rose 4", kind="dive_result")
    told(thread, ana.participant, "rose 5", kind="system")
    told(thread, ana.participant, "rose 6", state="writing")
    told(thread, ana.participant, "rose 7")
    leaf(taken_in(thread), 1, 2, "rose summary")
    delete_message(message=Message.objects.get(thread=thread, seq=1), by=access(ana))
    assert sorted(numbers(search_conversation(session_of(thread, vibe.participant), "rose"))) == [2, 3, 4, 7]
    assert sorted(numbers(search_conversation(session_of(thread, vibe.participant, dives=False), "rose"))) == [2, 3, 7]
    assert numbers(search_conversation(session_of(thread, vibe.participant, before=3), "rose")) == [2]


def test_only_this_thread_of_this_workspace(session: Session, thread: Thread, ana: Member, cleo: Member) -> None:
    other = make_thread(thread.channel, ana, "Another")
    told(other, ana.participant, *["rose"] * 10)
    leaf(taken_in(other), 1, 10, "rose")
    told(thread, ana.participant, "rose")
    assert len(search_conversation(session, "rose")) == 1
    assert search_conversation(Session(thread.pk, access(cleo)), "rose") == []


def test_words_are_found_however_long_ago(session: Session, thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, "the wisteria a_b", "gardens", *["filler"] * 30, "a new wisteria")
    assert sorted(numbers(search_conversation(session, "wisteria"))) == [1, 33]
    assert numbers(search_conversation(session, "garden")) == [2]
    assert sorted(numbers(search_conversation(session, "wister*"))) == [1, 33]


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ('"red apple"', 1),
        ("apple -red", 2),
        ("Bewasserung", 3),
        ("arrosage", 4),
        ("cafe", 5),
        ("apples green", 2),
        ('after:2026-03-01 "red apple"', 1),
        ("apple red from:ana", 1),
    ],
)
def test_it_searches_as_the_page_does(session: Session, thread: Thread, ana: Member, query: str, number: int) -> None:
    told(
        thread,
        ana.participant,
        "a red apple",
        "a green apple",
        "Die Gartenbewässerung läuft.",
        "L’arrosage du jardin",
        "le café",
        "an apple that is red",
    )
    assert numbers(search_conversation(session, query))[0] == number


def test_dates_and_authors_narrow_it(session: Session, thread: Thread, ana: Member, dora: Member) -> None:
    old, _ = told(thread, ana.participant, "roses in spring", "roses in summer")
    told(thread, dora.participant, "roses of Dora")
    Message.objects.filter(pk=old.pk).update(created_at=datetime(2025, 5, 1, 12, tzinfo=UTC))
    assert numbers(search_conversation(session, "roses before:2026")) == [1]
    assert numbers(search_conversation(session, "roses after:2025-05-01 before:2025-05-02")) == [1]
    assert search_conversation(session, "roses before:2025-05-01") == []
    assert numbers(search_conversation(session, "roses from:@Dora")) == [3]
    assert numbers(search_conversation(session, "from:dora")) == [3], "without words"
    assert search_conversation(session, "roses from:nobody") == []
    leaf(taken_in(thread), 1, 3, "roses")
    kinds = {hit.kind for hit in search_conversation(session, "roses after:2026")}
    assert kinds == {"message", "summary"}
    assert {hit.kind for hit in search_conversation(session, "roses from:dora")} == {"message"}


@pytest.mark.parametrize(
    "query",
    ["after:tuesday", "before:2026-13", "after:0000-01-01", "before:9999", "from:ops@example.org", "from:a from:b"],
)
def test_what_is_no_date_or_handle_is_said(session: Session, query: str) -> None:
    with pytest.raises(Problem, match="quotes") as error:
        search_conversation(session, f"roses {query}")
    assert error.value.code == "bad_argument"


def test_in_quotes_it_is_words(session: Session, thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, "the header said from:ops@example.org")
    assert numbers(search_conversation(session, '"from:ops@example.org"')) == [1]
