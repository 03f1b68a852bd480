"""`bench grow`: every page, a search, a prompt and a post in one fresh installation that grows from 20,000 to a million
messages, by answers as long each time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from django.core.management import call_command
from django.db import connection
from django.test import Client, override_settings
from django.urls import reverse

from agents.prompts.assembler.assemble import assemble
from openvibe.api.services import issue_token
from openvibe.chat.models import Thread
from openvibe.chat.search.thread import find_messages
from openvibe.chat.services import post_message
from openvibe.chat.wiring import embed_pending_messages
from openvibe.engines.database.planner_statistics import analyze_changed_tables
from openvibe.engines.search.space_lifecycle import advance_spaces
from openvibe.workspaces.models import Member
from tests.bench.corpus import (
    FIRST_MESSAGE_AT,
    BenchWorkspace,
    make_bench_workspace,
    make_entries,
    make_thread,
    make_threads,
)
from tests.bench.measurement import Aim, Measurement, Report

SIZES = (20_000, 200_000, 1_000_000)
QUICK_SIZES = SIZES[:2]
THREAD_MESSAGES = 100
MENTION_PERIOD = 100
"""One message in so many names Ana."""
ENTRIES = 400
OWN_THREAD_MESSAGES = 1_000
"""The thread that is looked at, searched and answered in, which does not grow."""
MAX_GROWTH = 1.3
_MENTION = """INSERT INTO chat_mention (message_id, participant_id, note)
SELECT id, %s, '' FROM chat_message WHERE id %% %s = 0 ON CONFLICT DO NOTHING"""
_INDEX_BYTES = """SELECT indexrelid::regclass::text, pg_relation_size(indexrelid) FROM pg_index
WHERE indrelid = 'chat_message'::regclass OR indexrelid::regclass::text LIKE 'message_vector_hnsw%' ORDER BY 2 DESC"""


@dataclass(frozen=True)
class Cost:
    """What a step takes: its median of processor time, the statements it sends, and the bytes it answers."""

    milliseconds: float
    statements: int
    size: int


@dataclass(frozen=True)
class Fill:
    """What bringing so many messages in took: seconds of writing, of making vectors, of building their index."""

    messages: int
    written: float
    embedded: float
    indexed: float


def measure_grow(*, sizes: Sequence[int] = SIZES, repeats: int = 15, own_messages: int = OWN_THREAD_MESSAGES) -> Report:
    """Milliseconds of processor time, statements and bytes of each step at each size, in threads of a hundred messages.

    Vectors are made and indexed, and tables analyzed, as after an import. The floor is one `SELECT` of fifty messages
    by their place, in turns with the steps.
    """
    call_command("collectstatic", interactive=False, verbosity=0)  # pages name their files by content
    world = make_bench_workspace(level=3)
    Member.objects.filter(pk=world.ana.pk).update(joined_at=FIRST_MESSAGE_AT)  # all of it is new to her
    thread = make_thread(world, own_messages)
    make_entries(world, ENTRIES)
    fills: list[Fill] = []
    costs: dict[int, dict[str, Cost]] = {}
    with override_settings(ALLOWED_HOSTS=["testserver"]):
        for size in sizes:
            fills.append(_fill(world, size))
            costs[size] = _measure(_steps(world, thread), thread, repeats)
    rows = [row for size in sizes for row in _cost_rows(size, costs[size])]
    rows += [row for fill in fills for row in _fill_rows(fill)]
    rows += _index_rows(sizes[-1])
    return Report("grow", rows, tuple(_aims(costs[sizes[0]], costs[sizes[-1]], sizes)))


def _fill(world: BenchWorkspace, size: int) -> Fill:
    """Brings the installation to so many messages."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM chat_message")
        missing = size - int(cursor.fetchone()[0])
        started = perf_counter()
        make_threads(world, missing // THREAD_MESSAGES, THREAD_MESSAGES)
        cursor.execute(_MENTION, [world.ana.participant_id, MENTION_PERIOD])
        analyze_changed_tables()
        written = perf_counter()
        while embed_pending_messages():
            pass
        embedded = perf_counter()
        advance_spaces()
        analyze_changed_tables()
        return Fill(missing, written - started, embedded - written, perf_counter() - embedded)


def _steps(world: BenchWorkspace, thread: Thread) -> dict[str, Callable[[], int]]:
    """What is done, by name; each gives the bytes of its answer."""
    browser, program = Client(), Client(headers={"authorization": f"Bearer {_api_token(world)}"})
    browser.force_login(world.ana.user)
    questions = cycle([world.language.question() for _ in range(40)])
    home = {"slug": world.ana.workspace.slug}

    def page(name: str, query: Mapping[str, str] | None = None, **place: object) -> Callable[[], int]:
        return lambda: _get(browser, reverse(name, kwargs=home | place), query)

    def call(name: str, query: Mapping[str, str] | None = None, **place: object) -> Callable[[], int]:
        return lambda: _get(program, reverse(name, kwargs=place), query)

    def prompt() -> int:
        prompt = assemble(
            agent=world.vibe, thread=thread, task="mention", request=next(questions), asked_by=world.ana.participant
        )
        return sum(len(message.content.encode()) for message in prompt.messages)

    def recall() -> int:
        hits = find_messages(world.by, next(questions), thread_id=thread.pk, budget=8_000).hits
        return sum(len(hit.body.encode()) for hit in hits)

    word = world.language.words[1_000]  # of which the smallest size holds a page of hits already
    return {
        "page: inbox": page("inbox"),
        "page: mentions": page("mentions"),
        "page: sidebar": page("sidebar"),
        "page: channel": page("channel", channel_id=world.channel.pk),
        "page: thread": page("thread", thread_id=thread.pk),
        "page: knowledge": page("knowledge"),
        "page: agent": page("agent", handle="vibe"),
        "page: search, best match": lambda: _get(browser, reverse("search", kwargs=home), {"q": next(questions)}),
        "page: search, newest": page("search", {"q": word, "order": "newest"}),
        "page: search, by author": page("search", {"author": "dora"}),
        "page: search, in a channel": page("search", {"channel": str(world.channel.pk)}),
        "API: threads": call("api-threads", {"limit": "20"}),
        "API: messages": call("api-messages", {"limit": "20"}, pk=thread.pk),
        "search in a thread": recall,
        "prompt": prompt,
        "post": lambda: post_message(thread=thread, by=world.by, body=world.language.message()).token_count,
    }


def _api_token(world: BenchWorkspace) -> str:
    return issue_token(participant=world.ana.participant, name="bench", scopes=("read",))[1]


def _get(client: Client, path: str, query: Mapping[str, str] | None) -> int:
    answer = client.get(path, query or {})
    if answer.status_code != 200:
        raise RuntimeError(f"{path} answers {answer.status_code}.")
    return len(answer.content)


def _measure(steps: Mapping[str, Callable[[], int]], thread: Thread, repeats: int) -> dict[str, Cost]:
    """The cost of each step, and of the floor. What is cached by the first look is cached."""
    counted = {name: _count(step) for name, step in steps.items()}
    read = "SELECT body FROM chat_message WHERE thread_id = %s AND seq BETWEEN 1 AND 50 ORDER BY seq"

    def floor() -> None:
        with connection.cursor() as cursor:
            cursor.execute(read, [thread.pk])
            cursor.fetchall()

    spent: dict[str, list[float]] = {}
    for _ in range(repeats):
        for name, step in {"floor": floor, **steps}.items():
            started = _processor_ms()
            step()
            spent.setdefault(name, []).append(_processor_ms() - started)
    return {name: Cost(median(times), *counted.get(name, (1, 0))) for name, times in spent.items()}


def _processor_ms() -> float:
    """What this process and its session of the database have used so far; of a server elsewhere nothing is known."""
    connection.ensure_connection()
    driver: Any = connection.connection
    session = Path(f"/proc/{driver.info.backend_pid}/schedstat")
    nanoseconds = int(session.read_text().split()[0]) if session.exists() else 0
    return process_time() * 1000 + nanoseconds / 1e6


def _count(step: Callable[[], int]) -> tuple[int, int]:
    """Statements and bytes of a step that was done once before."""
    step()
    statement_count = 0

    def note(execute: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal statement_count
        statement_count += 1
        return execute(*arguments)

    with connection.execute_wrapper(note):
        size = step()
    return statement_count, size


def _cost_rows(size: int, costs: Mapping[str, Cost]) -> Iterator[Measurement]:
    floor = costs["floor"].milliseconds
    for name, cost in costs.items():
        said = f" ({cost.statements} statements, {cost.size / 1000:,.0f} kB)" if name != "floor" else ""
        ratio = cost.milliseconds / floor if name != "floor" else None
        yield Measurement(f"{size:,} messages: {name}{said}", cost.milliseconds, "ms", ratio)


def _fill_rows(fill: Fill) -> Iterator[Measurement]:
    yield Measurement(f"{fill.messages:,} more: written", fill.messages / fill.written, "/s")
    yield Measurement(f"{fill.messages:,} more: vectors made", fill.messages / fill.embedded, "/s")
    yield Measurement(
        f"{fill.messages:,} more: vectors made and indexed", fill.messages / (fill.embedded + fill.indexed), "/s"
    )


def _index_rows(messages: int) -> Iterator[Measurement]:
    with connection.cursor() as cursor:
        cursor.execute(_INDEX_BYTES)
        for name, size in cursor.fetchall():
            yield Measurement(f"index {name}: a message", size / messages, "B")


def _aims(first: Mapping[str, Cost], last: Mapping[str, Cost], sizes: Sequence[int]) -> Iterator[Aim]:
    for name in first:
        if name != "floor":
            growth = last[name].milliseconds / first[name].milliseconds
            yield Aim(f"{name}: time at {sizes[-1]:,} messages over time at {sizes[0]:,}", growth, MAX_GROWTH)
