"""`bench webhooks`: what waits for seven webhooks, drained into local receivers by everything that `make run` starts.

Beside them stand one that takes requests and never answers, and one where nobody listens. Then messages are posted one
by one: from each to its receipt by the last receiver."""

import asyncio
import json
import math
import re
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from statistics import quantiles

from django.test import override_settings

from openvibe.chat.services import post_message
from openvibe.webhooks.services import create_webhook
from tests.bench.corpus import make_bench_workspace, make_thread
from tests.bench.measurement import Aim, Measurement, Report
from tests.bench.runs import processor_seconds, serve_everything

HOOKS, MESSAGES, QUICK_MESSAGES = 7, 1_500, 200
ONE_BY_ONE, PAUSE_SECONDS = 40, 0.25
MIN_PER_SECOND, MAX_P95_SECONDS = 50.0, 5.0
MAX_SECONDS, POLL_SECONDS = 900.0, 0.05

_CONTENT_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_TAKEN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass(frozen=True)
class Receipt:
    """A delivery as it came: its id, its event's position, and when, in seconds of `perf_counter`."""

    uid: bytes
    position: int
    at: float


@dataclass
class Receivers:
    """Local programs that take deliveries, all in one thread. They keep connections open, as most servers do."""

    receipts: list[list[Receipt]]
    ports: list[int] = field(default_factory=list)
    silent_port: int = 0

    async def open(self) -> None:
        for receipts in self.receipts:
            self.ports.append(await _listen(partial(take, receipts)))
        self.silent_port = await _listen(stay_silent)


async def _listen(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> int:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return int(server.sockets[0].getsockname()[1])


async def take(receipts: list[Receipt], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _CONTENT_LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            uid = head.lower().partition(b"webhook-id: ")[2][:36]
            receipts.append(Receipt(uid, int(json.loads(body)["position"]), time.perf_counter()))
            writer.write(_TAKEN)
    writer.close()


async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        await reader.read()
    writer.close()


@contextmanager
def receiving(hooks: int) -> Iterator[Receivers]:
    """Opens so many receivers, and one that never answers, until the block ends."""
    receivers, loop = Receivers([[] for _ in range(hooks)]), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(receivers.open(), loop).result()
    try:
        yield receivers
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def measure_webhooks(*, messages: int = MESSAGES, hooks: int = HOOKS, one_by_one: int = ONE_BY_ONE) -> Report:
    """Deliveries a second from the first receipt to the last, with so many messages waiting for each of `hooks` before
    anything runs; then seconds from a post to its receipt by all."""
    world = make_bench_workspace()
    thread = make_thread(world, 20)
    with receiving(hooks) as receivers, override_settings(ALLOW_PRIVATE_ENDPOINTS=True):
        for port in (*receivers.ports, receivers.silent_port, _closed_port()):
            url = f"http://127.0.0.1:{port}/"
            create_webhook(by=world.by, participant=world.ana.participant, url=url, kinds=["message_posted"])
        for _ in range(messages):
            post_message(thread=thread, by=world.by, body=world.language.message())
        with serve_everything() as (server, _port):
            started, before = time.perf_counter(), processor_seconds(server)["jobs"]
            _wait_for(receivers, messages)
            cost = processor_seconds(server)["jobs"] - before
            drained = [list(receipts) for receipts in receivers.receipts]
            delays = []
            for number in range(one_by_one):
                posted = time.perf_counter()
                post_message(thread=thread, by=world.by, body=world.language.message())
                _wait_for(receivers, messages + number + 1)
                delays.append(max(receipts[-1].at for receipts in receivers.receipts) - posted)
                time.sleep(PAUSE_SECONDS)
    return _report(drained, receivers.receipts, messages + one_by_one, started, cost, delays)


def _closed_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def _wait_for(receivers: Receivers, messages: int) -> None:
    """Waits until every receiver has so many deliveries, or the time is up."""
    ends_at = time.perf_counter() + MAX_SECONDS
    while any(len(receipts) < messages for receipts in receivers.receipts) and time.perf_counter() < ends_at:
        time.sleep(POLL_SECONDS)


def _report(
    drained: list[list[Receipt]],
    received: list[list[Receipt]],
    messages: int,
    started: float,
    cost: float,
    delays: list[float],
) -> Report:
    count = sum(map(len, drained))
    times = [receipt.at for receipts in drained for receipt in receipts]
    first, last = min(times, default=math.inf), max(times, default=math.inf)
    per_second = count / (last - first) if last > first else 0.0
    cuts = quantiles(delays, n=20) if len(delays) > 1 else [math.inf] * 19
    missing = sum(messages - len({receipt.position for receipt in receipts}) for receipts in received)
    doubled = sum(len(receipts) - len({receipt.uid for receipt in receipts}) for receipts in received)
    out_of_order = sum(a.position > b.position for receipts in received for a, b in pairwise(receipts))
    rows = (
        Measurement("deliveries that waited", count, ""),
        Measurement("deliveries", per_second, "/s"),
        Measurement("processor time of a delivery, background jobs with it", 1000 * cost / max(count, 1), "ms"),
        Measurement("to the first receipt, once it answers requests", first - started, "s"),
        Measurement("from a post to its last receipt, p50", cuts[9], "s"),
        Measurement("from a post to its last receipt, p95", cuts[18], "s"),
    )
    aims = (
        Aim(
            "milliseconds between two deliveries", 1000 / per_second if per_second else math.inf, 1000 / MIN_PER_SECOND
        ),
        Aim("seconds from a post to its last receipt, p95", cuts[18], MAX_P95_SECONDS),
        Aim("missing, doubled or out of order", missing + doubled + out_of_order, 0),
    )
    return Report("webhooks", rows, aims)
