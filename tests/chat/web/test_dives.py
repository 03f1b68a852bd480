"""Dives in the browser: who may start, write, watch and end them, and what each is shown."""

import re
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from agents.agent.access import visible_to
from agents.models import Agent
from openvibe.chat.models import Channel, Dive, Message, Thread
from openvibe.chat.services import add_to_channel, delete_message, post_message, publish_dive, start_dive, update_thread
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, say, say_all

SignedIn = Callable[[Member], Client]
HTMX = {"HX-Request": "true"}
RESULT = ResultDraft(
    "Prune in March", ("Before the buds open", "With **clean** shears", "Climbers later"), "All of it."
)


@pytest.fixture
def source(ana: Member, thread: Thread) -> Message:
    return say(thread, ana, "When do we prune the roses?")


@pytest.fixture
def dive(ana: Member, vibe: Agent, source: Message) -> Dive:
    return start_dive(source=source, by=access(ana), agent=vibe.participant, body="And the climbers?")


@pytest.fixture
def address(home: str, dive: Dive) -> str:
    return f"{home}dive/{dive.pk}/"


def page_of(browser: Client, address: str) -> str:
    answer = browser.get(address, headers=HTMX)
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_a_dive_is_started_from_a_message_and_its_first_question_is_in_it(
    ana: Member, vibe: Agent, source: Message, home: str, signed_in: SignedIn
) -> None:
    browser, start = signed_in(ana), f"{home}m/{source.pk}/dive/"
    form = browser.get(start).content.decode()
    assert "When do we prune the roses?" in form
    key = re.search(r'name="client_id" value="(\w+)"', form)
    assert key
    form_data = {"agent": vibe.participant_id, "body": "And the climbers?", "client_id": key[1]}
    first, second = browser.post(start, form_data), browser.post(start, form_data)
    assert first["Location"] == second["Location"]
    page = browser.get(first["Location"]).content.decode()
    assert "Dive with Vibe" in page
    assert "And the climbers?" in page


def test_htmx_gets_the_dive_in_the_place_of_the_form(
    ana: Member, vibe: Agent, source: Message, home: str, signed_in: SignedIn
) -> None:
    form_data = {"agent": vibe.participant_id, "body": "Why?"}
    answer = signed_in(ana).post(f"{home}m/{source.pk}/dive/", form_data, headers=HTMX).content.decode()
    assert "<html" not in answer
    assert f'data-address="dive/{Dive.objects.get().pk}/"' in answer


def test_why_an_agent_cannot_dive_stands_beside_its_name(
    ana: Member, channel: Channel, source: Message, home: str, signed_in: SignedIn
) -> None:
    make_agent(ana, "fern", level=1, channel=channel)
    form = page_of(signed_in(ana), f"{home}m/{source.pk}/dive/")
    assert "takes no part in dives" in form
    assert "No agent here can dive just now." in form


def test_who_spoke_last_or_dived_before_is_chosen_first(
    ana: Member, vibe: Agent, channel: Channel, dive: Dive, home: str, signed_in: SignedIn
) -> None:
    fern = make_agent(ana, "fern", channel=channel)

    def chosen(source: Message) -> list[str]:
        return re.findall(r'value="(\d+)" checked', page_of(signed_in(ana), f"{home}m/{source.pk}/dive/"))

    assert chosen(dive.source) == [str(fern.participant_id)]
    result = publish_dive(dive=dive, by=access(ana), result=RESULT)
    assert chosen(result) == [str(vibe.participant_id)]
    post_message(thread=dive.parent, by=visible_to(vibe), body="In March.")
    assert chosen(say(dive.parent, ana, "Sure?")) == [str(vibe.participant_id)]


def test_the_eighth_is_refused_in_words_and_the_question_is_kept(
    ana: Member, vibe: Agent, source: Message, home: str, signed_in: SignedIn
) -> None:
    for _ in range(7):
        start_dive(source=source, by=access(ana), agent=vibe.participant)
    form_data = {"agent": vibe.participant_id, "body": "One more?"}
    answer = signed_in(ana).post(f"{home}m/{source.pk}/dive/", form_data, headers=HTMX)
    assert answer.status_code == 409
    assert answer["HX-Retarget"] == "#dive"
    assert b"7 active dives" in answer.content
    assert b"One more?" in answer.content


