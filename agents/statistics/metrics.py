"""`/metrics` for Prometheus: counts read from the database when they are asked for, so any process answers for all.

Numbers alone, no texts and no ids; of names those of workers and services. Each series is there from the start, at
zero. Closed (404) without OPENVIBE_METRICS_TOKEN."""

import math
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, LiteralString

from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from psycopg.sql import SQL, Composed, Identifier

from agents.agent.models import Run
from memory.models import Compaction
from openvibe.engines.jobs.heartbeats import ALIVE_SECONDS, probe_ages, read_heartbeats
from openvibe.engines.jobs.queue import queue_is_in_database
from openvibe.engines.serving.service_states import read_service_states
from openvibe.webhooks.queries import oldest_pending_at

CACHE_SECONDS = 10.0
"""How long what was read answers again: several who ask cost the database no more than one."""

_RUNS = """SELECT state, count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
coalesce(sum(cached_tokens), 0), count(finished_at - started_at),
coalesce(sum(extract(epoch FROM finished_at - started_at)), 0) FROM agents_run GROUP BY state ORDER BY state"""
_SPENDING = """SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cached_tokens), 0)
FROM workspaces_spending"""
_LOOKS = "SELECT coalesce(sum(silence_count), 0), coalesce(sum(post_count), 0) FROM agents_watch"
_COMPACTIONS = """SELECT state, count(*), coalesce(sum(tokens_before), 0), coalesce(sum(tokens_after), 0)
FROM memory_compaction GROUP BY state ORDER BY state"""
_ASSEMBLY = """SELECT percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY seconds) FROM (
SELECT extract(epoch FROM max((step ->> 'at')::timestamptz) FILTER (WHERE step ->> 'kind' = 'assembled')
 - max((step ->> 'at')::timestamptz) FILTER (WHERE step ->> 'kind' = 'claimed'))::float AS seconds
FROM agents_run, jsonb_array_elements(steps) step WHERE queued_at > now() - interval '1 hour' GROUP BY agents_run.id) s
WHERE seconds >= 0"""
# Not of agents elsewhere, which wait for their programs.
_OLDEST_RUN = """SELECT coalesce(max(extract(epoch FROM clock_timestamp() - queued_at)), 0)::float FROM agents_run
WHERE state = 'queued' AND heard_at IS NULL"""
_QUEUES = "SELECT queue_name, queue_length FROM pgmq.metrics_all() ORDER BY queue_name"
_OLDEST_JOB = SQL(
    "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - enqueued_at)), 0)::float FROM pgmq.{} WHERE read_ct = 0"
)
_STREAMS = """SELECT (SELECT coalesce(max(position), 0) FROM base_event), (SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE 'LISTEN %openvibe_events%')"""


class DatabaseCollector(Collector):
    """What OpenVibe's own tables know, each family from one statement."""

    def collect(self) -> Iterator[Metric]:
        yield from _run_metrics()
        yield from _compaction_metrics()
        looks = CounterMetricFamily("openvibe_watch_looks", "Looks of agents that watch channels.", labels=["outcome"])
        for outcome, count in zip(("silent", "spoke"), _fetch(_LOOKS)[0], strict=True):
            looks.add_metric([outcome], count)
        yield looks
        assembly = GaugeMetricFamily(
            "openvibe_assembly_seconds", "Time to make a prompt, of runs of the last hour.", labels=["quantile"]
        )
        for quantile, seconds in zip(("0.5", "0.95"), _fetch(_ASSEMBLY)[0][0] or (0.0, 0.0), strict=True):
            assembly.add_metric([quantile], seconds)
        yield assembly
        yield from _waiting_metrics()
        yield from _heartbeat_metrics()
        yield from _service_metrics()
        events, listeners = _fetch(_STREAMS)[0]
        yield CounterMetricFamily("openvibe_events", "Changes told to open pages.", value=events)
        yield GaugeMetricFamily(
            "openvibe_stream_processes", "Web processes that have event streams open.", value=listeners
        )


def _run_metrics() -> Iterator[Metric]:
    runs = GaugeMetricFamily("openvibe_runs", "Runs of agents there are.", labels=["state"])
    tokens = CounterMetricFamily("openvibe_tokens", "Tokens models were asked and answered.", labels=["of", "kind"])
    duration = SummaryMetricFamily("openvibe_run_seconds", "From the start of a run to its end.", labels=["state"])
    sums, rows = [0, 0, 0], {state: row for state, *row in _fetch(_RUNS)}
    for state in Run.State.values:
        count, *token_counts, ended_count, seconds = rows.get(state, (0, 0, 0, 0, 0, 0))
        runs.add_metric([state], count)
        sums = [total + more for total, more in zip(sums, token_counts, strict=True)]
        if state in Run.FINISHED_STATES:
            duration.add_metric([state], ended_count, float(seconds))
    for purpose, values in (("runs", sums), ("background", _fetch(_SPENDING)[0])):
        for kind, value in zip(("input", "output", "cached"), values, strict=True):
            tokens.add_metric([purpose, kind], value)
    yield from (runs, duration, tokens)
    cache_ratio = sums[2] / (sums[0] or 1)
    yield GaugeMetricFamily(
        "openvibe_cache_ratio", "Share of all input of runs that came from a model's cache.", value=cache_ratio
    )


