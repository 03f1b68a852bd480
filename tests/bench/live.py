"""`bench live`: many viewers of one thread while people post and an agent writes, on real sockets and in real pages,
under the server that `make run` starts; then many streams that wait."""

import asyncio
import http.client
import json
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction
from playwright.sync_api import Page, sync_playwright

from openvibe.api.services import issue_token
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import create_reply, finish_reply
from openvibe.runner.bootstrap_venv import find_browser
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.services import add_member
from tests.bench.corpus import BenchWorkspace, make_bench_workspace, make_thread, vacuum_messages
from tests.bench.http_load import API_TOKENS, START_SECONDS, serve_on_free_port, session_key
from tests.bench.measurement import Aim, Measurement, Report

TOKENS_PER_SECOND = 50
SAVE_SECONDS = 0.3
PATIENCE_SECONDS = 10.0
IDLE_SECONDS = 10.0
WARM_SECONDS = 2.0
ANSWER_WORDS = 2_000
WATCH_ROWS = """() => {
  window.shownAt = {};
  new MutationObserver((changes) => changes.forEach((change) => change.addedNodes.forEach((row) => {
    if (row.dataset?.id) window.shownAt[row.dataset.id] ??= Date.now() / 1000;
  }))).observe(document.querySelector("#messages"), { childList: true });
}"""


@dataclass
class Seen:
    """What one viewer was told: when of which message, and how often of each event."""

    at: dict[int, float] = field(default_factory=dict)
    positions: Counter[bytes] = field(default_factory=Counter)
    changes: int = 0
    received: int = 0

    def take(self, frame: bytes) -> None:
        self.received += len(frame)
        fields = dict(line.split(b": ", 1) for line in frame.split(b"\n") if b": " in line)
        if b"data" not in fields or b"id" not in fields:
            return
        self.positions[fields[b"id"]] += 1
        self.changes += 1
        if b'"kind": "message_posted"' in fields[b"data"][:60]:
            data = json.loads(fields[b"data"])
            if "html" in data:
                self.at[data["message"]] = time.time()


