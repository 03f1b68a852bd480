"""Approvals: fields that people decide, once."""

from collections.abc import Iterator
from threading import Thread as Strand

import pytest
from django.db import DatabaseError, connection, transaction

from agents.agent.access import agent_access
from agents.models import Agent
from memory.work.approvals import (
    MAX_PENDING_APPROVALS,
    approval_decided,
    decide_approval,
    lapse_approval,
    request_approval,
)
from memory.work.models import Approval
from memory.work.queries import get_work_state
from memory.work.services import milestone_reached
from openvibe.base.models import Event
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from tests.factories import access
from tests.locks import wait_until_blocked


@pytest.fixture
def agent(vibe: Agent) -> Access:
    access_of_agent = agent_access(vibe.participant)
    assert access_of_agent is not None
    return access_of_agent


@pytest.fixture
def rung() -> Iterator[list[tuple[str, str]]]:
    """What the bells said."""
    heard: list[tuple[str, str]] = []

    def decided(sender: object, approval: Approval, by: Access, **_: object) -> None:
        heard.append(("decided", approval.state))

    def reached(sender: object, trigger: str, **_: object) -> None:
        heard.append(("milestone", str(trigger)))

    approval_decided.connect(decided)
    milestone_reached.connect(reached)
    yield heard
    approval_decided.disconnect(decided)
    milestone_reached.disconnect(reached)


def test_an_agent_asks_and_a_person_decides(
    dora: Member, thread: Thread, agent: Access, rung: list[tuple[str, str]]
) -> None:
    approval = request_approval(thread=thread, by=agent, what="Order  80 €\nof mulch", reason="The beds are bare.")
    assert [(row.what, row.state, row.decided_by) for row in get_work_state(thread.pk).pending] == [
        ("Order 80 € of mulch", "requested", None)
    ]

    decide_approval(approval=approval, by=access(dora), is_granted=True, note="Bark only")

    (row,) = get_work_state(thread.pk).approvals
    assert row.decided_by is not None
    assert (row.state, row.requested_by.name, row.decided_by.name, row.note) == ("granted", "Vibe", "Dora", "Bark only")
    assert row.decided_at is not None
    assert get_work_state(thread.pk).pending == ()
    assert rung == [("milestone", "approval"), ("decided", "granted"), ("milestone", "resume")]
    assert Event.objects.filter(kind="work_changed", thread_id=thread.pk).count() == 2


def test_neither_agents_nor_guests_decide(ana: Member, ben: Member, thread: Thread, agent: Access) -> None:
    approval = request_approval(thread=thread, by=agent, what="Order mulch")
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    for by in (agent, access(ben)):
        with pytest.raises(Refused):
            decide_approval(approval=approval, by=by, is_granted=True)
    assert len(get_work_state(thread.pk).pending) == 1


def test_a_decision_is_final(ana: Member, dora: Member, thread: Thread, rung: list[tuple[str, str]]) -> None:
    approval = request_approval(thread=thread, by=access(dora), what="Order mulch")
    decide_approval(approval=approval, by=access(ana), is_granted=False)

    with pytest.raises(Conflict, match="Ana has denied this already"):
        decide_approval(approval=approval, by=access(dora), is_granted=True)
    with pytest.raises(DatabaseError, match="decision_is_final"), transaction.atomic():
        Approval.objects.filter(pk=approval.pk).update(state="requested", decided_by=None, decided_at=None)
    assert rung.count(("decided", "denied")) == 1


def test_the_same_question_is_asked_once(thread: Thread, ana: Member, agent: Access) -> None:
    first = request_approval(thread=thread, by=agent, what="Order mulch")
    assert request_approval(thread=thread, by=agent, what="Order mulch").pk == first.pk
    decide_approval(approval=first, by=access(ana), is_granted=False)
    assert request_approval(thread=thread, by=agent, what="Order mulch").pk != first.pk


def test_what_cannot_be_asked(thread: Thread, agent: Access, cleo: Member, ana: Member) -> None:
    with pytest.raises(Problem):
        request_approval(thread=thread, by=agent, what=" ")
    with pytest.raises(Problem):
        request_approval(thread=thread, by=agent, what="x" * 301)
    with pytest.raises(Missing):
        request_approval(thread=thread, by=access(cleo), what="Order mulch")
    for number in range(MAX_PENDING_APPROVALS):
        request_approval(thread=thread, by=agent, what=f"Order {number}")
    with pytest.raises(Problem, match="wait in this thread already"):
        request_approval(thread=thread, by=access(ana), what="One more")


def test_what_waits_is_shown_however_much_was_decided(thread: Thread, ana: Member) -> None:
    waits = request_approval(thread=thread, by=access(ana), what="Cut the pear")
    for number in range(25):
        approval = request_approval(thread=thread, by=access(ana), what=f"Order {number}")
        decide_approval(approval=approval, by=access(ana), is_granted=True)
    assert [row.pk for row in get_work_state(thread.pk).pending] == [waits.pk]


@pytest.mark.django_db(transaction=True)
def test_a_question_that_lapses_while_it_is_asked_again_is_asked_anew(thread: Thread, agent: Access) -> None:
    approval = request_approval(thread=thread, by=agent, what="Order mulch")
    again: list[Approval] = []

    def ask() -> None:
        again.append(request_approval(thread=thread, by=agent, what="Order mulch"))
        connection.close()

    asking = Strand(target=ask)
    with transaction.atomic():
        assert lapse_approval(approval=approval, note="Nobody decided.")
        asking.start()
        wait_until_blocked(asking)
    asking.join(30)
    assert [(row.pk != approval.pk, row.state) for row in again] == [(True, "requested")]
