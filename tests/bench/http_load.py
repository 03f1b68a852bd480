"""`bench http`: pages and API calls under the server that `make run` starts, against a bare list of Django REST
framework under the same server with the same number of processes."""

import http.client
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import cycle
from statistics import median

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.core.management import call_command
from django.utils.crypto import get_random_string

from openvibe.api.services import issue_token
from openvibe.workspaces.models import User
from tests.bench.corpus import BenchWorkspace, make_bench_workspace, make_entries, make_thread, vacuum_messages
from tests.bench.measurement import Aim, Measurement, Report
from tests.bench.scratch_database import database_url

CALLER_THREADS = 8
ENTRIES = 60  # of knowledge
API_TOKENS = 24  # calls are counted per token and minute
START_SECONDS = 600.0  # a deadline for slow machines, never a pause
PAGE_OF_LIST, API_OF_LIST, VIEW_OF_VIEW = 0.4, 0.6, 0.6
THREAD_OF_LIST = 0.25
MIN_SCALING = 1.35
"""Answers a second, in parts of the floor's; two processes against one."""
FLOOR_LIST, FLOOR_VIEW = "a bare DRF list of 20 messages", "a bare view"
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
MAX_STREAMS = "4096"  # requests and streams that wait in one process


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
    """What is asked for; `share`: how many answers a second it should give, in parts of its floor's."""

    name: str
    path: str
    headers: Sequence[dict[str, str]] = ({},)
    share: float | None = None
    floor: str = FLOOR_LIST


FLOORS = (Target(FLOOR_LIST, "/list"), Target(FLOOR_VIEW, "/view"))


def measure_http(
    *, messages: int = 1_000, seconds: float = 2.0, turns: int = 3, processes: Sequence[int] = (1, 2)
) -> Report:
    """Requests a second and median time of each target, in turns with the floors under the same server.

    Eight callers in this process share the machine's processors with the server: the ratios tell, not the numbers. With
    several processes only the floor and the list of messages are asked, for what a second process adds.
    """
    world = make_bench_workspace()
    thread = make_thread(world, messages)
    for _ in range(12):
        make_thread(world, 3)
    make_entries(world, ENTRIES)
    vacuum_messages()
    call_command("collectstatic", interactive=False, verbosity=0)  # pages name their files by content
    targets = _targets(world, thread.pk)
    rows: list[Measurement] = []
    aims: list[Aim] = []
    listed: list[float] = []
    for count in processes:
        some = targets if count == processes[0] else [one for one in targets if one.path.startswith("/api/v1/threads/")]
        loads = _measure_turns(thread.pk, some, count, seconds, turns)
        per_second = {name: median(each.per_second for each in turn) for name, turn in loads.items()}
        what = "" if len(processes) == 1 else f", {count} process{'' if count == 1 else 'es'}"
        for target in (*FLOORS, *some):
            rows += _load_rows(f"{target.name}{what}", loads[target.name], per_second[target.floor])
            if target.share is not None:
                ratio = per_second[target.floor] / max(per_second[target.name], 0.001)
                aims.append(Aim(f"{target.floor} against {target.name}{what}", ratio, round(1 / target.share, 2)))
        listed.append(per_second[some[-1].name])
    if len(processes) > 1:
        aims.append(Aim(f"{processes[0]} process against {processes[-1]}", listed[0] / listed[-1], 1 / MIN_SCALING))
    return Report("http", rows, aims)


def _measure_turns(
    thread_id: int, targets: Sequence[Target], processes: int, seconds: float, turns: int
) -> dict[str, list[LoadResult]]:
    """What each of these and the floors answered in each turn, all under servers of so many processes."""
    loads: dict[str, list[LoadResult]] = {target.name: [] for target in (*FLOORS, *targets)}
    floor = ["--interface", "wsgi", "--factory", "--blocking-threads", "8", "django.core.wsgi:get_wsgi_application"]
    settings_of_floor = {"DJANGO_SETTINGS_MODULE": "tests.drf_floor.settings", "BENCH_THREAD": str(thread_id)}
    with (
        serve_on_free_port(*floor, processes=processes, probe="/view", environment=settings_of_floor) as floor_port,
        serve_on_free_port(processes=processes) as port,
    ):
        ports = {**dict.fromkeys([one.name for one in FLOORS], floor_port), **{one.name: port for one in targets}}
        for target in (*FLOORS, *targets):
            run_load(ports[target.name], target, seconds=min(seconds, 0.5))  # warm up
        for _ in range(turns):
            for target in (*FLOORS, *targets):
                loads[target.name].append(run_load(ports[target.name], target, seconds=seconds))
    return loads


def _load_rows(name: str, loads: Sequence[LoadResult], floor: float) -> Iterator[Measurement]:
    error_statuses = sorted(set().union(*(each.error_statuses for each in loads)))
    note = f" (answers {', '.join(map(str, error_statuses))})" if error_statuses else ""
    per_second = median(each.per_second for each in loads)
    yield Measurement(f"{name}{note}", per_second, "/s", floor / per_second if per_second else None)
    yield Measurement(f"{name}, median", median(each.milliseconds for each in loads), "ms")


