"""The handoff: fourteen sections in order, filled from rows, with nothing deleted in it."""

from collections.abc import Sequence

import pytest
from django.db import DatabaseError, transaction

from memory.work.approvals import decide_approval, request_approval
from memory.work.handoff import (
    DELETED_PLACEHOLDER,
    HANDOFF_SOURCES,
    SECTIONS,
    create_handoff,
    render_handoff_markdown,
    render_sections,
)
from memory.work.models import Handoff
from memory.work.services import close_work_item, create_work_item, log_progress
from openvibe.chat.models import Thread
from openvibe.chat.services import delete_message
from openvibe.workspaces.models import Member
from tests.factories import access, say
from tests.registers import replaced

TITLES = """\
Current objective
User constraints and preferences
Authoritative instructions loaded
Active plan
Active workflow
Active goal and done condition
Approval state
Resources inspected
Key facts and decisions
Actions already taken
Errors, blockers, and attempted fixes
Pending tasks
Next recommended step
Do not redo
"""


def from_the_garden(thread_id: int) -> dict[str, list[dict[str, str]]]:
    """What an upper floor would add."""
    return {"Resources inspected": [{"ref": f"message:{thread_id}", "text": "The planting list"}]}


def nothing(ids: Sequence[int]) -> dict[int, str]:
    return {}


@pytest.fixture
def full(ana: Member, thread: Thread) -> Thread:
    """A thread with a row of everything."""
    by = access(ana)
    Thread.objects.filter(pk=thread.pk).update(instructions="Answer in metric units.")
    thread.refresh_from_db()
    for kind, text, data in (
        ("objective", "A garden that needs no hose", {}),
        ("constraint", "Never water after 9:30", {}),
        ("plan", "Mulch, then plant", {"stage": "executing"}),
        ("goal", "Forty metres of hedge", {"done_condition": "40 m stand", "budget": "200 €"}),
        ("todo", "Order mulch", {}),
        ("artifact", "The planting list", {"ref": "attachment:7"}),
        ("error_tried", "Bark mulch molded; dried it first", {}),
        ("open_question", "Who has the key?", {}),
        ("do_not_redo", "The soil was measured: pH 6.8", {}),
    ):
        create_work_item(thread=thread, by=by, kind=kind, text=text, data=data)
    done = create_work_item(thread=thread, by=by, kind="todo", text="Measure the soil")
    close_work_item(item=done, by=by)
    approval = request_approval(thread=thread, by=by, what="Buy mulch for 80 €")
    decide_approval(approval=approval, by=by, is_granted=True, note="Not more")
    log_progress(thread=thread, by=by, checkpoint="Beds dug", changed="Four beds", next_action="Call the nursery")
    return thread


def test_the_fourteen_sections_stand_in_their_order() -> None:
    assert list(SECTIONS) == TITLES.splitlines()


def test_every_section_says_what_its_rows_say(full: Thread) -> None:
    handoff = create_handoff(thread=full, trigger="hand", summary_ids=[5])
    text = render_handoff_markdown(render_sections(handoff, lambda ids: dict.fromkeys(ids, "They chose roses.")))
    said = {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in text.split("\n## ")[1:]}

    assert text.startswith("# Compaction Handoff\n\n## Current objective\n\n- A garden that needs no hose\n")
    assert said == {
        "Current objective": "- A garden that needs no hose",
        "User constraints and preferences": "- Never water after 9:30",
        "Authoritative instructions loaded": "- Instructions of this thread",
        "Active plan": "- Stage: executing\n  Mulch, then plant",
        "Active workflow": "- Beds dug",
        "Active goal and done condition": "- Forty metres of hedge\n  Done when: 40 m stand\n  Budget: 200 €",
        "Approval state": "- State: granted · Requested by: Ana · Decided by: Ana · Note: Not more\n"
        "  Buy mulch for 80 €",
        "Resources inspected": "Nothing.",
        "Key facts and decisions": "- They chose roses.",
        "Actions already taken": "- Done: Measure the soil\n- Beds dug\n  Four beds\n"
        "- The planting list\n  Stored as: attachment:7",
        "Errors, blockers, and attempted fixes": "- Bark mulch molded; dried it first",
        "Pending tasks": "- Order mulch\n- Who has the key?",
        "Next recommended step": "- Call the nursery",
        "Do not redo": "- The soil was measured: pH 6.8",
    }


