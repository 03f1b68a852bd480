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

from agents.bench.content import World, make_thread, make_world, settle
from agents.bench.report import Report, Row
from agents.bench.scratch import database_url
from openvibe.api.services import issue_token
from openvibe.workspaces.models import User

CALLERS = 4
TOKENS = 24  # calls are counted per token and minute
START_SECONDS = 30.0
FLOOR = "/healthz"


class ServerDidNotStart(Exception):
    """The web server of the bench gave no answer in time."""


@dataclass(frozen=True)
class Load:
    """What a target answered in one turn: calls per second, median milliseconds, and any status that was not 200."""

    per_second: float
    milliseconds: float
    refused: frozenset[int]


@dataclass(frozen=True)
class Target:
    name: str
    path: str
    headers: Sequence[dict[str, str]] = ({},)


def measure_http(*, messages: int = 1_000, seconds: float = 2.0, turns: int = 3) -> Report:
    """Requests per second and median time of each target, in turns with the bare view.

    Four callers in this process share the machine's processors with the server: the ratios tell, not the numbers.
    """
    world = make_world()
    thread = make_thread(world, messages)
    for _ in range(12):
        make_thread(world, 3)
    settle()
    call_command("collectstatic", interactive=False, verbosity=0)  # pages name their files by content
    targets = _targets(world, thread.pk)
    floors: list[Load] = []
    loads: dict[str, list[Load]] = {target.name: [] for target in targets}
    with serving() as port:
        for target in (Target("warm up", FLOOR), *targets):
            load(port, target, seconds=min(seconds, 0.5))
        for _ in range(turns):
            floors.append(load(port, Target("floor", FLOOR), seconds=seconds))
            for target in targets:
                loads[target.name].append(load(port, target, seconds=seconds))
    floor = median(each.per_second for each in floors)
    rows = [*_rows("floor: a bare view", floors, floor)]
    for target in targets:
        rows += _rows(target.name, loads[target.name], floor)
    return Report("http", rows)


def _rows(name: str, loads: Sequence[Load], floor: float) -> Iterator[Row]:
    refused = sorted(set().union(*(each.refused for each in loads)))
    note = f" (answers {', '.join(map(str, refused))})" if refused else ""
    per_second = median(each.per_second for each in loads)
    yield Row(f"{name}{note}", per_second, "/s", floor / per_second if per_second else None)
    yield Row(f"{name}, median", median(each.milliseconds for each in loads), "ms")


def _targets(world: World, thread_id: int) -> tuple[Target, ...]:
    page = ({"Cookie": f"{settings.SESSION_COOKIE_NAME}={_session(world.ana.user)}"},)
    tokens = [issue_token(participant=world.ana.participant, name="bench", scopes=("read",))[1] for _ in range(TOKENS)]
    call = [{"Authorization": f"Bearer {token}"} for token in tokens]
    home = f"/w/{world.ana.workspace.slug}"
    return (
        Target("page: inbox", f"{home}/", page),
        Target("page: channel", f"{home}/c/{world.channel.pk}/", page),
        Target("page: thread", f"{home}/t/{thread_id}/", page),
        Target("API: me", "/api/v1/me/", call),
        Target("API: 20 messages", f"/api/v1/threads/{thread_id}/messages/?limit=20", call),
    )


def _session(user: User) -> str:
    """The key of a session that is signed in."""
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.save()
    return str(store.session_key)


@contextmanager
def serving() -> Iterator[int]:
    """The web server of `make run` on a free port, on the database Django uses now. Raises ServerDidNotStart."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, "-m", "granian", "--interface", "asgi", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--log-level", "error", "openvibe.asgi:application"]
    environment = {**os.environ, "DATABASE_URL": database_url(), "OPENVIBE_VAR": str(settings.VAR)}
    environment.setdefault("DJANGO_SETTINGS_MODULE", "openvibe.settings")
    process = subprocess.Popen(
        command, env=environment, cwd=settings.BASE_DIR, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(port, process)
        yield port
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        if process.poll() is None:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", FLOOR)
            connection.getresponse().read()
            return
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
        finally:
            connection.close()
    raise ServerDidNotStart("The web server gave no answer. `manage.py serve` shows what it says.")


def load(port: int, target: Target, *, seconds: float) -> Load:
    """Call the target from four threads over kept-alive connections, for so many seconds."""
    until = time.perf_counter() + seconds
    taken: list[float] = []
    refused: set[int] = set()
    callers = [
        threading.Thread(target=_call, args=(port, target, place, until, taken.append, refused.add))
        for place in range(CALLERS)
    ]
    began = time.perf_counter()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    passed = time.perf_counter() - began
    return Load(len(taken) / passed, 1000 * median(taken or [0.0]), frozenset(refused))


def _call(
    port: int,
    target: Target,
    place: int,
    until: float,
    take: Callable[[float], None],
    refuse: Callable[[int], None],
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = cycle([*target.headers[place:], *target.headers[:place]])
    while (began := time.perf_counter()) < until:
        connection.request("GET", target.path, headers=next(headers))
        answer = connection.getresponse()
        answer.read()
        take(time.perf_counter() - began)
        if answer.status != 200:
            refuse(answer.status)
    connection.close()
