"""The benches measure, say what they found, and leave nothing behind."""

import io
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import DjangoDbBlocker

from knowledge.models import Entry, EntryVector
from openvibe.chat.models import Message, MessageVector
from openvibe.chat.services import post_message
from openvibe.engines.database.prepared_statements import fetch_prepared, fetch_unprepared
from openvibe.settings.environment import database_settings
from tests import bench
from tests.bench import Aim, Measurement, Report, live
from tests.bench.append import RECORDED_POSTS, measure_append
from tests.bench.assemble import measure_assemble
from tests.bench.bare_sql import bare_sql_step, record_statements
from tests.bench.budget import measure_budget
from tests.bench.budget_worlds import Shape
from tests.bench.chats import ChatWriter
from tests.bench.corpus import SyntheticLanguage, make_bench_workspace, make_thread
from tests.bench.grow import measure_grow
from tests.bench.http_load import measure_http
from tests.bench.languages import MAX_MISSED, measure_languages, read_subjects
from tests.bench.mcp_calls import measure_mcp
from tests.bench.measurement import interleaved_medians
from tests.bench.memory import MAX_READ_ANEW, measure_cache, measure_compact
from tests.bench.prompt import ask_questions, measure_prompt
from tests.bench.recall import measure_recall, recall_by_budget
from tests.bench.scratch_database import DATABASE_PREFIX, connect_bare, database_url, scratch_database
from tests.bench.search import measure_search
from tests.bench.webhooks import measure_webhooks
from tests.operations.processes import PATIENCE

_ECHO = "SELECT %(word)s::text, '%%'"


