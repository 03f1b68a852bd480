"""`/metrics` for Prometheus: counts read from the database when they are asked for, so any process answers for all.

Numbers alone: no names, no texts, no ids. Closed (404) without OPENVIBE_METRICS_TOKEN."""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, LiteralString

from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from openvibe.base.queue import queue_is_in_database

CACHE_SECONDS = 10.0
"""How long what was read answers again: several who ask cost the database no more than one."""

_RUNS = """SELECT state, count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
coalesce(sum(cached_tokens), 0), count(finished_at - started_at),
coalesce(sum(extract(epoch FROM finished_at - started_at)), 0) FROM agents_run GROUP BY state ORDER BY state"""
_SPENDING = """SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cached_tokens), 0)
FROM workspaces_spending"""
_COMPACTIONS = """SELECT state, count(*), coalesce(sum(tokens_before), 0), coalesce(sum(tokens_after), 0)
FROM memory_compaction GROUP BY state ORDER BY state"""
_ASSEMBLY = """SELECT percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY seconds) FROM (
SELECT extract(epoch FROM max((step ->> 'at')::timestamptz) FILTER (WHERE step ->> 'kind' = 'assembled')
 - max((step ->> 'at')::timestamptz) FILTER (WHERE step ->> 'kind' = 'claimed'))::float AS seconds
FROM agents_run, jsonb_array_elements(steps) step WHERE queued_at > now() - interval '1 hour' GROUP BY agents_run.id) s
WHERE seconds >= 0"""
_QUEUES = "SELECT queue_name, queue_length, coalesce(oldest_msg_age_sec, 0) FROM pgmq.metrics_all() ORDER BY queue_name"
_STREAMS = """SELECT (SELECT coalesce(max(position), 0) FROM base_event), (SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE 'LISTEN %openvibe_events%')"""


class DatabaseCollector(Collector):
    """What OpenVibe's own tables know, each family from one statement."""

    def collect(self) -> Iterator[Metric]:
        yield from _run_metrics()
        yield from _compaction_metrics()
        assembly = GaugeMetricFamily(
            "openvibe_assembly_seconds", "Time to make a prompt, of runs of the last hour.", labels=["quantile"]
        )
        for quantile, seconds in zip(("0.5", "0.95"), _fetch(_ASSEMBLY)[0][0] or (), strict=False):
            assembly.add_metric([quantile], seconds)
        yield assembly
        if queue_is_in_database():
            yield from _queue_metrics()
        events, listeners = _fetch(_STREAMS)[0]
        yield CounterMetricFamily("openvibe_events", "Changes told to open pages.", value=events)
        yield GaugeMetricFamily(
            "openvibe_stream_processes", "Web processes that have event streams open.", value=listeners
        )


def _run_metrics() -> Iterator[Metric]:
    runs = GaugeMetricFamily("openvibe_runs", "Runs of agents there are.", labels=["state"])
    tokens = CounterMetricFamily("openvibe_tokens", "Tokens models were asked and answered.", labels=["of", "kind"])
    duration = SummaryMetricFamily("openvibe_run_seconds", "From the start of a run to its end.", labels=["state"])
    sums = [0, 0, 0]
    for state, count, *token_counts, ended_count, seconds in _fetch(_RUNS):
        runs.add_metric([state], count)
        sums = [total + more for total, more in zip(sums, token_counts, strict=True)]
        if ended_count:
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
    for state, count, tokens_before, tokens_after in _fetch(_COMPACTIONS):
        compactions.add_metric([state], count)
        before, after = before + tokens_before, after + tokens_after
    tokens.add_metric(["before"], before)
    tokens.add_metric(["after"], after)
    yield from (compactions, tokens)


def _queue_metrics() -> Iterator[Metric]:
    depth = GaugeMetricFamily("openvibe_queue_jobs", "Jobs that wait or are under way.", labels=["queue"])
    age = GaugeMetricFamily("openvibe_queue_oldest_seconds", "Age of the oldest of them.", labels=["queue"])
    for name, length, oldest in _fetch(_QUEUES):
        queue = name.removeprefix("q_")
        depth.add_metric([queue], length)
        age.add_metric([queue], oldest)
    yield from (depth, age)


def _fetch(statement: LiteralString) -> list[tuple[Any, ...]]:
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
