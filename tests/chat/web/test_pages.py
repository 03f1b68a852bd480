"""What each of the cast gets to see."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agents.models import Agent
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.queries.sidebar import MAX_CHANNELS
from openvibe.chat.services import add_to_channel, create_reply, update_thread
from openvibe.workspaces.decorators import READER_HEADER
from openvibe.workspaces.models import Member, Participant
from tests import factories
from tests.factories import access, attach, make_agent, make_channel, make_member, make_thread, say, say_all

STATIC = Path(__file__).parents[3] / "static"
SignedIn = Callable[[Member], Client]
PAGES = ("", "mentions/", "search/?q=pruning", "c/{c}/", "c/{c}/members/", "t/{t}/", "members/", "profile/", "sidebar/")


def addresses(home: str, thread: Thread) -> list[str]:
    return [home + page.format(c=thread.channel_id, t=thread.pk) for page in PAGES]


def test_every_page_opens_for_ana(ana: Member, vibe: Agent, thread: Thread, home: str, signed_in: SignedIn) -> None:
    say(thread, ana, "Pruning, @vibe?")
    browser = signed_in(ana)
    for address in addresses(home, thread):
        answer = browser.get(address)
        assert answer.status_code == 200, address
        assert answer.headers[READER_HEADER] == str(ana.participant_id)


def test_a_stranger_and_an_unknown_workspace_get_the_same_answer(
    cleo: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    browser = signed_in(cleo)
    unknown = browser.get("/w/nowhere/t/1/")
    for address in addresses(home, thread):
        answer = browser.get(address)
        assert answer.status_code == 404, address
        assert answer.content == unknown.content
        assert answer.headers[READER_HEADER] == unknown.headers[READER_HEADER] == "0"


def test_a_problem_says_for_whom_it_is_answered(ben: Member, thread: Thread, home: str, signed_in: SignedIn) -> None:
    """A person who was removed: her open page is not somebody else's."""
    browser = signed_in(ben)
    assert browser.get(f"{home}t/999999/").headers[READER_HEADER] == str(ben.participant_id)
    Member.objects.filter(pk=ben.pk).update(removed_at=timezone.now())
    answer = browser.get(f"{home}t/{thread.pk}/")
    assert (answer.status_code, answer.headers[READER_HEADER]) == (404, str(ben.participant_id))


def test_signed_out_leads_to_sign_in_and_back(thread: Thread, home: str) -> None:
    answer = Client().get(f"{home}t/{thread.pk}/")
    assert answer.status_code == 302
    assert answer["Location"].endswith(f"?next={home}t/{thread.pk}/")


