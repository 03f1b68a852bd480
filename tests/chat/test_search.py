"""Questions find what was said: by words, by meaning, in short threads and long ones, and only what the asker sees."""

from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.agent.access import visible_to
from agents.models import Agent
from openvibe.chat.models import Message, Thread
from openvibe.chat.search.thread import MAX_FULL_SCAN_MESSAGES, MessageSearchResult, find_messages
from openvibe.chat.services import delete_message, set_thread_access
from openvibe.chat.wiring import embed_pending_messages
from openvibe.engines.search import query
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from tests.examples import examples
from tests.factories import access, make_channel, make_member, make_thread, say

pytestmark = pytest.mark.django_db
NEEDLE = "Dora ordered the zinc watering can from Harbour Street"
INVOICE = "The invoice was paid by wire transfer"


def found(by: Access, question: str, thread: Thread, *, budget: int = 1_000, **asked: object) -> MessageSearchResult:
    return find_messages(by, question, thread_id=thread.pk, budget=budget, **asked)  # type: ignore[arg-type]  # any option


def bodies(answer: MessageSearchResult) -> list[str]:
    return [hit.body for hit in answer.hits]


def fill(thread: Thread, by: Member, messages: int, said: dict[int, str]) -> None:
    """Fills the thread with so many messages of small talk, but `said` at these places; vectors made."""
    at = datetime(2026, 1, 5, tzinfo=UTC)
    Message.objects.bulk_create(
        Message(
            thread=thread,
            seq=seq,
            author_id=by.participant_id,
            created_at=at,
            token_count=8,
            body=said.get(seq, f"Small talk number {seq} over coffee and cake"),
        )
        for seq in range(1, messages + 1)
    )
    Thread.objects.filter(pk=thread.pk).update(last_seq=messages, last_message_at=at)
    embed_pending_messages()


def test_words_find_a_message_and_the_best_comes_first(ana: Member, thread: Thread) -> None:
    say(thread, ana, "The weather was kind all week")
    say(thread, ana, "Prune the roses in March, before the buds open")
    say(thread, ana, "Lunch is at noon")
    answer = found(access(ana), "When do we prune the roses?", thread)
    assert answer.by_words
    assert answer.hits[0].body.startswith("Prune the roses")
    assert answer.hits[0].author_name == "Ana"
    assert not answer.hits[0].is_neighbour


def test_meaning_finds_what_no_word_of_the_question_names(ana: Member, thread: Thread) -> None:
    say(thread, ana, "The invoice was paid by wire transfer")
    for line in ("Our cat sleeps on the sofa", "Rain again tomorrow", "Tulips are yellow"):
        say(thread, ana, line)
    embed_pending_messages()
    answer = found(access(ana), "money payment bill bank", thread, max_hits=1)
    assert answer.by_vectors
    assert bodies(answer) == ["The invoice was paid by wire transfer"]


def test_the_name_of_who_spoke_counts_as_words(ana: Member, dora: Member, thread: Thread) -> None:
    say(thread, ana, "Blue would be fine with me")
    say(thread, dora, "Green would be fine with me")
    assert found(access(ana), "What did Dora say about it?", thread).hits[0].author_name == "Dora"


def test_what_is_said_of_somebody_comes_before_all_that_she_says(ana: Member, dora: Member, thread: Thread) -> None:
    for word in ("Hm", "ok", "Sure", "Wow", "See you", "Not yet"):
        say(thread, dora, word)
    say(thread, ana, "Dora starts at Norvik Logistics in September")
    assert bodies(found(access(ana), "What about Dora?", thread))[0].startswith("Dora starts")


