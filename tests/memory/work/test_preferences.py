"""What people ask for once and for all is written down with the message, and goes with it."""

import pytest

from agents.agent.access import visible_to
from agents.models import Agent
from memory.models import WorkItem
from memory.work.services import close_work_item, create_work_item, decide_constraint
from openvibe.base.problems import Conflict, Refused
from openvibe.chat.importing.values import ImportedLine, ImportedThread
from openvibe.chat.models import Channel, Thread
from openvibe.chat.services import add_to_channel, delete_message, update_message, update_thread
from openvibe.chat.services.conversation_import import import_thread
from openvibe.workspaces.models import Member
from tests.factories import access, make_member, say, signed_in
from tests.memory.work.test_web import at, row_at

GRAMS = "Always give me amounts in grams, never in cups."


def preferences(thread: Thread, state: str = "open") -> list[str]:
    return [row.text for row in WorkItem.objects.filter(thread=thread, kind="preference", state=state)]


def one_preference(ana: Member, thread: Thread) -> WorkItem:
    say(thread, ana, GRAMS)
    return WorkItem.objects.get(thread=thread, kind="preference")


def test_what_is_asked_for_once_and_for_all_is_written_down_word_for_word(ana: Member, thread: Thread) -> None:
    message = say(thread, ana, f"Hello! Can you bake? {GRAMS} I always forget the oven.")
    (row,) = WorkItem.objects.filter(thread=thread, kind="preference")
    assert (row.text, row.author_id, row.message_id) == (GRAMS, ana.participant_id, message.pk)
    say(thread, ana, GRAMS)
    assert preferences(thread) == [GRAMS]


def test_it_goes_with_the_message_and_changes_with_it(ana: Member, thread: Thread) -> None:
    message = say(thread, ana, GRAMS)
    update_message(message=message, by=access(ana), body="Always answer in German.")
    assert preferences(thread) == ["Always answer in German."]
    delete_message(message=message, by=access(ana))
    assert preferences(thread) == []
    assert not WorkItem.objects.filter(text__contains="German").exists()


def test_a_member_makes_it_binding_with_one_click(ana: Member, ben: Member, thread: Thread) -> None:
    row = one_preference(ana, thread)
    decided = decide_constraint(item=row, by=access(ana), is_confirmed=True, version=row.version)
    assert (decided.kind, decided.confirmed_by_id, decided.text) == ("constraint", ana.participant_id, GRAMS)
    assert list(WorkItem.objects.binding()) == [decided]
    say(thread, ana, GRAMS)  # said again, it binds already
    assert preferences(thread) == []


def test_what_is_no_preference_stays_struck(ana: Member, thread: Thread) -> None:
    row = one_preference(ana, thread)
    decide_constraint(item=row, by=access(ana), is_confirmed=False, version=row.version)
    assert preferences(thread, "dropped") == [GRAMS]
    say(thread, ana, GRAMS)
    assert preferences(thread) == []
    row.refresh_from_db()
    with pytest.raises(Conflict):
        decide_constraint(item=row, by=access(ana), is_confirmed=True)


def test_agents_neither_write_nor_strike_nor_bind_what_people_prefer(ana: Member, vibe: Agent, thread: Thread) -> None:
    row, by = one_preference(ana, thread), visible_to(vibe)
    with pytest.raises(Refused):
        create_work_item(thread=thread, by=by, kind="preference", text="Ana likes long answers.")
    with pytest.raises(Refused):
        close_work_item(item=row, by=by, state="dropped")
    with pytest.raises(Refused):
        decide_constraint(item=row, by=by, is_confirmed=True)


def test_the_newest_fifty_stand(ana: Member, thread: Thread) -> None:
    for number in range(52):
        say(thread, ana, f"Always do step {number} first.")
    standing = preferences(thread)
    assert len(standing) == 50
    assert standing[0] == "Always do step 2 first."


@pytest.mark.parametrize(("people", "expected"), [(("Mara",), [GRAMS]), (("Mara", "Jonas"), [])])
def test_an_import_brings_those_of_its_one_person(
    channel: Channel, people: tuple[str, ...], expected: list[str]
) -> None:
    lines = [ImportedLine(name, GRAMS) for name in people] + [ImportedLine("Bot", "Always ask me.", None, True)]
    thread = import_thread(channel=channel, imported=ImportedThread("x:1", "Baking", tuple(lines))).thread
    assert preferences(thread) == expected


def test_the_panel_makes_it_binding_or_strikes_it(ana: Member, thread: Thread) -> None:
    row, client = one_preference(ana, thread), signed_in(ana)
    page = client.get(at(thread)).content.decode()
    assert "Make binding" in page
    assert "Not a preference" in page
    client.post(row_at(thread, "work", row.pk), {"do": "confirm", "version": row.version})
    row.refresh_from_db()
    assert row.kind == "constraint"

    say(thread, ana, "I prefer trains.")
    other = WorkItem.objects.get(kind="preference")
    client.post(row_at(thread, "work", other.pk), {"do": "decline", "version": other.version})
    other.refresh_from_db()
    assert other.state == "dropped"


def test_a_guest_says_what_they_prefer_and_binds_nobody(ana: Member, thread: Thread) -> None:
    gil = make_member("Gil", ana.workspace, role="guest")
    add_to_channel(channel=thread.channel, participant=gil.participant, by=access(ana))
    row, client = one_preference(gil, thread), signed_in(gil)
    page = client.get(at(thread)).content.decode()
    assert GRAMS in page
    assert "Make binding" not in page
    with pytest.raises(Refused):
        decide_constraint(item=row, by=access(gil), is_confirmed=True)
    assert decide_constraint(item=row, by=access(ana), is_confirmed=True).confirmed_by_id == ana.participant_id


def menu_of(by: Member, thread: Thread) -> str:
    return str(signed_in(by).get(f"/w/{by.workspace.slug}/t/{thread.pk}/").content.decode())


def test_the_menu_of_the_message_makes_it_binding_with_one_click(ana: Member, thread: Thread) -> None:
    row, client = one_preference(ana, thread), signed_in(ana)
    say(thread, ana, "Nothing to keep here.")
    page = menu_of(ana, thread)
    assert page.count("Make binding: “Always give me amounts in grams") == 1
    asked = {"do": "confirm", "version": row.version, "from": "message"}
    answer = client.post(row_at(thread, "work", row.pk), asked, headers={"HX-Request": "true"})
    assert "Binding: show the work" in answer.content.decode()
    row.refresh_from_db()
    assert (row.kind, row.confirmed_by_id) == ("constraint", ana.participant_id)
    assert "Make binding" not in menu_of(ana, thread)


def test_the_menu_offers_each_of_a_message_and_none_that_was_struck(ana: Member, thread: Thread) -> None:
    say(thread, ana, f"{GRAMS} I prefer trains.")
    trains = WorkItem.objects.get(text="I prefer trains.")
    assert menu_of(ana, thread).count("Make binding") == 2
    decide_constraint(item=trains, by=access(ana), is_confirmed=False)
    page = menu_of(ana, thread)
    assert (page.count("Make binding"), "“I prefer trains.”" in page) == (1, False)


def test_the_menu_offers_nothing_to_a_guest_and_nothing_in_an_archived_thread(ana: Member, thread: Thread) -> None:
    gil = make_member("Gil", ana.workspace, role="guest")
    add_to_channel(channel=thread.channel, participant=gil.participant, by=access(ana))
    one_preference(ana, thread)
    assert "Make binding" not in menu_of(gil, thread)
    update_thread(thread=thread, by=access(ana), archived=True)
    assert "Make binding" not in menu_of(ana, thread)
