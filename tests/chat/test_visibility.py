"""What an access sees: read once, and the same in statements as for rows at hand."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from openvibe.chat.models import (
    Channel,
    Message,
    Thread,
    load_visibility,
    reread_visibility,
    sees_channel,
    sees_thread,
    visibility_of,
)
from openvibe.chat.services import add_to_channel, remove_from_channel
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import participant_access
from tests.api.access_matrix import AGENTS, CALLERS, make_scene
from tests.factories import access, make_channel, make_thread, say

pytestmark = pytest.mark.django_db


def test_rows_at_hand_and_statements_agree_for_everybody() -> None:
    scene = make_scene()
    threads, channels = list(Thread.objects.all()), list(Channel.objects.all())
    dives = [thread for thread in threads if thread.parent_id]
    for caller in CALLERS:
        asker = participant_access(scene.participant(caller))
        assert asker is not None
        visible = set(Thread.objects.visible_to(asker))
        assert {thread for thread in threads if sees_thread(asker, thread)} == visible, caller
        assert {channel for channel in channels if sees_channel(asker, channel.pk)} == set(
            Channel.objects.visible_to(asker)
        ), caller
        assert set(Message.objects.visible_to(asker).values_list("thread", flat=True)) <= {one.pk for one in visible}
        if caller in AGENTS:
            assert not visible.intersection(Thread.objects.filter(access="human_only"))
    assert dives


def test_it_is_read_once_for_each_access_and_for_many_at_once(ana: Member, dora: Member) -> None:
    accesses = [access(ana), access(dora)]
    with CaptureQueriesContext(connection) as queries:
        load_visibility(accesses)
        assert [visibility_of(one).channel_ids for one in accesses] == [frozenset(), frozenset()]
    assert len(queries) == 1


def test_whoever_was_removed_sees_it_no_more_with_the_next_access(ana: Member, dora: Member) -> None:
    private = make_channel(ana, "private", private=True)
    message = say(make_thread(private, ana), ana, "Salaries")
    add_to_channel(channel=private, participant=dora.participant, by=access(ana))
    asker = access(dora)
    assert Message.objects.visible_to(asker).filter(pk=message.pk).exists()
    remove_from_channel(channel=private, participant=dora.participant, by=access(ana))
    assert not Message.objects.visible_to(reread_visibility(asker)).filter(pk=message.pk).exists()
    assert not sees_channel(reread_visibility(asker), private.pk)
