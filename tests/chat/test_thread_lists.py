"""Lists of threads and the sidebar look at the newest threads of each channel, and at what was marked as unread."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from openvibe.chat.models import Channel, Mention, Message, NotificationPreference, Thread
from openvibe.chat.queries import (
    ThreadItem,
    list_channel_threads,
    list_inbox_threads,
    list_unread_threads,
    messages_mentioning,
    read_channel_unread,
    read_sidebar,
)
from openvibe.chat.queries.unread import MAX_COUNTED_MENTIONS, RECENT_THREADS
from openvibe.chat.services import create_channel, mark_all_read, mark_read, mark_unread_from, pin_thread
from openvibe.workspaces.models import Member
from tests.factories import access, make_thread, say

pytestmark = pytest.mark.django_db


@pytest.fixture
def old(ana: Member, dora: Member, channel: Channel) -> Thread:
    """A thread with two messages, behind RECENT_THREADS that were written in since. Dora has read everything."""
    thread = make_thread(channel, ana, "Old")
    say(thread, ana, "First")
    say(thread, ana, "Second")
    newer = timezone.now() + timedelta(minutes=1)
    rows = [
        Thread(
            workspace_id=channel.workspace_id,
            channel=channel,
            title=f"Newer {n}",
            last_seq=1,
            last_message_at=newer + timedelta(seconds=n),
        )
        for n in range(RECENT_THREADS)
    ]
    Thread.objects.bulk_create(rows)
    mark_all_read(by=access(dora))
    thread.refresh_from_db()
    return thread


def is_bold(member: Member, channel: Channel) -> bool:
    """Whether the sidebar has it in bold, as open pages are told."""
    sidebar_channel = next(one for one in read_sidebar(access(member), member.user_id).channels if one.pk == channel.pk)
    told = read_channel_unread([(member.participant_id, channel.pk)])[member.participant_id, channel.pk]
    assert told == (sidebar_channel.unread, sidebar_channel.mention_count)
    return sidebar_channel.unread


def every_item(member: Member, *, limit: int) -> list[ThreadItem]:
    """All pages of the inbox, one after the other."""
    items: list[ThreadItem] = []
    has_more = True
    while has_more:
        page = list_inbox_threads(access(member), offset=len(items), limit=limit)
        assert len(page.items) == limit or not page.has_more
        items, has_more = items + page.items, page.has_more
    return items


def test_what_somebody_marks_as_unread_leads_however_old_it_is(dora: Member, old: Thread) -> None:
    by = access(dora)
    assert not is_bold(dora, old.channel)
    mark_unread_from(thread=old, by=by, seq=2)
    assert is_bold(dora, old.channel)
    assert list_inbox_threads(by).items[0].title == "Old"
    assert [item.title for item in every_item(dora, limit=7)].count("Old") == 1
    mark_read(thread=old, by=by, seq=2)
    assert not is_bold(dora, old.channel)
    assert list_inbox_threads(by).items[0].title != "Old"


def test_a_mark_ends_when_she_reads_on_by_writing_or_by_reading_all(ana: Member, dora: Member, old: Thread) -> None:
    by = access(dora)
    mark_unread_from(thread=old, by=by, seq=2)
    mark_all_read(by=by)
    assert not is_bold(dora, old.channel)
    mark_unread_from(thread=old, by=by, seq=1)
    say(old, dora, "Read again")
    Thread.objects.filter(pk=old.pk).update(last_message_at=timezone.now() - timedelta(days=1))
    assert not is_bold(dora, old.channel)


def test_what_is_new_behind_the_newest_is_listed_as_unread_and_stands_at_its_time(dora: Member, old: Thread) -> None:
    by = access(dora)
    dora.participant.read_markers.filter(thread=old).update(last_read_seq=1)
    assert [item.title for item in list_unread_threads(by).items] == ["Old"]
    assert not is_bold(dora, old.channel)
    *_, last = every_item(dora, limit=50)
    assert (last.title, last.unread) == ("Old", True)


@pytest.mark.parametrize("limit", [1, 13, RECENT_THREADS, RECENT_THREADS * 2])
def test_pages_show_every_thread_once_in_one_order(ana: Member, dora: Member, old: Thread, limit: int) -> None:
    new_threads = Thread.objects.filter(title__in=("Newer 3", "Newer 50"))
    dora.participant.read_markers.filter(thread__in=new_threads).delete()
    titles = [item.title for item in every_item(dora, limit=limit)]
    assert titles[:3] == ["Newer 50", "Newer 3", f"Newer {RECENT_THREADS - 1}"]
    assert len(titles) == len(set(titles)) == Thread.objects.count()
    assert titles[-1] == "Old"


def test_a_pinned_thread_stands_first_in_its_channel_however_old_it_is(ana: Member, dora: Member, old: Thread) -> None:
    pin_thread(thread=old, by=access(ana), pinned=True)
    listed = list_channel_threads(old.channel, access(dora), limit=3)
    newest = [f"Newer {RECENT_THREADS - age}" for age in (1, 2)]
    assert [item.title for item in listed.items] == ["Old", *newest]
    behind = list_channel_threads(old.channel, access(dora), offset=RECENT_THREADS, limit=3)
    assert ([item.title for item in behind.items], behind.has_more) == (["Newer 0"], False)


def test_of_what_somebody_is_named_in_the_newest_are_counted(ana: Member, dora: Member, thread: Thread) -> None:
    first = say(thread, ana, "Hello @dora")
    rows = [
        Message(thread=thread, author=ana.participant, seq=first.seq + n, kind="text", state="complete", body="@dora")
        for n in range(1, MAX_COUNTED_MENTIONS + 3)
    ]
    for row in Message.objects.bulk_create(rows):
        Mention.objects.create(message=row, participant=dora.participant)
    assert messages_mentioning(access(dora)).count() == MAX_COUNTED_MENTIONS + 3
    (channel,) = read_sidebar(access(dora), dora.user_id).channels
    assert channel.mention_count == MAX_COUNTED_MENTIONS
    client = Client()
    client.force_login(dora.user)
    page = client.get(reverse("inbox", args=[dora.workspace.slug])).content.decode()
    assert page.count(f'<span class="count">{MAX_COUNTED_MENTIONS}+<') == 2, "of the channel, and of all"


def test_what_is_left_of_a_marked_thread_stays_marked(ana: Member, dora: Member, old: Thread) -> None:
    by = access(dora)
    mark_unread_from(thread=old, by=by, seq=1)
    mark_read(thread=old, by=by, seq=1)
    assert is_bold(dora, old.channel)
    assert list_inbox_threads(by).items[0].title == "Old"
    mark_read(thread=old, by=by, seq=2)
    assert not is_bold(dora, old.channel)


def test_no_mark_outlives_what_it_marked(dora: Member, old: Thread) -> None:
    for end in (lambda: mark_all_read(by=access(dora)), lambda: say(old, dora, "Read again")):
        mark_unread_from(thread=old, by=access(dora), seq=1)
        end()
        assert not dora.participant.read_markers.exclude(marked_unread_seq=None).exists()


def test_mentions_that_nobody_sees_hide_none(ana: Member, dora: Member, thread: Thread) -> None:
    say(make_thread(thread.channel, ana, "Other"), ana, "Please @dora")
    newer = [
        Message(thread=thread, author=ana.participant, seq=n, body="", deleted_at=timezone.now())
        for n in range(1, MAX_COUNTED_MENTIONS + 1)
    ]
    said = Message.objects.bulk_create(newer)
    Mention.objects.bulk_create(Mention(message=message, participant=dora.participant) for message in said)
    is_bold(dora, thread.channel)
    (channel,) = read_sidebar(access(dora), dora.user_id).channels
    assert channel.mention_count == 1


def test_what_somebody_follows_is_new_however_old_it_is_and_where_the_channel_is_muted(
    dora: Member, old: Thread
) -> None:
    by = access(dora)
    dora.participant.read_markers.filter(thread=old).update(last_read_seq=1)
    assert not is_bold(dora, old.channel)
    NotificationPreference.objects.create(participant=dora.participant, channel=old.channel, level="nothing")
    NotificationPreference.objects.create(participant=dora.participant, thread=old, level="all")
    assert is_bold(dora, old.channel)
    assert list_inbox_threads(by).items[0].title == "Old"
    assert [item.title for item in every_item(dora, limit=7)].count("Old") == 1
    mark_read(thread=old, by=by, seq=2)
    assert not is_bold(dora, old.channel)
    assert list_inbox_threads(by).items[0].title != "Old"


@pytest.mark.parametrize("kind", ["empty", "muted", "archived"])
def test_what_is_never_new_hides_nothing_that_is(dora: Member, old: Thread, kind: str) -> None:
    dora.participant.read_markers.filter(thread=old).update(last_read_seq=1)
    above = Thread.objects.filter(title__startswith="Newer")
    if kind == "empty":
        above.update(last_seq=0)
    elif kind == "archived":
        above.update(archived_at=timezone.now())
    else:
        NotificationPreference.objects.bulk_create(
            NotificationPreference(participant=dora.participant, thread=thread, level="nothing") for thread in above
        )
    assert is_bold(dora, old.channel)


def test_whoever_is_named_in_what_is_unread_sees_its_channel_as_unread(ana: Member, dora: Member, old: Thread) -> None:
    say(old, ana, "Please @dora")
    Thread.objects.filter(pk=old.pk).update(last_message_at=timezone.now() - timedelta(days=1))
    dora.participant.read_markers.filter(thread=old).update(last_read_seq=2)
    assert is_bold(dora, old.channel)
    NotificationPreference.objects.create(participant=dora.participant, channel=old.channel, level="nothing")
    assert not is_bold(dora, old.channel)


def test_mentions_where_she_reads_no_more_hide_none(ana: Member, dora: Member, thread: Thread) -> None:
    say(thread, ana, "Please @dora")
    left = make_thread(create_channel(by=access(ana), name="left", is_private=True), ana, "Left")
    rows = [
        Message(thread=left, author=ana.participant, seq=n, body="@dora") for n in range(1, MAX_COUNTED_MENTIONS + 1)
    ]
    said = Message.objects.bulk_create(rows)
    Mention.objects.bulk_create(Mention(message=message, participant=dora.participant) for message in said)
    assert is_bold(dora, thread.channel)
    (channel,) = read_sidebar(access(dora), dora.user_id).channels
    assert channel.mention_count == 1