async def _view(port: int, path: str, cookie: str, seen: Seen, opened: Callable[[], object]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\n\r\n".encode())
    try:
        opened_once, text = False, b""
        while chunk := await reader.read(2**18):
            *frames, text = (text + chunk).split(b"\n\n")
            for frame in frames:
                if not opened_once and b": open" in frame:
                    opened_once = True
                    opened()
                seen.take(_without_chunk_sizes(frame))
    finally:
        writer.close()


def _without_chunk_sizes(frame: bytes) -> bytes:
    """A frame without the lengths that HTTP writes between chunks."""
    return b"\n".join(line for line in frame.split(b"\n") if not line.endswith(b"\r"))


@contextmanager
def _viewing(port: int, path: str, cookies: Sequence[str]) -> Iterator[list[Seen]]:
    """Streams of this many viewers, all open, in a thread of their own."""
    seen, semaphore, loop = [Seen() for _ in cookies], threading.Semaphore(0), asyncio.new_event_loop()

    def run() -> None:
        tasks = [
            loop.create_task(_view(port, path, cookie, each, semaphore.release))
            for cookie, each in zip(cookies, seen, strict=True)
        ]
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    for number in range(len(cookies)):
        if not semaphore.acquire(timeout=START_SECONDS):
            raise TimeoutError(f"Of {len(cookies)} streams {number} opened.")
    yield seen
    loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
    thread.join(10)


def _post(port: int, thread_id: int, tokens: Sequence[str], rate: float, seconds: float) -> dict[int, float]:
    """Posts at a steady rate; returns when each message was sent, by id."""
    sent_at: dict[int, float] = {}
    caller = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    start_time, number = time.monotonic(), 0
    while time.monotonic() - start_time < seconds:
        headers = {"Authorization": f"Bearer {tokens[number % len(tokens)]}", "Content-Type": "application/json"}
        at = time.time()
        body = json.dumps({"body": f"Post {number}: what **stands** in `rows` of this thread?"})
        caller.request("POST", f"/api/v1/threads/{thread_id}/messages/", body=body, headers=headers)
        answer = json.loads(caller.getresponse().read())
        sent_at[answer["id"]] = at
        number += 1
        time.sleep(max(0.0, start_time + number / rate - time.monotonic()))
    return sent_at


def _write_reply(world: BenchWorkspace, thread: Thread, seconds: float, rates: dict[str, int]) -> None:
    """A reply that grows as a worker writes it, by 50 tokens a second."""
    words = [word for _ in range(400) for word in world.language.message().split()]
    reply = create_reply(thread=thread, author=world.vibe.participant, client_id=f"bench:{thread.last_seq}")
    start_time, body = time.monotonic(), ""
    while (elapsed := time.monotonic() - start_time) < seconds:
        count = min(len(words), int(elapsed * TOKENS_PER_SECOND * 0.6))  # these words have 1.7 tokens each
        body = "\n\n".join(" ".join(words[at : at + 60]) for at in range(0, count, 60))
        Message.objects.filter(pk=reply.pk).update(body=body)
        rates["saves"] += 1
        time.sleep(SAVE_SECONDS)
    with transaction.atomic():
        finish_reply(reply=reply, body=body, state=Message.State.COMPLETE)
    connection.close()


_CODE = """def prune(roses, *, month="March", keep=5):
    \"\"\"Cuts each rose back to its strongest canes; returns what was cut.\"\"\"
    cut = []
    for rose in roses:
        canes = sorted(rose.canes, key=lambda cane: cane.thickness, reverse=True)
        for number, cane in enumerate(canes):
            if number >= keep or cane.is_dead:  # the weak ones and the dead ones
                cut.append((rose.name, cane.number))
        if month in {"March", "April"}:
            rose.water(litres=2.5 * len(canes[:keep]))
    return cut
"""


def long_answer(world: BenchWorkspace) -> str:
    """An answer of 2,000 words and six blocks of code, with headings, lists, a table and emphasis."""
    words = [word for _ in range(400) for word in world.language.message().split()][:ANSWER_WORDS]
    parts = []
    for number, at in enumerate(range(0, ANSWER_WORDS, 100)):
        block = words[at : at + 100]
        parts.append(f"## {' '.join(block[:4])}")
        parts.append(f"**{block[4]}** {' '.join(block[5:60])}")
        parts.append("\n".join(f"- {' '.join(block[start : start + 10])}" for start in range(60, 100, 10)))
        if number % 3 == 1:
            parts.append(f"```python\n{_CODE}{_CODE if number % 6 == 1 else ''}```")
        elif number % 7 == 2:
            parts.append("| rose | month |\n|---|---|\n" + "\n".join(f"| {word} | March |" for word in block[:6]))
    return "\n\n".join(parts)


def _write_answer(world: BenchWorkspace, thread: Thread) -> int:
    """The answer as a worker writes it, saved as often; returns how often."""
    body = long_answer(world)
    reply = create_reply(thread=thread, author=world.vibe.participant, client_id=f"bench:{thread.last_seq}:answer")
    step = max(1, round(TOKENS_PER_SECOND * SAVE_SECONDS * 4))  # characters of one save
    begun, saves = time.monotonic(), 0
    for end in range(step, len(body) + step, step):
        Message.objects.filter(pk=reply.pk).update(body=body[:end])
        saves += 1
        time.sleep(max(0.0, begun + saves * SAVE_SECONDS - time.monotonic()))
    with transaction.atomic():
        finish_reply(reply=reply, body=body, state=Message.State.COMPLETE)
    return saves


def measure_answer(*, viewers: int = 20, turns: int = 1) -> Report:
    """What it costs to stream an answer of 2,000 words with code to so many open pages."""
    world = make_bench_workspace()
    thread = make_thread(world, 200)
    vacuum_messages()
    call_command("collectstatic", interactive=False, verbosity=0)
    cookies = [f"{settings.SESSION_COOKIE_NAME}={session_key(user)}" for user in _join(world, viewers)]
    path, rows = f"/w/{world.ana.workspace.slug}/events/?thread={thread.pk}", []
    with serve_on_free_port() as port, _viewing(port, path, cookies) as seen:
        time.sleep(WARM_SECONDS)
        processes = _server_processes()
        for _ in range(turns):
            before, bytes_before = _processor_seconds(processes), sum(each.received for each in seen)
            saves = _write_answer(world, thread)
            _wait_for_quiet(seen)
            used = _processor_seconds(processes) - before
            sent = (sum(each.received for each in seen) - bytes_before) / len(seen)
            rows += [
                Measurement("saves of the answer", saves, ""),
                Measurement("processor time of the web processes", 1000 * used, "ms"),
                Measurement("processor time per save", 1000 * used / saves, "ms"),
                Measurement("sent to each page", sent / 1000, "kB"),
            ]
    return Report("answer", rows)


def _wait_for_quiet(seen: Sequence[Seen]) -> None:
    """Returns once nothing came for a while: the finished answer is sent whole, and takes longer on a busy machine."""
    before = -1
    while (received := sum(each.received for each in seen)) != before:
        before = received
        time.sleep(4 * SAVE_SECONDS)


def _server_processes() -> list[psutil.Process]:
    return [one for one in psutil.Process().children(recursive=True) if "--only" in one.cmdline()]


def _processor_seconds(processes: Sequence[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def _megabytes(processes: Sequence[psutil.Process]) -> float:
    return sum(process.memory_full_info().uss for process in processes) / 1e6


@contextmanager
def open_pages(port: int, path: str, cookies: Sequence[str]) -> Iterator[tuple[list[Page], list[str]]]:
    """Chromium pages of the thread, loaded, and what they ask for afterwards."""
    asked: list[str] = []
    if not cookies:
        yield [], asked
        return
    with sync_playwright() as playwright, ExitStack() as stack:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        stack.callback(browser.close)
        pages = []
        for cookie in cookies:
            context = browser.new_context(base_url=f"http://127.0.0.1:{port}")
            name, _, value = cookie.partition("=")
            context.add_cookies([{"name": name, "value": value, "url": f"http://127.0.0.1:{port}"}])
            page = context.new_page()
            page.goto(path)
            page.wait_for_selector('body[data-live="on"]')
            page.evaluate(WATCH_ROWS)
            page.on("request", lambda request: asked.append(request.url.partition(str(port))[2]))
            pages.append(page)
        yield pages, asked


def measure_live(
    *, viewers: int = 200, pages: int = 5, idle: int = 1_000, rate: float = 5.0, seconds: float = 120.0
) -> Report:
    """Viewers and pages of one thread for so many seconds, then idle streams. All of it shares this machine."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    world = make_bench_workspace()
    thread = make_thread(world, 200)
    vacuum_messages()
    call_command("collectstatic", interactive=False, verbosity=0)
    cookies = [f"{settings.SESSION_COOKIE_NAME}={session_key(user)}" for user in _join(world, viewers)]
    tokens = [issue_token(participant=world.ana.participant, name="b", scopes=("write",))[1] for _ in range(API_TOKENS)]
    home = f"/w/{world.ana.workspace.slug}"
    with serve_on_free_port() as port:
        rows = _measure_storm(world, thread, port, home, cookies, tokens, pages, rate, seconds)
        rows += _measure_idle(port, home, cookies, idle)
    value = {row.what: row.value for row in rows}
    return Report(
        "live",
        rows,
        [
            Aim("post → frame, p95, ms", value["post → frame, p95"], 500),
            *([Aim("post → in the page, p95, ms", value["post → in the page, p95"], 500)] if pages else []),
            Aim("missing or doubled", value["missing"] + value["doubled"], 0),
            Aim("processor time per viewer and change, ms", value["processor time per viewer and change"], 0.3),
            Aim("requests of a page for what it was told", value["further requests, without reading places"], 0),
            Aim("memory of idle streams, MB", value[f"{idle:,} idle streams: memory"], 200),
            Aim("processor time of idle streams, ms/s", value[f"{idle:,} idle streams: processor time"], 20),
        ],
    )


def _join(world: BenchWorkspace, count: int) -> list[User]:
    users = [
        User.objects.create_user(f"viewer-{number}@bench.invalid", name=f"Viewer {number}") for number in range(count)
    ]
    for number, user in enumerate(users):
        add_member(workspace=world.ana.workspace, user=user, role=Member.Role.MEMBER, handle=f"viewer-{number}")
    return users


def _measure_storm(
    world: BenchWorkspace,
    thread: Thread,
    port: int,
    home: str,
    cookies: Sequence[str],
    tokens: Sequence[str],
    pages: int,
    rate: float,
    seconds: float,
) -> list[Measurement]:
    sent_at: dict[int, float] = {}
    rates = {"saves": 0}
    path = f"{home}/events/?thread={thread.pk}"
    with (
        open_pages(port, f"{home}/t/{thread.pk}/", cookies[:pages]) as (shown_pages, asked),
        _viewing(port, path, cookies) as seen,
    ):
        _post(port, thread.pk, tokens, rate, 2.0)  # warm
        processes = _server_processes()
        asked.clear()
        before, changes_before = _processor_seconds(processes), sum(each.changes for each in seen)
        writing = threading.Thread(target=_write_reply, args=(world, thread, seconds, rates))
        posting = threading.Thread(target=lambda: sent_at.update(_post(port, thread.pk, tokens, rate, seconds)))
        for each in (writing, posting):
            each.start()
        while writing.is_alive() or posting.is_alive():
            if shown_pages:
                shown_pages[0].wait_for_timeout(100)  # lets what the pages ask for be counted
            else:
                time.sleep(0.1)
        used = _processor_seconds(processes) - before
        _wait_for_all(sent_at, seen)
        changes = sum(each.changes for each in seen) - changes_before
        in_pages = [_shown_at(page) for page in shown_pages]
    delays = sorted(each.at[pk] - at for each in seen for pk, at in sent_at.items() if pk in each.at)
    page_delays = sorted(
        page_times[str(pk)] - at for page_times in in_pages for pk, at in sent_at.items() if str(pk) in page_times
    )
    missing = len(sent_at) * (len(seen) + len(in_pages)) - len(delays) - len(page_delays)
    doubled = sum(count - 1 for each in seen for count in each.positions.values())
    change_count = len(sent_at) + rates["saves"]
    further = [url for url in asked if "/read/" not in url]
    return [
        Measurement("viewers", len(seen), ""),
        Measurement("changes", change_count, ""),
        *percentiles("post → frame", delays),
        *(percentiles("post → in the page", page_delays) if in_pages else ()),
        Measurement("missing", missing, ""),
        Measurement("doubled", doubled, ""),
        Measurement("frames told for one change", changes / max(1, change_count * len(seen)), ""),
        Measurement("processor time of the web processes", 1000 * used / seconds, "ms/s"),
        Measurement(
            "processor time per viewer and change", 1000 * used / (change_count * (len(seen) + len(in_pages))), "ms"
        ),
        Measurement("further requests, without reading places", len(further), ""),
        Measurement("reading places told", len(asked) - len(further), ""),
    ]


def _wait_for_all(sent_at: dict[int, float], seen: Sequence[Seen]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and not all(sent_at.keys() <= each.at.keys() for each in seen):
        time.sleep(0.05)


def _shown_at(page: Page) -> dict[str, float]:
    times: dict[str, Any] = page.evaluate("window.shownAt")
    return {key: float(at) for key, at in times.items()}


def percentiles(what: str, delays: Sequence[float]) -> Iterator[Measurement]:
    for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
        value = delays[min(len(delays) - 1, int(len(delays) * share))] if delays else float("inf")
        yield Measurement(f"{what}, {name}", 1000 * value, "ms")


def _measure_idle(port: int, home: str, cookies: Sequence[str], idle: int) -> list[Measurement]:
    time.sleep(2.0)
    processes = _server_processes()
    before, unused = _megabytes(processes), _processor_seconds(processes)
    time.sleep(IDLE_SECONDS)
    unused = _processor_seconds(processes) - unused
    with _viewing(port, f"{home}/events/", [cookies[number % len(cookies)] for number in range(idle)]):
        time.sleep(3.0)  # all have joined
        memory, begun = _megabytes(processes) - before, _processor_seconds(processes)
        time.sleep(IDLE_SECONDS)
        used = _processor_seconds(processes) - begun
    return [
        Measurement(f"{idle:,} idle streams: memory", memory, "MB"),
        Measurement(f"{idle:,} idle streams: processor time", 1000 * (used - unused) / IDLE_SECONDS, "ms/s"),
    ]
