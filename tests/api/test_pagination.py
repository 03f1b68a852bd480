"""Cursor pages: every row once, whatever is written meanwhile, at a constant number of queries."""

import re
from collections.abc import Callable, Iterator

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoDbBlocker

from agents.agent.call_rules import create_call_rule
from agents.models import Agent, Run, Schedule
from agents.statistics.knowledge_uses import record_uses
from agents.watching.services import create_watch
from knowledge.models import Entry
from knowledge.services import update_entry
from memory.episodes.models import Episode, Proposal
from memory.episodes.services import give_feedback
from memory.plugins.models import SessionInfo
from memory.work.approvals import request_approval
from memory.work.services import create_work_item, log_progress
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import (
    add_reaction,
    create_reply,
    open_direct_messages,
    publish_dive,
    request_import,
    save_message,
    start_dive,
)
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.webhooks.models import Webhook
from openvibe.webhooks.services import create_webhook, send_test
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import create_snippet
from tests import factories
from tests.api.client import Api, is_problem
from tests.api.conftest import Enter, token_client
from tests.knowledge.factories import ContradictionFactory
from tests.memory.factories import CompactionFactory


@pytest.fixture
def api(ana: Member, by_token: Enter) -> Api:
    return by_token(ana.participant)


def pages(api: Api, path: str, limit: int) -> Iterator[list[int]]:
    joint, cursor = "&" if "?" in path else "?", ""
    while True:
        page = api.get(f"{path}{joint}limit={limit}{cursor}").json()
        yield [row["id"] for row in page["results"]]
        if page["next"] is None:
            return
        cursor = f"&cursor={page['next']}"


def test_messages_come_once_each_though_more_are_written(api: Api, ana: Member, thread: Thread) -> None:
    ids = [factories.say(thread, ana, f"Message {n}").pk for n in range(7)]
    seen: list[int] = []
    for page in pages(api, f"threads/{thread.pk}/messages/", 3):
        seen += page
        if len(seen) == 3:
            ids.append(factories.say(thread, ana, "Meanwhile").pk)

    assert seen == ids


def test_newest_first_lists_do_not_shift(api: Api, ana: Member, channel: Channel) -> None:
    ids = [factories.make_thread(channel, ana, f"Thread {n}").pk for n in range(5)]
    walk = pages(api, "threads/", 2)
    seen = next(walk)
    factories.make_thread(channel, ana, "Newer")
    for page in walk:
        seen += page

    assert seen == ids[::-1]


def test_after_and_before_a_place(api: Api, ana: Member, thread: Thread) -> None:
    for n in range(6):
        factories.say(thread, ana, f"Message {n}")

    def seqs(query: str) -> list[int]:
        rows = api.get(f"threads/{thread.pk}/messages/?{query}").json()["results"]
        return [row["seq"] for row in rows]

    assert seqs("after_seq=4") == [5, 6]
    assert seqs("before_seq=4&limit=2") == [3, 2]
    assert seqs("after_seq=1&before_seq=4") == [2, 3]
    assert seqs("after_seq=6") == []


@pytest.mark.parametrize("limit", ["0", "101", "-1", "x", "9" * 30, "1.5", "٣"])
def test_limits_are_1_to_100(api: Api, limit: str) -> None:
    assert is_problem(api.get(f"threads/?limit={limit}"), 400, "bad_limit")


def test_a_cursor_of_another_list_or_none_is_refused(api: Api, ana: Member, thread: Thread) -> None:
    for n in range(3):
        factories.say(thread, ana, f"Message {n}")
    theirs = api.get(f"threads/{thread.pk}/messages/?limit=1").json()["next"]

    for cursor in (theirs, "x", "%00", "AAAA", "MSAtaWQgLTE", "%F0%9F%8C%B1", "MSAtaWQgOTk5OTk5OTk5OTk5OTk5OTk5OTk5"):
        assert is_problem(api.get(f"threads/?cursor={cursor}"), 400, "bad_cursor")


def row_of_each(ana: Member, thread: Thread, vibe: Agent, number: int) -> None:
    access = factories.access(ana)
    factories.make_channel(ana, f"channel-{number}")
    create_call_rule(agent=vibe, by=access, kind="edit", effect="ask", pattern=f"bed-{number}/**")
    member = factories.make_member(f"Member {number}", ana.workspace)
    first = thread.messages.order_by("seq").first() or factories.say(thread, ana, "Roses")
    add_reaction(message=first, by=factories.access(member), emoji="🎉")
    open_direct_messages(by=access, recipient=member.participant)
    other = factories.make_thread(thread.channel, ana, f"Thread {number}")
    other.allowed_agents.add(vibe.participant)
    asked = factories.say(thread, ana, f"@vibe question about roses {number}")
    save_message(message=asked, by=access)
    reply = create_reply(thread=thread, author=vibe.participant, client_id=f"r{number}")
    Message.objects.filter(pk=reply.pk).update(state="complete", body="Roses.")
    Run.objects.get_or_create(
        agent=vibe,
        trigger=asked,
        regenerates=None,
        defaults={"workspace": ana.workspace, "thread": thread, "requested_by": ana.participant, "task": "mention"},
    )
    give_feedback(message=reply, by=access, verdict="down", text=f"Too short {number}")
    Proposal.objects.create(
        agent=vibe.participant,
        thread=thread,
        kind="profile",
        person=ana.participant,
        text=f"Likes roses {number}",
        since_seq=0,
        upto_seq=1,
    )
    factories.make_agent(ana, f"agent-{number}")
    SessionInfo.objects.create(agent=ana.participant, thread=other)
    dive = start_dive(source=asked, by=access, agent=vibe.participant)
    publish_dive(dive=dive, by=access, result=ResultDraft(f"Result {number}", ("One", "Two", "Three")))
    create_work_item(thread=thread, by=access, kind="todo", text=f"Water {number}")
    request_approval(thread=thread, by=access, what=f"Order {number}")
    log_progress(thread=thread, by=access, checkpoint=f"Dug {number}")
    CompactionFactory.create(thread=thread, plugin="memory/lcm", trigger="threshold", state="done")
    create_snippet(workspace=ana.workspace, by=access, name=f"snippet-{number}", text="Be brief.")
    Schedule.objects.create(
        agent=vibe,
        name=f"Noon {number}",
        cron="0 12 * * *",
        time_zone="UTC",
        prompt="Say what is open.",
        channel=thread.channel,
        thread=other,
        next_due_at="2036-01-01T12:00Z",
        author=ana.participant,
    )
    create_watch(agent=vibe, by=access, channel=factories.make_channel(ana, f"watched-{number}"), is_active=False)
    request_import(by=access, chunks=iter([b"{}"]), file_name=f"chat-{number}.jsonl", form="", channel=None)
    create_webhook(by=access, participant=ana.participant, url="https://93.184.216.34/", kinds=["mention"])
    send_test(webhook=Webhook.objects.earliest("pk"), by=access)
    know_more(ana, thread, number)


