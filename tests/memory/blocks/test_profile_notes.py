"""What an agent notes about a person: one text, versions with their authors, a limit, and nobody's words lost."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from agents.agent.services import deactivate_agent
from agents.models import Agent
from memory.blocks.models import CarriedVersion, ProfileNote
from memory.blocks.queries import access_last_speaker, access_notes, read_notes
from memory.blocks.services import restore_notes, store_notes, update_notes
from memory.blocks.values import PROFILE_TOKEN_LIMIT
from openvibe.base.models import Event
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.chat.services import delete_message
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.models import Member
from tests import factories
from tests.factories import access


def stored(vibe: Agent, person: Member, text: str, version: int | None = None) -> ProfileNote:
    return store_notes(
        agent_id=vibe.participant_id,
        person_id=person.participant_id,
        text=text,
        by_id=vibe.participant_id,
        how="agent",
        version=version,
    )


def said_by_vibe(vibe: Agent, person: Member) -> str:
    return read_notes(vibe.participant_id, person.participant_id)


def test_notes_are_one_text_with_versions(ana: Member, vibe: Agent) -> None:
    assert said_by_vibe(vibe, ana) == ""
    stored(vibe, ana, " Likes roses.\r\nOwns the garden. ")
    stored(vibe, ana, "Likes roses.\nOwns the garden.")
    note = stored(vibe, ana, "Likes tulips.")
    assert said_by_vibe(vibe, ana) == "Likes tulips."
    assert (note.version, note.tokens) == (2, count_tokens("Likes tulips."))
    rows = CarriedVersion.objects.order_by("number").values_list("number", "content", "author_id", "how")
    assert list(rows) == [
        (1, "Likes roses.\nOwns the garden.", vibe.participant_id, "agent"),
        (2, "Likes tulips.", vibe.participant_id, "agent"),
    ]


def test_notes_of_agents_and_people_do_not_mix(ana: Member, dora: Member, vibe: Agent) -> None:
    fern = factories.make_agent(ana, "fern")
    stored(vibe, ana, "Vibe about Ana")
    stored(vibe, dora, "Vibe about Dora")
    stored(fern, ana, "Fern about Ana")
    assert [said_by_vibe(vibe, ana), said_by_vibe(vibe, dora), said_by_vibe(fern, ana), said_by_vibe(fern, dora)] == [
        "Vibe about Ana",
        "Vibe about Dora",
        "Fern about Ana",
        "",
    ]


def test_equality_passes_and_one_token_more_does_not(ana: Member, vibe: Agent) -> None:
    full = "word" + " word" * (PROFILE_TOKEN_LIMIT - 1)
    assert count_tokens(full) == PROFILE_TOKEN_LIMIT
    stored(vibe, ana, full)
    with pytest.raises(Problem, match="501 tokens; at most 500 fit"):
        stored(vibe, ana, full + " word")
    with pytest.raises(Problem, match="at most 500 fit"):
        stored(vibe, ana, "x" * 1_000_000)
    assert said_by_vibe(vibe, ana) == full


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"])
def test_what_cannot_be_kept_is_refused(ana: Member, vibe: Agent, text: str) -> None:
    with pytest.raises(Problem, match="cannot be kept"):
        stored(vibe, ana, text)


def test_a_stale_writer_is_refused(ana: Member, vibe: Agent) -> None:
    stored(vibe, ana, "One", version=0)
    stored(vibe, ana, "Two", version=1)
    for version in (0, 1, 3):
        with pytest.raises(Conflict):
            stored(vibe, ana, "Mine", version=version)
    assert said_by_vibe(vibe, ana) == "Two"


def test_only_an_agent_notes_and_only_about_its_workspace(ana: Member, cleo: Member, vibe: Agent) -> None:
    for agent_id, person_id in (
        (vibe.participant_id, cleo.participant_id),
        (ana.participant_id, ana.participant_id),
        (vibe.participant_id, 987_654_321),
    ):
        with pytest.raises(Missing):
            store_notes(agent_id=agent_id, person_id=person_id, text="x", by_id=None, how="agent")
    assert not ProfileNote.objects.exists()


def test_reading_is_one_query(ana: Member, vibe: Agent, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    stored(vibe, ana, "One")
    with django_assert_num_queries(1):
        assert said_by_vibe(vibe, ana) == "One"


def first_noted(vibe: Agent, person: Member, text: str, version: int) -> bool:
    try:
        stored(vibe, person, text, version)
    except Conflict:
        return False
    finally:
        connection.close()
    return True


@pytest.mark.django_db(transaction=True)
def test_of_writers_who_saw_the_same_one_wins(ana: Member, vibe: Agent) -> None:
    for version in (0, 1):
        with ThreadPoolExecutor(4) as writers:
            won = list(writers.map(lambda n, v=version: first_noted(vibe, ana, f"{v}.{n}", v), range(4)))
        assert sum(won) == 1
        assert said_by_vibe(vibe, ana) == f"{version}.{won.index(True)}"


# --- who may ------------------------------------------------------------------------------------------------
def test_admins_the_agent_and_the_person_read(ana: Member, dora: Member, ben: Member, vibe: Agent) -> None:
    from agents.agent.access import visible_to

    stored(vibe, dora, "Likes tulips.")
    for by in (access(ana), access(dora), visible_to(vibe)):
        assert access_notes(agent=vibe.participant, person=dora.participant, by=by).content == "Likes tulips."
    fern = factories.make_agent(ana, "fern")
    for by in (access(ben), visible_to(fern)):
        with pytest.raises(Refused):
            access_notes(agent=vibe.participant, person=dora.participant, by=by)
        with pytest.raises(Refused):
            update_notes(agent=vibe.participant, person=dora.participant, by=by, text="", how="api")


def test_a_stranger_finds_nothing(cleo: Member, dora: Member, vibe: Agent) -> None:
    with pytest.raises(Missing):
        access_notes(agent=vibe.participant, person=dora.participant, by=access(cleo))


def test_the_person_clears_and_everything_is_gone(dora: Member, vibe: Agent) -> None:
    stored(vibe, dora, "Earns little.")
    events = Event.objects.filter(kind="blocks_changed")
    with pytest.raises(Refused, match="You may clear"):
        update_notes(agent=vibe.participant, person=dora.participant, by=access(dora), text="Earns much.", how="page")
    cleared = update_notes(agent=vibe.participant, person=dora.participant, by=access(dora), text="", how="page")
    assert (cleared.content, cleared.version, events.count()) == ("", 2, 1)
    assert not CarriedVersion.objects.exclude(content="").exists()


def test_clearing_nothing_writes_nothing(dora: Member, vibe: Agent) -> None:
    cleared = update_notes(agent=vibe.participant, person=dora.participant, by=access(dora), text=" ", how="page")
    assert cleared.version == 0
    assert not ProfileNote.objects.exists()


def test_an_admin_restores_an_earlier_version(ana: Member, dora: Member, vibe: Agent) -> None:
    stored(vibe, dora, "One")
    stored(vibe, dora, "Two")
    pair = {"agent": vibe.participant, "person": dora.participant, "by": access(ana), "how": "page"}
    assert restore_notes(**pair, number=1, version=2).content == "One"  # type: ignore[arg-type]  # ids and versions are numbers
    with pytest.raises(Conflict):
        restore_notes(**pair, number=2, version=2)  # type: ignore[arg-type]  # ids and versions are numbers
    with pytest.raises(Missing):
        restore_notes(**pair, number=9)  # type: ignore[arg-type]  # ids and versions are numbers


def test_a_deactivated_agent_notes_no_more_but_can_be_cleared(ana: Member, dora: Member, vibe: Agent) -> None:
    stored(vibe, dora, "One")
    deactivate_agent(agent=vibe, by=access(ana))
    vibe.participant.refresh_from_db()
    with pytest.raises(Refused, match="deactivated"):
        update_notes(agent=vibe.participant, person=dora.participant, by=access(ana), text="Two", how="page")
    update_notes(agent=vibe.participant, person=dora.participant, by=access(dora), text="", how="page")
    assert said_by_vibe(vibe, dora) == ""


# --- whom a thread is about ---------------------------------------------------------------------------------
def test_the_asker_of_a_thread_is_who_spoke_last(ana: Member, dora: Member, vibe: Agent, thread: Thread) -> None:
    by = access(ana)
    with pytest.raises(Missing, match="Nobody has said anything"):
        access_last_speaker(by, thread.pk)
    factories.say(thread, ana, "Hello")
    last = factories.say(thread, dora, "Hello")
    assert access_last_speaker(by, thread.pk) == dora.participant
    delete_message(message=last, by=access(dora))
    assert access_last_speaker(by, thread.pk) == ana.participant
