"""The Celery application. Its settings are `CELERY_…` in openvibe/settings/__init__.py; tasks live in each app's
`tasks`."""

import os
from typing import Any

from celery import Celery, signals
from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import TRANSPORT_ALIASES

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

    def connection_for_read(self, url: str | None = None, **options: Any) -> Any:
        return super().connection_for_read(url, **self._broker_options(url, options))

    def connection_for_write(self, url: str | None = None, **options: Any) -> Any:
        return super().connection_for_write(url, **self._broker_options(url, options, only_sends=True))

    def _broker_options(self, url: str | None, options: dict[str, Any], *, only_sends: bool = False) -> dict[str, Any]:
        from openvibe.base.queue import queue_conninfo, queue_is_in_database

        if url or not queue_is_in_database():
            return options
        transport_options = options.pop("transport_options", None) or {}
        return {
            **options,
            "transport_options": {"conn_string": queue_conninfo(), "only_sends": only_sends, **transport_options},
        }


@signals.task_prerun.connect
def _check_connections(**_signal: Any) -> None:
    """A thread keeps its database session from job to job, as a request's does, until it is too old or broken."""
    from django.db import close_old_connections

    close_old_connections()


TRANSPORT_ALIASES["pgmq"] = "openvibe.base.queue:Transport"
app = OpenVibeCelery("openvibe")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.set_default()  # in every thread
app.autodiscover_tasks()
