"""What one does with the sidebar in pages: folds, order, favourites, muting, joining, leaving, browsing channels."""

import gzip
import re
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from openvibe.chat.models import Channel, ChannelMembership, Favourite, NotificationPreference, SidebarSettings, Thread
from openvibe.workspaces.models import Member
from tests.chat.test_direct_messages import begin
from tests.chat.web.visible_words import visible_words
from tests.factories import ChannelMembershipFactory, make_channel, make_thread, say, write_channels, write_members

SignedIn = Callable[[Member], Client]
HTMX = {"HX-Request": "true"}


def words_of(browser: Client, address: str) -> str:
    return visible_words(browser.get(address).content.decode())


def test_direct_messages_and_agents_stand_above_channels(
    ana: Member, dora: Member, vibe: object, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    say(begin(dora, ana.participant), dora, "Hello!")
    page = signed_in(ana).get(f"{home}sidebar/").content.decode()
    places = [page.index(f'id="fold-{section}"') for section in ("direct", "agents", "channels", "people")]
    assert places == sorted(places)
    words = visible_words(page)
    assert "Direct messages 1 unread direct messages" in words


def test_a_folded_section_shows_what_is_new_and_where_one_is(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    quiet, loud = make_channel(ana, "quiet"), make_channel(ana, "loud")
    say(make_thread(loud, dora), dora, "Something new")
    browser = signed_in(ana)
    page = browser.get(f"{home}sidebar/").content.decode()
    assert re.search(r'id="fold-channels" name="fold" value="channels"\s+aria-expanded="true"', page)
    answer = browser.post(f"{home}sidebar/arrange/", {"fold": "channels"}, headers=HTMX).content.decode()
    assert re.search(r'id="fold-channels" name="unfold" value="channels"\s+aria-expanded="false"', answer)
    assert [f">{name}<" in answer for name in ("loud", "quiet", "general")] == [True, False, False]
    here = browser.get(f"{home}c/{quiet.pk}/").content.decode().partition("<main")[0]
    assert f'data-channel="{quiet.pk}" aria-current="page"' in here
    back = browser.post(
        f"{home}sidebar/arrange/", {"unfold": "channels"}, headers={"Referer": f"http://testserver{home}saved/"}
    )
    assert back["Location"] == f"http://testserver{home}saved/"
    assert "quiet" in browser.get(f"{home}sidebar/").content.decode()


def test_unread_first_or_by_name(ana: Member, dora: Member, home: str, signed_in: SignedIn) -> None:
    rooms = [make_channel(ana, name) for name in ("aster", "beech", "cedar")]
    say(make_thread(rooms[1], dora), dora, "Something new")
    say(make_thread(rooms[2], dora), dora, "Look, @ana")
    browser = signed_in(ana)

    def order() -> list[str]:
        return re.findall(
            r'<span class="clip" dir="auto">(aster|beech|cedar)</span>', browser.get(f"{home}sidebar/").content.decode()
        )

    assert order() == ["aster", "beech", "cedar"]
    browser.post(f"{home}sidebar/arrange/", {"order": "unread"})
    assert order() == ["cedar", "beech", "aster"]


@pytest.mark.parametrize("values", [{"order": "size"}, {"fold": "cellar"}, {"unfold": ""}, {}, {"fold": "a\x00"}])
def test_what_is_no_way_to_arrange_it_is_refused(
    ana: Member, home: str, signed_in: SignedIn, values: dict[str, str]
) -> None:
    assert signed_in(ana).post(f"{home}sidebar/arrange/", values).status_code == 400
    assert not SidebarSettings.objects.exists()


def test_the_card_of_a_channel_makes_it_a_favourite_mutes_joins_and_leaves(
    ana: Member, dora: Member, home: str, signed_in: SignedIn
) -> None:
    channel, browser = make_channel(ana), signed_in(dora)
    address = f"{home}sidebar/{channel.pk}/"
    assert words_of(browser, address).partition("general")[2]
    assert "<html" not in browser.get(address, headers=HTMX).content.decode()
    for action, (favourite, muted, joined) in {
        "favourite": (True, False, False),
        "mute": (True, True, False),
        "join": (True, True, True),
        "unfavourite": (False, True, True),
        "unmute": (False, False, True),
        "leave": (False, False, False),
    }.items():
        for _ in range(2):  # twice is once
            assert browser.post(address, {"do": action})["Location"] == f"{home}c/{channel.pk}/"
        mine = {"participant": dora.participant, "channel": channel}
        assert Favourite.objects.filter(**mine).exists() == favourite, action
        assert NotificationPreference.objects.filter(**mine, level="nothing").exists() == muted, action
        assert ChannelMembership.objects.filter(**mine).exists() == joined, action


def test_the_card_of_direct_messages_has_no_way_to_leave(
    ana: Member, dora: Member, home: str, signed_in: SignedIn
) -> None:
    thread, browser = begin(dora, ana.participant), signed_in(ana)
    say(thread, dora, "Hello!")
    address = f"{home}sidebar/{thread.channel_id}/"
    words = words_of(browser, address)
    assert ["favourites" in words, "Leave" in words, "Join" in words] == [True, False, False]
    assert browser.post(address, {"do": "favourite"})["Location"] == f"{home}t/{thread.pk}/"
    assert browser.post(address, {"do": "mute"}).status_code == 302
    sidebar = browser.get(f"{home}sidebar/").content.decode()
    assert sidebar.index("Favourites") < sidebar.index("Dora") < sidebar.index("Direct messages")
    assert browser.post(address, {"do": "leave"}).status_code == 403
    for unknown in ("sell", ""):
        assert browser.post(address, {"do": unknown}).status_code == 400


def test_who_leaves_a_private_channel_comes_to_the_inbox(ana: Member, home: str, signed_in: SignedIn) -> None:
    channel, browser = make_channel(ana, "closed", private=True), signed_in(ana)
    page = browser.get(f"{home}sidebar/{channel.pk}/").content.decode()
    assert "Leave #closed? You see it again only when somebody adds you." in page
    assert browser.post(f"{home}sidebar/{channel.pk}/", {"do": "leave"})["Location"] == home
    assert browser.get(f"{home}sidebar/{channel.pk}/").status_code == 404


def test_nobody_has_a_card_of_what_she_does_not_see(
    ana: Member, ben: Member, dora: Member, cleo: Member, home: str, signed_in: SignedIn
) -> None:
    closed, direct = make_channel(ana, "closed", private=True), begin(ana, dora.participant)
    for who in (ben, cleo):
        for channel_id in (closed.pk, direct.channel_id, 2**63):
            for method in ("get", "post"):
                answer = getattr(signed_in(who), method)(f"{home}sidebar/{channel_id}/", {"do": "favourite"})
                assert answer.status_code == 404
    assert not Favourite.objects.exists()


def test_channels_are_browsed_with_purpose_members_and_a_way_to_join(
    ana: Member, ben: Member, dora: Member, vibe: object, home: str, signed_in: SignedIn
) -> None:
    roses = make_channel(ana, "roses")
    Channel.objects.filter(pk=roses.pk).update(description="Everything about ورد")
    make_channel(ana, "closed", private=True)
    ChannelMembershipFactory.create(channel=roses, participant=ben.participant)
    browser = signed_in(dora)
    words = words_of(browser, f"{home}channels/")
    assert "Everything about ورد 2 members of #roses Join #roses" in words
    assert "closed" not in words
    assert "No channel has" in words_of(browser, f"{home}channels/?q=tulip")
    assert "roses" in words_of(browser, f"{home}channels/?show=others&q=everything").partition("1 channel")[2]
    browser.post(f"{home}sidebar/{roses.pk}/", {"do": "join"})
    assert "3 members of #roses Leave #roses" in words_of(browser, f"{home}channels/?show=joined")
    assert "general" in words_of(browser, f"{home}channels/?show=others")
    guest = words_of(signed_in(ben), f"{home}channels/")
    assert ["Leave #roses" in guest, "Join #" in guest] == [True, False]


def test_many_channels_take_as_many_statements_as_one_and_few_bytes(
    ana: Member, dora: Member, home: str, signed_in: SignedIn
) -> None:
    make_channel(ana, "first")
    browser = signed_in(dora)
    counts: list[list[int]] = []
    for is_full in (False, True):
        if is_full:
            write_channels(ana, 2_000)
            write_members(ana.workspace, 60)
        counts.append([])
        for path in ("sidebar/", "channels/", "", "search/", "members/"):
            browser.get(home + path)
            with CaptureQueriesContext(connection) as statements:
                page = browser.get(home + path, headers={"Accept-Encoding": "gzip"})
            counts[-1].append(len(statements))
            assert len(page.content) <= 25_000
    assert counts[0] == counts[1]
    sidebar = gzip.decompress(browser.get(f"{home}sidebar/", headers={"Accept-Encoding": "gzip"}).content).decode()
    assert "Show all 2001 channels" in sidebar
    assert "Show all 62 people" in sidebar


def test_the_inbox_says_how_many_direct_messages_and_mentions_are_unread(
    ana: Member, dora: Member, home: str, signed_in: SignedIn
) -> None:
    thread = begin(dora, ana.participant)
    for words in ("Hello!", "Still there?"):
        say(thread, dora, words)
    say(make_thread(make_channel(ana), dora), dora, "Look, @ana")
    inbox = words_of(signed_in(ana), home)
    assert "Mentions 1 unread Direct messages 2 unread" in inbox
    direct = words_of(signed_in(ana), f"{home}?show=direct")
    assert ["Still there?" in direct, "Look, @ana" in direct] == [True, False]


def test_a_channel_that_the_sidebar_has_no_room_for_can_be_chosen_in_lists(
    ana: Member, home: str, signed_in: SignedIn
) -> None:
    write_channels(ana, 150)
    last = Channel.objects.get(name="room-0149")
    for path in (f"?channel={last.pk}", f"search/?q=roses&channel={last.pk}"):
        page = signed_in(ana).get(home + path).content.decode()
        assert re.search(rf'<option value="{last.pk}"\s+selected>#room-0149', page), path


def test_a_person_who_wrote_before_is_led_to_the_conversation(
    ana: Member, dora: Member, home: str, signed_in: SignedIn
) -> None:
    thread = begin(dora, ana.participant)
    assert signed_in(ana).get(f"{home}direct/?to={dora.participant_id}")["Location"] == f"{home}t/{thread.pk}/"
