"""No plan hangs on luck: in a fresh database of many messages every page, search, prompt and post finds its rows by an
index, before the planner has any statistics and after."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoDbBlocker

from agents.prompts.assembler.assemble import assemble
from knowledge.search import ENTRY_VECTORS, find_entries
from openvibe.chat.models import Thread
from openvibe.chat.search import thread as thread_search
from openvibe.chat.search.thread import find_messages
from openvibe.chat.services import create_channel, post_message
from openvibe.chat.wiring import MESSAGE_VECTORS
from openvibe.engines.database.prepared_statements import number_placeholders
from openvibe.engines.search import candidates
from openvibe.engines.search.indexing import embed_pending
from tests.bench.corpus import BenchWorkspace, make_bench_workspace, make_entries, make_thread
from tests.bench.scratch_database import scratch_database
from tests.examples import examples

THREAD_MESSAGES = 100
LONG_THREAD_MESSAGES = 5_000
ENTRIES = 1_000
MAX_COMPARED_MESSAGES = LONG_THREAD_MESSAGES - 1_000
VECTOR_PERIOD = 10
"""One message in so many has a vector."""

EMPTY_THREADS = 5_000
CHANNELS = 49
"""The number of channels besides the one that holds the messages, each with CHANNEL_THREADS that Ana has read, but for
one far behind."""
CHANNEL_THREADS = 300
UNREAD_AGE = 200

LARGE_TABLES = {"chat_message", "chat_messagetoembed", "chat_readmarker", "chat_thread"}
"""Tables that grow with what is said: reading one of them whole is what must not happen."""
JOINED_TABLES = {"chat_readmarker", "chat_thread"}
"""What the list of all that is unread joins: the threads of all channels with the markers of one member."""
LISTS_OF_UNREAD = {"unread", "next unread"}
MAX_BLOCKS = 40_000
"""Blocks of 8 kB that a statement may look at, by an index too; reading all messages takes four for each of them. A
list of 50 channels takes three for each of the newest threads of each, a hundred on its first page and 200 on its
second. A list of what is unread may look up the marker of every thread, where the planner has no statistics."""

FILL = """
INSERT INTO chat_thread (workspace_id, channel_id, title, access, instructions, external_id, created_by_id, updated_at,
    last_seq, last_message_at)
SELECT %(workspace)s, %(channel)s, 'Thread ' || n, 'open', '', '', %(ana)s, now(), %(size)s, now() - n * interval '1 h'
FROM generate_series(1, %(threads)s) n;
INSERT INTO chat_message (thread_id, seq, author_id, kind, state, body, call_id, client_id, token_count, created_at)
SELECT t.id, n, CASE n %% 2 WHEN 0 THEN %(ana)s ELSE %(dora)s END, 'text', 'complete',
    concat_ws(' ', 'word' || t.id * 7919 * n %% 997, 'term' || t.id * 31 * n %% 89, 'name' || t.id * n %% 9973),
    '', '', 9,
    t.last_message_at - (%(size)s - n) * interval '1 min'
FROM chat_thread t, generate_series(1, %(size)s) n WHERE t.last_seq = %(size)s;
UPDATE chat_message SET search = setweight(to_tsvector('simple', body), 'B'), lexemes_version = 1;
INSERT INTO chat_thread (workspace_id, channel_id, title, access, instructions, external_id, created_by_id, updated_at,
    last_seq, created_at)
