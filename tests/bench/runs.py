"""`bench runs`: two hundred mentions at once, answered by everything that `make run` starts, with the offline model.

Then the way from a post to the first visible word, with a model that streams (`first_words`)."""

import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from statistics import quantiles

import psutil
from django.conf import settings

from agents.models import Run
from memory.models import Compaction
from openvibe.chat.services import post_message
from openvibe.engines.database.embedded.server import find_postmaster
from openvibe.engines.serving.supervisor import PROCESS_NAME_PREFIX
from tests.bench.corpus import embed_all, make_bench_workspace, make_entries, make_thread
from tests.bench.first_words import AT_ONCE, MODEL_HOSTS, measure_first_words
from tests.bench.http_load import free_port, wait_until_ready
from tests.bench.measurement import Aim, Measurement, Report
from tests.bench.scratch_database import connect_bare, database_url

MENTIONS, QUICK_MENTIONS = 200, 40
MENTIONS_PER_THREAD = 4  # within a thread an agent answers one after the other
MESSAGES = 300  # in each thread before: a compaction is due after the first answer
ENTRIES = 200
MIN_PER_SECOND, MAX_MILLISECONDS, MAX_MEGABYTES = 12.0, 60.0, 450.0
REST_SECONDS, MAX_SECONDS, POLL_SECONDS = 12.0, 300.0, 0.1
Usage = defaultdict[str, float]
"""The usage of each service: megabytes, or seconds."""

_PROGRESS = """SELECT run.trigger_id, reply.body <> '', run.finished_at IS NOT NULL
FROM agents_run run LEFT JOIN chat_message reply ON reply.id = run.reply_id"""


def measure_runs(
    *, mentions: int = MENTIONS, messages: int = MESSAGES, rest: float = REST_SECONDS, at_once: int = AT_ONCE
) -> Report:
    """Mentions posted as fast as one process can, in threads of four each, until the last one is answered.

    Processor time and memory (PSS) are those of all our processes; PostgreSQL's are said apart.
    """
    world = make_bench_workspace()
    make_entries(world, ENTRIES)
    threads = [make_thread(world, messages) for _ in range(-(-mentions // MENTIONS_PER_THREAD))]
    embed_all()
    with serve_everything() as (server, port):
        time.sleep(rest)
        memory_at_rest, seconds_before = megabytes(server), processor_seconds(server)
        start_time = time.perf_counter()
        posted: dict[int, float] = {}
        for number in range(mentions):
            body = f"@vibe {world.language.question()}"
            message = post_message(thread=threads[number % len(threads)], by=world.by, body=body)
            posted[message.pk] = time.perf_counter() - start_time
        first_words, ends = _watch_runs(start_time, mentions)
        seconds, memory_after = processor_seconds(server), megabytes(server)
        latency_rows, latency_aims = measure_first_words(world, port, at_once=at_once)
    per_second = len(ends) / max(ends.values(), default=MAX_SECONDS)
    costs = {name: 1000 * (used - seconds_before[name]) / mentions for name, used in sorted(seconds.items())}
    cost = sum(used for name, used in costs.items() if name.startswith("worker"))
    waiting = Compaction.objects.exclude(state__in=("done", "failed")).count()
    rows = [Measurement("runs", per_second, "/s"), Measurement("processor time of a run", cost, "ms")]
    rows += [Measurement(f"meanwhile, {name}", used, "ms") for name, used in costs.items()]
    rows += _latency_rows("first word", posted, first_words) + _latency_rows("end", posted, ends)
    rows.append(Measurement("runs that failed", Run.objects.filter(state=Run.State.FAILED).count(), ""))
    rows.append(Measurement("compactions still waiting at the end", waiting, ""))
    for when, memory in (("at rest", memory_at_rest), ("after", memory_after)):
        rows.append(Measurement(f"memory {when}", sum(memory.values()), "MB"))
        rows += [Measurement(f"of it, {name}", used, "MB") for name, used in sorted(memory.items())]
    aims = (
        Aim("milliseconds between two answers", 1000 / per_second if per_second else math.inf, 1000 / MIN_PER_SECOND),
        Aim("milliseconds of processor time of a run", cost, MAX_MILLISECONDS),
        Aim("megabytes at rest", sum(memory_at_rest.values()), MAX_MEGABYTES),
        *latency_aims,
    )
    return Report("runs", [*rows, *latency_rows], aims)


def _watch_runs(started: float, runs: int) -> tuple[dict[int, float], dict[int, float]]:
    """Seconds from the start to the first word and to the end of each run, by what it answers."""
    first_words: dict[int, float] = {}
    ends: dict[int, float] = {}
    with closing(connect_bare()) as connection:
        while len(ends) < runs and time.perf_counter() - started < MAX_SECONDS:
            time.sleep(POLL_SECONDS)
            now = time.perf_counter() - started
            for trigger, has_words, is_over in connection.execute(_PROGRESS).fetchall():
                if has_words:
                    first_words.setdefault(trigger, now)
                if is_over:
                    ends.setdefault(trigger, now)
    return first_words, ends


def _latency_rows(what: str, posted: dict[int, float], reached: dict[int, float]) -> list[Measurement]:
    seconds = [reached[trigger] - at for trigger, at in posted.items() if trigger in reached]
    cuts = quantiles(seconds, n=20) if len(seconds) > 1 else [math.inf] * 19
    return [Measurement(f"to the {what}, p50", cuts[9], "s"), Measurement(f"to the {what}, p95", cuts[18], "s")]


@contextmanager
def serve_everything() -> Iterator[tuple[psutil.Process, int]]:
    """What `make run` starts, on the database Django uses now and in a folder of its own, and its port.

    Raises ServerDidNotStart."""
    port = free_port()
    command = [sys.executable, "manage.py", "serve", "--port", str(port)]
    with tempfile.TemporaryDirectory(prefix="openvibe-") as var:
        environment = {**os.environ, "DATABASE_URL": database_url(), "OPENVIBE_VAR": var}
        environment |= {"OPENVIBE_ALLOWED_ENDPOINT_HOSTS": MODEL_HOSTS, "OPENVIBE_SECRET_KEY": settings.SECRET_KEY}
        process = subprocess.Popen(
            command, env=environment, cwd=settings.BASE_DIR, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_until_ready(port, process)
            yield psutil.Process(process.pid), port
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def _named_processes(server: psutil.Process) -> Iterator[tuple[str, psutil.Process]]:
    """The server's processes, each under the name of the service it belongs to."""
    yield "supervisor", server
    for service in server.children():
        for process in (service, *service.children(recursive=True)):
            yield service.name().removeprefix(PROCESS_NAME_PREFIX), process


def megabytes(server: psutil.Process) -> Usage:
    """Memory of each service in MB: what it alone holds, and its part of what it shares (PSS)."""
    used: Usage = defaultdict(float)
    postmaster = find_postmaster(settings.VAR / "postgres")
    postgres = [postmaster, *postmaster.children()] if postmaster else []  # an outside database is none of ours
    for name, process in (*_named_processes(server), *(("PostgreSQL", each) for each in postgres)):
        with suppress(psutil.NoSuchProcess):
            used[name] += process.memory_full_info().pss / 2**20
    return used


def processor_seconds(server: psutil.Process) -> Usage:
    """Processor time of each service so far, in seconds."""
    used: Usage = defaultdict(float)
    for name, process in _named_processes(server):
        times = process.cpu_times()
        used[name] += times.user + times.system
    return used
