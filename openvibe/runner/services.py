"""What `manage.py serve` keeps running: the web processes, the workers that carry out agents' runs, and the worker of
all other jobs, with the scheduler in it. Each is a function that runs until its process is told to stop."""

import ctypes
import gc
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import structlog
from celery.beat import Service as Beat
from django.conf import settings
from granian.constants import HTTPModes, Interfaces
from granian.log import LogLevels
from granian.server import Server

from openvibe.celery import app
from openvibe.engines.serving.file_limit import MAX_OPEN_REQUESTS, OWN_FILES, open_file_limit
from openvibe.engines.serving.supervisor import Service, end_with_supervisor

log = structlog.get_logger(__name__)
WEB_STOP_SECONDS = 2  # for answers under way when the web processes are told to stop
SCHEDULER_PAUSE_SECONDS = 5.0  # before a scheduler that failed begins again
SERVICE_MODULES = (  # each service would import them for itself
    *("celery.app.amqp", "celery.app.control", "celery.app.log", "celery.apps.worker", "celery.backends.base"),
    *("celery.beat", "celery.concurrency.thread", "celery.contrib.django.task", "celery.events.dispatcher"),
    *("celery.worker.autoscale", "celery.worker.components", "celery.worker.consumer", "celery.worker.strategy"),
    *("granian.server", "kombu.mixins"),
)
WEB_SERVER_LOGS = {
    "formatters": {"json": {"()": "openvibe.engines.serving.logs.json_formatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "json"}},
    "loggers": {
        name: {"handlers": ["stderr"], "level": "INFO", "propagate": False} for name in ("_granian", "granian.access")
    },
}
BACKGROUND_NICENESS = 10  # background jobs get the processor time that people do not need


def build_services(host: str, port: int) -> dict[str, Service]:
    """Each service by its name."""
    count = settings.ENV.worker_processes or max(1, count_cores() // 2)
    names = [f"worker{n}" for n in range(1, count + 1)] if count > 1 else ["worker"]
    workers = {name: partial(run_worker, name, "runs", settings.ENV.worker_concurrency) for name in names}
    return {"web": partial(run_web, host, port), **workers, "jobs": run_background}


def preload() -> None:
    """Loads what every process needs; those forked from this one then share it: code, vocabulary, weights."""
    import openvibe.asgi  # noqa: F401  # loads vocabulary and weights, makes threads: only in what serves

    for module in SERVICE_MODULES:
        import_module(module)
    os.environ["CELERY_SKIP_CHECKS"] = "1"  # Django's system checks would run again in each worker
    app.loader.import_default_modules()
    gc.collect()
    _return_free_memory()
    gc.freeze()  # a collection would write to all of it
    gc.set_threshold(50_000)


def _return_free_memory() -> None:
    """What loading needed for a moment goes back to the system, where the C library can do so (glibc)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def run_web(host: str, port: int, *, is_alone: bool = False) -> None:
    """The web processes: pages and API through WSGI, event streams through ASGI, on one port. Alone, without a
    supervisor, they say themselves when they begin and end."""
    connections = max(1, min(MAX_OPEN_REQUESTS, open_file_limit() - OWN_FILES))
    if connections < MAX_OPEN_REQUESTS:
        log.warning("open_file_limit_low", limit=open_file_limit(), connections=connections)
    Server(
        "openvibe.asgi:application",
        address=host,
        port=port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,  # what waits to be told which of two says nothing for good keeps its connection for good
        workers=settings.ENV.web_processes or count_cores(),
        log_level=LogLevels.info if is_alone else LogLevels.warning,
        log_dictconfig=WEB_SERVER_LOGS,
        backlog=MAX_OPEN_REQUESTS,
        backpressure=connections,  # what comes beyond waits to be accepted: an accept without a free file fails
        respawn_failed_workers=True,
        workers_kill_timeout=WEB_STOP_SECONDS,
    ).serve(target_loader=_load_web_application, wrap_loader=False)


def _load_web_application() -> Callable[..., Any]:
    end_with_supervisor()
    from openvibe.asgi import application  # makes threads: in the process that answers

    return application


def run_worker(name: str, queue: str, concurrency: int) -> None:
    """A Celery worker of one queue, with so many threads: a run mostly waits, for the model or for the database."""
    worker = app.Worker(
        hostname=f"{name}@{socket.gethostname()}",
        queues=queue,
        concurrency=concurrency,
        without_heartbeat=True,
        loglevel="INFO",
        quiet=True,
    )
    worker.start()
    sys.exit(worker.exitcode)


def run_background() -> None:
    """The worker of everything that nobody waits for, and the scheduler that asks for recurring jobs."""
    os.nice(BACKGROUND_NICENESS)
    threading.Thread(target=_run_scheduler, name="scheduler", daemon=True).start()
    run_worker("jobs", "background", settings.ENV.background_concurrency)


def _run_scheduler() -> None:
    """Celery's beat, begun again whenever it fails: the database may be away for a while."""
    while True:
        try:
            Beat(app, scheduler_cls=app.conf.beat_scheduler).start()
        except Exception:
            log.exception("scheduler_failed")
        time.sleep(SCHEDULER_PAUSE_SECONDS)


def count_cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
