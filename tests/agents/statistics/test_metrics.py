"""`/metrics`: numbers for Prometheus, for who has the token, and nothing that anybody wrote."""

import math
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from pytest_django.fixtures import DjangoAssertNumQueries, Settings

from agents.models import Agent, Run
from agents.runs.executor import execute_run
from agents.statistics import metrics
from memory.models import Compaction
from openvibe.chat.models import Thread
from openvibe.engines.jobs.heartbeats import record_scheduler, record_worker
from openvibe.engines.jobs.models import Heartbeat, QueueProbe
from openvibe.engines.jobs.queue import create_queues
from openvibe.engines.serving.service_states import ServiceState, write_service_states
from openvibe.webhooks.models import Delivery, Webhook
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


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Each value by the name of its series and those of its labels."""
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("broker", ["pgmq://localhost", "memory://", "redis://127.0.0.1:1/0"])
def test_every_series_is_there_before_anything_happened(
    client: Client, db: None, settings: Settings, tmp_path: Path, broker: str
) -> None:
    settings.METRICS_TOKEN, settings.CELERY_BROKER_URL, settings.VAR = TOKEN, broker, tmp_path
    create_queues(connection.connection)
    write_service_states([ServiceState("web"), ServiceState("worker")])
    values = samples(scrape(client))
    assert math.isinf(values.pop(("openvibe_scheduler_heartbeat_seconds",)))  # it was never heard
    assert {key for key, value in values.items() if value} <= {("openvibe_events_total",)}
    expected = {
        *(("openvibe_runs", state) for state in Run.State.values),
        *(("openvibe_run_seconds_count", state) for state in Run.FINISHED_STATES),
        *(("openvibe_compactions", state) for state in Compaction.State.values),
        *(("openvibe_watch_looks_total", outcome) for outcome in ("silent", "spoke")),
        *(("openvibe_assembly_seconds", quantile) for quantile in ("0.5", "0.95")),
        *(("openvibe_queue_oldest_seconds", queue) for queue in ("runs", "background")),
        *(("openvibe_workers", queue) for queue in ("runs", "background")),
        *(("openvibe_service_consecutive_exits", service) for service in ("web", "worker")),
        ("openvibe_oldest_queued_run_seconds",),
        ("openvibe_oldest_webhook_delivery_seconds",),
    }
    assert expected <= values.keys()
    assert (("openvibe_queue_jobs", "runs") in values) == broker.startswith("pgmq")


def test_it_says_how_long_the_oldest_of_each_kind_has_waited(
    client: Client, ana: Member, thread: Thread, vibe: Agent, settings: Settings
) -> None:
    settings.METRICS_TOKEN, settings.CELERY_BROKER_URL = TOKEN, "memory://"
    long_ago = timezone.now() - timedelta(hours=1)
    for words in ("when do I prune?", "and the hedge?"):
        run = Run.objects.get(trigger=say(thread, ana, f"@vibe {words}"))
        Run.objects.filter(pk=run.pk).update(queued_at=long_ago)
        long_ago += timedelta(minutes=20)
    elsewhere = Run.objects.get(trigger=say(thread, ana, "@vibe and the pond?"))  # waits for a program, no worker
    Run.objects.filter(pk=elsewhere.pk).update(queued_at=long_ago - timedelta(days=1), heard_at=timezone.now())
    hooks = [
        Webhook.objects.create(
            workspace=ana.workspace, participant=ana.participant, url="https://a.example/", kinds=["mention"], **state
        )
        for state in ({}, {"state": "paused"})
    ]
    for hook, minutes, state in ((hooks[0], 10, "pending"), (hooks[0], 90, "delivered"), (hooks[1], 90, "pending")):
        created_at = timezone.now() - timedelta(minutes=minutes)
        Delivery.objects.create(webhook=hook, kind="mention", state=state, created_at=created_at)
    QueueProbe.objects.create(queue="background", sent_at=timezone.now() - timedelta(minutes=5))
    values = samples(scrape(client))
    assert 3_600 <= values[("openvibe_oldest_queued_run_seconds",)] < 3_700
    assert 600 <= values[("openvibe_oldest_webhook_delivery_seconds",)] < 700
    assert 300 <= values["openvibe_queue_oldest_seconds", "background"] < 400
    assert values["openvibe_queue_oldest_seconds", "runs"] == 0


def test_a_job_that_waits_in_the_database_is_as_old_as_it_is(client: Client, db: None, settings: Settings) -> None:
    settings.METRICS_TOKEN, settings.CELERY_BROKER_URL = TOKEN, "pgmq://localhost"
    create_queues(connection.connection)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pgmq.send('background', '{}')")
        cursor.execute("UPDATE pgmq.q_background SET enqueued_at = now() - interval '5 minutes'")
    values = samples(scrape(client))
    assert 300 <= values["openvibe_queue_oldest_seconds", "background"] < 400
    assert values["openvibe_queue_jobs", "background"] == 1


def test_each_worker_and_the_scheduler_have_a_heartbeat(client: Client, db: None, settings: Settings) -> None:
    settings.METRICS_TOKEN = TOKEN
    record_scheduler()
    for name, queues in (("worker1@a", ["runs"]), ("worker2@b", ["runs", "background"])):
        record_worker(name, queues)
    Heartbeat.objects.filter(name="worker1@a").update(seen_at=timezone.now() - timedelta(minutes=3))
    values = samples(scrape(client))
    assert values["openvibe_worker_heartbeat_seconds", "worker1@a"] > 100
    assert 0 <= values["openvibe_worker_heartbeat_seconds", "worker2@b"] < 100
    assert 0 <= values[("openvibe_scheduler_heartbeat_seconds",)] < 100
    assert (values["openvibe_workers", "runs"], values["openvibe_workers", "background"]) == (1, 1)


def test_it_counts_what_ran_and_says_no_word_of_it(
    client: Client, ana: Member, thread: Thread, vibe: Agent, settings: Settings
) -> None:
    settings.METRICS_TOKEN = TOKEN
    question = say(thread, ana, "@vibe when do I prune the roses?")
    execute_run(Run.objects.get(trigger=question).pk)
    text = scrape(client)
    values = samples(text)
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
