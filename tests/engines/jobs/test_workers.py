"""Celery's workers as programs: names, ends, and brokers that are gone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from celery.utils.nodenames import default_nodename
from kombu import Connection

from openvibe.engines.jobs.workers import node_name
from tests.operations.processes import PATIENCE, python

WORKER = """
import logging, threading
import django; django.setup()
import structlog
from celery import signals
from celery.exceptions import WorkerShutdown
from openvibe.engines.jobs import workers
from openvibe.celery import app

workers.FAILED_STOP_SECONDS = 0.2
log = structlog.get_logger("openvibe.test")


@app.task(name="test.hangs", queue="runs")
def hangs(words):
    log.info("it runs", words=words)
    print("printed", flush=True)
    app.log.get_default_logger("celery.task").warning("of the task's own logger")
    threading.Thread(target=lambda: 1 / 0).start()
    started.set()
    threading.Event().wait()


started = threading.Event()
app.conf.broker_url = "memory://"
app.conf.worker_redirect_stdouts = False
signals.worker_ready.connect(lambda sender, **_: sender.call_soon(break_soon, sender), weak=False)


def break_soon(consumer):
    with app.pool.acquire() as connection:
        structlog.contextvars.bind_contextvars(request_id="asked-by-this")
        hangs.apply_async(("hello",), connection=connection, retry=False)
        structlog.contextvars.clear_contextvars()
    usual = consumer.connection.drain_events

    def drain_events(**options):
        if started.is_set():
            raise RuntimeError("the loop breaks")
        return usual(**options)

    consumer.connection.drain_events = drain_events


worker = app.Worker(queues="runs", concurrency=1, loglevel="INFO")
worker.start()
raise SystemExit(worker.exitcode)
"""


def test_each_worker_has_a_name_of_its_own_unless_one_was_given() -> None:
    default = default_nodename("")
    names = {node_name(name) for name in (None, "", default, default)}
    assert len(names) == 4
    assert default not in names
    assert node_name("w1@here") == "w1@here"


def test_a_worker_whose_loop_broke_ends_whatever_hangs_and_each_of_its_lines_is_of_the_log(tmp_path: Path) -> None:
    """The task that hangs never ends; the process does, with a code that says so."""
    worker = python("-c", WORKER, var=tmp_path, DATABASE_URL="postgres://nobody@127.0.0.1:1/nowhere")
    output, _ = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 1, output
    lines = output.splitlines()
    assert lines.count("printed") == 1  # what is printed is for somebody at a terminal
    events = [json.loads(line) for line in lines if line != "printed"]
    assert all({"event", "level", "logger", "timestamp"} <= event.keys() for event in events)
    by_logger = {event["logger"]: event for event in events}
    job = by_logger["openvibe.test"]
    assert (job["task"], job["words"], job["request_id"]) == ("test.hangs", "hello", "asked-by-this")
    assert by_logger["celery.task"]["task_id"] == job["task_id"]
    assert "ZeroDivisionError" in by_logger["openvibe.uncaught"]["exception"]
    assert "the loop breaks" in by_logger["celery.worker"]["event"]


@pytest.mark.parametrize("scheme", ["redis", "rediss", "sentinel"])
def test_a_redis_connection_that_was_given_up_is_a_lost_connection(scheme: str) -> None:
    """Jobs taken from it are acknowledged or given back later: an error of the connection, which a worker outlives."""
    connection = Connection(f"{scheme}://127.0.0.1:1/0", transport_options={"master_name": "one"})
    transport: Any = connection.transport
    channel = object.__new__(transport.Channel)
    channel.connection, channel._pool, channel._async_pool = transport, None, None
    transport.client = None  # as kombu's `Connection.collect` leaves it
    uses: list[Callable[[], object]] = [lambda: channel.pool, lambda: channel.async_pool]
    for use in uses:
        with pytest.raises(transport.connection_errors, match="given up"):
            use()
