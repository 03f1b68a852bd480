"""A dive: a side thread between one person and one agent, started from a message, ended by a result or without one."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from agents.agent.access import visible_to
from agents.models import Agent, Run
from memory.work.approvals import decide_approval, request_approval
from memory.work.services import log_progress
from openvibe.base.models import Event
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.live.batch import read_batch
from openvibe.chat.live.viewers import Viewer, refresh_viewers
from openvibe.chat.models import Dive, Mention, Message, Thread
from openvibe.chat.queries import (
    list_channel_threads,
    list_unread_threads,
    messages_mentioning,
    read_sidebar,
    search_messages,
)
from openvibe.chat.services import (
    add_to_channel,
    create_reply,
    delete_message,
    discard_dive,
    post_message,
    publish_dive,
    request_draft,
    set_thread_access,
    set_thread_followers,
    start_dive,
    update_message,
    update_thread,
)
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, make_channel, make_thread, say

RESULT = ResultDraft("Prune in March", ("Before the buds open", "With clean shears", "Climbers after flowering"))


@pytest.fixture
def source(ana: Member, thread: Thread) -> Message:
    return say(thread, ana, "When do we prune the roses?")


@pytest.fixture
def dive(ana: Member, vibe: Agent, source: Message) -> Dive:
    return start_dive(source=source, by=access(ana), agent=vibe.participant)


class TestStarting:
    def test_a_dive_is_a_thread_beside_the_one_it_started_in(self, dive: Dive, source: Message, ana: Member) -> None:
        assert (dive.parent, dive.source, dive.started_by, dive.state) == (
            source.thread,
            source,
            ana.participant,
            "active",
        )
        assert dive.thread.parent == source.thread
        assert dive.thread.channel == source.thread.channel

    def test_its_title_holds_nothing_of_what_was_said(self, dive: Dive, source: Message) -> None:
        assert dive.thread.title == "Dive with @vibe: Pruning"

    def test_its_title_follows_that_of_its_thread(self, ana: Member, dive: Dive) -> None:
        update_thread(thread=dive.parent, by=access(ana), title="Roses")
        dive.thread.refresh_from_db()
        assert dive.thread.title == "Dive with @vibe: Roses"

    def test_a_first_question_starts_the_run(self, ana: Member, vibe: Agent, source: Message) -> None:
        dive = start_dive(source=source, by=access(ana), agent=vibe.participant, body="Tell me more")

        run = Run.objects.get()
        assert (run.thread, run.task, run.agent, run.trigger.body) == (dive.thread, "dive", vibe, "Tell me more")

    def test_the_same_start_sent_twice_is_one_dive(self, ana: Member, vibe: Agent, source: Message) -> None:
        first = start_dive(source=source, by=access(ana), agent=vibe.participant, body="More", client_id="one")
        again = start_dive(source=source, by=access(ana), agent=vibe.participant, body="More", client_id="one")

        assert first == again
        assert Message.objects.filter(thread=first.thread).count() == 1

    def test_whoever_has_the_thread_open_hears_of_it(self, dive: Dive, source: Message) -> None:
        event = Event.objects.get(kind="dive_changed")
        assert (event.thread_id, event.message_id) == (source.thread_id, source.pk)

    def test_there_are_seven_at_a_time_and_the_eighth_is_told_so(
        self, ana: Member, vibe: Agent, source: Message
    ) -> None:
        dives = [start_dive(source=source, by=access(ana), agent=vibe.participant) for _ in range(7)]
        with pytest.raises(Conflict, match="7 active dives") as error:
            start_dive(source=source, by=access(ana), agent=vibe.participant)
        assert error.value.code == "too_many_dives"

        discard_dive(dive=dives[2], by=access(ana))
        assert start_dive(source=source, by=access(ana), agent=vibe.participant).slot == 3

    def test_a_guest_dives_where_she_reads(self, ana: Member, ben: Member, vibe: Agent, source: Message) -> None:
        assert start_dive(source=source, by=access(ben), agent=vibe.participant).started_by == ben.participant

    def test_there_is_no_dive_in_a_dive(self, ana: Member, vibe: Agent, dive: Dive) -> None:
        inside = say(dive.thread, ana, "And the hedge?")
        with pytest.raises(Refused, match="no dive inside a dive"):
            start_dive(source=inside, by=access(ana), agent=vibe.participant)

    def test_agents_start_none(self, vibe: Agent, source: Message) -> None:
        with pytest.raises(Refused, match="Only people"):
            start_dive(source=source, by=visible_to(vibe), agent=vibe.participant)

    def test_a_person_is_not_an_agent_to_dive_with(self, ana: Member, dora: Member, source: Message) -> None:
        with pytest.raises(Problem) as error:
            start_dive(source=source, by=access(ana), agent=dora.participant)
        assert (error.value.code, error.value.field) == ("unknown_agent", "agent")

    def test_a_stranger_s_agent_is_not_one_either(self, ana: Member, cleo: Member, source: Message) -> None:
        with pytest.raises(Problem, match="Choose the agent"):
            start_dive(source=source, by=access(ana), agent=make_agent(cleo, "fern").participant)

    def test_at_l1_an_agent_takes_no_part(self, ana: Member, thread: Thread, source: Message) -> None:
        novice = make_agent(ana, "novice", level=1, channel=thread.channel)
        with pytest.raises(Refused, match="at L1 it answers mentions only and takes no part in dives") as error:
            start_dive(source=source, by=access(ana), agent=novice.participant)
        assert (error.value.code, error.value.field) == ("agent_silent", "agent")

    def test_a_thread_for_people_only_has_none(self, ana: Member, vibe: Agent, source: Message) -> None:
        set_thread_access(thread=source.thread, by=access(ana), access="human_only")
        with pytest.raises(Refused, match="for people only"):
            start_dive(source=source, by=access(ana), agent=vibe.participant)

    def test_an_agent_the_thread_does_not_list_takes_no_part(self, ana: Member, vibe: Agent, source: Message) -> None:
        fern = make_agent(ana, "fern", channel=source.thread.channel)
        set_thread_access(
            thread=source.thread, by=access(ana), access="agent_restricted", allowed_agents=[fern.participant]
        )
        with pytest.raises(Refused, match="only to the agents it lists"):
            start_dive(source=source, by=access(ana), agent=vibe.participant)
        dive = start_dive(source=source, by=access(ana), agent=fern.participant, body="Why?")
        assert Run.objects.get(thread=dive.thread).agent == fern

    def test_not_from_a_deleted_message(self, ana: Member, vibe: Agent, source: Message) -> None:
        delete_message(message=source, by=access(ana))
        with pytest.raises(Conflict, match="was deleted"):
            start_dive(source=source, by=access(ana), agent=vibe.participant)

    def test_not_from_a_reply_that_is_being_written(self, ana: Member, vibe: Agent, thread: Thread) -> None:
        reply = create_reply(thread=thread, author=vibe.participant, client_id="r")
        with pytest.raises(Conflict, match="still being written"):
            start_dive(source=reply, by=access(ana), agent=vibe.participant)

    def test_not_where_it_is_archived(self, ana: Member, vibe: Agent, source: Message) -> None:
        update_thread(thread=source.thread, by=access(ana), archived=True)
        with pytest.raises(Refused, match="archived"):
            start_dive(source=source, by=access(ana), agent=vibe.participant)

    def test_a_bad_first_question_starts_nothing(self, ana: Member, vibe: Agent, source: Message) -> None:
        with pytest.raises(Problem) as error:
            start_dive(source=source, by=access(ana), agent=vibe.participant, body="a\x00b")
        assert error.value.code == "has_nul"
        assert not Dive.objects.exists()


class TestBeingInOne:
    def test_only_its_two_write_and_everybody_reads(
        self, ana: Member, dora: Member, vibe: Agent, dive: Dive, thread: Thread
    ) -> None:
        fern = make_agent(ana, "fern", channel=thread.channel)
        assert Thread.objects.visible_to(access(dora)).filter(pk=dive.thread_id).exists()

        with pytest.raises(Refused, match="only the person who started it and @vibe write"):
            say(dive.thread, dora, "May I?")
        with pytest.raises(Refused, match="Start a dive of your own"):
            post_message(thread=dive.thread, by=visible_to(fern), body="May I?")
        assert post_message(thread=dive.thread, by=visible_to(vibe), body="In March.").seq == 1

    def test_it_stands_in_no_list(self, ana: Member, dora: Member, dive: Dive, thread: Thread) -> None:
        say(dive.thread, ana, "What would @dora say?")

        for member in (ana, dora):
            asker = access(member)
            assert [item.pk for item in list_channel_threads(thread.channel, asker).items] == [thread.pk]
            assert [item.pk for item in list_unread_threads(asker).items] == ([thread.pk] if member == dora else [])
        assert not messages_mentioning(access(dora)).exists()
        assert [room.mention_count for room in read_sidebar(access(dora), dora.user_id).channels] == [0]

    def test_search_finds_what_is_said_in_it(self, ana: Member, dora: Member, dive: Dive) -> None:
        message = say(dive.thread, ana, "Hydrangeas flower on old wood")
        assert list(search_messages(access(dora), "hydrangeas")) == [message]

    def test_an_agent_at_l1_finds_nothing_of_it(self, ana: Member, vibe: Agent, dive: Dive, thread: Thread) -> None:
        message = say(dive.thread, ana, "Hydrangeas flower on old wood")
        novice = visible_to(make_agent(ana, "novice", level=1, channel=thread.channel))

        assert not Dive.objects.visible_to(novice).exists()
        assert not Message.objects.visible_to(novice).filter(pk=message.pk).exists()
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # events are numbered, as at the commit

        def told(access: Access) -> int:
            viewer = Viewer(access.workspace_id, access.participant_id)
            refresh_viewers([viewer])
            heard = [event for event in read_batch(access.workspace_id, after=0).events if viewer.sees(event)]
            return sum(event.kind == "dive_changed" or event.thread_id == dive.thread_id for event in heard)

        assert told(visible_to(vibe)) >= 2
        assert told(novice) == 0

    def test_it_is_not_changed_by_hand(self, ana: Member, vibe: Agent, dive: Dive) -> None:
        by = access(ana)
        changes: tuple[Callable[[], object], ...] = (
            lambda: update_thread(thread=dive.thread, by=by, title="Mine"),
            lambda: update_thread(thread=dive.thread, by=by, archived=True),
            lambda: set_thread_access(thread=dive.thread, by=by, access="human_only"),
            lambda: set_thread_followers(thread=dive.thread, by=by, agents=[vibe.participant]),
        )
        for change in changes:
            with pytest.raises(Refused) as error:
                change()
            assert error.value.code == "is_dive"

    def test_it_closes_to_agents_with_its_thread(self, ana: Member, vibe: Agent, dive: Dive) -> None:
        set_thread_access(thread=dive.parent, by=access(ana), access="human_only")
        message = say(Thread.objects.get(pk=dive.thread_id), ana, "Still there?")

        assert not Run.objects.exists()
        assert "people only" in Mention.objects.get(message=message).note
        assert not Thread.objects.visible_to(visible_to(vibe)).filter(pk=dive.thread_id).exists()

    def test_nobody_writes_in_it_while_its_thread_is_archived(self, ana: Member, dive: Dive) -> None:
        message = say(dive.thread, ana, "First")
        update_thread(thread=dive.parent, by=access(ana), archived=True)

        attempts: tuple[Callable[[], object], ...] = (
            lambda: say(dive.thread, ana, "More"),
            lambda: update_message(message=message, by=access(ana), body="Changed"),
            lambda: request_draft(dive=dive, by=access(ana)),
            lambda: publish_dive(dive=dive, by=access(ana), result=RESULT),
        )
        for attempt in attempts:
            with pytest.raises(Refused, match="archived"):
                attempt()

    def test_people_who_see_the_channel_no_more_see_no_dive(self, ana: Member, dora: Member, vibe: Agent) -> None:
        room = make_channel(ana, "secret", private=True)
        add_to_channel(channel=room, participant=vibe.participant, by=access(ana))
        message = say(make_thread(room, ana), ana, "Between us")
        dive = start_dive(source=message, by=access(ana), agent=vibe.participant)

        assert Dive.objects.visible_to(access(ana)).filter(pk=dive.pk).exists()
        assert not Dive.objects.visible_to(access(dora)).exists()

    def test_only_its_agent_is_offered_for_a_mention(
        self, client: Client, ana: Member, dora: Member, vibe: Agent, dive: Dive
    ) -> None:
        make_agent(ana, "fern", channel=dive.parent.channel)
        client.force_login(ana.user)

        def agents(thread: Thread) -> set[str]:
            names = client.get(reverse("thread-names", args=[ana.workspace.slug, thread.pk])).json()["names"]
            return {name["handle"] for name in names if name["kind"] == "agent"}

        assert agents(dive.parent) == {"vibe", "fern"}
        assert agents(dive.thread) == {"vibe"}

    def test_no_work_is_begun_in_one_that_is_over(self, ana: Member, vibe: Agent, dive: Dive) -> None:
        log_progress(thread=dive.thread, by=visible_to(vibe), checkpoint="Half")
        approval = request_approval(thread=dive.thread, by=visible_to(vibe), what="Order mulch")
        discard_dive(dive=dive, by=access(ana))

        with pytest.raises(Refused, match="discarded and can only be read"):
            log_progress(thread=dive.thread, by=visible_to(vibe), checkpoint="All")
        assert decide_approval(approval=approval, by=access(ana), is_granted=False).state == "denied"
