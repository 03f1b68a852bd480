"""The queues: which one a job waits in, and how it gets there."""

import pytest
from django.conf import LazySettings
from django.db import connection
from kombu import Connection
from kombu.exceptions import OperationalError

from agents.tasks import execute_run_task
from openvibe.celery import app
from openvibe.engines.jobs.queue import create_queues, queue_is_installed

UNREACHABLE = "host=127.0.0.1 port=1 connect_timeout=1"


def test_what_could_be_saved_can_be_sent(db: None, settings: LazySettings) -> None:
    """No session beside the one that saved it: under load a second one could not be had in time, and a run waited for
    the sweeper; one that listened in a process which takes no jobs filled up."""
    settings.CELERY_BROKER_URL = "pgmq://localhost"
    connection.ensure_connection()
    create_queues(connection.connection)
    options = {"conn_string": UNREACHABLE, "only_sends": True, "init_extension": False, "use_notify": True}
    with Connection("pgmq://localhost", transport_options=options) as sender, app.amqp.Producer(sender) as producer:
        execute_run_task.apply_async((7,), producer=producer, retry=False)
    with connection.cursor() as cursor:
        cursor.execute("SELECT message #>> '{headers,argsrepr}' FROM pgmq.q_runs")
        assert cursor.fetchall() == [("(7,)",)]


def test_a_worker_looks_for_a_broker_that_is_gone_every_other_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """People waited half a minute more after an outage of minutes, while the pages worked again."""
    monkeypatch.setattr("kombu.utils.functional.sleep", lambda seconds: None)
    pauses: list[float] = []
    with app.connection_for_read("amqp://127.0.0.1:1//") as broker, pytest.raises(OperationalError):
        broker.ensure_connection(lambda _error, pause: pauses.append(pause), 5)
    assert pauses == [2] * 5
    assert app.conf.broker_connection_max_retries is None


def test_only_what_people_wait_for_is_in_the_queue_of_runs() -> None:
    app.loader.import_default_modules()
    ours = [name for name in app.tasks if not name.startswith("celery.")]
    queues = {name: app.amqp.router.route({}, name)["queue"].name for name in ours}
    assert "memory.compact" in queues
    assert {name for name, queue in queues.items() if queue == "runs"} == {"agents.carry_out_run"}
    assert set(queues.values()) == {"runs", "background"}


def test_a_job_of_one_queue_is_not_delivered_to_the_other() -> None:
    """Queues without a routing key of their own would both be bound to the default one."""
    keys = {queue.name: queue.routing_key for queue in app.amqp.queues.values()}
    assert keys == {"runs": "runs", "background": "background"}


def test_queues_of_an_earlier_version_lose_their_triggers(db: None) -> None:
    connection.ensure_connection()
    create_queues(connection.connection)
    assert queue_is_installed()
    connection.connection.execute("SELECT pgmq.enable_notify_insert('runs', 0)")
    assert not queue_is_installed()
    create_queues(connection.connection)
    assert queue_is_installed()