def test_an_empty_thread_hands_over_fourteen_empty_sections(thread: Thread) -> None:
    handoff = create_handoff(thread=thread, trigger="hand")
    assert list(handoff.sections) == list(SECTIONS)
    assert not any(handoff.sections.values())
    assert render_handoff_markdown(render_sections(handoff, nothing)).count("Nothing.") == 14


def test_who_waits_for_a_person_is_told_to_wait(ana: Member, full: Thread) -> None:
    approval = request_approval(thread=full, by=access(ana), what="Cut the old pear")
    sections = create_handoff(thread=full, trigger="approval").sections
    ref = f"approval:{approval.pk}"
    assert sections["Next recommended step"] == [
        {"ref": ref, "text": "Wait until a person has decided: Cut the old pear"}
    ]
    assert {"ref": ref, "text": "Waits for an approval: Cut the old pear"} in sections[
        "Errors, blockers, and attempted fixes"
    ]

    decide_approval(approval=approval, by=access(ana), is_granted=False)
    sections = create_handoff(thread=full, trigger="resume").sections
    assert {"ref": ref, "text": "Denied: Cut the old pear"} in sections["Errors, blockers, and attempted fixes"]
    assert sections["Next recommended step"][0]["text"] == "Call the nursery"


def test_a_summary_is_a_reference_and_its_words_are_read_live(thread: Thread) -> None:
    handoff = create_handoff(thread=thread, trigger="threshold", summary_ids=[3, 4])
    assert handoff.sections["Key facts and decisions"] == [
        {"ref": "summary:3", "text": ""},
        {"ref": "summary:4", "text": ""},
    ]
    facts = render_sections(handoff, lambda ids: {3: "Roses were chosen."})[SECTIONS.index("Key facts and decisions")]
    assert [line.text for line in facts.lines] == ["Roses were chosen.", DELETED_PLACEHOLDER]


def test_words_from_a_message_are_gone_with_it(ana: Member, thread: Thread) -> None:
    message = say(thread, ana, "The gate code is 4711.")
    create_work_item(thread=thread, by=access(ana), kind="constraint", text="The gate code is 4711.", message=message)
    handoff = create_handoff(thread=thread, trigger="hand")
    assert "4711" in render_handoff_markdown(render_sections(handoff, nothing))

    delete_message(message=message, by=access(ana))

    assert "4711" not in render_handoff_markdown(render_sections(handoff, nothing))
    assert "4711" not in str(Handoff.objects.values_list("sections", flat=True)[0])


def test_upper_floors_add_what_they_know(thread: Thread) -> None:
    with replaced(HANDOFF_SOURCES, from_the_garden):
        by_register = create_handoff(thread=thread, trigger="hand")
    assert by_register.sections["Resources inspected"] == [{"ref": f"message:{thread.pk}", "text": "The planting list"}]

    given = {"Actions already taken": [{"ref": "tool:1", "text": "search: 3 hits"}]}
    with replaced(HANDOFF_SOURCES, lambda _: given):
        by_another = create_handoff(thread=thread, trigger="hand")
    assert by_another.sections["Actions already taken"] == given["Actions already taken"]
    assert by_another.sections["Resources inspected"] == []


def test_a_handoff_is_never_changed(thread: Thread) -> None:
    handoff = create_handoff(thread=thread, trigger="hand")
    with pytest.raises(DatabaseError, match="handoff_is_final"), transaction.atomic():
        Handoff.objects.filter(pk=handoff.pk).update(sections={})
