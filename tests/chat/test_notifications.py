"""What people are notified of: their default, and what they chose for channels and threads."""

import pytest
from django.db import IntegrityError, transaction

from agents.agent.access import visible_to as agent_access
from agents.models import Agent
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import NotificationPreference, Thread
from openvibe.chat.queries import (
    filter_unread,
    list_channel_threads,
    list_unread_threads,
    notification_level,
    notification_preferences,
    read_channel_unread,
    read_sidebar,
    with_last_read_seq,
)
from openvibe.chat.services import mark_read, set_default_notification_level, set_notification_level
from openvibe.workspaces.models import Member
from tests.factories import access, make_channel, make_thread, say

pytestmark = pytest.mark.django_db


def bold(member: Member) -> list[bool]:
    """Whether the first channel is bold: as the sidebar is read, and as open pages are told."""
    channel = read_sidebar(access(member), member.user_id).channels[0]
    unread_state = read_channel_unread([(member.participant_id, channel.pk)])[member.participant_id, channel.pk]
    assert unread_state == (channel.unread, channel.mention_count)
    return [channel.unread, bool(channel.mention_count)]


def test_a_threads_choice_wins_over_its_channels_and_that_over_the_default(ana: Member, thread: Thread) -> None:
    by = access(ana)
    assert notification_level(by, thread) == "mentions"
    set_default_notification_level(by=by, level="nothing")
    assert notification_level(by, thread) == "nothing"
    set_notification_level(scope=thread.channel, by=by, level="mentions")
    assert notification_level(by, thread) == "mentions"
    set_notification_level(scope=thread, by=by, level="all")
    assert [notification_level(by, scope) for scope in (thread, thread.channel, None)] == ["all", "mentions", "nothing"]
    set_notification_level(scope=thread, by=by, level="")
    assert notification_level(by, thread) == "mentions"


def test_what_is_muted_is_not_unread_and_who_is_named_there_is_counted(
    ana: Member, dora: Member, thread: Thread
) -> None:
    by = access(dora)
    say(thread, ana, "Who prunes?")
    assert bold(dora) == [True, False]

    set_notification_level(scope=thread.channel, by=by, level="nothing")
    assert bold(dora) == [False, False]
    assert len(list_unread_threads(by).items) == 0
    assert not filter_unread(with_last_read_seq(Thread.objects.visible_to(by), by), by).exists()
    assert [item.unread for item in list_channel_threads(thread.channel, by).items] == [False]
    say(thread, ana, "You, @dora?")
    assert bold(dora) == [False, True]

    set_notification_level(scope=thread, by=by, level="mentions")  # of all its channel, this one is followed
    assert bold(dora) == [True, True]
    assert (
        len(list_unread_threads(by).items)
        == filter_unread(with_last_read_seq(Thread.objects.all(), by), by).count()
        == 1
    )
    set_notification_level(scope=thread, by=by, level="nothing")
    thread.refresh_from_db()
    mark_read(thread=thread, by=by, seq=2)
    assert bold(dora) == [False, False]
    assert bold(ana) == [False, False]


def test_a_default_of_nothing_mutes_nothing(ana: Member, dora: Member, thread: Thread) -> None:
    set_default_notification_level(by=access(dora), level="nothing")
    say(thread, ana, "Who prunes?")
    assert bold(dora) == [True, False]


def test_choices_are_listed_as_long_as_their_place_is_seen(ana: Member, dora: Member, thread: Thread) -> None:
    closed = make_channel(ana, "closed", private=True)
    private_thread = make_thread(closed, ana)
    for scope in (thread, thread.channel, closed, private_thread):
        set_notification_level(scope=scope, by=access(dora), level="all")
    assert [each.channel or each.thread for each in notification_preferences(access(dora))] == [thread.channel, thread]


def test_bad_levels_agents_and_doubles_are_refused(ana: Member, vibe: Agent, thread: Thread) -> None:
    with pytest.raises(Problem, match="all, mentions or nothing"):
        set_notification_level(scope=thread, by=access(ana), level="loud")
    with pytest.raises(Problem, match="all, mentions or nothing"):
        set_default_notification_level(by=access(ana), level="")
    by_agent = vibe.participant
    with pytest.raises(Refused, match="Only people"):
        set_notification_level(scope=thread, by=agent_access(vibe), level="all")
    for wrong in ({}, {"thread": thread, "channel": thread.channel}):
        with pytest.raises(IntegrityError), transaction.atomic():
            NotificationPreference.objects.create(participant=by_agent, level="all", **wrong)
    for _ in range(2):
        set_notification_level(scope=thread, by=access(ana), level="all")
    with pytest.raises(IntegrityError), transaction.atomic():
        NotificationPreference.objects.create(participant=ana.participant, thread=thread, level="all")