def know_more(ana: Member, thread: Thread, number: int) -> None:
    """Two entries that contradict each other, one more revision of the first entry there is, and one more use."""
    first, second = (factories.make_entry(ana, f"Topic {number}", f"In {month}.") for month in ("May", "June"))
    ContradictionFactory.create(
        workspace=ana.workspace, first=first, second=second, first_version=1, second_version=1, why="Months differ."
    )
    oldest = Entry.objects.earliest("pk")
    update_entry(entry=oldest, by=factories.access(ana), content=f"In {number} weeks.")
    record_uses(run=Run.objects.filter(thread=thread).latest("pk"), entry_ids=[oldest.pk], how="prompt")


LISTS = [
    "channels/",
    "people/",
    "direct-messages/",
    "threads/",
    "threads/{thread}/messages/",
    "messages/{message}/reactions/",
    "saved/",
    "search/?q=roses",
    "runs/",
    "feedback/",
    "episodes/",
    "dives/",
    "threads/?parent={thread}",
    "agents/",
    "agents/{agent}/rules/",
    "tokens/",
    "sessions/",
    "proposals/",
    "schedules/",
    "watches/",
    "memory/compactions/",
    "work/",
    "progress/",
    "approvals/",
    "knowledge/",
    "snippets/",
    "audit/",
    "knowledge/contradictions/",
    "knowledge/{entry}/revisions/",
    "knowledge/{entry}/uses/",
    "imports/",
    "webhooks/",
    "webhooks/{webhook}/deliveries/",
]


Costs = dict[str, tuple[int, int]]


@pytest.fixture(scope="module")
def costs(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> tuple[Costs, Costs]:
    """Rows and queries of each list, first with one row of everything, then with three. Measured once for all."""
    with django_db_blocker.unblock(), transaction.atomic():
        measured = measure_lists()
        transaction.set_rollback(True)
    return measured


def measure_lists() -> tuple[Costs, Costs]:
    ana = factories.make_member("Ana")
    thread = factories.make_thread(factories.make_channel(ana), ana)
    vibe = factories.make_agent(ana, "vibe", channel=thread.channel)
    api = token_client(ana.participant)
    row_of_each(ana, thread, vibe, 0)
    webhook, entry = Webhook.objects.earliest("pk").pk, Entry.objects.earliest("pk").pk
    message = Message.objects.earliest("pk").pk
    addresses = {
        path: path.format(thread=thread.pk, entry=entry, webhook=webhook, message=message, agent="vibe")
        for path in LISTS
    }

    def cost(address: str) -> tuple[int, int]:
        with CaptureQueriesContext(connection) as queries:
            rows = api.get(address).json()["results"]
        return len(rows), len(queries)

    api.get("threads/")  # the token's first use is noted
    few = {path: cost(address) for path, address in addresses.items()}
    for number in (1, 2):
        row_of_each(ana, thread, vibe, number)
        token_client(ana.participant)
    return few, {path: cost(address) for path, address in addresses.items()}


@pytest.mark.django_db
@pytest.mark.parametrize("path", LISTS)
def test_three_rows_cost_as_many_queries_as_one(costs: tuple[Costs, Costs], path: str) -> None:
    (few, queries), (many, more_queries) = (cost[path] for cost in costs)

    assert 1 <= few < many
    assert queries == more_queries


def test_every_list_is_among_these(schema_lists: Callable[[], set[str]]) -> None:
    assert schema_lists() == {re.sub(r"{\w+}", "{id}", path.partition("?")[0]) for path in LISTS}


def test_episodes_of_an_agent_are_its_own(ana: Member, thread: Thread, vibe: Agent, by_token: Enter) -> None:
    row_of_each(ana, thread, vibe, 0)
    other = factories.make_agent(ana, "fern", channel=thread.channel)
    mine = by_token(vibe.participant).get("episodes/?kind=feedback_received").json()["results"]
    theirs = by_token(other.participant).get("episodes/?kind=feedback_received").json()["results"]

    assert [row["summary"] for row in mine] == ["Too short 0"]
    assert theirs == []
    assert Episode.objects.filter(kind="feedback_received").count() == 1