@pytest.mark.parametrize("sent", [{}, {"agent": "²"}, {"agent": "9" * 40}, {"agent": "1", "body": "a\x00b"}])
def test_starting_takes_anything(
    sent: dict[str, str], ana: Member, vibe: Agent, source: Message, home: str, signed_in: SignedIn
) -> None:
    answer = signed_in(ana).post(f"{home}m/{source.pk}/dive/", sent)
    assert answer.status_code == 400
    assert not Dive.objects.exists()


def test_nothing_starts_inside_a_dive_or_from_what_was_deleted(
    ana: Member, dive: Dive, source: Message, home: str, signed_in: SignedIn
) -> None:
    inside = Message.objects.get(thread=dive.thread)
    browser = signed_in(ana)
    assert browser.get(f"{home}m/{inside.pk}/dive/").status_code == 403
    delete_message(message=source, by=access(ana))
    assert browser.get(f"{home}m/{source.pk}/dive/").status_code == 404


def test_the_starter_writes_and_the_others_watch(
    ana: Member, dora: Member, dive: Dive, address: str, signed_in: SignedIn
) -> None:
    mine, hers = page_of(signed_in(ana), address), page_of(signed_in(dora), address)
    assert 'id="dive-composer"' in mine
    assert "Discard" in mine
    assert "Ana is diving with Vibe. You can watch." in hers
    assert "And the climbers?" in hers
    assert 'id="dive-composer"' not in hers
    assert "data-publish" not in hers
    said = signed_in(ana).post(address, {"body": "Go on"}, headers={"Accept": "application/json"})
    assert said.status_code == 201
    response = signed_in(dora).post(address, {"body": "Me too"})
    assert response.status_code == 403
    assert b"Start a dive of your own" in response.content
    assert b"Me too" in response.content


def test_a_question_that_is_refused_is_kept(ana: Member, dive: Dive, address: str, signed_in: SignedIn) -> None:
    answer = signed_in(ana).post(address, {"body": "Kept\x00 words"})
    assert answer.status_code == 400
    assert b"Kept words" in answer.content


def test_who_does_not_see_the_thread_does_not_see_its_dive(
    ben: Member, cleo: Member, dive: Dive, address: str, home: str, signed_in: SignedIn, thread: Thread
) -> None:
    pages = (address, f"{address}publish/", f"{address}discard/", f"{home}t/{thread.pk}/dives/")
    for stranger in (ben, cleo):
        assert [signed_in(stranger).get(page).status_code for page in pages] == [404] * 4
        assert signed_in(stranger).post(f"{address}preview/", {"headline": "x"}).status_code == 404


def test_a_guest_of_the_channel_may_dive(
    ana: Member, ben: Member, vibe: Agent, source: Message, home: str, signed_in: SignedIn
) -> None:
    add_to_channel(channel=source.thread.channel, participant=ben.participant, by=access(ana))
    form_data = {"agent": vibe.participant_id, "body": "And the hedge?"}
    assert signed_in(ben).post(f"{home}m/{source.pk}/dive/", form_data).status_code == 302
    assert Dive.objects.get().started_by == ben.participant


def test_the_message_it_started_from_says_so(
    ana: Member, dive: Dive, thread: Thread, home: str, address: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ana)
    page = browser.get(f"{home}t/{thread.pk}/").content.decode()
    assert "Dive with <bdi>Vibe</bdi> · active" in page
    assert re.search(r'class="dive-count">1<', page)
    browser.post(f"{address}discard/")
    page = browser.get(f"{home}t/{thread.pk}/").content.decode()
    assert "Dive with <bdi>Vibe</bdi> · discarded" in page
    assert "dive-count" not in page


def test_links_to_a_dives_messages_lead_to_the_dive(
    ana: Member, dive: Dive, address: str, home: str, signed_in: SignedIn
) -> None:
    said = Message.objects.get(thread=dive.thread)
    browser = signed_in(ana)
    assert browser.get(f"{home}m/{said.pk}/")["Location"] == f"{address}?at=1#m-1"
    assert browser.get(f"{home}t/{dive.thread_id}/?at=1")["Location"] == f"{address}?at=1"
    assert f'id="d{dive.thread_id}-1"' in page_of(browser, address)


def test_a_long_dive_comes_in_stretches(ana: Member, dive: Dive, address: str, signed_in: SignedIn) -> None:
    say_all(dive.thread, ana, [f"number {number}." for number in range(2, 61)])
    browser = signed_in(ana)
    page = page_of(browser, address)
    assert "number 60." in page
    assert f'href="{address}?before_seq=11"' in page
    older = page_of(browser, f"{address}?before_seq=11")
    assert older.count('<li class="message') == 10
    assert "dive-head" not in older
    assert page_of(browser, f"{address}?after_seq=58&live=1").count('<li class="message') == 2


