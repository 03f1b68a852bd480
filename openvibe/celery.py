"""The Celery application. Its settings are `CELERY_…` in openvibe/settings/__init__.py; tasks live in each app's
`tasks`."""

import logging
import os
from functools import cached_property
from typing import Any

import structlog
from celery import Celery, signals
from celery.app.amqp import AMQP
from django.conf import settings
from django.db import close_old_connections
from kombu import Connection
from kombu.transport import TRANSPORT_ALIASES

from openvibe.engines.jobs.queue import queue_conninfo, queue_is_in_database
from openvibe.engines.serving.logs import log_uncaught_exceptions

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openvibe.settings")


class BrokerConnection(Connection):
    """Asks for a broker that is gone every other second, however long that takes: runs wait for it.

    Celery's own pauses grow to half a minute."""

    def ensure_connection(self, *arguments: Any, **options: Any) -> Any:
        return super().ensure_connection(*arguments, **{"interval_step": 0, **options})


class BrokerConnections(AMQP):
    Connection = BrokerConnection


class OpenVibeCelery(Celery):
    """Celery whose broker, unless an outside one is named, is the database Django uses."""

    amqp_cls = BrokerConnections  # type: ignore[assignment]  # a class will do, too

    @cached_property
    def Worker(self) -> Any:  # noqa: N802 - as Celery has it
        """What `celery worker` starts."""
        from openvibe.engines.jobs.workers import Worker  # programs of the library: only where one is started

        return self.subclass_with_self(Worker)

    @cached_property
    def Beat(self) -> Any:  # noqa: N802 - as Celery has it
        """What `celery beat` starts."""
        from openvibe.engines.jobs.workers import Beat  # programs of the library: only where one is started

        return self.subclass_with_self(Beat)

    def connection_for_read(self, url: str | None = None, **options: Any) -> Any:
        return super().connection_for_read(url, **self._broker_options(url, options))

    def connection_for_write(self, url: str | None = None, **options: Any) -> Any:
        return super().connection_for_write(url, **self._broker_options(url, options, only_sends=True))

    def _broker_options(self, url: str | None, options: dict[str, Any], *, only_sends: bool = False) -> dict[str, Any]:
        if url or not queue_is_in_database():
            return options
        transport_options = options.pop("transport_options", None) or {}
        return {
            **options,
            "transport_options": {"conn_string": queue_conninfo(), "only_sends": only_sends, **transport_options},
        }


@signals.setup_logging.connect
def _keep_logging(loglevel: int | None = None, **_signal: Any) -> None:
    """Keeps Celery from setting up logging. In workers and the scheduler lines are written as in all processes, by
    `LOGGING`; Celery adds no form of its own. `--loglevel` holds."""
    log_uncaught_exceptions()
    if loglevel:
        logging.getLogger().setLevel(loglevel)
    if settings.CELERY_WORKER_REDIRECT_STDOUTS:
        app.log.redirect_stdouts(logging.WARNING)


@signals.before_task_publish.connect
def _send_request_id(headers: dict[str, Any], **_signal: Any) -> None:
    """The job's lines name the request that asked for it."""
    if request_id := structlog.contextvars.get_contextvars().get("request_id"):
        headers.setdefault("request_id", request_id)


@signals.task_prerun.connect
def _begin_job(task: Any, task_id: str, **_signal: Any) -> None:
    """A thread keeps its database session from job to job, as a request's does, until it is too old or broken. Lines of
    the log name the job."""
    request_id = task.request.get("request_id")
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(
        task=task.name, task_id=task_id, **({"request_id": request_id} if request_id else {})
    )
    close_old_connections()


@signals.task_postrun.connect
def _end_job(**_signal: Any) -> None:
    structlog.contextvars.clear_contextvars()


TRANSPORT_ALIASES["pgmq"] = "openvibe.engines.jobs.queue:Transport"
for scheme in ("redis", "rediss"):
    TRANSPORT_ALIASES[scheme] = "openvibe.engines.jobs.redis_transport:RedisTransport"
TRANSPORT_ALIASES["sentinel"] = "openvibe.engines.jobs.redis_transport:SentinelTransport"
app = OpenVibeCelery("openvibe")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.set_default()  # in every thread
app.autodiscover_tasks()