def test_a_budget_is_kept_to_the_token(ana: Member, thread: Thread) -> None:
    for day in range(12):
        say(thread, ana, f"Roses, day {day}: water them")
    every = found(access(ana), "roses", thread)
    assert len(every.hits) == 12
    few = found(access(ana), "roses", thread, budget=every.tokens // 2)
    assert 0 < few.tokens <= every.tokens // 2
    assert few.tokens == sum(hit.tokens for hit in few.hits)
    dear = found(access(ana), "roses", thread, budget=every.tokens // 2, overhead=20)
    assert dear.tokens <= every.tokens // 2
    assert len(dear.hits) < len(few.hits)
    assert found(access(ana), "roses", thread, budget=0).hits == ()


def test_what_is_in_view_or_later_is_left_out(ana: Member, dora: Member, thread: Thread) -> None:
    for author in (ana, dora, ana, dora):
        say(thread, author, f"Roses, says {author.participant.name}")
    assert {hit.seq for hit in found(access(ana), "roses", thread, before=3).hits} <= {1, 2}
    assert {hit.seq for hit in found(access(ana), "roses", thread, exclude_seqs={1, 2}).hits} == {3, 4}


def test_the_same_text_said_again_is_found_once(ana: Member, thread: Thread) -> None:
    for _ in range(3):
        say(thread, ana, "Water the roses every second morning in summer, never at noon")
    assert len(found(access(ana), "When to water roses?", thread).hits) == 1


def test_strangers_find_nothing_and_agents_nothing_in_threads_of_people(
    ana: Member, cleo: Member, ben: Member, vibe: Agent, thread: Thread
) -> None:
    say(thread, ana, "The roses are red")
    assert bodies(found(visible_to(vibe), "roses", thread)) == ["The roses are red"]
    assert found(access(cleo), "roses", thread).hits == ()
    assert found(access(ben), "roses", thread).hits == ()
    set_thread_access(thread=thread, by=access(ana), access="human_only")
    assert found(visible_to(vibe), "roses", thread).hits == ()
    assert bodies(found(access(ana), "roses", thread)) == ["The roses are red"]


def test_deleted_unfinished_and_other_kinds_are_never_found(ana: Member, thread: Thread) -> None:
    deleted_message = say(thread, ana, "Roses, deleted")
    say(thread, ana, "Roses, standing")
    for body, extra in (("Roses, being written", {"state": "writing"}), ("Roses, a call", {"kind": "tool_call"})):
        Message.objects.create(thread=thread, author_id=ana.participant_id, body=body, **extra)
    delete_message(message=deleted_message, by=access(ana))
    assert bodies(found(access(ana), "roses", thread)) == ["Roses, standing"]
    asked = found(access(ana), "roses", thread, kinds=("tool_call",))
    assert bodies(asked) == ["Roses, a call"]


def test_dive_results_only_for_those_whose_level_reads_them(ana: Member, vibe: Agent, thread: Thread) -> None:
    Message.objects.create(thread=thread, author_id=ana.participant_id, body="Roses: the result", kind="dive_result")
    assert bodies(found(access(ana), "roses", thread)) == ["Roses: the result"]
    assert bodies(found(visible_to(vibe), "roses", thread)) == ["Roses: the result"]
    Agent.objects.filter(pk=vibe.pk).update(level=1)
    assert found(visible_to(Agent.objects.get(pk=vibe.pk)), "roses", thread).hits == ()


@pytest.mark.parametrize("question", ["什么时候修剪玫瑰", "玫瑰"])
def test_scripts_without_blanks_are_searched_inside_their_runs(ana: Member, thread: Thread, question: str) -> None:
    say(thread, ana, "我们下周讨论预算")
    say(thread, ana, "请在三月修剪玫瑰然后浇水")
    assert found(access(ana), question, thread, max_hits=1).hits[0].body == "请在三月修剪玫瑰然后浇水"


@pytest.mark.parametrize(("said", "question"), [("Größe der Gärten", "gärten"), ("Обрезка роз весной", "роз")])
def test_other_alphabets_are_words_too(ana: Member, thread: Thread, said: str, question: str) -> None:
    say(thread, ana, "Lunch is at noon")
    say(thread, ana, said)
    assert found(access(ana), question, thread, max_hits=1).hits[0].body == said


@pytest.mark.parametrize(
    "question",
    [
        "",
        "   ",
        "\x00",
        "'",
        '"',
        "%",
        "_",
        "a & | ! b",
        "<->",
        "roses:*",
        "\\",
        "🌹",
        "the of and",
        "x" * 10_000,
        "roses & !'pruning' | (",
        "'; DROP TABLE chat_message; --",
        "{term0} %(thread)s %s",
    ],
)
def test_any_text_is_a_question_and_never_an_error(ana: Member, thread: Thread, question: str) -> None:
    say(thread, ana, "The roses 🌹 are 100% red")
    embed_pending_messages()
    assert len(found(access(ana), question, thread).hits) <= 1


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=st.text(max_size=60))
def test_whatever_is_typed_searches(ana: Member, thread: Thread, question: str) -> None:
    if not thread.messages.exists():
        say(thread, ana, "The roses are red")
    assert len(found(access(ana), question, thread).hits) <= 1


@pytest.fixture(scope="module")
def long_thread(module_transaction: None) -> tuple[Member, Thread]:
    """A thread that is over tea for long, over coffee in the last 500 messages; the vectors are made once for all
    tests."""
    olga = make_member("Olga")
    thread = make_thread(make_channel(olga), olga)
    tea = {seq: f"Small talk number {seq} over tea and biscuits" for seq in range(1, MAX_FULL_SCAN_MESSAGES + 1)}
    fill(thread, olga, MAX_FULL_SCAN_MESSAGES + 500, tea | {40: NEEDLE, 41: "It will arrive on Friday", 140: INVOICE})
    return olga, thread


@pytest.mark.parametrize("question", ["Who ordered the zinc watering can?", "zinc can"])
def test_a_fact_in_a_long_thread_is_found_however_long_ago(long_thread: tuple[Member, Thread], question: str) -> None:
    olga, thread = long_thread
    answer = found(access(olga), question, thread, budget=200)
    assert answer.hits[0].body == NEEDLE
    beside = next(hit for hit in answer.hits if hit.seq == 41)
    assert beside.is_neighbour
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)
    assert sorted(hit.selection_rank for hit in answer.hits) == list(range(len(answer.hits)))


