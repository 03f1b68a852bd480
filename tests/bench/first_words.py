"""Part of `bench runs`: from a post over HTTP to the first word in a viewer's stream, with a model that waits 200 ms
and then streams 50 tokens a second; one run at a time, then fifty at once."""

import asyncio
import http.client
import json
import math
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from statistics import quantiles

from django.conf import settings

from agents.models import Run
from openvibe.api.services import issue_token
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.services import add_member
from tests.bench.corpus import BenchWorkspace, make_threads
from tests.bench.http_load import session_key
from tests.bench.measurement import Aim, Measurement
from tests.engines.llm.factories import EndpointFactory

FIRST_WORD_SECONDS, TOKENS_PER_SECOND, TOKENS = 0.2, 50, 60
ONE_BY_ONE, AT_ONCE = 20, 50
THREAD_MESSAGES = 50
PATIENCE_SECONDS = 90.0
SIGHT_SECONDS = 20.0
WARM_UP = 999
MAX_MEDIAN_MS, MAX_P95_MS = 150.0, 300.0
MODEL_HOSTS = "127.0.0.0/8"
"""What the server of the bench has to be allowed to call."""

_QUESTION = re.compile(rb"Question (\d+)")
_NOT_NOW = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@dataclass
class PacedModel:
    """An endpoint on 127.0.0.1 that answers each question at a steady pace. Times by the number of the question."""

    port: int = 0
    asked_at: dict[int, float] = field(default_factory=dict)
    spoke_at: dict[int, float] = field(default_factory=dict)

    def answer(self, number: int) -> list[str]:
        return [f"Answer{number}", *(f" word{place}" for place in range(1, TOKENS))]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        body = await reader.readexactly(int(length[1])) if length else b""
        numbers = _QUESTION.findall(body)
        if not numbers:  # what memory asks in the background
            writer.write(_NOT_NOW)
            writer.close()
            return
        number = int(numbers[-1])
        started = time.time()
        self.asked_at.setdefault(number, started)
        writer.write(_HEADERS)
        for place, word in enumerate(self.answer(number)):
            await asyncio.sleep(max(0.0, started + FIRST_WORD_SECONDS + place / TOKENS_PER_SECOND - time.time()))
            self.spoke_at.setdefault(number, time.time())
            writer.write(_chunk({"content": word}, None))
            await writer.drain()
        usage = {"prompt_tokens": 1_000, "completion_tokens": TOKENS}
        writer.write(_chunk({}, "stop", usage=usage) + b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()


def _chunk(delta: dict[str, str], reason: str | None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return b"data: " + json.dumps({"id": "1", "choices": [choice], **more}).encode() + b"\n\n"


@contextmanager
def _in_background() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def serve_paced_model(world: BenchWorkspace) -> Iterator[PacedModel]:
    """The model, as the default endpoint of the workspace."""
    model = PacedModel()
    with _in_background() as loop:
        starting = asyncio.start_server(model.serve, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(starting, loop).result(10)
        model.port = server.sockets[0].getsockname()[1]
        endpoint = EndpointFactory.create(
            workspace=world.ana.workspace,
            name="Paced",
            base_url=f"http://127.0.0.1:{model.port}/v1",
            model="paced",
            is_default=True,
            price_in=0,
            price_out=0,
        )
        yield model
        endpoint.delete()


@dataclass
class _Viewer:
    """A viewer that knows when the first word of the answer to each question came over the stream of its thread."""

    seen_at: dict[int, float] = field(default_factory=dict)

    async def watch(self, port: int, path: str, cookie: str, is_open: threading.Semaphore) -> None:
        """Comes back when the stream ends, as a page does."""
        await self._read(port, path, cookie, is_open)
        while True:
            await self._read(port, path, cookie, None)

    async def _read(self, port: int, path: str, cookie: str, is_open: threading.Semaphore | None) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\n\r\n".encode())
        text = b""
        while chunk := await reader.read(2**16):
            now = time.time()
            if is_open and b": open" in chunk:
                is_open.release()
                is_open = None
            text = text[-200:] + chunk
            for number in re.findall(rb"Answer(\d+)(?=\D)", text):
                self.seen_at.setdefault(int(number), now)
        writer.close()


def measure_first_words(
    world: BenchWorkspace, port: int, *, one_by_one: int = ONE_BY_ONE, at_once: int = AT_ONCE
) -> tuple[list[Measurement], list[Aim]]:
    """Milliseconds more than the model itself took."""
    threads = make_threads(world, at_once, THREAD_MESSAGES)
    viewer, opened = _Viewer(), threading.Semaphore(0)
    cookies = [f"{settings.SESSION_COOKIE_NAME}={session_key(user)}" for user in _make_viewers(world)]
    token = issue_token(participant=world.ana.participant, name="bench", scopes=("write",))[1]
    with serve_paced_model(world) as model, _in_background() as loop:
        paths = [f"/w/{world.ana.workspace.slug}/events/?thread={thread.pk}" for thread in threads]
        streams = [  # kept: the loop alone would let the collector take a reader that waits
            asyncio.run_coroutine_threadsafe(viewer.watch(port, path, cookie, opened), loop)
            for path, cookie in zip(paths, cycle(cookies), strict=False)
        ]
        for _ in streams:
            if not opened.acquire(timeout=PATIENCE_SECONDS):
                raise TimeoutError("A stream did not open.")
        posted: dict[int, float] = {}
        _post(port, token, threads[0], WARM_UP)  # the first call of a new endpoint loads its client
        _wait_for_end(model, [WARM_UP])
        for number in range(one_by_one):
            posted[number] = _post(port, token, threads[number % len(threads)], number)
            _wait_for_end(model, [number])
        _wait_for_viewer(viewer, posted)
        rows, aims = _rows("one run at a time", posted, model, viewer.seen_at)
        numbers = range(1_000, 1_000 + at_once)
        with ThreadPoolExecutor(8) as pool:
            times = pool.map(lambda each: _post(port, token, threads[each % at_once], each), numbers)
            posted = dict(zip(numbers, times, strict=True))
        _wait_for_end(model, numbers)
        _wait_for_viewer(viewer, numbers)
        wrong = sum(_stored(number) != ["".join(model.answer(number))] for number in numbers)
        unseen = sum(number not in viewer.seen_at for number in numbers)
    more_rows, _ = _rows(f"{at_once} at once", posted, model, viewer.seen_at)
    return [*rows, *more_rows], [
        *aims,
        Aim(f"of {at_once} at once, lost, doubled or out of order", wrong, 0),
        Aim(f"of {at_once} at once, never seen by the viewer", unseen, 0),
    ]


def _make_viewers(world: BenchWorkspace) -> list[User]:
    """Makes as many people as fifty streams take: one may not open them all."""
    users = [User.objects.create_user(f"reader-{number}@bench.invalid", name=f"Reader {number}") for number in range(4)]
    for number, user in enumerate(users):
        add_member(workspace=world.ana.workspace, user=user, role=Member.Role.MEMBER, handle=f"reader-{number}")
    return users


def _post(port: int, token: str, thread: Thread, number: int) -> float:
    """Posts, and returns when the post was sent, by the clock of this machine."""
    caller = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    sent_at = time.time()
    body = json.dumps({"body": f"@vibe Question {number}: when do I prune?"})
    caller.request("POST", f"/api/v1/threads/{thread.pk}/messages/", body=body, headers=headers)
    response = caller.getresponse()
    if response.status != 201:
        raise ValueError(f"HTTP {response.status}: {response.read()[:200]!r}")
    caller.close()
    return sent_at


def _stored(number: int) -> list[str]:
    """Every finished answer to the question."""
    replies = Message.objects.filter(body__startswith=f"Answer{number} ", state=Message.State.COMPLETE)
    return list(replies.values_list("body", flat=True))


def _wait_for_end(model: PacedModel, numbers: Sequence[int]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    waiting = list(numbers)
    while waiting and time.monotonic() < deadline:
        time.sleep(0.1)
        waiting = [number for number in waiting if number not in model.spoke_at or not _stored(number)]


def _wait_for_viewer(viewer: _Viewer, numbers: Iterable[int]) -> None:
    """What is stored may still be on its way."""
    deadline = time.monotonic() + SIGHT_SECONDS
    while time.monotonic() < deadline and not viewer.seen_at.keys() >= set(numbers):
        time.sleep(0.1)


def _rows(
    what: str, posted: dict[int, float], model: PacedModel, seen_at: dict[int, float]
) -> tuple[list[Measurement], list[Aim]]:
    whole = [n for n in posted if n in seen_at and n in model.asked_at and n in model.spoke_at]
    runs = {n: Run.objects.filter(reply__body__startswith=f"Answer{n} ").first() for n in whole}
    claims = {n: run.started_at.timestamp() for n, run in runs.items() if run and run.started_at}
    stages = {
        "post → claimed": [1000 * (claims[n] - posted[n]) for n in claims],
        "post → model": [1000 * (model.asked_at[n] - posted[n]) for n in whole],
        "model → viewer": [1000 * (seen_at[n] - model.spoke_at[n]) for n in whole],
    }
    both = [before + after for before, after in zip(stages["post → model"], stages["model → viewer"], strict=True)]
    rows = []
    for name, values in {**stages, "first word beyond the model's": both}.items():
        cuts = quantiles(values, n=20) if len(values) > 1 else [math.inf] * 19
        for percentile, value in (("p50", cuts[9]), ("p95", cuts[18])):
            rows.append(Measurement(f"{what}: {name}, {percentile}", value, "ms"))
    aims = [
        Aim("first word, p50, ms", rows[-2].value, MAX_MEDIAN_MS),
        Aim("first word, p95, ms", rows[-1].value, MAX_P95_MS),
    ]
    return rows, aims
