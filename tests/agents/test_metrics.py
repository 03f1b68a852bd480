"""`/metrics`: numbers for Prometheus, for who has the token, and nothing that anybody wrote."""

import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families
from pytest_django.fixtures import DjangoAssertNumQueries, Settings

from agents import metrics
from agents.models import Agent, Run
from agents.runs.executor import execute_run
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.factories import say

TOKEN = "a token for the scraper"


@pytest.fixture(autouse=True)
def nothing_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_read", (0.0, b""))


def scrape(client: Client, token: str = TOKEN) -> str:
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {token}", "Host": "10.0.0.7:8000"})
    assert answer.status_code == 200
    return answer.content.decode()


def test_it_is_closed_unless_a_token_is_set_and_given(client: Client, db: None, settings: Settings) -> None:
    assert client.get("/metrics").status_code == 404
    settings.METRICS_TOKEN = TOKEN
    for authorization in ("", f"Bearer {TOKEN}x", TOKEN, "Bearer é"):
        answer = client.get("/metrics", headers={"Authorization": authorization})
        assert (answer.status_code, b"openvibe_" in answer.content) == (401, False)
    assert client.post("/metrics").status_code == 405


def test_it_counts_what_ran_and_says_no_word_of_it(
    client: Client, ana: Member, thread: Thread, vibe: Agent, settings: Settings
) -> None:
    settings.METRICS_TOKEN = TOKEN
    question = say(thread, ana, "@vibe when do I prune the roses?")
    execute_run(Run.objects.get(trigger=question).pk)
    text = scrape(client)
    values = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    run = Run.objects.get()
    assert values["openvibe_runs", "done"] == 1
    assert values["openvibe_tokens_total", "input", "runs"] == run.input_tokens > 0
    assert values["openvibe_run_seconds_count", "done"] == 1
    assert values["openvibe_assembly_seconds", "0.95"] > 0
    assert {"openvibe_cache_ratio", "openvibe_events_total", "openvibe_stream_processes"} <= {key[0] for key in values}
    for word in (ana.workspace.name, ana.workspace.slug, 'vibe"', "rose", "Pruning", "general", "example.org"):
        assert word not in text


def test_who_asks_again_at_once_costs_the_database_nothing(
    client: Client, db: None, settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    settings.METRICS_TOKEN = TOKEN
    first = scrape(client)
    with django_assert_num_queries(0):
        assert scrape(client) == first
