"""Work state: what holds, word for word; what is closed stays closed; who may change what."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from agents.agent.access import agent_access
from agents.models import Agent
from memory.plugins.models import Compaction
from memory.work.approvals import request_approval
from memory.work.handoff import create_handoff
from memory.work.models import WorkItem
from memory.work.queries import get_work_state, row_text
from memory.work.services import (
    DELETED_TEXT,
    MAX_OPEN_PER_KIND,
    close_work_item,
    create_work_item,
    log_progress,
    milestone_reached,
    reopen_work_item,
    update_work_item,
)
from memory.work.validation import MAX_CONSTRAINT_TOKENS
from openvibe.base.models import Event
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.chat.services import delete_message, set_thread_access, update_thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from tests.factories import access, say
from tests.memory.factories import CompactionFactory, WorkItemFactory

RULE = "Never water after 9:30 — not „a little“ either; at most 12.5 l / m² 🌱 (灌水禁止)."


def seen_by(agent: Agent) -> Access:
    access_of_agent = agent_access(agent.participant)
    assert access_of_agent is not None
    return access_of_agent


@pytest.fixture
def milestones() -> object:
    """The triggers that were rung, as they come."""
    rung: list[str] = []

    def listen(sender: object, trigger: str, **_: object) -> None:
        rung.append(str(trigger))

    milestone_reached.connect(listen)
    yield rung
    milestone_reached.disconnect(listen)


def test_a_constraint_said_once_holds_word_for_word_after_100_compactions(ana: Member, thread: Thread) -> None:
    create_work_item(thread=thread, by=access(ana), kind="constraint", text=RULE)

    for number in range(100):
        compaction = CompactionFactory.create(
            thread=thread, plugin="memory/lcm", trigger="threshold", state="done", at_seq=number
        )
        create_handoff(thread=thread, trigger="threshold", compaction=compaction, summary_ids=[number])

    assert [row.text for row in get_work_state(thread.pk).of_kind("constraint")] == [RULE]
    newest = thread.handoffs.first()
    assert newest is not None
    assert [line["text"] for line in newest.sections["User constraints and preferences"]] == [RULE]


def test_a_finished_plan_does_not_come_back(ana: Member, thread: Thread) -> None:
    plan = create_work_item(thread=thread, by=access(ana), kind="plan", text="First the roses, then the hedge.")
    close_work_item(item=plan, by=access(ana), state="done")

    handoff = create_handoff(thread=thread, trigger="milestone")

    assert get_work_state(thread.pk).of_kind("plan") == ()
    assert handoff.sections["Active plan"] == []
    assert [line["text"] for line in handoff.sections["Actions already taken"]] == [
        "Done: First the roses, then the hedge."
    ]


def test_a_new_plan_takes_the_place_of_the_earlier_one(ana: Member, thread: Thread) -> None:
    first = create_work_item(thread=thread, by=access(ana), kind="plan", text="Roses first.")
    second = create_work_item(thread=thread, by=access(ana), kind="plan", text="Hedge first.")

    first.refresh_from_db()
    assert (first.state, first.closed_by_id) == ("dropped", ana.participant_id)
    (plan,) = get_work_state(thread.pk).of_kind("plan")
    assert plan.pk == second.pk

    reopen_work_item(item=first, by=access(ana))
    second.refresh_from_db()
    assert second.state == "dropped"


def test_the_database_keeps_one_objective(ana: Member, thread: Thread) -> None:
    row = {"thread": thread, "kind": "objective", "author": ana.participant}
    WorkItemFactory.create(**row, text="A garden")
    with pytest.raises(IntegrityError), transaction.atomic():
        WorkItemFactory.create(**row, text="Another garden")


def test_all_of_it_costs_three_queries_whatever_there_is(ana: Member, thread: Thread) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            get_work_state(thread.pk)
        return len(queries)

    assert cost() == 3
    for number in range(3):
        for kind in WorkItem.Kind.values:
            create_work_item(thread=thread, by=access(ana), kind=kind, text=f"{kind} {number}")
        request_approval(thread=thread, by=access(ana), what=f"Cut tree {number}")
        log_progress(thread=thread, by=access(ana), checkpoint=f"Row {number}", next_action="Go on")

    assert cost() == 3
    state = get_work_state(thread.pk)
    assert len(state.approvals) == len(state.progress) == 3
    for kind in ("todo", "constraint", "goal", "do_not_redo", "artifact", "error_tried", "open_question"):
        assert len(state.of_kind(kind)) == 3


def test_what_a_goal_adds_stands_below_its_words(ana: Member, thread: Thread) -> None:
    goal = create_work_item(
        thread=thread,
        by=access(ana),
        kind="goal",
        text="A hedge",
        data={"done_condition": "40 m stand", "budget": "200 €"},
    )
    (row,) = get_work_state(thread.pk).of_kind("goal")
    assert (row.pk, row.kind) == (goal.pk, "goal")
    assert row_text(row.text, row.data) == "A hedge\nDone when: 40 m stand\nBudget: 200 €"


def test_who_read_an_older_version_does_not_overwrite(ana: Member, dora: Member, thread: Thread) -> None:
    todo = create_work_item(thread=thread, by=access(ana), kind="todo", text="Buy twine")
    update_work_item(item=todo, by=access(ana), version=1, text="Buy 20 m of twine")

    with pytest.raises(Conflict) as stale:
        update_work_item(item=todo, by=access(dora), version=1, text="Buy wire")

    assert stale.value.code == "stale"
    assert [row.text for row in get_work_state(thread.pk).of_kind("todo")] == ["Buy 20 m of twine"]
    with pytest.raises(Conflict):
        close_work_item(item=todo, by=access(dora), version=1)


def test_closed_rows_are_not_changed_and_closing_twice_is_closing_once(ana: Member, thread: Thread) -> None:
    todo = create_work_item(thread=thread, by=access(ana), kind="todo", text="Buy twine")
    closed = close_work_item(item=todo, by=access(ana))
    assert close_work_item(item=todo, by=access(ana)).version == closed.version == 2
    with pytest.raises(Conflict):
        close_work_item(item=todo, by=access(ana), state="dropped")
    with pytest.raises(Conflict):
        update_work_item(item=todo, by=access(ana), version=2, text="Buy wire")
    assert reopen_work_item(item=todo, by=access(ana)).state == "open"


def test_an_agent_writes_work_but_does_not_touch_what_people_set(ana: Member, thread: Thread, vibe: Agent) -> None:
    rule = create_work_item(thread=thread, by=access(ana), kind="constraint", text=RULE)
    agent = seen_by(vibe)
    own = create_work_item(thread=thread, by=agent, kind="constraint", text="Ana wants metric units.")
    todo = create_work_item(thread=thread, by=access(ana), kind="todo", text="Buy twine")

    with pytest.raises(Refused, match="Only people may change it"):
        update_work_item(item=rule, by=agent, version=1, text="Water when you like.")
    with pytest.raises(Refused, match="Only people may close it"):
        close_work_item(item=rule, by=agent, state="dropped")
    close_work_item(item=own, by=agent)
    close_work_item(item=todo, by=agent)
    close_work_item(item=rule, by=access(ana))
    with pytest.raises(Refused):
        reopen_work_item(item=rule, by=agent)


def test_only_people_approve_a_plan_and_that_is_a_milestone(
    ana: Member, thread: Thread, vibe: Agent, milestones: list[str]
) -> None:
    agent = seen_by(vibe)
    with pytest.raises(Refused):
        create_work_item(thread=thread, by=agent, kind="plan", text="Roses", data={"stage": "approved"})
    plan = create_work_item(thread=thread, by=agent, kind="plan", text="Roses", data={"stage": "planning"})
    with pytest.raises(Refused):
        update_work_item(item=plan, by=agent, version=1, data={"stage": "approved"})
    assert milestones == []

    update_work_item(item=plan, by=access(ana), version=1, data={"stage": "approved"})
    update_work_item(item=plan, by=agent, version=2, data={"stage": "executing"})
    update_work_item(item=plan, by=agent, version=3, text="Roses and hedge")
    assert milestones == ["milestone", "milestone"]

    close_work_item(item=plan, by=agent)
    reopen_work_item(item=plan, by=agent)
    assert milestones == ["milestone", "milestone", "milestone", "resume"]


def test_a_milestone_asks_for_a_compaction(ana: Member, thread: Thread, vibe: Agent) -> None:
    plan = create_work_item(thread=thread, by=access(ana), kind="plan", text="Roses")
    update_work_item(item=plan, by=access(ana), version=1, data={"stage": "executing"})
    assert [(row.trigger, row.state) for row in Compaction.objects.filter(thread=thread)] == [("milestone", "queued")]


def test_strangers_and_closed_threads(ana: Member, cleo: Member, ben: Member, thread: Thread, vibe: Agent) -> None:
    todo = create_work_item(thread=thread, by=access(ana), kind="todo", text="Buy twine")
    for outside in (cleo, ben):
        with pytest.raises(Missing):
            create_work_item(thread=thread, by=access(outside), kind="todo", text="x")
        with pytest.raises(Missing):
            close_work_item(item=todo, by=access(outside))
    set_thread_access(thread=thread, by=access(ana), access="human_only")
    with pytest.raises(Missing):
        create_work_item(thread=thread, by=seen_by(vibe), kind="todo", text="x")
    create_work_item(thread=thread, by=access(ana), kind="todo", text="People only")
    update_thread(thread=thread, by=access(ana), archived=True)
    with pytest.raises(Refused):
        create_work_item(thread=thread, by=access(ana), kind="todo", text="x")


@pytest.mark.parametrize(
    ("kind", "text", "data", "code"),
    [
        ("wish", "x", {}, "bad_kind"),
        ("todo", " \u200b ", {}, "empty"),
        ("todo", "a\x00b", {}, "has_nul"),
        ("constraint", "never " * 600, {}, "too_long"),
        ("todo", "x", {"stage": "approved"}, "bad_data"),
        ("plan", "x", {"stage": "finished"}, "bad_data"),
        ("goal", "x", {"budget": 3}, "bad_data"),
        ("goal", "x", {"budget": "y" * 201}, "too_long"),
    ],
)
def test_what_is_not_kept(
    kind: str, text: str, data: dict[str, object], code: str, ana: Member, thread: Thread
) -> None:
    with pytest.raises(Problem) as error:
        create_work_item(thread=thread, by=access(ana), kind=kind, text=text, data=data)
    assert error.value.code == code
    assert not WorkItem.objects.exists()


def test_the_same_said_again_is_one_row(ana: Member, dora: Member, thread: Thread) -> None:
    first = create_work_item(thread=thread, by=access(ana), kind="todo", text="Buy twine")
    again = create_work_item(thread=thread, by=access(dora), kind="todo", text="Buy twine ")
    assert again.pk == first.pk


def test_there_is_a_limit_and_the_error_says_what_to_do(ana: Member, thread: Thread) -> None:
    WorkItem.objects.bulk_create(
        WorkItem(thread=thread, kind="todo", text=f"To do {number}", author=ana.participant)
        for number in range(MAX_OPEN_PER_KIND)
    )
    with pytest.raises(Problem, match="Close some first"):
        create_work_item(thread=thread, by=access(ana), kind="todo", text="One more")


def test_constraints_always_fit_a_prompt_together(ana: Member, thread: Thread) -> None:
    long = "never " * 430
    kept = [create_work_item(thread=thread, by=access(ana), kind="constraint", text=f"{n} {long}") for n in range(3)]
    with pytest.raises(Problem, match=f"{MAX_CONSTRAINT_TOKENS:,} tokens"):
        create_work_item(thread=thread, by=access(ana), kind="constraint", text=f"4 {long}")
    with pytest.raises(Problem, match="drop one that no longer holds"):
        update_work_item(item=kept[0], by=access(ana), version=1, text=f"{'never ' * 490}")
    close_work_item(item=kept[0], by=access(ana), state="dropped")
    create_work_item(thread=thread, by=access(ana), kind="constraint", text=f"4 {long}")


def test_pages_are_told(ana: Member, thread: Thread) -> None:
    create_work_item(thread=thread, by=access(ana), kind="todo", text="Buy twine")
    assert Event.objects.filter(kind="work_changed", thread_id=thread.pk).count() == 1


def test_words_taken_from_a_message_go_with_it(ana: Member, thread: Thread) -> None:
    message, kept = say(thread, ana, "My code is 4711. Never water after noon."), say(thread, ana, "We like roses.")
    quote = create_work_item(thread=thread, by=access(ana), kind="constraint", text="My code is 4711.", message=message)
    own = create_work_item(thread=thread, by=access(ana), kind="constraint", text="Water early.", message=message)
    stays = create_work_item(thread=thread, by=access(ana), kind="todo", text="We like roses.", message=kept)
    handoff = create_handoff(thread=thread, trigger="hand")

    delete_message(message=message, by=access(ana))

    quote.refresh_from_db()
    assert (quote.text, quote.state) == (DELETED_TEXT, "dropped")
    assert [row.pk for row in get_work_state(thread.pk).of_kind("constraint")] == [own.pk]
    assert [row.pk for row in get_work_state(thread.pk).of_kind("todo")] == [stays.pk]
    assert "4711" not in str(handoff.sections)


def test_a_message_of_another_thread_is_no_source(ana: Member, thread: Thread) -> None:
    from tests.factories import make_thread

    elsewhere = say(make_thread(thread.channel, ana, "Hedge"), ana, "Cut it.")
    with pytest.raises(Missing):
        create_work_item(thread=thread, by=access(ana), kind="todo", text="Cut it.", message=elsewhere)


def test_reaching_an_objective_or_a_goal_is_a_milestone_and_giving_it_up_is_none(
    ana: Member, thread: Thread, vibe: Agent, milestones: list[str]
) -> None:
    for kind in ("objective", "goal", "plan"):
        item = create_work_item(thread=thread, by=access(ana), kind=kind, text=f"The {kind} of spring")
        close_work_item(item=item, by=access(ana), state="done")
    assert milestones == ["milestone"] * 3
    for kind in ("objective", "todo"):
        item = create_work_item(thread=thread, by=access(ana), kind=kind, text=f"Another {kind}")
        close_work_item(item=item, by=access(ana), state="dropped" if kind == "objective" else "done")
    assert milestones == ["milestone"] * 3
    assert Compaction.objects.filter(thread=thread, trigger="milestone").exists()


def test_verification_and_integration_are_stages_of_a_plan_and_milestones(
    ana: Member, thread: Thread, vibe: Agent, milestones: list[str]
) -> None:
    plan = create_work_item(thread=thread, by=access(ana), kind="plan", text="Dig, then plant.")
    agent = agent_access(vibe.participant)
    assert agent is not None
    for stage in ("executing", "verifying", "integrating"):
        plan = update_work_item(item=plan, by=agent, version=plan.version, data={"stage": stage})
    assert milestones == ["milestone"] * 3