def _targets(world: BenchWorkspace, thread_id: int) -> tuple[Target, ...]:
    cookies = {
        settings.SESSION_COOKIE_NAME: session_key(world.ana.user),
        settings.CSRF_COOKIE_NAME: get_random_string(32),
        "zone": "Europe/Berlin",
    }
    cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
    page = ({"Cookie": cookie, "Accept-Encoding": "gzip"},)  # as browsers ask
    tokens = [
        issue_token(participant=world.ana.participant, name="bench", scopes=("read",))[1] for _ in range(API_TOKENS)
    ]
    call = [{"Authorization": f"Bearer {token}"} for token in tokens]
    home = f"/w/{world.ana.workspace.slug}"
    return (
        Target("/healthz", "/healthz", share=VIEW_OF_VIEW, floor=FLOOR_VIEW),
        Target("page: inbox", f"{home}/", page, PAGE_OF_LIST),
        Target("page: channel", f"{home}/c/{world.channel.pk}/", page, PAGE_OF_LIST),
        Target("page: knowledge", f"{home}/knowledge/", page, PAGE_OF_LIST),
        Target("page: thread", f"{home}/t/{thread_id}/", page, THREAD_OF_LIST),
        Target("API: me", "/api/v1/me/", call),
        Target("API: 20 messages", f"/api/v1/threads/{thread_id}/messages/?limit=20", call, API_OF_LIST),
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
def serve_on_free_port(
    *application: str, processes: int = 1, probe: str = "/healthz", environment: Mapping[str, str] | None = None
) -> Iterator[int]:
    """The web processes of `make run` on a free port, on the database Django uses now. Raises ServerDidNotStart.

    `application`: options of granian and what it serves instead; `probe` answers once that is ready.
    """
    port = free_port()
    command = [sys.executable, "manage.py", "serve", "--only", "web", "--host", "127.0.0.1", "--port", str(port)]
    if application:
        command = [sys.executable, "-m", "granian", "--host", "127.0.0.1", "--port", str(port), "--log-level", "error"]
        command += ["--workers", str(processes), "--backlog", MAX_STREAMS, "--backpressure", MAX_STREAMS, *application]
    variables = {**os.environ, "DATABASE_URL": database_url(), "OPENVIBE_VAR": str(settings.VAR)}
    variables["OPENVIBE_WEB_PROCESSES"] = str(processes)
    variables.setdefault("DJANGO_SETTINGS_MODULE", "openvibe.settings")
    process = subprocess.Popen(
        command,
        env=variables | dict(environment or {}),
        cwd=settings.BASE_DIR,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_ready(port, process, probe)
        yield port
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        if process.poll() is None:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(port: int, process: subprocess.Popen[bytes], path: str = "/healthz") -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", path)
            connection.getresponse().read()
            return
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
        finally:
            connection.close()
    raise ServerDidNotStart("The web server gave no answer. `manage.py serve` shows what it says.")


def run_load(port: int, target: Target, *, seconds: float) -> LoadResult:
    """Calls the target from eight threads over kept-alive connections, for so many seconds."""
    until = time.perf_counter() + seconds
    milliseconds: list[float] = []
    error_statuses: set[int] = set()
    callers = [
        threading.Thread(target=_call_until, args=(port, target, place, until, milliseconds.append, error_statuses.add))
        for place in range(CALLER_THREADS)
    ]
    start_time = time.perf_counter()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    elapsed = time.perf_counter() - start_time
    return LoadResult(len(milliseconds) / elapsed, 1000 * median(milliseconds or [0.0]), frozenset(error_statuses))


def _call_until(
    port: int,
    target: Target,
    position: int,
    until: float,
    add_time: Callable[[float], None],
    add_status: Callable[[int], None],
) -> None:
    requests = [_request_bytes(port, target.path, headers) for headers in target.headers]
    waiting = cycle([*requests[position:], *requests[:position]])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        is_over = False
        while not is_over:  # once at least, on a slow machine
            start_time = time.perf_counter()
            connection.sendall(next(waiting))
            status = _read_response(connection)
            answer_time = time.perf_counter()
            add_time(answer_time - start_time)
            if status != 200:
                add_status(status)
            is_over = answer_time >= until


def _request_bytes(port: int, path: str, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _read_response(connection: socket.socket) -> int:
    """Reads one whole answer and returns its status. Raises ConnectionError if it ends early.

    Read by hand: `http.client` takes a third of a millisecond of processor time for an answer's header, which the
    server on the same machine would lack.
    """
    head, end, body = b"", b"", b""
    while not end:
        head += _receive(connection)
        start, end, body = head.partition(b"\r\n\r\n")
    length = CONTENT_LENGTH.search(start)
    missing = int(length[1]) - len(body) if length else 0
    while missing > 0:
        missing -= len(_receive(connection))
    while length is None and not body.endswith(b"0\r\n\r\n"):  # in chunks
        body += _receive(connection)
    return int(start[9:12])


def _receive(connection: socket.socket) -> bytes:
    received = connection.recv(1 << 18)
    if not received:
        raise ConnectionError("The web server closed the connection within an answer.")
    return received
