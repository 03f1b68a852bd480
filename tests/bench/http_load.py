"""`bench http`: pages and API calls under the server that `make run` starts, against a bare view on the same server."""

import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import cycle
from statistics import median

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.core.management import call_command

from openvibe.api.services import issue_token
from openvibe.workspaces.models import User
from tests.bench.corpus import BenchWorkspace, make_bench_workspace, make_thread, vacuum_messages
from tests.bench.measurement import Measurement, Report
from tests.bench.scratch_database import database_url

CALLER_THREADS = 4
API_TOKENS = 24  # calls are counted per token and minute
START_SECONDS = 30.0
FLOOR_PATH = "/healthz"


class ServerDidNotStart(Exception):
    """The web server of the bench gave no answer in time."""


@dataclass(frozen=True)
class LoadResult:
    """What a target answered in one turn: calls per second, median milliseconds, and any status that was not 200."""

    per_second: float
    milliseconds: float
    error_statuses: frozenset[int]


@dataclass(frozen=True)
class Target:
    name: str
    path: str
    headers: Sequence[dict[str, str]] = ({},)


def measure_http(*, messages: int = 1_000, seconds: float = 2.0, turns: int = 3) -> Report:
    """Requests per second and median time of each target, in turns with the bare view.

    Four callers in this process share the machine's processors with the server: the ratios tell, not the numbers.
    """
    world = make_bench_workspace()
    thread = make_thread(world, messages)
    for _ in range(12):
        make_thread(world, 3)
    vacuum_messages()
    call_command("collectstatic", interactive=False, verbosity=0)  # pages name their files by content
    targets = _targets(world, thread.pk)
    floors: list[LoadResult] = []
    loads: dict[str, list[LoadResult]] = {target.name: [] for target in targets}
    with serve_on_free_port() as port:
        for target in (Target("warm up", FLOOR_PATH), *targets):
            run_load(port, target, seconds=min(seconds, 0.5))
        for _ in range(turns):
            floors.append(run_load(port, Target("floor", FLOOR_PATH), seconds=seconds))
            for target in targets:
                loads[target.name].append(run_load(port, target, seconds=seconds))
    floor = median(each.per_second for each in floors)
    rows = [*_load_rows("floor: a bare view", floors, floor)]
    for target in targets:
        rows += _load_rows(target.name, loads[target.name], floor)
    return Report("http", rows)


def _load_rows(name: str, loads: Sequence[LoadResult], floor: float) -> Iterator[Measurement]:
    error_statuses = sorted(set().union(*(each.error_statuses for each in loads)))
    note = f" (answers {', '.join(map(str, error_statuses))})" if error_statuses else ""
    per_second = median(each.per_second for each in loads)
    yield Measurement(f"{name}{note}", per_second, "/s", floor / per_second if per_second else None)
    yield Measurement(f"{name}, median", median(each.milliseconds for each in loads), "ms")


def _targets(world: BenchWorkspace, thread_id: int) -> tuple[Target, ...]:
    page = ({"Cookie": f"{settings.SESSION_COOKIE_NAME}={session_key(world.ana.user)}"},)
    tokens = [
        issue_token(participant=world.ana.participant, name="bench", scopes=("read",))[1] for _ in range(API_TOKENS)
    ]
    call = [{"Authorization": f"Bearer {token}"} for token in tokens]
    home = f"/w/{world.ana.workspace.slug}"
    return (
        Target("page: inbox", f"{home}/", page),
        Target("page: channel", f"{home}/c/{world.channel.pk}/", page),
        Target("page: thread", f"{home}/t/{thread_id}/", page),
        Target("API: me", "/api/v1/me/", call),
        Target("API: 20 messages", f"/api/v1/threads/{thread_id}/messages/?limit=20", call),
    )


def session_key(user: User) -> str:
    """The key of a session that is signed in."""
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.save()
    return str(store.session_key)


@contextmanager
def serve_on_free_port() -> Iterator[int]:
    """The web server of `make run` on a free port, on the database Django uses now. Raises ServerDidNotStart."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, "-m", "granian", "--interface", "asgi", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--backlog", "4096", "--backpressure", "4096", "--log-level", "error"]
    command += ["openvibe.asgi:application"]
    environment = {**os.environ, "DATABASE_URL": database_url(), "OPENVIBE_VAR": str(settings.VAR)}
    environment.setdefault("DJANGO_SETTINGS_MODULE", "openvibe.settings")
    process = subprocess.Popen(
        command, env=environment, cwd=settings.BASE_DIR, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_until_ready(port, process)
        yield port
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        if process.poll() is None:
            process.kill()
            process.wait()


def _wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", FLOOR_PATH)
            connection.getresponse().read()
            return
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
        finally:
            connection.close()
    raise ServerDidNotStart("The web server gave no answer. `manage.py serve` shows what it says.")


def run_load(port: int, target: Target, *, seconds: float) -> LoadResult:
    """Call the target from four threads over kept-alive connections, for so many seconds."""
    until = time.perf_counter() + seconds
    milliseconds: list[float] = []
    error_statuses: set[int] = set()
    callers = [
        threading.Thread(target=_call_until, args=(port, target, place, until, milliseconds.append, error_statuses.add))
        for place in range(CALLER_THREADS)
    ]
    started = time.perf_counter()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    elapsed = time.perf_counter() - started
    return LoadResult(len(milliseconds) / elapsed, 1000 * median(milliseconds or [0.0]), frozenset(error_statuses))


def _call_until(
    port: int,
    target: Target,
    position: int,
    until: float,
    add_time: Callable[[float], None],
    add_status: Callable[[int], None],
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = cycle([*target.headers[position:], *target.headers[:position]])
    while (started := time.perf_counter()) < until:
        connection.request("GET", target.path, headers=next(headers))
        response = connection.getresponse()
        response.read()
        add_time(time.perf_counter() - started)
        if response.status != 200:
            add_status(response.status)
    connection.close()
