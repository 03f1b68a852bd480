"""The work panel: everything a thread works on, written and decided where it stands."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.agent.access import agent_access
from agents.models import Agent
from memory.work.approvals import request_approval
from memory.work.handoff import create_handoff
from memory.work.models import Approval, ProgressEntry, WorkItem
from memory.work.services import close_work_item, create_work_item, log_progress
from openvibe.chat.models import Thread
from openvibe.chat.services import add_to_channel, update_thread
from openvibe.workspaces.models import Member
from tests.factories import access, make_thread, say, signed_in

PANEL = {"HX-Request": "true"}


def at(thread: Thread, rest: str = "") -> str:
    return f"/w/{thread.workspace.slug}/t/{thread.pk}/work/{rest}"


def row_at(thread: Thread, what: str, pk: int) -> str:
    return f"/w/{thread.workspace.slug}/{what}/{pk}/"


@pytest.mark.parametrize("headers", [{}, PANEL])
def test_page_and_panel_show_all_there_is(headers: dict[str, str], ana: Member, thread: Thread, vibe: Agent) -> None:
    for kind in WorkItem.Kind.values:
        create_work_item(thread=thread, by=access(ana), kind=kind, text=f"This is a {kind} <b>")
    agent = agent_access(vibe.participant)
    assert agent is not None
    request_approval(thread=thread, by=agent, what="Order mulch", reason="Bare beds")
    log_progress(thread=thread, by=agent, checkpoint="Beds dug", next_action="Drain the fifth")
    create_handoff(thread=thread, trigger="hand")

    page = signed_in(ana).get(at(thread), headers=headers).content.decode()

    for kind in WorkItem.Kind.values:
        assert f"This is a {kind} &lt;b&gt;" in page
    for said in (
        "<bdi>Vibe</bdi> asks",
        "Order mulch",
        "Bare beds",
        "Grant",
        "Deny",
        "Beds dug",
        "Drain the fifth",
        "handoffs/",
    ):
        assert said in page
    assert ("<html" in page) is (not headers)
    assert "style=" not in page
    assert "<script" not in page.partition('id="work"')[2].partition("</article>")[0]


def test_the_thread_leads_there(ana: Member, thread: Thread) -> None:
    message = say(thread, ana, "Never water after noon.")
    page = signed_in(ana).get(f"/w/{thread.workspace.slug}/t/{thread.pk}/").content.decode()
    assert f'href="{at(thread)}" data-panel' in page
    assert f'href="{at(thread)}?keep={message.pk}" data-panel' in page


def test_a_row_is_written_changed_checked_off_and_opened_again(ana: Member, thread: Thread) -> None:
    client = signed_in(ana)
    client.post(at(thread), {"kind": "goal", "text": "A hedge", "done_condition": "40 m stand", "budget": ""})
    item = WorkItem.objects.get()
    assert (item.text, item.data) == ("A hedge", {"done_condition": "40 m stand"})

    address = row_at(thread, "work", item.pk)
    fragment = client.post(
        address,
        {"do": "save", "version": 1, "text": "A yew hedge", "done_condition": "", "budget": "200 €"},
        headers=PANEL,
    )
    assert "A yew hedge" in fragment.content.decode()
    assert "<html" not in fragment.content.decode()
    item.refresh_from_db()
    assert (item.version, item.data) == (2, {"budget": "200 €"})

    assert client.post(address, {"do": "done", "version": 2}).status_code == 302
    assert "Closed" in client.get(at(thread)).content.decode()
    client.post(address, {"do": "reopen", "version": 3})
    item.refresh_from_db()
    assert item.state == "open"


def test_what_was_closed_long_ago_is_found_and_opened_again(ana: Member, thread: Thread) -> None:
    rows = [create_work_item(thread=thread, by=access(ana), kind="todo", text=f"Dig bed {n}.") for n in range(45)]
    for row in rows:
        close_work_item(item=row, by=access(ana))
    client = signed_in(ana)
    assert f'href="{at(thread)}?page=2"' in client.get(at(thread)).content.decode()
    last = client.get(f"{at(thread)}?page=3").content.decode()
    assert all(f"Dig bed {n}." in last for n in range(5))
    assert "Dig bed 5." not in last


def test_a_plan_is_approved_and_begun(ana: Member, thread: Thread) -> None:
    plan = create_work_item(thread=thread, by=access(ana), kind="plan", text="Mulch, then plant")
    client, address = signed_in(ana), row_at(thread, "work", plan.pk)
    assert (
        "Approved"
        in client.post(address, {"do": "save", "version": 1, "stage": "approved"}, headers=PANEL).content.decode()
    )
    page = client.post(address, {"do": "save", "version": 2, "stage": "executing"}, headers=PANEL).content.decode()
    assert "Under way" in page
    assert "Start work" not in page
    plan.refresh_from_db()
    assert plan.text == "Mulch, then plant"


def test_an_older_page_does_not_overwrite(ana: Member, dora: Member, thread: Thread) -> None:
    item = create_work_item(thread=thread, by=access(ana), kind="todo", text="Buy twine")
    address = row_at(thread, "work", item.pk)
    signed_in(ana).post(address, {"do": "save", "version": 1, "text": "Buy 20 m of twine"})
    answer = signed_in(dora).post(address, {"do": "save", "version": 1, "text": "Buy wire"}, headers=PANEL)
    assert (answer.status_code, answer["HX-Retarget"]) == (409, "#toasts")
    item.refresh_from_db()
    assert item.text == "Buy 20 m of twine"


def test_a_message_is_kept_as_a_constraint(ana: Member, thread: Thread) -> None:
    message = say(thread, ana, "Never water after 9:30 & never by hose.")
    client = signed_in(ana)
    form = client.get(f"{at(thread)}?keep={message.pk}", headers=PANEL).content.decode()
    assert "Never water after 9:30 &amp; never by hose.</textarea>" in form
    client.post(at(thread), {"kind": "constraint", "text": message.body, "message": message.pk})
    item = WorkItem.objects.get()
    assert (item.text, item.message_id) == (message.body, message.pk)
    elsewhere = say(make_thread(thread.channel, ana, "Hedge"), ana, "Other words")
    assert client.get(f"{at(thread)}?keep={elsewhere.pk}").status_code == 404


@pytest.mark.parametrize(("granted", "state", "word"), [("yes", "granted", "Granted"), ("no", "denied", "Denied")])
def test_a_decision_says_who_made_it(
    granted: str, state: str, word: str, ana: Member, dora: Member, thread: Thread
) -> None:
    approval = request_approval(thread=thread, by=access(ana), what="Order mulch")
    address = row_at(thread, "approvals", approval.pk)
    page = signed_in(dora).post(address, {"granted": granted, "note": "Bark only"}, headers=PANEL).content.decode()
    assert word in page
    assert "<bdi>Dora</bdi>, " in page
    assert "Bark only" in page
    assert Approval.objects.get().state == state
    second_response = signed_in(ana).post(address, {"granted": "yes"}, headers=PANEL)
    assert second_response.status_code == 409
    assert signed_in(ana).post(address, {"granted": "perhaps"}).status_code == 400


def test_a_guest_reads_and_does_not_decide(ana: Member, ben: Member, thread: Thread) -> None:
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    approval = request_approval(thread=thread, by=access(ana), what="Order mulch")
    client = signed_in(ben)
    page = client.get(at(thread)).content.decode()
    assert "Order mulch" in page
    assert "Grant" not in page
    threads = [signed_in(each).get(f"/w/{ana.workspace.slug}/t/{thread.pk}/").content.decode() for each in (ana, ben)]
    assert ["to decide" in each for each in threads] == [True, False]
    assert client.post(row_at(thread, "approvals", approval.pk), {"granted": "yes"}).status_code == 403


@pytest.mark.parametrize("text", ["", "  \u200b\n"])
def test_a_row_without_words_is_refused_in_words_about_rows(text: str, ana: Member, thread: Thread) -> None:
    answer = signed_in(ana).post(at(thread), {"kind": "goal", "text": text}, headers=PANEL)
    assert answer.status_code == 400
    assert "There are no words in it yet. Nothing was saved: write something first." in answer.content.decode()


def test_a_guest_is_offered_what_guests_may_do_with_constraints(ana: Member, ben: Member, thread: Thread) -> None:
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    binding = create_work_item(thread=thread, by=access(ana), kind="constraint", text="Water early.")
    others = [
        create_work_item(thread=thread, by=access(ben), kind="constraint", text="Be kind."),
        create_work_item(thread=thread, by=access(ana), kind="goal", text="A hedge"),
    ]

    def buttons(member: Member, item: WorkItem) -> tuple[bool, bool, bool]:
        page = signed_in(member).get(at(thread)).content.decode()
        row = page.partition(f'id="work-row-{item.pk}"')[2].partition("</li>")[0]
        return ">Drop</button>" in row, "<summary>Edit</summary>" in row, "Only members change or drop it." in row

    assert buttons(ana, binding) == (True, True, False)
    assert buttons(ben, binding) == (False, False, True)
    assert [buttons(ben, item) for item in others] == [(True, True, False)] * 2


def test_progress_is_noted(ana: Member, thread: Thread) -> None:
    client = signed_in(ana)
    client.post(at(thread, "progress/"), {"checkpoint": "Beds dug", "next_action": "Drain"})
    assert [(row.checkpoint, row.next_action) for row in ProgressEntry.objects.all()] == [("Beds dug", "Drain")]
    assert client.post(at(thread, "progress/"), {"checkpoint": " "}, headers=PANEL).status_code == 400


def test_a_handoff_is_read_as_page_panel_and_markdown(ana: Member, thread: Thread) -> None:
    create_work_item(thread=thread, by=access(ana), kind="constraint", text="Never water after noon.")
    handoff = create_handoff(thread=thread, trigger="milestone", summary_ids=[987_654_321])
    client, address = signed_in(ana), at(thread, f"handoffs/{handoff.pk}/")
    for headers in ({}, PANEL):
        page = client.get(address, headers=headers).content.decode()
        assert "User constraints and preferences" in page
        assert "Never water after noon." in page
        assert "deleted or written anew since" in page
    text = client.get(f"{address}?as=markdown")
    assert text["Content-Type"].startswith("text/markdown")
    assert text.content.decode().startswith("# Compaction Handoff\n\n## Current objective")
    other = make_thread(thread.channel, ana, "Hedge")
    assert client.get(at(other, f"handoffs/{handoff.pk}/")).status_code == 404


def test_every_handoff_is_found(ana: Member, thread: Thread) -> None:
    rows = [create_handoff(thread=thread, trigger="hand") for _ in range(25)]
    client = signed_in(ana)
    pages = [client.get(f"{at(thread)}?handoffs={n}").content.decode() for n in (1, 2, 3)]
    assert f'href="{at(thread)}?handoffs=2#work-handoffs">Older</a>' in pages[0]
    for row in rows:
        assert sum(f"handoffs/{row.pk}/" in html for html in pages) == 1


def test_strangers_find_nothing(ana: Member, ben: Member, cleo: Member, thread: Thread) -> None:
    item = create_work_item(thread=thread, by=access(ana), kind="todo", text="Buy twine")
    approval = request_approval(thread=thread, by=access(ana), what="Order mulch")
    handoff = create_handoff(thread=thread, trigger="hand")
    for outside in (ben, cleo):
        client = signed_in(outside)
        reads = [client.get(at(thread)), client.get(at(thread, f"handoffs/{handoff.pk}/"))]
        writes = [
            client.post(at(thread), {"kind": "todo", "text": "x"}),
            client.post(at(thread, "progress/"), {"checkpoint": "x"}),
            client.post(row_at(thread, "work", item.pk), {"do": "done", "version": 1}),
            client.post(row_at(thread, "approvals", approval.pk), {"granted": "yes"}),
        ]
        assert {answer.status_code for answer in (*reads, *writes)} == {404}
    assert Client().get(at(thread)).status_code == 302


def test_an_archived_thread_is_read_only(ana: Member, thread: Thread) -> None:
    item = create_work_item(thread=thread, by=access(ana), kind="todo", text="Buy twine")
    update_thread(thread=thread, by=access(ana), archived=True)
    client = signed_in(ana)
    page = client.get(at(thread)).content.decode()
    assert "Buy twine" in page
    assert "can be read, not changed" in page
    assert row_at(thread, "work", item.pk) not in page
    assert client.post(row_at(thread, "work", item.pk), {"do": "done", "version": 1}).status_code == 403


def test_many_rows_cost_as_many_queries_as_one(ana: Member, thread: Thread) -> None:
    client = signed_in(ana)

    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            client.get(at(thread), headers=PANEL)
        return len(queries)

    def one_more(number: int) -> None:
        for kind in WorkItem.Kind.values:
            create_work_item(thread=thread, by=access(ana), kind=kind, text=f"{kind} {number}")
        close_work_item(
            item=create_work_item(thread=thread, by=access(ana), kind="todo", text=f"Done {number}"), by=access(ana)
        )
        request_approval(thread=thread, by=access(ana), what=f"Order {number}")
        log_progress(thread=thread, by=access(ana), checkpoint=f"Dug {number}")
        create_handoff(thread=thread, trigger="hand")

    one_more(0)
    cost()
    few = cost()
    for number in (1, 2):
        one_more(number)
    assert cost() == few