def test_ben_sees_only_what_he_was_added_to(
    ana: Member, ben: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    message = say(thread, ana, "Only for the channel")
    browser = signed_in(ben)
    for page in (f"c/{thread.channel_id}/", f"t/{thread.pk}/", f"m/{message.pk}/", f"t/{thread.pk}/names/"):
        assert browser.get(home + page).status_code == 404
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    assert b"Only for the channel" in browser.get(f"{home}t/{thread.pk}/").content


def test_a_private_channel_is_not_in_anothers_sidebar_or_search(
    ana: Member, dora: Member, home: str, signed_in: SignedIn
) -> None:
    private = make_channel(ana, "salaries", private=True)
    say(make_thread(private, ana, "Raise"), ana, "quarterly pruning")
    browser = signed_in(dora)
    assert b"salaries" not in browser.get(home).content
    assert b"quarterly" not in browser.get(f"{home}search/?q=quarterly").content.replace(
        b'value="quarterly"', b""
    ).replace(b"<title>quarterly", b"")
    assert b"salaries" in signed_in(ana).get(home).content


def test_another_workspaces_ids_are_unknown_here(ana: Member, cleo: Member, signed_in: SignedIn) -> None:
    foreign = make_thread(make_channel(cleo), cleo)
    message = say(foreign, cleo, "hers")
    browser, home = signed_in(ana), f"/w/{ana.workspace.slug}/"
    for page in (f"t/{foreign.pk}/", f"m/{message.pk}/", f"m/{message.pk}/edit/", f"c/{foreign.channel_id}/"):
        foreign_page, unknown = browser.get(home + page), browser.get(home + "t/999999999999999999/")
        assert (
            (foreign_page.status_code, foreign_page.content)
            == (unknown.status_code, unknown.content)
            == (404, unknown.content)
        )


@pytest.mark.parametrize("page", ["t/{t}/", "c/{c}/", "", "mentions/", "search/?q=word"])
def test_three_rows_cost_as_many_queries_as_one(
    page: str,
    ana: Member,
    dora: Member,
    vibe: Agent,
    thread: Thread,
    home: str,
    signed_in: SignedIn,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    browser = signed_in(ana)
    address = home + page.format(t=thread.pk, c=thread.channel_id)

    def talk(round_: int) -> None:
        other = make_thread(thread.channel, dora, f"Thread {round_}")
        say(other, dora, "word for @ana")
        attach(thread, dora, "another word for @ana and @vibe", notes_md="words")
        reply = create_reply(thread=thread, author=vibe.participant, client_id=str(round_))
        Message.objects.filter(pk=reply.pk).update(body="word", state="complete")

    talk(1)
    browser.get(address)
    with CaptureQueriesContext(connection) as one:
        browser.get(address)
    talk(2)
    talk(3)
    make_agent(ana, "fern", channel=thread.channel)
    make_channel(ana, "other")
    with django_assert_num_queries(len(one)):
        browser.get(address)


def test_messages_come_fifty_at_a_time_and_around_a_place(
    ana: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    say_all(thread, ana, [f"number {number}." for number in range(1, 121)])
    browser, address = signed_in(ana), f"{home}t/{thread.pk}/"
    newest = browser.get(address).content
    assert newest.count(b'<li class="message') == 50
    assert b"number 120." in newest
    assert b"number 70." not in newest
    older = browser.get(address, {"before_seq": 71}, headers={"HX-Request": "true"}).content
    assert older.count(b'<li class="message') == 50
    assert b"<html" not in older
    assert b"number 21." in older
    around = browser.get(address, {"at": 60}).content
    assert b'id="m-60"' in around
    assert b"Later messages" in around
    assert b"Earlier messages" in around
    later = browser.get(address, {"after_seq": 118}, headers={"HX-Request": "true"}).content
    assert later.count(b'<li class="message') == 2


def test_messages_of_one_author_are_grouped_and_the_new_line_stands_where_reading_stopped(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    for text in ("first", "second"):
        say(thread, ana, text)
    say(thread, dora, "third")
    page = signed_in(ana).get(f"{home}t/{thread.pk}/").content.decode()
    assert page.count("starts-group") == 2
    assert page.index("second") < page.index('id="new"') < page.index("third")


def test_a_deleted_message_leaves_a_line_and_no_text(
    ana: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    message = say(thread, ana, "to be forgotten")
    answer = signed_in(ana).post(f"{home}m/{message.pk}/delete/", follow=True)
    assert b"This message was deleted." in answer.content
    assert b"forgotten" not in answer.content


def test_why_an_agent_was_not_told_stands_under_the_message(
    ana: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    make_agent(ana, "fern")
    say(thread, ana, "@fern are you here?")
    assert b"@fern was not told: it is not in this channel." in signed_in(ana).get(f"{home}t/{thread.pk}/").content


def test_who_can_be_mentioned_here(
    ana: Member, ben: Member, dora: Member, vibe: Agent, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    make_agent(ana, "fern")
    names = signed_in(ana).get(f"{home}t/{thread.pk}/names/?q=").json()["names"]
    assert [(one["handle"], one["level"]) for one in names] == [("vibe", 2), ("dora", None)]


def test_people_only_is_said_and_hides_the_thread_from_the_agents_list(
    ana: Member, vibe: Agent, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ana)

    def kinds() -> list[str]:
        return [one["kind"] for one in browser.get(f"{home}t/{thread.pk}/names/").json()["names"]]

    assert "agent" in kinds()
    browser.post(f"{home}t/{thread.pk}/agents/", {"access": "human_only"})
    assert b"People only" in browser.get(f"{home}t/{thread.pk}/").content
    assert "agent" not in kinds()


def test_search_marks_words_and_escapes_the_rest(ana: Member, thread: Thread, home: str, signed_in: SignedIn) -> None:
    say(thread, ana, "<b>Pruning</b> & <script>alert(1)</script> grafting")
    page = signed_in(ana).get(f"{home}search/", {"q": "pruning"}).content.decode()
    assert "<mark>Pruning</mark>" in page
    assert "<script>alert" not in page


@pytest.mark.parametrize("query", ["q=%00", "q=a&page=zzz", "q=a&channel=0", "author=%40ana", "kind=", "q=%22%22%27(("])
def test_search_takes_anything(query: str, ana: Member, thread: Thread, home: str, signed_in: SignedIn) -> None:
    assert signed_in(ana).get(f"{home}search/?{query}").status_code == 200


def test_no_inline_script_or_style(ana: Member, thread: Thread, home: str, signed_in: SignedIn) -> None:
    answer = signed_in(ana).get(f"{home}t/{thread.pk}/")
    page = answer.content.decode()
    assert "style=" not in page
    assert "<style" not in page
    scripts = [tag.split(">")[0] for tag in page.split("<script")[1:]]
    assert scripts
    assert all("src=" in tag for tag in scripts)
    assert "unsafe" not in answer["Content-Security-Policy"]


def test_an_archived_thread_can_be_read_not_written_to(
    ana: Member, channel: Channel, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    update_thread(thread=thread, by=access(ana), archived=True)
    browser = signed_in(ana)
    assert b"This conversation is archived" in browser.get(f"{home}t/{thread.pk}/").content
    assert browser.post(f"{home}t/{thread.pk}/", {"body": "still?"}).status_code == 403


def test_times_are_shown_in_the_readers_zone(ana: Member, thread: Thread, home: str, signed_in: SignedIn) -> None:
    message = say(thread, ana, "late")
    Message.objects.filter(pk=message.pk).update(created_at=datetime(2026, 1, 31, 23, 30, tzinfo=UTC))
    browser, address = signed_in(ana), f"{home}t/{thread.pk}/"
    assert b"31 January 2026" in browser.get(address).content
    browser.cookies["zone"] = "Europe/Berlin"
    page = browser.get(address).content
    assert b"1 February 2026" in page
    assert b"00:30" in page
    browser.cookies["zone"] = "../../etc/passwd"
    assert browser.get(address).status_code == 200


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Los_Angeles"])
@pytest.mark.parametrize("year", [1, 9999])
def test_a_time_at_the_end_of_the_calendar_breaks_no_page(
    ana: Member, thread: Thread, home: str, signed_in: SignedIn, year: int, zone: str
) -> None:
    """A time as an archive may bring it, or an import of an earlier version."""
    last = datetime(year, 12, 31, 23, 59, 59, 999999, UTC)
    first = datetime(year, 1, 1, tzinfo=UTC)
    Message.objects.filter(pk=say(thread, ana, "Prune now.").pk).update(created_at=first)
    Message.objects.filter(pk=say(thread, ana, "Prune late.").pk).update(created_at=last)
    Thread.objects.filter(pk=thread.pk).update(last_message_at=last)
    browser = signed_in(ana)
    browser.cookies["zone"] = zone
    place = f"{home}t/{thread.pk}/"
    for page in (home, f"{home}c/{thread.channel_id}/", place, f"{place}memory/?q=prune", f"{home}search/?q=prune"):
        assert browser.get(page).status_code == 200


def test_the_panel_survives_a_reload_and_stays_inside_the_workspace(
    ana: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    browser, address = signed_in(ana), f"{home}t/{thread.pk}/"
    assert f'hx-get="{home}m/1/history/"'.encode() in browser.get(address, {"panel": "m/1/history/"}).content
    for foreign in ("//elsewhere.example/", "../../admin/", "https://elsewhere.example/"):
        assert b'hx-trigger="load"' not in browser.get(address, {"panel": foreign}).content


def test_an_imported_conversation_says_so_once_a_day(
    ana: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    kinds = {"imported": "Rosa", "assistant": "Bot"}
    speakers = [
        Participant.objects.create(workspace=ana.workspace, kind=kind, handle=kind, name=kinds[kind]) for kind in kinds
    ]
    for day in (1, 2):
        for n, speaker in enumerate(speakers * 2):
            at = datetime(2026, 3, day, 12, n, tzinfo=UTC)
            Message.objects.create(thread=thread, author=speaker, body="Said.", created_at=at)
    page = signed_in(ana).get(f"{home}t/{thread.pk}/").content.decode()
    assert page.count(">Imported</span>") == 2
    assert page.count(">Assistant</span>") == 4


def test_a_result_drafted_in_json_is_shown_in_words(
    ana: Member, vibe: Agent, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    draft = '```json\n{"headline": "Prune in March", "key_points": ["Before the buds open", "With care"]}\n```'
    for body in (draft, '{"a": 1}'):
        Message.objects.create(thread=thread, author=vibe.participant, body=body)
    page = signed_in(ana).get(f"{home}t/{thread.pk}/").content.decode()
    assert "headline&quot;" not in page
    assert re.search(r"<h\d>Headline</h\d>\s*<p>Prune in March</p>", page)
    assert '{"a": 1}' in page  # other JSON is what the agent meant to say


def text_of(browser: Client, address: str) -> str:
    answer = browser.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def test_what_there_are_thousands_of_is_shown_a_page_at_a_time(ana: Member, home: str, signed_in: SignedIn) -> None:
    browser = signed_in(ana)
    channels = [Channel(workspace=ana.workspace, name=f"bed-{number:03}") for number in range(120)]
    Channel.objects.bulk_create(channels)
    channel = make_channel(ana, "zinnias")
    dora = make_member("Dora", ana.workspace)
    say(make_thread(channel, dora), dora, "@ana look")
    factories.write_members(ana.workspace, 70)

    sidebar = text_of(browser, f"{home}sidebar/")
    assert sidebar.count("data-channel=") == MAX_CHANNELS
    assert "zinnias" in sidebar  # where she is named
    assert f'href="{home}channels/"' in sidebar
    assert f'href="{home}c/{channels[-1].pk}/"' not in sidebar
    sidebar_html = text_of(browser, f"{home}c/{channels[-1].pk}/").partition("<main")[0]
    assert re.search(rf'c/{channels[-1].pk}/"[^>]*aria-current="page"', sidebar_html)  # where she is

    for path, in_all in (("channels/", 50), ("members/", 50), (f"c/{channel.pk}/members/", 50)):
        listed = text_of(browser, f"{home}{path}").partition("<main")[2]
        assert listed.count('<li class="person"') == in_all
        assert "?page=2" in listed
    assert text_of(browser, f"{home}channels/?q=zinn").partition("<main")[2].count('<li class="person"') == 1
    for path in ("members/", f"c/{channel.pk}/members/"):
        main_html = text_of(browser, f"{home}{path}?q=Helper+1%00").partition("<main")[2]
        assert main_html.count('<li class="person"') == 11
        assert "Helper 61" not in main_html


def test_an_empty_page_says_what_to_do_next(ana: Member, ben: Member, home: str, signed_in: SignedIn) -> None:
    owner, guest = signed_in(ana), signed_in(ben)
    Channel.objects.all().delete()
    assert f'href="{home}channels/new/"' in text_of(owner, f"{home}channels/").partition("<main")[2]
    assert "channels/new/" not in text_of(guest, f"{home}channels/").partition("<main")[2]
    assert f'href="{home}channels/"' in text_of(owner, f"{home}channels/?q=nowhere").partition("<main")[2]
    assert re.search(r'register\("l", "Save the message', (STATIC / "js/marks.js").read_text())
    assert "Press the star on a message, or L," in text_of(owner, f"{home}saved/")
    Member.objects.filter(pk=ana.pk).update(shortcuts=False)
    assert "Press the star on a message, and" in text_of(owner, f"{home}saved/")
