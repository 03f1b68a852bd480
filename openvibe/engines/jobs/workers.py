"""Celery's worker and scheduler as programs: each has a name of its own, logs as all other processes do, says that it
is alive, and ends when its work has ended."""

import os
import secrets
import threading
import warnings
from typing import Any

import structlog
from celery import signals
from celery.apps.beat import Beat as CeleryBeat
from celery.apps.worker import Worker as CeleryWorker
from celery.utils.nodenames import default_nodename, gethostname
from django.db import connection

from openvibe.engines.jobs.heartbeats import HEARTBEAT_SECONDS, forget_worker, record_worker

log = structlog.get_logger(__name__)
STOP_SECONDS = 2.0
"""A heartbeat under way ends before the worker is forgotten, unless the database is gone."""
FAILED_STOP_SECONDS = 30.0
"""How long a worker whose loop has failed waits for what is under way; the sweeper sends it again."""


def node_name(hostname: str | None) -> str:
    """The name that was given, and else one that no other worker has, on this machine or another: two of one name take
    the same queue of a broker for themselves, and that of a killed one is locked until the broker notices."""
    if hostname and hostname != default_nodename(""):
        return hostname
    return f"worker-{secrets.token_hex(4)}@{gethostname()}"


class Worker(CeleryWorker):
    """Celery's, with a name of its own unless one was given. No banner: each line is of the log. No word with other
    workers, which know nothing that it needs: `Heartbeat` says who is alive."""

    def __init__(self, app: Any = None, hostname: str | None = None, **options: Any) -> None:
        if os.geteuid() == 0:  # it warns at length; in a container that is how it is
            warnings.filterwarnings("ignore", message="You're running the worker")
        options |= {"without_gossip": True, "without_mingle": True}
        super().__init__(app=app, hostname=node_name(hostname), **options)

    def emit_banner(self) -> None:
        """Prints nothing: a banner's lines are no lines of the log."""

    def stop(self, in_sighandler: bool = False, exitcode: int | None = None) -> None:
        """Stops after what is under way. After a failure it ends in any case: jobs that hang, and connections that are
        no more, would keep a process that takes no work."""
        if exitcode:
            timer = threading.Timer(FAILED_STOP_SECONDS, os._exit, [exitcode])
            timer.daemon = True
            timer.start()
        super().stop(in_sighandler=in_sighandler, exitcode=exitcode)


class Beat(CeleryBeat):
    """Celery's, without a banner."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "quiet": True})


class Pulse(threading.Thread):
    """Writes the heartbeat of a worker for as long as its loop turns: each beat is asked of the loop, and written once
    the loop has answered. A worker that has lost its broker, or hangs, falls silent.

    It has no database session between two beats."""

    def __init__(self, consumer: Any) -> None:
        super().__init__(name="pulse", daemon=True)
        self._consumer, self._turned, self._stopped = consumer, threading.Event(), threading.Event()

    def run(self) -> None:
        name, queues = self._consumer.hostname, sorted(self._consumer.app.amqp.queues.consume_from)
        while not self._stopped.is_set():
            self._turned.clear()
            self._consumer.call_soon(self._turned.set)
            while not self._turned.wait(0.2):
                if self._stopped.is_set():
                    return
            _write(lambda: record_worker(name, queues))
            self._stopped.wait(HEARTBEAT_SECONDS)

    def stop(self) -> None:
        self._stopped.set()
        self.join(STOP_SECONDS)
        _write(lambda: forget_worker(self._consumer.hostname))


def _write(write: Any) -> None:
    """Carries out `write`; what cannot be written now is written with the next beat."""
    try:
        write()
    except Exception as error:
        log.info("heartbeat_not_written", error=type(error).__name__)
    finally:
        connection.close()


_pulses: list[Pulse] = []


@signals.worker_ready.connect
def _start_pulse(sender: Any, **_signal: Any) -> None:
    _pulses.append(Pulse(sender))
    _pulses[-1].start()


@signals.worker_shutdown.connect
def _stop_pulses(**_signal: Any) -> None:
    while _pulses:
        _pulses.pop().stop()