def _compaction_metrics() -> Iterator[Metric]:
    compactions = GaugeMetricFamily("openvibe_compactions", "Compactions of threads there are.", labels=["state"])
    tokens = CounterMetricFamily("openvibe_compaction_tokens", "Tokens before and after them.", labels=["when"])
    before = after = 0
    rows = {state: row for state, *row in _fetch(_COMPACTIONS)}
    for state in Compaction.State.values:
        count, tokens_before, tokens_after = rows.get(state, (0, 0, 0))
        compactions.add_metric([state], count)
        before, after = before + tokens_before, after + tokens_after
    tokens.add_metric(["before"], before)
    tokens.add_metric(["after"], after)
    yield from (compactions, tokens)


def _waiting_metrics() -> Iterator[Metric]:
    """Ages of the oldest run, job and webhook delivery that wait. A run counts until a worker takes it, whatever
    carried it there."""
    run = _fetch(_OLDEST_RUN)[0][0]
    yield GaugeMetricFamily("openvibe_oldest_queued_run_seconds", "Age of the oldest run that waits.", value=run)
    oldest = oldest_pending_at()
    delivery = max(0.0, (timezone.now() - oldest).total_seconds()) if oldest else 0.0
    yield GaugeMetricFamily(
        "openvibe_oldest_webhook_delivery_seconds", "Age of the oldest delivery that waits.", value=delivery
    )
    age = GaugeMetricFamily(
        "openvibe_queue_oldest_seconds", "How long the oldest job has waited for a worker.", labels=["queue"]
    )
    if queue_is_in_database():
        depth = GaugeMetricFamily("openvibe_queue_jobs", "Jobs that wait or are under way.", labels=["queue"])
        for name, length in _fetch(_QUEUES):
            depth.add_metric([name.removeprefix("q_")], length)
            age.add_metric([name.removeprefix("q_")], _fetch(_OLDEST_JOB.format(Identifier(f"q_{name}")))[0][0])
        yield depth
    else:
        for queue, seconds in probe_ages().items():
            age.add_metric([queue], seconds)
    yield age


def _heartbeat_metrics() -> Iterator[Metric]:
    """A scheduler that was never heard is infinitely late. Each queue has its number of living workers, be it none."""
    heartbeats = read_heartbeats()
    late = GaugeMetricFamily("openvibe_worker_heartbeat_seconds", "Since the worker was last heard.", labels=["worker"])
    workers = GaugeMetricFamily("openvibe_workers", "Workers heard within a minute.", labels=["queue"])
    alive, scheduler = dict.fromkeys((queue.name for queue in settings.CELERY_TASK_QUEUES), 0), math.inf
    for each in heartbeats:
        if each.kind == "scheduler":
            scheduler = each.seconds
            continue
        late.add_metric([each.name], each.seconds)
        for queue in each.queues if each.seconds <= ALIVE_SECONDS else ():
            alive[queue] = alive.get(queue, 0) + 1
    for queue, count in alive.items():
        workers.add_metric([queue], count)
    yield from (late, workers)
    yield GaugeMetricFamily(
        "openvibe_scheduler_heartbeat_seconds", "Since the scheduler (beat) was last heard.", value=scheduler
    )


def _service_metrics() -> Iterator[Metric]:
    """Exits of the services of `manage.py serve`, where it runs; containers and units have their own."""
    exits = GaugeMetricFamily(
        "openvibe_service_consecutive_exits", "Ends of a service in a row, none after a minute.", labels=["service"]
    )
    for state in read_service_states():
        exits.add_metric([state.name], state.consecutive_exits)
    yield exits


def _fetch(statement: LiteralString | Composed) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


REGISTRY = CollectorRegistry()
REGISTRY.register(DatabaseCollector())
_read_lock = threading.Lock()
_read: tuple[float, bytes] = (0.0, b"")


def metrics_text() -> bytes:
    """All metrics as Prometheus reads them, at most CACHE_SECONDS old. Raises django.db.Error."""
    global _read
    with _read_lock:
        read_at, text = _read
        if not text or time.monotonic() - read_at > CACHE_SECONDS:
            text = generate_latest(REGISTRY)
            _read = (time.monotonic(), text)
        return text


class MetricsMiddleware:
    """Answers `/metrics` before all else, whatever host is named, to who has the token."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path_info != "/metrics" or not settings.METRICS_TOKEN:
            return self.get_response(request)
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        credentials = request.headers.get("Authorization", "").encode(errors="replace")
        if not secrets.compare_digest(credentials, f"Bearer {settings.METRICS_TOKEN}".encode()):
            return HttpResponse("Send the token of OPENVIBE_METRICS_TOKEN: Authorization: Bearer …\n", status=401)
        try:
            return HttpResponse(metrics_text(), content_type=CONTENT_TYPE_PLAIN_0_0_4)
        except Error:
            return HttpResponse("The database does not answer.\n", status=503, content_type="text/plain")