@pytest.fixture(scope="module")
def scratch(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A database like the command's: threads are written past Django's connection, and committed."""
    with django_db_blocker.unblock():
        usual, printed = connection.settings_dict["NAME"], io.StringIO()
        with ExitStack() as stack:
            with redirect_stdout(printed):
                stack.enter_context(scratch_database())
            assert not printed.getvalue(), "a bench's JSON is all that it prints"
            assert connection.settings_dict["NAME"].startswith(DATABASE_PREFIX)
            yield
        assert connection.settings_dict["NAME"] == usual
        with connect_bare() as new_connection:
            left = new_connection.execute(
                "SELECT 1 FROM pg_database WHERE datname LIKE %s", [f"{DATABASE_PREFIX}{os.getpid()}_%"]
            )
            assert left.fetchone() is None
        connection.close()


def test_assemble_on_tiny_threads(scratch: None) -> None:
    before = EntryVector.objects.count()
    report = measure_assemble(sizes=(20, 160), entries=30, repeats=3, warm_up=1).as_values()
    assert MessageVector.objects.filter(thread__title="160 messages").count() == 160
    assert EntryVector.objects.count() == before + 30
    assert Entry.objects.exclude(visibility="shared", status="active").count() == 6
    assert len(Entry.objects.current()) == 24
    rows = {row["what"]: row["value"] for row in report["rows"]}
    assert 0 < rows["of it, knowledge, with its searches"] < 100
    assert report["bench"] == "assemble"
    range_read, floor, prompt = report["rows"][:3]
    assert range_read["what"] == "20 messages: one range read of the same bytes"
    assert floor["what"] == "20 messages: floor, its statements in bare SQL"
    assert prompt["what"].startswith("20 messages: prompt of ")
    assert all(row["value"] > 0 for row in report["rows"][:6])
    assert [row["ratio"] for row in (range_read, floor, prompt)] == [None, None, prompt["value"] / floor["value"]]
    assert [aim["limit"] for aim in report["aims"]] == [2.0, 2.0, 1.5]
    assert report["aims"][0]["value"] == prompt["ratio"]
    assert all(aim["holds"] == (aim["value"] <= aim["limit"]) for aim in report["aims"])


def test_append_on_tiny_threads(scratch: None) -> None:
    report = measure_append(sizes=(5, 20), repeats=4, warm_up=1)
    rows = {row.what: row for row in report.rows}
    assert [row.ratio is None for row in report.rows[:6]] == [True, False, False, False, False, True]
    assert {row.unit for row in report.rows[5:]} == {"%"}
    ratios = [rows[f"a message into a thread of {size}"].ratio or 0 for size in (5, 20)]
    assert [aim.limit for aim in report.aims] == [4.0, 1.15]
    assert [aim.value for aim in report.aims] == [max(ratios), ratios[1] / ratios[0]]
    posts, profiled = 2 * (4 + 1), 4
    recorded = 2 * 2 * RECORDED_POSTS
    in_bare_sql = posts
    posted = Message.objects.filter(mentions__participant__handle="dora")
    assert posted.count() == posts + profiled + recorded + in_bare_sql


def test_search_in_tiny_threads(scratch: None) -> None:
    report = measure_search(sizes=(20, 160), entries=30, repeats=3)
    rows = {row.what: row for row in report.rows}
    searches = ("20 messages", "160 messages", "30 entries")
    floors = [rows[f"{what}: floor, its statements in bare SQL"].value for what in searches]
    assert [rows[f"{what}: median"].ratio for what in searches] == [
        rows[f"{what}: median"].value / floor for what, floor in zip(searches, floors, strict=True)
    ]
    assert rows["8,000 tokens in one range read"].ratio is None
    assert [aim.limit for aim in report.aims] == [1.6] * 3 + [3.0] * 3
    assert [aim.value for aim in report.aims[:3]] == [rows[f"{what}: median"].ratio for what in searches]


def test_bare_sql_sends_what_a_step_sent(scratch: None) -> None:
    """A post is written again with its mention; a search gives the same rows, planned as its own statements are."""
    world = make_bench_workspace()
    thread = make_thread(world, 5)

    def post() -> None:
        post_message(thread=thread, by=world.by, body="@dora Roses")

    with closing(connect_bare()) as bare:
        bare_sql_step(bare, [post], is_transaction=True)()
        posts = Message.objects.filter(thread=thread, body="@dora Roses", mentions__participant__handle="dora")
        assert list(posts.order_by("seq").values_list("seq", flat=True)) == [6, 7, 8]
        values = {"word": "50 %"}
        sent = record_statements(lambda: (fetch_prepared(_ECHO, values), fetch_unprepared(_ECHO, values)))
        assert [statement.is_prepared for statement in sent] == [True, False]
        cursors: list[psycopg.Cursor[Any]] = [psycopg.RawCursor(bare), psycopg.ClientCursor(bare)]
        rows = [
            cursor.execute(text, parameters).fetchall()
            for cursor, (text, parameters, _) in zip(cursors, sent, strict=True)
        ]
        assert rows == [[("50 %", "%")]] * 2


def test_mcp_with_few_calls(scratch: None) -> None:
    report = measure_mcp(repeats=2, warm_up=1)
    assert [row.ratio is None for row in report.rows[:3]] == [True, False, False]
    assert report.aims[0].value == max(row.ratio or 0 for row in report.rows)


def test_compact_on_tiny_threads(scratch: None) -> None:
    report = measure_compact(messages=300, sizes=(120, 300), steps=2)
    rows = {row.what: row.value for row in report.rows}
    assert rows["tokens after"] < rows["tokens before"]
    assert rows["summaries made"] > 0
    assert all(row.value > 0 for row in report.rows)
    steps = [rows[f"one incremental step at {size} messages"] for size in (120, 300)]
    assert report.aims[0].value == steps[1] / steps[0]


def test_grow_on_a_few_messages(scratch: None) -> None:
    report = measure_grow(sizes=(200, 400), repeats=1, own_messages=50)
    rows = {row.what: row.value for row in report.rows}
    assert rows["200 messages: floor"] > 0
    assert Message.objects.count() > 300
    assert len(report.aims) == 16
    assert any(what.startswith("400 messages: page: inbox (") for what in rows)
    assert any(what.startswith("index message_seq_unique") for what in rows)


def test_cache_on_a_short_talk(scratch: None) -> None:
    report = measure_cache(turns=20)
    rows = {row.what: row.value for row in report.rows}
    for talk in ("short messages", "long messages"):
        alone, shipped = f"{talk}, conversation alone", f"{talk}, as shipped"
        assert 0 < rows[f"{alone}: in the common prefix"] < 100
        assert 0 < rows[f"{alone}: uncached a turn"] < rows[f"{alone}: prompt"]
        assert rows[f"{alone}: prompt"] <= rows[f"{shipped}: prompt"]
    aims = {aim.aim: aim for aim in report.aims}
    assert aims["short messages, as shipped: prompts over budget"].holds
    assert aims["long messages, as shipped: prompts over budget"].holds
    assert aims["short messages, conversation alone: % of history not represented"].value == 0
    assert len(aims) == 12
    read_anew = [aims[f"{talk}, conversation alone: % of prompt tokens read anew"] for talk in MAX_READ_ANEW]
    assert [aim.limit for aim in read_anew] == [2.5, 9.0]


def test_cache_talks_through_meetings(scratch: None, tmp_path: Path) -> None:
    meeting = {"meeting_transcripts": [{"speaker": "A", "content": f"Rose {n}"} for n in range(14)]}
    data = tmp_path / "meetings.jsonl"
    data.write_text(json.dumps(meeting) + "\n")
    measure_cache(turns=5, data=data)
    assert Message.objects.get(body="Rose 8").author.kind == "member"
    assert Message.objects.get(body="Rose 9").author.kind == "agent"
    assert not Message.objects.filter(body="Rose 10").exists()


def test_prompts_hold_what_a_short_chat_told(scratch: None) -> None:
    by_state = ask_questions([ChatWriter(0).short_chat(45), ChatWriter(1).assistant_thread(12)])
    assert {state: [*by_task] for state, by_task in by_state.items()} == {
        "imported": ["mention", "thread"],
        "compacted": ["mention", "thread"],
        "one after the other": ["mention", "thread"],
    }
    assert len({len(answers) for by_task in by_state.values() for answers in by_task.values()}) == 1
    for by_task in by_state.values():
        assert all(answer.found == answer.pieces == 1 for answer in by_task["thread"])
        assert all(answer.tokens <= answer.ceiling for answers in by_task.values() for answer in answers)


def test_prompts_about_meetings_of_a_file(scratch: None, tmp_path: Path) -> None:
    said = [
        {"speaker": "A", "content": "The <roses> &  the lilies\nare pruned late"},
        {"speaker": "B", "content": "Yes ."},
    ]
    query = {"query": "When are the roses pruned?", "relevant_text_span": [["0", "1"]]}
    data = tmp_path / "meetings.jsonl"
    data.write_text(json.dumps({"meeting_transcripts": said, "specific_query_list": [query]}) + "\n")
    report = measure_prompt(data=data, kinds=["meetings"])
    rows = {row.what: row.value for row in report.rows}
    assert rows["meetings, imported, mention: evidence found, mean of 1 questions"] == 100
    assert len(report.aims) == 6


def test_budget_of_a_few_random_prompts(scratch: None) -> None:
    shapes = (Shape(0, 1, 1), Shape(2, 1, 900), Shape(4, 1, 4_000), Shape(20, 1, 300), Shape(30, 400, 900))
    report = measure_budget(cases=range(20), worlds=1, shapes=shapes)
    rows = {row.what: row.value for row in report.rows}
    assert rows["prompts assembled"] == 20
    assert rows["anything left out: prompts"] > 1
    assert sum(what.startswith("worst: case ") for what in rows) == min(rows["anything left out: prompts"], 5)
    assert [aim.value for aim in report.aims[:4]] == [0, 0, 0, 0]


def test_recall_of_a_few_facts(scratch: None) -> None:
    by_budget = recall_by_budget([ChatWriter(0).short_chat(45), ChatWriter(1).assistant_thread(12)])
    assert [*by_budget] == [1_000, 2_000, 4_000, 8_000]
    assert 50 < by_budget[1_000].bare <= by_budget[8_000].bare == 100
    assert 50 < by_budget[1_000].shipped <= by_budget[8_000].shipped <= 100


def test_recall_in_meetings_of_a_file(scratch: None, tmp_path: Path) -> None:
    said = [{"speaker": "A", "content": f"Words {n} about nothing much"} for n in range(9)]
    said.insert(4, {"speaker": "B", "content": "The roses are pruned in February"})
    query = {"query": "When are the roses pruned?", "relevant_text_span": [["4", "4"]]}
    data = tmp_path / "meetings.jsonl"
    data.write_text(json.dumps({"meeting_transcripts": said, "specific_query_list": [query]}) + "\n")
    report = measure_recall(data=data, kinds=["meetings"])
    assert [row.value for row in report.rows] == [100.0] * 8
    assert all(aim.holds for aim in report.aims)


def test_questions_in_other_languages_find_english_entries(scratch: None) -> None:
    report = measure_languages(kinds=["multilingual"], subjects=6, distractors=0)
    missed, *own = report.aims
    assert missed.limit == MAX_MISSED
    assert len(own) == 2
    assert missed.value < 40, "the built-in embedder misses nine in ten"
    assert {row.unit for row in report.rows} == {"%", "ms"}
    assert [len(subject.questions) for subject in read_subjects()] == [4] * 24


def test_a_made_up_thread_is_like_a_real_one(scratch: None) -> None:
    world = make_bench_workspace()
    thread = make_thread(world, 30)
    assert list(thread.messages.order_by("seq").values_list("seq", flat=True)) == list(range(1, 31))
    assert all(10 < len(body.split()) <= 60 for body in thread.messages.values_list("body", flat=True))
    assert post_message(thread=thread, by=world.by, body="Next").seq == 31


def test_the_language_is_the_same_every_time() -> None:
    assert [SyntheticLanguage().message(), SyntheticLanguage().question()] == [
        SyntheticLanguage().message(),
        SyntheticLanguage().question(),
    ]


def test_steps_take_turns() -> None:
    order: list[str] = []
    medians = interleaved_medians(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=2, warm_up=1
    )
    assert order == ["a", "b"] * 3
    assert set(medians) == {"a", "b"}


def test_another_process_can_reach_the_scratch_database(scratch: None) -> None:
    settings = database_settings(database_url(), None)  # type: ignore[arg-type]
    assert settings["NAME"] == connection.settings_dict["NAME"]
    with connect_bare() as new_connection:
        assert new_connection.info.dbname == settings["NAME"]


def test_a_table_says_what_was_missed() -> None:
    report = Report(
        "x", [Measurement("floor", 1.0, "ms"), Measurement("thing", 5.0, "ms", 5.0)], [Aim("cheap", 5.0, 4.0)]
    )
    assert report.as_table().splitlines() == [
        "bench x",
        "  floor        1.00 ms",
        "  thing        5.00 ms       5.00 × floor",
        "  MISSED cheap: 5.00, aim ≤ 4",
    ]


def test_the_command_prints_json(scratch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "scratch_database", nullcontext)
    monkeypatch.setitem(bench.BENCHES, "append", lambda _: measure_append(sizes=(3,), repeats=2, warm_up=0))
    output = io.StringIO()
    call_command("bench", "append", "--quick", "--json", stdout=output)
    report = json.loads(output.getvalue())
    assert set(report) == {"bench", "rows", "aims"}
    assert {frozenset(aim) for aim in report["aims"]} == {frozenset({"aim", "value", "limit", "holds"})}


def test_webhooks_with_three_messages(scratch: None) -> None:
    report = measure_webhooks(messages=3, hooks=2, one_by_one=2)
    rows = {row.what: row.value for row in report.rows}
    assert rows["deliveries that waited"] == 6
    assert rows["deliveries"] > 0
    assert [aim.limit for aim in report.aims] == [20, 5, 0]
    assert report.aims[2].holds


def test_http_asks_the_real_server(scratch: None) -> None:
    report = measure_http(messages=20, seconds=0.1, turns=1, processes=(1,))
    assert [row.what for row in report.rows[::2]] == [
        "a bare DRF list of 20 messages",
        "a bare view",
        "/healthz",
        "page: inbox",
        "page: channel",
        "page: knowledge",
        "page: thread",
        "API: me",
        "API: 20 messages",
    ]
    assert all(row.value > 0 for row in report.rows)


def test_live_with_three_viewers(scratch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr(live, "PATIENCE_SECONDS", PATIENCE)
    report = live.measure_live(viewers=3, pages=0, idle=6, seconds=2.0)
    rows = {row.what: row.value for row in report.rows}
    assert rows["viewers"] == 3
    assert rows["changes"] >= 2  # a message and a reply that grew, however slow the machine is
    assert (rows["missing"], rows["doubled"]) == (0, 0)
    assert rows["processor time per viewer and change"] > 0
    assert {aim.limit for aim in report.aims} == {500, 0, 0.3, 200, 20}
