"""Owners and admins see what needs a look and what agents did in their workspace: counts, charts and long lists."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from agents.models import Agent, Run, Snapshot
from agents.web.settings.activity import LISTS, PAGE_SIZE
from memory.episodes.services import give_feedback
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests import factories
from tests.agents.factories import SpendingFactory
from tests.agents.prompts.test_history import answered
from tests.agents.runs.scripted_runs import ask
from tests.agents.web.settings.test_settings_pages import address
from tests.factories import signed_in
from tests.memory.factories import CompactionFactory
from tests.memory.plugins.lcm.factories import leaf, taken_in

pytestmark = pytest.mark.django_db


def furnish(member: Member, agent: Agent, thread: Thread) -> Run:
    """One row of each list; returns the run that answered."""
    run = answered(thread, member)
    run.refresh_from_db()
    assert run.reply is not None
    give_feedback(message=run.reply, by=factories.access(member), verdict="down", text="Too long")
    SpendingFactory.create(workspace=member.workspace, agent=agent.participant)
    CompactionFactory.create(thread=thread, plugin="memory/lcm", trigger="hand", state="failed", error="Timed out.")
    return run


@pytest.fixture
def browser(ana: Member, vibe: Agent, thread: Thread) -> Client:
    furnish(ana, vibe, thread)
    return signed_in(ana)


def tiles(browser: Client, member: Member) -> dict[str, str]:
    return {tile.title: tile.number for tile in browser.get(address(member, "activity")).context["tiles"]}


def shown(browser: Client, member: Member, key: str, **query: str) -> list[list[str]]:
    page = browser.get(address(member, "activity"), {"list": key, **query})
    assert page.status_code == 200
    return [[cell.text for cell in row] for row in page.context["rows"]]


def test_numbers_are_those_of_the_workspace(ana: Member, vibe: Agent, thread: Thread, cleo: Member) -> None:
    furnish(ana, vibe, thread)
    failed = ask(thread, ana, "@vibe why?")
    Run.objects.filter(pk=failed.pk).update(state="failed", error="It broke.")
    factories.make_entry(ana, "Prices", "$29")
    conversation = taken_in(thread)
    leaf(conversation, 1, 2)
    type(conversation).objects.filter(pk=conversation.pk).update(exhausted_version=conversation.version)

    numbers = tiles(signed_in(ana), ana)
    assert numbers["Failed runs, 24 h"] == "1"
    assert numbers["Open thumbs down"] == "1"
    assert numbers["Threads over their trigger"] == "1"
    assert set(tiles(signed_in(cleo), cleo).values()) <= {"0", "–"}
    assert [row[3] for row in shown(signed_in(ana), ana, "runs", state="failed")] == ["failed: It broke."]
    assert shown(signed_in(ana), ana, "threads", state="stuck")[0][2] == "Yes"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("runs", "Vibe"),
        ("prompts", "Vibe"),
        ("background", "m9"),
        ("compactions", "failed: Timed out."),
        ("feedback", "Too long"),
    ],
)
def test_each_list_has_its_rows_and_no_other_workspaces(
    browser: Client, ana: Member, cleo: Member, key: str, words: str
) -> None:
    assert words in shown(browser, ana, key)[0]
    assert shown(signed_in(cleo), cleo, key) == []


@pytest.mark.parametrize("key", LISTS)
@pytest.mark.parametrize("query", [{}, {"state": "\x00"}, {"agent": "nobody"}, {"before": "9" * 30}, {"before": "x"}])
def test_what_is_no_filter_narrows_nothing(browser: Client, ana: Member, key: str, query: dict[str, str]) -> None:
    assert len(shown(browser, ana, key, **query)) == len(shown(browser, ana, key))


def test_a_page_holds_fifty_and_leads_to_the_older(browser: Client, ana: Member, vibe: Agent) -> None:
    for n in range(PAGE_SIZE):
        SpendingFactory.create(workspace=ana.workspace, model=f"m{n}")
    page = browser.get(address(ana, "activity"), {"list": "background"})
    assert len(page.context["rows"]) == PAGE_SIZE
    older = shown(browser, ana, "background", before=str(page.context["older"]))
    assert [row[3] for row in older] == ["m9"]


def test_what_one_may_not_read_is_a_row_without_words_or_a_way_in(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    """Dora administers, and was not added to the private channel."""
    dora.role = "admin"
    dora.save()
    den = factories.make_channel(ana, "den", private=True)
    factories.ChannelMembershipFactory.create(channel=den, participant=vibe.participant)
    furnish(ana, vibe, factories.make_thread(den, ana, "Selling the garden"))
    browser = signed_in(dora)
    for key in LISTS:
        page = browser.get(address(ana, "activity"), {"list": key}).content.decode()
        assert "Selling" not in page
        assert "Too long" not in page
        assert f"/runs/{Run.objects.get().pk}/" not in page
    assert shown(browser, ana, "feedback") == []
    assert tiles(browser, ana)["Open thumbs down"] == "0"
    assert len(shown(browser, ana, "runs")) == len(shown(browser, ana, "compactions")) == 1
    run_page = reverse("run", args=[ana.workspace.slug, Run.objects.get().pk])
    assert run_page in signed_in(ana).get(address(ana, "activity")).content.decode()


@pytest.mark.parametrize("key", LISTS)
def test_many_rows_take_the_statements_of_few(
    browser: Client, ana: Member, vibe: Agent, thread: Thread, key: str
) -> None:
    where, counts = address(ana, "activity"), []
    browser.get(where)
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            browser.get(where, {"list": key})
        counts.append(len(queries))
        for _ in range(3):
            furnish(ana, vibe, thread)
    assert counts[0] == counts[1]
    assert Snapshot.objects.count() > 3
