"""Constraints bind when a member stands behind them: set by one, or proposed and then confirmed."""

import re

import pytest
from django.db import IntegrityError, transaction

from agents.agent.access import visible_to
from agents.models import Agent
from memory.work.handoff import create_handoff
from memory.work.models import WorkItem
from memory.work.services import (
    close_work_item,
    create_work_item,
    decide_constraint,
    reopen_work_item,
    update_work_item,
)
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from tests.factories import access, make_member, signed_in
from tests.memory.factories import WorkItemFactory
from tests.memory.work.test_web import row_at

RULE = "Never water after 9:30."


def constraint(thread: Thread, by: Access, text: str = RULE) -> WorkItem:
    return create_work_item(thread=thread, by=by, kind="constraint", text=text)


@pytest.fixture
def guest(ana: Member, thread: Thread) -> Member:
    """Gil, a guest of the thread's channel."""
    gil = make_member("Gil", ana.workspace, role="guest")
    add_to_channel(channel=thread.channel, participant=gil.participant, by=access(ana))
    return gil


def test_what_a_member_sets_binds_at_once(dora: Member, thread: Thread) -> None:
    row = constraint(thread, access(dora))
    assert row.confirmed_by == dora.participant
    assert not row.is_proposal


def test_what_an_agent_proposes_binds_once_a_member_confirms_it(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    row = constraint(thread, visible_to(vibe))
    assert row.is_proposal
    with pytest.raises(Refused, match="Only members"):
        decide_constraint(item=row, by=visible_to(vibe), is_confirmed=True)

    confirmed = decide_constraint(item=row, by=access(dora), is_confirmed=True, version=1)
    assert (confirmed.confirmed_by_id, confirmed.version) == (dora.participant_id, 2)
    assert decide_constraint(item=row, by=access(ana), is_confirmed=True).confirmed_by_id == dora.participant_id
    with pytest.raises(Refused, match="set or confirmed this constraint"):
        update_work_item(item=row, by=visible_to(vibe), version=2, text="Water.")
    with pytest.raises(Refused, match="set or confirmed this constraint"):
        close_work_item(item=row, by=visible_to(vibe), state="dropped")


def test_who_read_other_words_confirms_nothing(ana: Member, vibe: Agent, thread: Thread) -> None:
    row = constraint(thread, visible_to(vibe))
    update_work_item(item=row, by=visible_to(vibe), version=1, text="Water whenever the agent says so.")
    with pytest.raises(Conflict, match="at version 2"):
        decide_constraint(item=row, by=access(ana), is_confirmed=True, version=1)


def test_a_declined_proposal_is_dropped_and_a_confirmed_one_is_not_declined(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    row = constraint(thread, visible_to(vibe))
    assert decide_constraint(item=row, by=access(ana), is_confirmed=False, version=1).state == "dropped"
    with pytest.raises(Conflict, match="closed"):
        decide_constraint(item=row, by=access(ana), is_confirmed=True)
    with pytest.raises(Conflict, match="confirmed already"):
        decide_constraint(item=constraint(thread, access(ana)), by=access(ana), is_confirmed=False)


def test_a_guest_proposes_and_leaves_alone_what_binds(ana: Member, guest: Member, vibe: Agent, thread: Thread) -> None:
    assert constraint(thread, access(guest)).is_proposal
    with pytest.raises(Refused):
        decide_constraint(item=constraint(thread, visible_to(vibe), "Be kind."), by=access(guest), is_confirmed=True)
    binding = constraint(thread, access(ana), "Water early.")
    with pytest.raises(Refused, match="Only members may change it"):
        update_work_item(item=binding, by=access(guest), version=1, text="Water late.")


def test_a_member_who_says_it_himself_confirms_it(ana: Member, dora: Member, vibe: Agent, thread: Thread) -> None:
    row = constraint(thread, visible_to(vibe))
    same = constraint(thread, access(ana))
    assert (same.pk, same.confirmed_by_id) == (row.pk, ana.participant_id)

    other = constraint(thread, visible_to(vibe), "Water often.")
    update_work_item(item=other, by=access(dora), version=1, text="Water once a day.")
    other.refresh_from_db()
    assert (other.author, other.confirmed_by) == (dora.participant, dora.participant)


def test_who_opens_it_again_stands_behind_it(ana: Member, guest: Member, thread: Thread) -> None:
    row = constraint(thread, access(ana))
    close_work_item(item=row, by=access(ana), state="dropped")
    assert reopen_work_item(item=row, by=access(guest)).is_proposal
    close_work_item(item=row, by=access(ana), state="dropped")
    assert not reopen_work_item(item=row, by=access(ana)).is_proposal


def test_the_database_takes_nobody_but_members(ana: Member, guest: Member, vibe: Agent, thread: Thread) -> None:
    row = constraint(thread, visible_to(vibe))
    for nobody in (vibe.participant, guest.participant):
        with pytest.raises(IntegrityError, match="Only members confirm"), transaction.atomic():
            WorkItem.objects.filter(pk=row.pk).update(confirmed_by=nobody)
    todo = create_work_item(thread=thread, by=access(ana), kind="todo", text="Buy twine")
    with pytest.raises(IntegrityError, match="work_only_constraints_are_confirmed"), transaction.atomic():
        WorkItem.objects.filter(pk=todo.pk).update(confirmed_by=ana.participant)


def test_a_constraint_of_5000_tokens_is_refused_with_its_numbers(ana: Member, vibe: Agent, thread: Thread) -> None:
    with pytest.raises(Problem, match="at most 8,000 fit"):
        constraint(thread, access(ana), "never " * 5_000)
    with pytest.raises(Problem, match=r"5,000 tokens; 500 fit in one row \(constraint\)"):
        constraint(thread, access(ana), "§" * 5_000)
    old = WorkItemFactory.create(
        thread=thread, kind="constraint", text="never " * 5_000, tokens=10, author=vibe.participant
    )
    with pytest.raises(Problem, match="at most 8,000 fit"):
        decide_constraint(item=old, by=access(ana), is_confirmed=True)


def test_what_is_proposed_takes_room_too_so_that_it_can_be_confirmed(ana: Member, vibe: Agent, thread: Thread) -> None:
    long = "never " * 430
    proposed = [constraint(thread, visible_to(vibe), f"{n} {long}") for n in range(3)]
    with pytest.raises(Problem, match="1,500 tokens"):
        constraint(thread, access(ana), f"4 {long}")
    for row in proposed:
        decide_constraint(item=row, by=access(ana), is_confirmed=True)


def test_a_handoff_says_which_bind_nobody_yet(ana: Member, vibe: Agent, thread: Thread) -> None:
    constraint(thread, access(ana))
    constraint(thread, visible_to(vibe), "Be kind.")
    lines = create_handoff(thread=thread, trigger="hand").sections["User constraints and preferences"]
    assert [line["stage"] for line in lines] == ["", "proposed, binds nobody yet"]


def test_the_page_offers_members_the_decision(
    ana: Member, dora: Member, guest: Member, vibe: Agent, thread: Thread
) -> None:
    row = constraint(thread, visible_to(vibe))
    page = f"/w/{thread.workspace.slug}/t/{thread.pk}/work/"
    assert "Confirm</button>" not in signed_in(guest).get(page).content.decode()
    assert "binds nobody until" in (html := signed_in(dora).get(page).content.decode())
    assert "Confirm</button>" in html

    signed_in(dora).post(row_at(thread, "work", row.pk), {"do": "confirm", "version": "1"})
    html = signed_in(dora).get(page).content.decode()
    assert "confirmed by Dora" in " ".join(re.sub("<[^>]+>", " ", html).split())
    assert "Confirm</button>" not in html

    other = constraint(thread, visible_to(vibe), "Be kind.")
    signed_in(ana).post(row_at(thread, "work", other.pk), {"do": "decline", "version": "1"})
    other.refresh_from_db()
    assert other.state == "dropped"