def test_a_deleted_source_is_not_quoted(
    ana: Member, dive: Dive, source: Message, address: str, signed_in: SignedIn
) -> None:
    delete_message(message=source, by=access(ana))
    page = page_of(signed_in(ana), address)
    assert "prune the roses" not in page
    assert "That message was deleted" in page


def test_in_an_archived_thread_a_dive_is_only_read(
    ana: Member, dive: Dive, thread: Thread, address: str, signed_in: SignedIn
) -> None:
    update_thread(thread=thread, by=access(ana), archived=True)
    page = page_of(signed_in(ana), address)
    assert "The conversation is archived" in page
    assert 'id="dive-composer"' not in page
    assert "data-publish" not in page


def test_discarding_asks_first_and_says_by_whom_and_leaves_it_to_be_read(
    ana: Member, dora: Member, dive: Dive, address: str, home: str, signed_in: SignedIn
) -> None:
    assert b"Discard this dive?" in signed_in(ana).get(f"{address}discard/").content
    assert signed_in(dora).post(f"{address}discard/").status_code == 403
    page = signed_in(ana).post(f"{address}discard/", headers=HTMX).content.decode()
    assert re.search(r"Discarded by Ana, \d+ \w+ \d{4}, \d\d:\d\d. It can be read, not written to", page)
    assert "Ana, " in signed_in(dora).get(f"{home}t/{dive.parent_id}/dives/").content.decode().split("Discarded")[1]
    assert "And the climbers?" in page
    assert 'id="dive-composer"' not in page


@pytest.mark.parametrize("page", ["t/{t}/", "t/{t}/dives/", "dive/{d}/"])
def test_three_dives_and_results_cost_as_many_queries_as_one(
    page: str,
    ana: Member,
    vibe: Agent,
    source: Message,
    dive: Dive,
    home: str,
    signed_in: SignedIn,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    browser, address = signed_in(ana), home + page.format(t=source.thread_id, d=dive.pk)

    def another() -> None:
        more = start_dive(source=source, by=access(ana), agent=vibe.participant, body="More?")
        publish_dive(dive=more, by=access(ana), result=RESULT)
        start_dive(source=say(source.thread, ana, "Other"), by=access(ana), agent=vibe.participant)
        say(dive.thread, ana, "And?")

    another()
    browser.get(address)
    with CaptureQueriesContext(connection) as one:
        browser.get(address)
    another()
    another()
    with django_assert_num_queries(len(one)):
        browser.get(address)


def test_the_list_has_the_active_ones_first_and_says_what_to_do_when_empty(
    ana: Member, vibe: Agent, source: Message, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    browser, listed = signed_in(ana), f"{home}t/{thread.pk}/dives/"
    assert "Nobody has dived from this thread yet." in page_of(browser, listed)
    first = start_dive(source=source, by=access(ana), agent=vibe.participant)
    over = start_dive(source=source, by=access(ana), agent=vibe.participant)
    publish_dive(dive=over, by=access(ana), result=RESULT)
    page = page_of(browser, listed)
    assert page.index(f"dive/{first.pk}/") < page.index(f"dive/{over.pk}/")
    assert "Prune in March" in page


def test_a_guest_is_not_told_of_agents_they_do_not_know(
    ana: Member, ben: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    hidden = make_agent(ana, "spymaster")
    start = f"{home}m/{say(thread, ben, 'Hello').pk}/dive/"

    answer = signed_in(ben).post(start, {"agent": hidden.participant_id})
    assert (answer.status_code, "spymaster" in answer.content.decode()) == (400, False)
    assert "it is not in this channel" in signed_in(ana).post(start, {"agent": hidden.participant_id}).content.decode()


def test_what_is_posted_at_the_threads_address_stands_on_the_dives_page(
    signed_in: SignedIn, ana: Member, dive: Dive, home: str, address: str
) -> None:
    answer = signed_in(ana).post(f"{home}t/{dive.thread_id}/", {"body": "Here too?"}, follow=True)
    posted = Message.objects.get(thread=dive.thread, body="Here too?")
    assert answer.redirect_chain[-1][0] == f"{address}#d{dive.thread_id}-{posted.seq}"
