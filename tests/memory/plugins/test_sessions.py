"""What all plugins do the same way: storing what was said, reading it, notes about people."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from agents.agent.access import visible_to
from agents.models import Agent
from memory.blocks.models import CarriedVersion, ProfileNote
from memory.blocks.queries import read_notes
from memory.blocks.services import store_notes
from memory.plugins.base import NewMessage, Session, SessionStats, read_stats
from memory.plugins.models import SessionInfo
from memory.plugins.sessions import (
    MAX_MESSAGES_PER_APPEND,
    ProfileMixin,
    SessionMixin,
    context_budget,
    message_history,
    open_session,
    store_messages,
)
from openvibe.base.models import Event
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.models import Member, Participant
from tests import factories
from tests.memory.plugins.fakes import PlainProvider


@pytest.fixture
def session(vibe: Agent, thread: Thread) -> Session:
    return open_session(visible_to(vibe), thread.pk)


def user(text: str, **more: str) -> NewMessage:
    return NewMessage("user", text, **more)


def test_open_pages_learn_of_every_message(session: Session, thread: Thread) -> None:
    store_messages(session, [user("One"), user("Two")])

    assert Event.objects.filter(kind="message_posted", thread_id=thread.pk).count() == 2
    thread.refresh_from_db()
    assert thread.last_seq == 2


def test_tokens_are_counted_and_text_is_cleaned(session: Session) -> None:
    store_messages(session, [user("Hello world\r\n\x07 ")])

    message = Message.objects.get()
    assert (message.body, message.token_count) == ("Hello world", 2)


def test_the_sessions_person_is_the_user(session: Session, ana: Member) -> None:
    store_messages(replace(session, person_id=ana.participant_id), [user("Me", name="Somebody")])

    assert Message.objects.get().author == ana.participant


def test_a_person_of_another_workspace_is_nobody_here(session: Session, cleo: Member) -> None:
    with pytest.raises(Missing):
        store_messages(replace(session, person_id=cleo.participant_id), [user("Me")])


def test_a_speaker_is_made_once(session: Session) -> None:
    store_messages(session, [user("One", name="Zoë"), user("Two", name=" Zoë ")])
    store_messages(session, [user("Three", name="Zoë"), user("Nameless")])

    speakers = Participant.objects.filter(kind="imported").order_by("name").values_list("name", flat=True)
    assert list(speakers) == ["User", "Zoë"]


def test_an_external_id_belongs_to_who_used_it(session: Session) -> None:
    numbers = store_messages(
        session, [user("Hello", external_id="1"), NewMessage("assistant", "Hello", external_id="1")]
    )

    assert numbers == [1, 2]


def test_a_thread_of_another_workspace_is_not_there(session: Session, cleo: Member) -> None:
    there = factories.make_thread(factories.make_channel(cleo), cleo)
    with pytest.raises(Missing):
        store_messages(replace(session, thread_id=there.pk), [user("Hello")])
    factories.say(there, cleo, "Secret")
    assert message_history(replace(session, thread_id=there.pk)) == []


def test_too_many_at_once_are_refused(session: Session) -> None:
    with pytest.raises(Problem, match="At most 500"):
        store_messages(session, [user("x")] * (MAX_MESSAGES_PER_APPEND + 1))
    with pytest.raises(Problem, match="A role is"):
        store_messages(session, [NewMessage("system", "x")])  # type: ignore[arg-type]  # a role there is not


def test_nothing_is_added_to_an_archived_channel(session: Session, thread: Thread) -> None:
    thread.channel.archived_at = thread.created_at
    thread.channel.save()
    with pytest.raises(Refused):
        store_messages(session, [user("x")])


def test_history_reads_in_pages_what_prompts_may_hold(ana: Member, session: Session, thread: Thread) -> None:
    for n in range(5):
        factories.say(thread, ana, f"Message {n + 1}")
    Message.objects.filter(seq=3).update(state="failed")

    assert [entry.ordinal for entry in message_history(session, after=1, limit=2)] == [2, 4]
    assert [entry.ordinal for entry in message_history(replace(session, before=3))] == [1, 2]
    assert message_history(session, limit=-1) == []


def test_notes_have_versions(vibe: Agent, ana: Member, session: Session) -> None:
    notes, about = ProfileMixin(), replace(session, person_id=ana.participant_id)
    notes.set_profile(about, "Likes roses.")
    notes.set_profile(about, "Likes roses.")
    notes.set_profile(about, "Likes beans.")

    note = ProfileNote.objects.get()
    assert (note.version, note.content, note.changed_by) == (2, "Likes beans.", vibe.participant)
    assert list(CarriedVersion.objects.values_list("number", "content", "how")) == [
        (2, "Likes beans.", "agent"),
        (1, "Likes roses.", "agent"),
    ]


def test_a_stale_version_is_refused(vibe: Agent, ana: Member) -> None:
    who = {"agent_id": vibe.participant_id, "person_id": ana.participant_id, "by_id": ana.participant_id}
    store_notes(**who, text="One", how="api", version=0)
    with pytest.raises(Conflict):
        store_notes(**who, text="Two", how="api", version=0)
    store_notes(**who, text="Two", how="api", version=1)

    assert read_notes(vibe.participant_id, ana.participant_id) == "Two"


def test_notes_are_about_people_of_the_same_workspace(vibe: Agent, ana: Member, cleo: Member) -> None:
    for agent_id, person_id in ((vibe.participant_id, cleo.participant_id), (ana.participant_id, ana.participant_id)):
        with pytest.raises(Missing):
            store_notes(agent_id=agent_id, person_id=person_id, text="x", by_id=None, how="api")


def test_notes_are_an_agents_and_about_somebody(ana: Member, thread: Thread, session: Session) -> None:
    person = open_session(factories.access(ana), thread.pk, person_id=ana.participant_id)
    with pytest.raises(Refused):
        ProfileMixin().set_profile(person, "x")
    with pytest.raises(Problem, match="nobody to keep notes about"):
        ProfileMixin().set_profile(session, "x")
    assert ProfileMixin().get_profile(session) == ProfileMixin().get_profile(person) == ""


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "word " * 501, "x" * 30_000])
def test_notes_that_cannot_be_kept_are_refused(vibe: Agent, ana: Member, text: str) -> None:
    with pytest.raises(Problem):
        store_notes(agent_id=vibe.participant_id, person_id=ana.participant_id, text=text, by_id=None, how="api")
    assert not ProfileNote.objects.exists()


@pytest.mark.parametrize("info", [{"x": object()}, {"x": float("nan")}, {"x": "\0"}, {"x": "y" * 8_000}])
def test_info_that_cannot_be_kept_is_refused(session: Session, info: dict[str, object]) -> None:
    with pytest.raises(Problem):
        SessionMixin().save_info(session, info)
    assert not SessionInfo.objects.exists()


@pytest.mark.parametrize(
    ("budgets", "tokens"),
    [
        ({}, 15_000),
        ({"thread": {"ceiling": 9_000}}, 9_000),
        ({"mention": {"ceiling": 9_000}}, 15_000),
        ({"thread": {"ceiling": True}}, 15_000),
        ({"thread": 3}, 15_000),
    ],
)
def test_the_budget_of_a_conversation(thread: Thread, budgets: dict[str, object], tokens: int) -> None:
    thread.workspace.budgets = budgets

    assert context_budget(thread) == tokens


@pytest.mark.parametrize(
    "stats",
    [{"messages": 3, "entries": 2, "tokens": 40, "pages": 9}, SimpleNamespace(messages=3, entries=2, tokens=40)],
)
def test_what_a_plugin_says_of_a_session_may_be_a_mapping_or_any_object(
    ana: Member, thread: Thread, stats: Any
) -> None:
    class Telling(PlainProvider):
        def stats(self, session: Session) -> Any:
            return stats

    assert read_stats(Telling(), Session(thread.pk, factories.access(ana))) == SessionStats(
        messages=3, entries=2, tokens=40
    )
