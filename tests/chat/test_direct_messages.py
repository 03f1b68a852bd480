"""Direct messages: one conversation of two, private to them, in which an agent is meant without being named."""

import pytest
from django.db import IntegrityError, transaction

from agents.agent.access import visible_to
from agents.agent.services import deactivate_agent
from agents.models import Agent, Run
from knowledge.models import Entry
from knowledge.services import pin_result
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import Channel, ChannelMembership, Thread
from openvibe.chat.queries import access_recipient, list_inbox_threads, read_sidebar, search_messages
from openvibe.chat.services import add_to_channel, open_direct_messages, update_message, update_thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, Participant
from openvibe.workspaces.services import add_member, remove_member
from tests.admin.conftest import as_superuser
from tests.factories import access, make_agent, make_channel, make_member, say


def begin(by: Member, recipient: Participant) -> Thread:
    thread, _ = open_direct_messages(by=access(by), recipient=recipient)
    return thread


@pytest.fixture
def eve(ana: Member) -> Member:
    """Another admin."""
    return make_member("Eve", ana.workspace, role="admin")


def test_two_have_one_conversation_whoever_begins_it(ana: Member, dora: Member) -> None:
    first = begin(ana, dora.participant)
    again, is_new = open_direct_messages(by=access(dora), recipient=ana.participant)
    assert (again.pk, is_new) == (first.pk, False)
    with pytest.raises(IntegrityError), transaction.atomic():
        Channel.objects.create(
            workspace=ana.workspace,
            name="x",
            is_private=True,
            first_participant=first.channel.first_participant,
            second_participant=first.channel.second_participant,
        )
    with pytest.raises(IntegrityError), transaction.atomic():
        Channel.objects.filter(pk=first.channel_id).update(is_private=False)


def test_nobody_else_sees_it_nor_can_be_added(ana: Member, dora: Member, eve: Member, vibe: Agent) -> None:
    thread = begin(dora, ana.participant)
    say(thread, dora, "Between us: the roses are ill.")
    for one in (ana, dora):
        assert Thread.objects.visible_to(access(one)).filter(pk=thread.pk).exists()
    for outsider in (access(eve), visible_to(vibe), visible_to(make_agent(ana, "fern", level=4))):
        assert not Thread.objects.visible_to(outsider).filter(pk=thread.pk).exists()
        assert not search_messages(outsider, "roses").exists()
    with pytest.raises(IntegrityError), transaction.atomic():
        ChannelMembership.objects.create(channel=thread.channel, participant=eve.participant)
    with pytest.raises(Refused):
        add_to_channel(channel=thread.channel, participant=eve.participant, by=access(ana))


def test_no_list_of_channels_has_it(ana: Member, dora: Member) -> None:
    thread = begin(ana, dora.participant)
    assert not Channel.objects.visible_to(access(ana)).filter(pk=thread.channel_id).exists()
    root = as_superuser(ana)
    assert not root.get("/admin/chat/channel/").context["cl"].result_count
    assert root.get(f"/admin/chat/channel/{thread.channel_id}/change/").status_code == 302
    with pytest.raises(Refused, match="no settings"):
        update_thread(thread=thread, by=access(ana), title="Ours")


def test_sidebar_and_inbox_show_the_other_and_what_is_new(ana: Member, dora: Member) -> None:
    thread = begin(ana, dora.participant)
    assert not read_sidebar(access(dora), dora.user_id).direct
    say(thread, ana, "Hello!")
    (row,) = read_sidebar(access(dora), dora.user_id).direct
    assert (row.thread_id, row.name, row.unread) == (thread.pk, "Ana", True)
    (own,) = read_sidebar(access(ana), ana.user_id).direct
    assert (own.name, own.unread) == ("Dora", False)
    (item,) = list_inbox_threads(access(dora)).items
    assert (item.title, item.channel, item.author, item.preview, item.unread) == ("Ana", "", "Ana", "Hello!", True)


@pytest.mark.parametrize(("level", "task"), [(1, "mention"), (2, "thread")])
def test_an_agent_answers_without_being_named(ana: Member, dora: Member, level: int, task: str) -> None:
    fern = make_agent(ana, "fern", level=level)
    thread = begin(dora, fern.participant)
    message = say(thread, dora, "When do I prune?")
    assert Run.objects.get(trigger=message).task == task
    update_message(message=message, by=access(dora), body="When do I prune roses?")
    assert [one.participant_id for one in message.mentions.all()] == [fern.participant_id]


def test_what_is_said_there_is_scoped_as_in_a_private_channel(ana: Member, dora: Member) -> None:
    fern, moss = make_agent(ana, "fern", level=3), make_agent(ana, "moss", level=3)
    message = say(begin(dora, fern.participant), dora, "The roses are ill.")
    entry = pin_result(message=message, by=access(dora), topic="Roses", content="They are ill.")
    assert not Entry.objects.visible_to(visible_to(moss)).filter(pk=entry.pk).exists()


def test_who_left_can_be_read_and_not_written_to(ana: Member, dora: Member) -> None:
    fern = make_agent(ana, "fern")
    threads = [begin(ana, dora.participant), begin(ana, fern.participant)]
    for thread in threads:
        say(thread, ana, "Hello!")
    remove_member(member=dora, by=access(ana))
    deactivate_agent(agent=fern, by=access(ana))
    for thread, sentence in zip(threads, ("Dora has left the workspace.", "Fern is deactivated."), strict=True):
        again = Thread.objects.get(pk=thread.pk)
        with pytest.raises(Refused, match=sentence) as error:
            say(again, ana, "Still there?")
        assert error.value.code == "recipient_left"
        assert Thread.objects.visible_to(access(ana)).filter(pk=thread.pk).exists()


def test_who_comes_back_finds_what_the_two_said_and_no_room_of_before(ana: Member, dora: Member) -> None:
    thread, closed = begin(ana, dora.participant), make_channel(ana, "closed", private=True)
    say(thread, ana, "Hello!")
    add_to_channel(channel=closed, participant=dora.participant, by=access(ana))
    remove_member(member=dora, by=access(ana))
    back = add_member(workspace=ana.workspace, user=dora.user)
    assert Thread.objects.visible_to(access(back)).filter(pk=begin(back, ana.participant).pk).exists()
    assert not Channel.objects.visible_to(access(back)).filter(pk=closed.pk).exists()


def test_only_people_begin_and_only_with_whom_they_know(
    ana: Member, ben: Member, cleo: Member, dora: Member, vibe: Agent
) -> None:
    asker: Access = access(ben)
    for stranger in (dora.participant_id, cleo.participant_id, ben.participant_id, 0):
        with pytest.raises(Missing):
            access_recipient(asker, stranger)
    with pytest.raises(Refused):
        open_direct_messages(by=visible_to(vibe), recipient=ana.participant)
    with pytest.raises(Problem, match="somebody else"):
        open_direct_messages(by=access(ana), recipient=ana.participant)
