"""Pinned threads: first in their channel, ten at most, for who may manage them."""

import pytest
from django.db import IntegrityError, transaction

from openvibe.base.problems import Refused
from openvibe.chat.models import MAX_PINNED_THREADS, Channel, Thread
from openvibe.chat.queries import list_channel_threads, list_unread_threads
from openvibe.chat.services import pin_thread, update_thread
from openvibe.workspaces.models import Member
from tests.factories import access, make_thread, say


def test_they_stand_first_in_their_channel_and_nowhere_else(ana: Member, dora: Member, channel: Channel) -> None:
    oldest, older, newest = (make_thread(channel, ana, title) for title in ("Oldest", "Older", "Newest"))
    for thread in (oldest, older, newest):
        say(thread, ana, "Hello")
    pin_thread(thread=oldest, by=access(ana), pinned=True)
    listed = list_channel_threads(channel, access(dora)).items
    assert [(item.title, item.pinned) for item in listed] == [("Oldest", True), ("Newest", False), ("Older", False)]
    unread = list_unread_threads(access(dora)).items
    assert [item.title for item in unread] == ["Newest", "Older", "Oldest"]
    with pytest.raises(Refused):
        pin_thread(thread=newest, by=access(dora), pinned=True)
    own = make_thread(channel, dora, "Dora's")
    assert pin_thread(thread=own, by=access(dora), pinned=True).pin_slot == 2


def test_a_channel_has_ten_and_what_is_put_away_frees_its_place(ana: Member, channel: Channel) -> None:
    threads = [make_thread(channel, ana, f"Thread {number}") for number in range(MAX_PINNED_THREADS + 1)]
    for thread in [*threads[:-1], threads[0]]:
        pin_thread(thread=thread, by=access(ana), pinned=True)
    with pytest.raises(Refused, match="at most 10"):
        pin_thread(thread=threads[-1], by=access(ana), pinned=True)
    for slot in (1, MAX_PINNED_THREADS + 1):
        with pytest.raises(IntegrityError), transaction.atomic():
            Thread.objects.filter(pk=threads[-1].pk).update(pin_slot=slot)
    update_thread(thread=threads[3], by=access(ana), archived=True)
    with pytest.raises(Refused, match="archived"):
        pin_thread(thread=threads[3], by=access(ana), pinned=True)
    assert pin_thread(thread=threads[-1], by=access(ana), pinned=True).pin_slot == 4
    pin_thread(thread=threads[-1], by=access(ana), pinned=False)
    assert Thread.objects.filter(pin_slot__isnull=False).count() == MAX_PINNED_THREADS - 1


def test_renaming_puts_back_neither_a_place_nor_what_was_archived_meanwhile(ana: Member, channel: Channel) -> None:
    one, other = make_thread(channel, ana, "One"), make_thread(channel, ana, "Other")
    pin_thread(thread=one, by=access(ana), pinned=True)
    as_read = Thread.objects.get(pk=one.pk)
    update_thread(thread=one, by=access(ana), archived=True)
    pin_thread(thread=other, by=access(ana), pinned=True)

    update_thread(thread=as_read, by=access(ana), title="First")

    renamed = Thread.objects.get(pk=one.pk)
    assert (renamed.title, renamed.pin_slot, renamed.archived_at is None) == ("First", None, False)
    assert Thread.objects.get(pin_slot=1) == other