SELECT %(workspace)s, %(channel)s, 'Empty ' || n, 'open', '', '', %(ana)s, now(), 0, now() - n * interval '1 d'
FROM generate_series(1, %(empty_threads)s) n
"""

FILL_CHANNEL = """
WITH written AS (
    INSERT INTO chat_thread (workspace_id, channel_id, title, access, instructions, external_id, created_by_id,
        updated_at, last_seq, last_message_at)
    SELECT %(workspace)s, %(channel)s, 'Read ' || n, 'open', '', '', %(dora)s, now(), 2, now() - n * interval '1 d'
    FROM generate_series(1, %(threads)s) n RETURNING id, title
)
INSERT INTO chat_readmarker (thread_id, participant_id, last_read_seq)
SELECT w.id, p.id, CASE WHEN p.id = %(ana)s AND w.title = 'Read %(unread_age)s' THEN 1 ELSE 2 END
FROM written w, unnest(ARRAY[%(ana)s, %(dora)s]::bigint[]) AS p(id)
"""

SET_ASIDE = """
UPDATE chat_messagetoembed SET try_again_at = now() + interval '50 minutes'
WHERE message_id IN (SELECT id FROM chat_message WHERE seq %% %s <> 0)
"""


@dataclass(frozen=True)
class Statement:
    """What was sent, with its values. `name`: of a prepared one, whose plan for all values is what runs."""

    sql: str
    values: Any = None
    name: str = ""

    def plan(self) -> dict[str, Any]:
        """The plan as PostgreSQL explains it; what it writes is taken back."""
        runnable, values = self.sql, self.values
        if self.name:
            values = [self.values[key] for key in number_placeholders(self.sql)[1]]
            runnable = f"EXECUTE {self.name}({', '.join(['%s'] * len(values))})" if values else f"EXECUTE {self.name}"
        with _taken_back(), connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {runnable}", values)
            (answer,) = cursor.fetchone()
        plan: dict[str, Any] = (json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"]
        return plan

    def problems(self, step: str) -> Iterator[str]:
        """What the plan does that it must not."""
        large_tables = LARGE_TABLES - JOINED_TABLES if step in LISTS_OF_UNREAD else LARGE_TABLES
        plan, kind = self.plan(), "prepared: " if self.name else ""
        scans = [node for node in _nodes(plan) if node["Node Type"] == "Seq Scan" and node["Actual Loops"]]
        tables = {node["Relation Name"] for node in scans} & large_tables
        if tables:
            yield f"{kind}reads all of {', '.join(tables)}: {self.sql}"
        blocks = plan.get("Shared Hit Blocks", 0) + plan.get("Shared Read Blocks", 0)
        if blocks > MAX_BLOCKS * (2 if step in LISTS_OF_UNREAD else 1):
            yield f"{kind}reads {blocks} blocks: {self.sql}"

    def indexes(self) -> set[str]:
        """Those that the plan reads."""
        return {node["Index Name"] for node in _nodes(self.plan()) if "Index Name" in node}


@contextmanager
def _taken_back() -> Iterator[None]:
    """Runs in a transaction that is rolled back unknown to the driver, which would forget all that is prepared."""
    pgconn = connection.connection.pgconn
    pgconn.exec_(b"BEGIN")
    try:
        yield
    finally:
        pgconn.exec_(b"ROLLBACK")


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def statements_of(step: Callable[[], object]) -> list[Statement]:
    """All reads and writes of rows that the step sends."""
    statements: list[Statement] = []

    def note(execute: Callable[..., Any], statement: str, values: Any, many: bool, context: Any) -> Any:
        if str(statement).lstrip().upper().startswith(("SELECT", "WITH", "INSERT", "UPDATE", "DELETE")):
            statements.append(Statement(str(statement), values))
        return execute(statement, values, many, context)

    with connection.execute_wrapper(note):
        step()
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement, name FROM pg_prepared_statements")
        names = dict(cursor.fetchall())
    return [replace(one, name=names.get(number_placeholders(one.sql)[0].decode(), "")) for one in statements]


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[BenchWorkspace]:
    with django_db_blocker.unblock(), scratch_database():
        yield make_world(examples(nightly=200_000, daily=20_000))


def make_world(messages: int) -> BenchWorkspace:
    """A workspace whose large tables were filled at once, and nobody analyzed anything."""
    bench_workspace = make_bench_workspace()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT format('ALTER TABLE %s SET (autovacuum_enabled = off)', oid::regclass) FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )
        for (statement,) in cursor.fetchall():
            cursor.execute(statement)
        cursor.execute(
            FILL,
            {
                "workspace": bench_workspace.ana.workspace_id,
                "channel": bench_workspace.channel.pk,
                "ana": bench_workspace.ana.participant_id,
                "dora": bench_workspace.dora.participant_id,
                "size": THREAD_MESSAGES,
                "threads": messages // THREAD_MESSAGES,
                "empty_threads": EMPTY_THREADS,
            },
        )
        for number in range(CHANNELS):
            channel = create_channel(by=bench_workspace.by, name=f"side-{number}")
            cursor.execute(
                FILL_CHANNEL,
                {
                    "workspace": channel.workspace_id,
                    "channel": channel.pk,
                    "ana": bench_workspace.ana.participant_id,
                    "dora": bench_workspace.dora.participant_id,
                    "threads": CHANNEL_THREADS,
                    "unread_age": UNREAD_AGE,
                },
            )
        make_thread(bench_workspace, LONG_THREAD_MESSAGES)
        make_entries(bench_workspace, ENTRIES)
        cursor.execute(SET_ASIDE, [VECTOR_PERIOD])
    for table in (MESSAGE_VECTORS, ENTRY_VECTORS):
        table.drop_index(256)
        embed_pending(table)
        table.build_index(256)
    return bench_workspace


@pytest.fixture
def steps(world: BenchWorkspace) -> dict[str, Callable[[], object]]:
    """What is done in the workspace, by name."""
    client = Client()
    client.force_login(world.ana.user)
    client.get(reverse("sessions"))  # lists the session, which is written once and cannot be written twice
    thread, long_thread = Thread.objects.earliest("pk"), Thread.objects.latest("last_seq")
    question = world.language.question()
    home = {"slug": world.ana.workspace.slug}

    def page(name: str, query: str = "", **place: object) -> Callable[[], object]:
        def get() -> None:
            answer = client.get(reverse(name, kwargs=home | place) + query)
            assert answer.status_code in {200, 302}

        return get

    return {
        "inbox": page("inbox"),
        "inbox, page 2": page("inbox", "?page=2"),
        "unread": page("inbox", "?show=unread"),
        "next unread": page("next-unread"),
        "mentions": page("mentions"),
        "sidebar": page("sidebar"),
        "channel": page("channel", channel_id=world.channel.pk),
        "channel, archived": page("channel", "?archived=1", channel_id=world.channel.pk),
        "thread": page("thread", thread_id=thread.pk),
        "knowledge": page("knowledge"),
        "agent": page("agent", handle="vibe"),
        "search, best match": page("search", "?q=word7+name99"),
        "search, newest": page("search", "?q=name99&order=newest"),
        "list by author": page("search", "?author=dora"),
        "list of a channel": page("search", f"?channel={world.channel.pk}"),
        "list since": page("search", "?since=2020-01-01"),
        "list, best match by author": page("search", "?q=word7+name99&author=ana"),
        "list, best match of a channel": page("search", f"?q=word7+name99&channel={world.channel.pk}"),
        "list, best match since": page("search", "?q=word7+name99&since=2020-01-01"),
        "prompt": lambda: assemble(
            agent=world.vibe, thread=thread, task="mention", request="word7 name99?", asked_by=world.ana.participant
        ),
        "search in a thread, by signs": lambda: find_messages(
            world.by, question, thread_id=long_thread.pk, budget=2_000, before=MAX_COMPARED_MESSAGES
        ),
        "search in a thread, by index": lambda: find_messages(
            world.by, question, thread_id=long_thread.pk, budget=2_000
        ),
        "search of knowledge": lambda: find_entries(world.by, question),
        "post": lambda: post_message(thread=thread, by=world.by, body="@dora name99"),
    }


@pytest.fixture(autouse=True)
def small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers so small that as much as a test can write is much."""
    monkeypatch.setattr(thread_search, "MAX_FULL_SCAN_MESSAGES", 400)
    monkeypatch.setattr(thread_search, "MAX_EXACT_SCAN_MESSAGES", MAX_COMPARED_MESSAGES)
    monkeypatch.setattr(candidates, "MAX_EXACT_SCAN", ENTRIES // 2)
    candidates._statistics_cache.clear()
    candidates._space_sizes.clear()


@pytest.mark.parametrize("has_statistics", [False, True], ids=["without statistics", "with statistics"])
def test_nothing_reads_all_messages(
    steps: dict[str, Callable[[], object]], has_statistics: bool, django_db_blocker: DjangoDbBlocker
) -> None:
    with django_db_blocker.unblock():
        if has_statistics:
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE")
        # Lists without words need statistics, as an import leaves them: begin with threads, or with the newest?
        names = [name for name in steps if has_statistics or not name.startswith("list")]
        statements_by_step = {name: statements_of(steps[name]) for name in names}
        assert all(statements_by_step.values())
        assert any(one.name for all_ in statements_by_step.values() for one in all_)
        problems = [
            f"{name} {problem}"
            for name, all_ in statements_by_step.items()
            for one in all_
            for problem in one.problems(name)
        ]
        assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("step", "index"),
    [
        ("search in a thread, by signs", "message_vector_signs"),
        ("search in a thread, by index", "message_vector_hnsw_256"),
        ("search of knowledge", "entry_vector_hnsw_256"),
    ],
)
def test_vectors_are_searched_by_their_index_whatever_the_values(
    steps: dict[str, Callable[[], object]], step: str, index: str, django_db_blocker: DjangoDbBlocker
) -> None:
    with django_db_blocker.unblock():
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        statements = [one for one in statements_of(steps[step]) if "halfvec" in one.sql]
        assert statements
        assert all(one.name for one in statements), "the plan for all values runs"
        assert any(index in one.indexes() for one in statements)
