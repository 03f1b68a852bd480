"""The sidebar's statement: favourites and what is new are always in it, direct messages count for themselves."""

import pytest

from agents.agent.access import visible_to
from openvibe.base.models import Event
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Channel, Favourite, SidebarSettings
from openvibe.chat.queries import Sidebar, list_inbox_threads, read_channel_unread, read_sidebar
from openvibe.chat.queries.sidebar import MAX_CHANNELS
from openvibe.chat.services import (
    add_favourite,
    fold_section,
    mark_read,
    remove_favourite,
    remove_from_channel,
    set_notification_level,
    update_message,
    update_sidebar,
)
from openvibe.workspaces.models import Member
from tests.chat.test_direct_messages import begin
from tests.factories import (
    ChannelMembershipFactory,
    access,
    make_agent,
    make_channel,
    make_member,
    make_thread,
    say,
    write_channels,
)


def sidebar_of(member: Member) -> Sidebar:
    return read_sidebar(access(member), member.user_id)


def test_of_two_thousand_channels_favourites_and_what_is_new_are_always_listed(ana: Member, dora: Member) -> None:
    write_channels(ana, 2_000)
    rooms = {name: Channel.objects.get(name=name) for name in ("room-1990", "room-1991", "room-1992", "room-1993")}
    add_favourite(channel=rooms["room-1990"], by=access(dora))
    say(make_thread(rooms["room-1991"], ana), ana, "Something new")
    say(make_thread(rooms["room-1992"], ana), ana, "Look, @dora")
    ChannelMembershipFactory.create(channel=rooms["room-1993"], participant=dora.participant)
    sidebar = sidebar_of(dora)
    assert (sidebar.channel_count, sidebar.new_channel_count, sidebar.mention_count) == (2_000, 2, 1)
    assert sidebar.has_more_channels
    names = [each.name for each in sidebar.channels]
    assert len(names) == MAX_CHANNELS
    assert names == sorted(names)
    assert rooms.keys() <= set(names)
    assert [each.name for each in sidebar.channels if each.is_favourite] == ["room-1990"]


def test_more_channels_with_something_new_than_are_listed_else_are_listed_all_the_same(
    ana: Member, dora: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openvibe.chat.queries.sidebar.MAX_CHANNELS", 2)
    write_channels(ana, 6)
    for room in Channel.objects.order_by("-name")[:4]:
        say(make_thread(room, ana), ana, "Something new")
    assert [each.name for each in sidebar_of(dora).channels] == [f"room-000{number}" for number in (2, 3, 4, 5)]


def test_a_direct_message_counts_in_its_own_number_and_not_among_mentions(ana: Member, dora: Member) -> None:
    thread = begin(ana, dora.participant)
    for words in ("Hello!", "Are you there, @dora?", "It is urgent."):
        say(thread, ana, words)
    say(make_thread(make_channel(ana), ana), ana, "Look, @dora")
    sidebar = sidebar_of(dora)
    assert ([each.unread_count for each in sidebar.direct], sidebar.direct_count, sidebar.mention_count) == ([3], 3, 1)
    pair = dora.participant_id, thread.channel_id
    assert read_channel_unread([pair])[pair] == (True, 3)
    thread.refresh_from_db()
    mark_read(thread=thread, by=access(dora), seq=2)
    assert sidebar_of(dora).direct_count == 1
    assert [each.unread_count for each in sidebar_of(ana).direct] == [0]


def test_of_muted_direct_messages_none_counts(ana: Member, dora: Member) -> None:
    thread = begin(ana, dora.participant)
    say(thread, ana, "Hello!")
    set_notification_level(scope=thread, by=access(dora), level="nothing")
    (row,) = sidebar_of(dora).direct
    assert (row.unread, row.unread_count, row.is_muted) == (False, 0, True)
    pair = dora.participant_id, thread.channel_id
    assert read_channel_unread([pair])[pair] == (False, 0)


def test_the_inbox_lists_direct_messages_by_themselves(ana: Member, dora: Member) -> None:
    say(begin(ana, dora.participant), ana, "Hello!")
    say(make_thread(make_channel(ana), ana), ana, "Pruning")
    assert [item.title for item in list_inbox_threads(access(dora), show="direct").items] == ["Ana"]


def test_favourites_are_ones_own_and_go_with_what_one_sees(ana: Member, dora: Member) -> None:
    closed, direct = make_channel(ana, "closed", private=True), begin(ana, dora.participant)
    say(direct, dora, "Hello!")
    for channel in (closed, direct.channel, closed):
        add_favourite(channel=channel, by=access(ana))
    assert [each.name for each in sidebar_of(ana).channels if each.is_favourite] == ["closed"]
    assert [each.is_favourite for each in sidebar_of(ana).direct] == [True]
    assert not any(each.is_favourite for each in sidebar_of(dora).direct)
    remove_from_channel(channel=closed, participant=ana.participant, by=access(ana))
    assert not sidebar_of(ana).channels
    remove_favourite(channel=direct.channel, by=access(ana))
    assert [each.is_favourite for each in sidebar_of(ana).direct] == [False]
    assert set(Event.objects.filter(kind="sidebar_changed").values_list("participant_id", flat=True)) == {
        ana.participant_id
    }


def test_there_are_so_many_favourites_and_no_more(ana: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openvibe.chat.services.sidebar.MAX_FAVOURITES", 1)
    first, second = make_channel(ana, "first"), make_channel(ana, "second")
    add_favourite(channel=first, by=access(ana))
    add_favourite(channel=first, by=access(ana))
    with pytest.raises(Conflict, match="Take one away"):
        add_favourite(channel=second, by=access(ana))
    assert Favourite.objects.count() == 1


def test_folds_and_order_are_kept_and_what_is_unknown_is_refused(ana: Member, dora: Member) -> None:
    fold_section(section="people", by=access(ana), is_folded=True)
    fold_section(section="agents", by=access(ana), is_folded=True)
    fold_section(section="people", by=access(ana), is_folded=False)
    update_sidebar(by=access(ana), order="unread")
    sidebar = sidebar_of(ana)
    assert (sorted(sidebar.folded), sidebar.order) == (["agents"], "unread")
    assert (sorted(sidebar_of(dora).folded), sidebar_of(dora).order) == ([], "name")
    with pytest.raises(Problem):
        update_sidebar(by=access(ana), order="size")
    with pytest.raises(Problem):
        update_sidebar(by=access(ana), folded=["cellar"])
    with pytest.raises(Problem):
        fold_section(section="cellar", by=access(ana), is_folded=True)
    assert SidebarSettings.objects.count() == 1


def test_agents_have_no_sidebar(ana: Member) -> None:
    vibe = make_agent(ana)
    for change in (
        lambda: update_sidebar(by=visible_to(vibe), order="name"),
        lambda: add_favourite(channel=make_channel(ana), by=visible_to(vibe)),
    ):
        with pytest.raises(Refused, match="Only people"):
            change()


def test_an_edit_counts_a_direct_message_once(ana: Member, dora: Member) -> None:
    message = say(begin(ana, dora.participant), ana, "Hello!")
    update_message(message=message, by=access(ana), body="Hello, @dora!")
    assert sidebar_of(dora).direct_count == 1


def test_people_beyond_those_listed_are_counted(ana: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openvibe.chat.queries.sidebar.MAX_PEOPLE", 1)
    make_member("Zoe", ana.workspace)
    sidebar = sidebar_of(ana)
    assert (len(sidebar.people), sidebar.people_count) == (1, 2)
