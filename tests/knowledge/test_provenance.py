"""Knowledge never says more than its reader may know: where it came from, what it said before, whom it tells."""

import pytest
from django.db import connection

from agents.agent.access import visible_to
from agents.models import Agent
from knowledge.models import Entry, Notice
from knowledge.queries import restricted_at, visible_revisions
from knowledge.services import (
    archive_entry,
    change_owner,
    flag_entry,
    pin_result,
    suggest_entry,
    supersede_entry,
    update_entry,
)
from knowledge.wiring import inbox_notes, sidebar_counts
from openvibe.chat.live.batch import read_batch
from openvibe.chat.live.viewers import Viewer, refresh_viewers
from openvibe.chat.models import Channel, Message
from openvibe.chat.services import set_thread_access
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import update_member_role
from tests.factories import access, make_agent, make_entry, make_thread, say


@pytest.fixture
def wages(ana: Member, channel: Channel) -> Entry:
    """Pinned from a thread for people only."""
    board = make_thread(channel, ana, "Board")
    message = say(board, ana, "Wages rise by 5 %.")
    set_thread_access(thread=board, by=access(ana), access="human_only")
    return pin_result(message=Message.objects.get(pk=message.pk), by=access(ana), topic="Wages", content=message.body)


def test_no_agent_reads_what_takes_the_place_of_something_for_people_only(ana: Member, wages: Entry) -> None:
    max_ = visible_to(make_agent(ana, "max", level=4))
    newer = supersede_entry(entry=wages, by=access(ana), content="Wages rise by 6 %.")
    newest = suggest_entry(by=access(ana), topic="Wages", content="Wages rise by 7 %.", supersedes=newer)

    assert newer.source_thread == newest.source_thread == wages.source_thread
    assert not Entry.objects.visible_to(max_).exists()


def test_what_has_a_source_of_its_own_comes_from_there(ana: Member, channel: Channel, wages: Entry) -> None:
    message = say(make_thread(channel, ana), ana, "Wages rise by 6 %.")
    newer = pin_result(message=message, by=access(ana), topic="Wages", content=message.body, supersedes=wages)

    assert newer.source_thread == message.thread


def test_who_reads_it_since_it_is_shared_does_not_learn_what_it_said_before(ana: Member, dora: Member) -> None:
    entry = make_entry(ana, "Deal", "Acme pays a million.", visibility="restricted")
    before = entry.created_at
    entry = update_entry(entry=entry, by=access(ana), content="Acme is a customer.", visibility="shared")
    update_entry(entry=entry, by=access(ana), content="Acme was a customer.")

    assert [one.number for one in visible_revisions(access(dora), entry)] == [3]
    assert [one.number for one in visible_revisions(access(ana), entry)] == [3, 2, 1]
    assert restricted_at(access(dora), [entry.pk], before) == {entry.pk}
    assert restricted_at(access(ana), [entry.pk], before) == set()

    change_owner(entry=entry, by=access(ana), owner=dora.participant)
    entry.refresh_from_db()
    assert len(visible_revisions(access(dora), entry)) == 4
    assert restricted_at(access(dora), [entry.pk], before) == set()


def test_an_owner_who_became_a_guest_can_do_nothing_so_the_admins_are_told(ana: Member, dora: Member) -> None:
    entry = make_entry(dora)
    update_member_role(member=dora, by=access(ana), role="guest")
    eve = make_entry(ana, "Roses", "Prune in March.")
    flag_entry(entry=entry, by=access(ana))
    flag_entry(entry=eve, by=access(ana))

    assert not Notice.objects.filter(participant=dora.participant).exists()


def test_notices_count_only_what_may_be_read(ana: Member, dora: Member) -> None:
    update_member_role(member=dora, by=access(ana), role="admin")
    entry = make_entry(ana, visibility="restricted")
    Notice.objects.create(participant=dora.participant, entry=entry, reason="expired")
    dora.refresh_from_db()
    assert (sidebar_counts(access(dora))["notices"], len(inbox_notes(access(dora)))) == (1, 1)

    update_member_role(member=dora, by=access(ana), role="member")
    dora.refresh_from_db()
    assert (sidebar_counts(access(dora))["notices"], len(inbox_notes(access(dora)))) == (0, 0)


def test_pages_hear_of_a_message_that_is_pinned_and_let_go_and_agents_do_not(
    ana: Member, dora: Member, vibe: Agent, channel: Channel
) -> None:
    message = say(make_thread(channel, ana), ana, "We open at nine.")
    entry = pin_result(message=message, by=access(ana), topic="Hours", content=message.body)
    archive_entry(entry=entry, by=access(ana))
    make_entry(ana)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    def heard(by: Access) -> list[tuple[int | None, int | None]]:
        viewer = Viewer(by.workspace_id, by.participant_id)
        refresh_viewers([viewer])
        events = [event for event in read_batch(by.workspace_id, after=0).events if viewer.sees(event)]
        return [(event.thread_id, event.message_id) for event in events if event.kind == "pins_changed"]

    assert heard(access(dora)) == [(message.thread_id, message.pk)] * 2
    assert heard(visible_to(vibe)) == []