def test_in_a_long_thread_meaning_leads_to_old_messages_too(long_thread: tuple[Member, Thread]) -> None:
    olga, thread = long_thread
    assert INVOICE in bodies(found(access(olga), "money payment bill bank", thread, budget=400))


def test_words_that_everybody_says_are_found_in_long_threads_too(long_thread: tuple[Member, Thread]) -> None:
    olga, thread = long_thread
    answer = found(access(olga), "coffee and cake", thread, budget=100)
    assert answer.hits
    assert min(hit.seq for hit in answer.hits) > MAX_FULL_SCAN_MESSAGES


def test_the_length_of_a_thread_does_not_change_how_often_the_database_is_asked(
    long_thread: tuple[Member, Thread],
) -> None:
    olga, thread = long_thread
    short = make_thread(thread.channel, olga, "Short")
    fill(short, olga, 3, {2: NEEDLE})
    for place in (short, thread):
        found(access(olga), "zinc can", place)  # statistics of words are read once in a while
    for place, names in ((short, 1), (thread, 0)):  # the best of the short one name a Harbour Street
        with CaptureQueriesContext(connection) as queries:
            found(access(olga), "zinc can", place)
        assert len(queries) <= 4 + names, "names are followed with one statement"


def test_a_fact_within_a_long_message_is_found_by_its_meaning(ana: Member, thread: Thread) -> None:
    padding = "The committee met again and everybody agreed that the weather had been pleasant this week. "
    needle = padding * 12 + "The invoice was paid by wire transfer. " + padding * 12
    fill(thread, ana, 40, {20: needle} | {at: f"{at}: {padding * 24}" for at in range(1, 40, 2)})
    assert found(access(ana), "money payment bill bank", thread, budget=5_000, max_hits=1).hits[0].body == needle


def test_the_signs_of_a_question_are_those_the_database_compares_with(ana: Member, thread: Thread) -> None:
    say(thread, ana, "When do we prune?")
    embed_pending_messages()
    question = query.parse_query(ana.workspace_id, "When do we cut the roses?")
    with connection.cursor() as cursor:
        cursor.execute("SELECT binary_quantize(%s::halfvec)::text", [question.vector_literal])
        assert cursor.fetchone() == (question.sign_bits,)
    assert question.sign_bits.count("1") not in (0, len(question.sign_bits))


def test_a_name_in_what_was_found_leads_to_what_else_was_said_of_it(ana: Member, thread: Thread) -> None:
    for number in range(30):
        say(thread, ana, f"Small talk number {number} about this and that, nothing else")
    say(thread, ana, "my sister is called Thekla")
    for number in range(30):
        say(thread, ana, f"More talk number {number} on the weather of the day")
    told = say(thread, ana, "Thekla moved to Ghent, above a bakery")
    found = find_messages(access(ana), "Where is the home of my sister?", thread_id=thread.pk, budget=30).hits
    assert told.pk in [hit.message_id for hit in found]
