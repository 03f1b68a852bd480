"""The admin's first page: each number is that of the rows it leads to, of every workspace."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from pytest_django.fixtures import Settings

from agents.models import Agent, Run
from knowledge.models import Entry
from memory.models import Compaction
from memory.plugins.lcm.models import Conversation
from openvibe.chat.models import Thread
from openvibe.engines.serving.service_states import ServiceState, write_service_states
from openvibe.workspaces.models import Member
from tests import factories
from tests.admin.conftest import as_superuser, superuser
from tests.agents.runs.scripted_runs import ask
from tests.knowledge.factories import ContradictionFactory
from tests.memory.factories import CompactionFactory, EpisodeFactory
from tests.memory.plugins.lcm.factories import leaf, taken_in

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def compacted(thread: Thread, state: str, days_ago: int = 1, **more: object) -> Compaction:
    at = None if state == "queued" else NOW - timedelta(days=days_ago)
    row = {"plugin": "memory/lcm", "trigger": "hand", "state": state, "finished_at": at, **more}
    return CompactionFactory.create(thread=thread, **row)


def furnish(member: Member, agent: Agent, thread: Thread) -> None:
    """Makes one row of each kind that counts and one that does not."""
    for state, hours in (("failed", 1), ("failed", 48), ("queued", 1)):
        run = ask(thread, member, f"@{agent.handle} {state} {hours}?")
        Run.objects.filter(pk=run.pk).update(state=state, error="It broke.", queued_at=NOW - timedelta(hours=hours))
    for archived_at in (None, NOW):
        EpisodeFactory.create(
            agent=agent.participant, kind="feedback_received", summary="Shorter.", archived_at=archived_at
        )
    first, second = (factories.make_entry(member, f"Prices {n}", f"{n}0 a month.") for n in (1, 2))
    Entry.objects.filter(pk=first.pk).update(expires_at=NOW + timedelta(days=3))
    Entry.objects.filter(pk=second.pk).update(status="needs_review", reason="wrong")
    ContradictionFactory.create(
        workspace=member.workspace, first=first, second=second, first_version=1, second_version=1, why="Sums differ."
    )
    for n in range(3):
        factories.say(thread, member, f"Roses {n}")
    conversation = taken_in(thread)
    leaf(conversation, 1, 4)
    Conversation.objects.filter(pk=conversation.pk).update(exhausted_version=conversation.version)
    compacted(thread, "queued")
    compacted(thread, "done")
    compacted(thread, "failed", error="The model timed out.")
    compacted(thread, "failed", days_ago=40, error="Long ago.")


@pytest.fixture
def cards(ana: Member, vibe: Agent, thread: Thread) -> Client:
    furnish(ana, vibe, thread)
    other = factories.make_member("Cleo")
    channel = factories.make_channel(other)
    furnish(other, factories.make_agent(other, "fern", channel=channel), factories.make_thread(channel, other))
    return as_superuser(ana)


def test_each_tile_counts_the_rows_it_leads_to(cards: Client, ana: Member) -> None:
    tiles = {tile.title: tile for tile in cards.get(reverse("admin:index")).context["cards"]}
    counted = {}
    for title, tile in tiles.items():
        if tile.link.startswith("/admin/") and tile.number.isdigit():
            counted[title] = int(tile.number)
            listed = cards.get(tile.link)
            assert listed.status_code == 200, tile.link
            assert listed.context["cl"].result_count == counted[title], title
    titles = (
        *("Failed runs, 24 h", "Runs waiting", "Knowledge expiring, 14 days", "Knowledge to review", "Contradictions"),
        *("Open thumbs down", "Compactions waiting", "Compactions failed, 30 days", "Threads over their trigger"),
    )
    assert counted == dict.fromkeys(titles, 2)
    assert tiles["Compactions failed, 30 days"].note == "The last one: The model timed out."


def test_the_page_draws_thirty_days_with_axes_and_asks_little(cards: Client, thread: Thread) -> None:
    cards.get(reverse("admin:index"))
    with CaptureQueriesContext(connection) as queries:
        page = cards.get(reverse("admin:index")).content.decode()
    for words in ("Tokens per day", "Compactions per day", "Cache rate per day", ": 2 failed", ": 2 done", "100 %"):
        assert words in page
    compactions = [query["sql"] for query in queries if "memory_compaction" in query["sql"]]
    assert len(compactions) == 2
    assert not [sql for sql in compactions if "chat_message" in sql]
    summarised = next(tile for tile in cards.get(reverse("admin:index")).context["cards"] if "summaries" in tile.title)
    thread.refresh_from_db()
    assert summarised.note == f"8 of {2 * thread.last_seq}"


def test_a_service_that_keeps_ending_stands_on_top_for_who_runs_the_server(
    ana: Member, settings: Settings, tmp_path: Path
) -> None:
    settings.VAR = tmp_path
    sentence = "worker keeps ending: 6 times in a row, last with exit code -9."
    browser = superuser(ana)
    assert b"keeps ending" not in browser.get(reverse("admin:index")).content
    write_service_states([ServiceState("web"), ServiceState("worker", consecutive_exits=6, exit_code=-9)])
    assert sentence in browser.get(reverse("admin:index")).content.decode()
