"""Files of knowledge: what comes in is reported row by row, what goes out comes back the same."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.agent.access import visible_to
from agents.models import Agent
from knowledge.exchange.csv_jsonl import COLUMNS, MAX_BYTES, read_rows, unescape_formula
from knowledge.exchange.entry_export import export_entries
from knowledge.exchange.entry_import import ImportReport, import_entries
from knowledge.models import Entry, Notice, Revision
from knowledge.services import archive_entry, pin_result
from knowledge.services.create import MAX_PENDING_SUGGESTIONS
from openvibe.base.problems import Problem, Refused
from openvibe.engines.text.cleaning import escape_formula
from openvibe.workspaces.models import Member
from tests.factories import access, make_channel, make_entry, make_thread, say

GOOD = "topic,content,tags,pinned\nPricing,Starter costs $29,plans; saas,yes\nRoses,Prune in March,,\n"


def imported(by: Member, text: str, form: str = "") -> ImportReport:
    return import_entries(by=access(by), raw=text.encode(), form=form)


def outcomes(report: ImportReport) -> list[tuple[int, str]]:
    return [(row.number, row.outcome) for row in report.rows]


def test_a_file_twice_changes_nothing_the_second_time(ana: Member) -> None:
    first, second = imported(ana, GOOD), imported(ana, GOOD)

    assert outcomes(first) == [(2, "imported"), (3, "imported")]
    assert outcomes(second) == [(2, "same"), (3, "same")]
    assert first.summary == "2 imported, 0 there already, 0 refused"
    entry = Entry.objects.get(topic="Pricing")
    assert (entry.tags, entry.is_pinned, entry.source) == (["plans", "saas"], True, "import")
    assert entry.revisions.get().action == "imported"


def test_a_quotation_mark_that_is_never_closed_takes_no_rows_into_an_entry(ana: Member) -> None:
    report = imported(ana, 'topic,content\nRoses,Prune.\nBeds,"Water them.\nHours,We open at 9.\nSale,In May.\n')

    assert outcomes(report) == [(2, "imported"), (3, "refused")]
    assert "never closed" in report.rows[1].why
    for text in ('topic,content\nHours,"We open\nat 9."', 'topic,content\nSale,"In ""May"""\n'):
        assert imported(ana, text).summary == "1 imported, 0 there already, 0 refused"


def test_the_columns_that_are_missing_are_counted(ana: Member) -> None:
    for header, words in (("question,answer", "topic and content are missing"), ("topic,answer", "content is missing")):
        with pytest.raises(Problem, match=words):
            imported(ana, f"{header}\nRoses,Prune.\n")


@pytest.mark.parametrize("form", ["", "jsonl"])
@pytest.mark.parametrize(
    "text",
    [
        '[{"topic": "Roses", "content": "Prune."}, {"topic": "Beds", "content": "Water."}]',
        '\n [\n  {\n    "topic": "Roses",\n    "content": "Prune."\n  }\n]\n',
        '{\n  "topic": "Roses",\n  "content": "Prune."\n}\n',
        "[]",
    ],
)
def test_json_that_is_no_jsonl_is_told_what_is_accepted(ana: Member, text: str, form: str) -> None:
    with pytest.raises(Problem, match="This is JSON, but not JSONL") as problem:
        imported(ana, text, form)
    assert 'Write one object a line, as {"topic": "…", "content": "…"}, or take a CSV file.' in problem.value.message
    assert "column" not in problem.value.message


@pytest.mark.parametrize(
    "text", ["# Roses\n\nPrune in March.\n", "Roses, beds, frost\n", "[Roses](x)\n", "[not JSON", '[{"topic": 1},']
)
def test_what_is_neither_csv_nor_jsonl_is_told_what_is_accepted(ana: Member, text: str) -> None:
    with pytest.raises(Problem) as problem:
        imported(ana, text)
    assert "CSV" in problem.value.message
    assert "JSONL" in problem.value.message
    assert '{"topic": "…", "content": "…"}' in problem.value.message


def test_a_line_that_is_a_list_is_refused_alone(ana: Member) -> None:
    report = imported(ana, '["Roses"]\n{"topic": "Beds", "content": "Water."}\n', "jsonl")
    assert outcomes(report) == [(1, "refused"), (2, "imported")]
    assert imported(ana, '{"topic": "Roses", "content": "Prune."}').summary.startswith("1 imported")


def test_bad_rows_do_not_stop_good_ones(ana: Member) -> None:
    report = imported(
        ana,
        "topic;content;kind;expires_at;owner\n"
        "Pricing;$29;;;\n"
        ";no topic;;;\n"
        "Kind;x;gossip;;\n"
        "Past;x;;2020-01-01;\n"
        "Ragged;x\n"
        "\n"
        "Nobody;x;;;@nobody\n"
        f"Long;{'word ' * 2_100};;;\n"
        "Zone;x;fact;2099-03-29T02:30:00+01:00;ana\n",
    )

    assert outcomes(report) == [
        (2, "imported"),
        (3, "refused"),
        (4, "refused"),
        (5, "refused"),
        (6, "refused"),
        (8, "imported"),
        (9, "refused"),
        (10, "imported"),
    ]
    sentences = [row.why for row in report.rows]
    for place, part in (
        (1, "topic"),
        (2, "A kind is one of"),
        (3, "past"),
        (4, "2 cells"),
        (5, "@nobody"),
        (6, "2,000"),
    ):
        assert part in sentences[place]
    zoned = Entry.objects.get(topic="Zone").expires_at
    assert zoned
    assert zoned.isoformat() == "2099-03-29T01:30:00+00:00"


def test_jsonl_says_which_line_is_wrong(ana: Member) -> None:
    report = imported(
        ana,
        '{"topic": "a", "content": "b", "tags": ["x"], "pinned": true, "client_id": "k"}\nnot json\n[1]\n'
        '{"topic": "a", "content": "c", "client_id": "k"}\n{"topic": 5, "content": ["x"]}\n'
        '{"topic": "n\\u0000", "content": "x"}\n{"topic": "p", "content": "q", "status": "proposed"}\n'
        '{"topic": "p", "content": "r", "status": "superseded"}\n',
    )

    assert [outcome for _number, outcome in outcomes(report)] == [
        "imported",
        "refused",
        "refused",
        "refused",
        "refused",
        "refused",
        "imported",
        "refused",
    ]
    assert "other words" in report.rows[3].why
    assert Entry.objects.get(topic="p").status == "proposed"


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "empty"),
        (b"\xff\xfa\x00", "bad_encoding"),
        (b"topic,content\n\n", "empty"),
        ("topic,content\na,b\n".encode("utf-16-le"), "bad_encoding"),
        (b"name,text\na,b\n", "no_header"),
        (b"topic,content,topic\na,b,c\n", "bad_header"),
        (b"topic,content\n" + b"a,b\n" * 5_001, "too_many"),
        (b"x" * (10 * 1024 * 1024 + 1), "too_large"),
    ],
)
def test_files_that_cannot_be_read_at_all(ana: Member, raw: bytes, code: str) -> None:
    with pytest.raises(Problem) as error:
        import_entries(by=access(ana), raw=raw)

    assert (error.value.code, Entry.objects.exists()) == (code, False)


@pytest.mark.parametrize(("name", "meant"), [("tgas", "tags"), ("Expires at:", "expires_at"), ("owners", "owner")])
def test_a_column_that_is_nearly_a_known_one_is_not_passed_over(ana: Member, name: str, meant: str) -> None:
    """What it holds could not be brought in later: the rows would be there already."""
    as_json = json.dumps({"topic": "Roses", "content": "Prune.", name: "x"})
    for text in (f"topic,content,{name}\nRoses,Prune.,x\n", as_json):
        with pytest.raises(Problem, match=f"Did you mean {meant}") as error:
            imported(ana, text)
        assert (error.value.code, Entry.objects.exists()) == ("bad_header", False)


@pytest.mark.parametrize(
    "text",
    [
        "Topic,Content,Seen by,use_count\nRoses,Prune.,Ana,3\n",
        '{"topic": "Roses", "content": "Prune.", "Seen by": "Ana", "use_count": 3}',
        '{"topic": "Roses", "content": "Prune.", "Seen by": {"Ana": 1, "ana": 2}}',  # whose names are no columns
    ],
)
def test_other_columns_are_named_as_not_read(ana: Member, text: str) -> None:
    report = imported(ana, text)
    assert report.summary == "1 imported, 0 there already, 0 refused"
    assert report.note.startswith("Not read: 'seen_by'. Known are ")
    unnamed = imported(ana, ",topic,content,seen\n0,Beds,Dig.,x\n")
    assert unnamed.note.startswith("Not read: one without a name, 'seen'. ")
    assert imported(ana, GOOD).note == ""
    assert "\\ud800" in imported(ana, '{"topic": "Beds", "content": "Water.", "\\ud800": 1}').note


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_very_many_columns_are_looked_through_once(form: str) -> None:
    """A look for each column would take a day."""
    names = ["topic", "content", *map(str, range(400_000))]
    as_csv = f"{','.join(names)}\n{','.join('a' * len(names))}"
    text = json.dumps(dict.fromkeys(names, "a")) if form == "jsonl" else as_csv
    (row,) = read_rows(text.encode(), form)
    assert len(row.cells) == len(names)


def test_what_is_wrong_with_a_row_that_is_there_is_said(ana: Member) -> None:
    imported(ana, "topic,content\nRoses,Prune.\n")
    report = imported(ana, "topic,content,kind,tags\nRoses,Prune.,gossip,\nRoses,Prune.,,a\n")
    assert outcomes(report) == [(2, "same"), (3, "same")]
    assert report.rows[0].why.startswith("A kind is one of")
    assert report.rows[0].why.endswith(" The entry stays as it is.")
    assert report.rows[1].why == ""


@pytest.mark.parametrize(
    "cells",
    [
        '"content": NaN',
        '"content": -Infinity',
        '"content": 1e999',
        '"content": "x", "tags": NaN',
        '"content": "x", "tags": {"a": 1}',
        '"content": "x", "tags": true',
        '"content": "x", "Topic": "Beds"',
    ],
)
def test_a_line_that_would_be_kept_as_something_else_is_refused(ana: Member, cells: str) -> None:
    assert outcomes(imported(ana, f'{{"topic": "Roses", {cells}}}')) == [(1, "refused")]


def test_blank_cells_at_the_end_are_no_cells(ana: Member) -> None:
    report = imported(ana, "topic,content,,\r\nRoses,Prune.,,\r\nBeds,Water.\r\nHedge,Cut it,in May.\r\n")
    assert outcomes(report) == [(2, "imported"), (3, "imported"), (4, "refused")]
    assert "3 cells, the header has 2. A text with the separator" in report.rows[2].why


def test_marks_at_the_beginning_of_files_are_read(ana: Member) -> None:
    for raw in (GOOD.encode("utf-8-sig"), GOOD.encode("utf-16")):
        assert len(import_entries(by=access(ana), raw=raw).rows) == 2


def test_guests_and_agents_import_nothing(ana: Member, ben: Member, vibe: Agent) -> None:
    with pytest.raises(Refused):
        imported(ben, GOOD)
    with pytest.raises(Refused):
        import_entries(by=visible_to(vibe), raw=GOOD.encode())


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_what_goes_out_comes_back_the_same(ana: Member, cleo: Member, form: str) -> None:
    text = '=cmd|"/c calc"!A1\n\n- one, two; "three"\n'
    until = timezone.now() + timedelta(days=40)
    entry = make_entry(ana, "'=1+1", text, tags=["a b", "c"], is_pinned=True, expires_at=until, kind="policy")
    archive_entry(entry=make_entry(ana, "Old"), by=access(ana))
    file = "".join(export_entries(access(ana), form))

    assert {row.outcome for row in imported(ana, file).rows} == {"same"}
    assert outcomes(imported(cleo, file, form))[0][1] == "imported"
    copy = Entry.objects.get(workspace=cleo.workspace)
    for name in ("topic", "content", "tags", "is_pinned", "expires_at", "kind", "visibility"):
        assert getattr(copy, name) == getattr(entry, name)


def test_a_spreadsheet_finds_no_formula(ana: Member) -> None:
    topics = ("=1+1", "+1", "-1", "@sum", " =1", "\uff1d1")
    for topic in topics:
        make_entry(ana, topic, "x")

    _, *rows = csv.reader(io.StringIO("".join(export_entries(access(ana)))))
    assert len(rows) == len(topics)
    for row in rows:
        assert all(cell[:1] not in "=+-@\uff1d\t\r" or not cell for cell in row)


@settings(deadline=None)
@given(st.text())
def test_the_apostrophe_is_taken_away_again(cell: str) -> None:
    assert unescape_formula(escape_formula(cell)) == cell


@settings(deadline=None)
@given(st.binary(max_size=400), st.sampled_from(["", "csv", "jsonl"]))
def test_no_file_is_more_than_a_problem(raw: bytes, form: str) -> None:
    with contextlib.suppress(Problem):
        assert all(row.why or row.cells for row in read_rows(raw, form))


def test_an_export_holds_only_what_the_asker_may_read(ana: Member, dora: Member) -> None:
    board = make_thread(make_channel(ana, "board", private=True), ana)
    secret = say(board, ana, "Psst")
    pin_result(message=secret, by=access(ana), topic="Board", content="Psst")
    pin_result(message=secret, by=access(ana), topic="Told", content="Everybody may know", visibility="shared")
    make_entry(ana, "Hidden", visibility="restricted")

    mine = [json.loads(line) for line in export_entries(access(ana), "jsonl")]
    hers = [json.loads(line) for line in export_entries(access(dora), "jsonl", statuses=["active"])]

    assert [row["topic"] for row in mine] == ["Board", "Told", "Hidden"]
    assert [(row["topic"], row["source_thread"]) for row in hers] == [("Told", None)]
    assert (mine[1]["source_message"], mine[1]["author"], tuple(mine[0])) == (secret.pk, "ana", COLUMNS)


@pytest.mark.parametrize("column", ["client_id", "owner", "status", "kind", "visibility", "expires_at", "topic"])
@pytest.mark.parametrize("sign", ["\\u0000", "\\ud800"])
def test_a_row_that_cannot_be_kept_is_refused_alone(ana: Member, column: str, sign: str) -> None:
    rows = f'{{"topic": "Roses", "content": "Prune.", "{column}": "a{sign}"}}\n{{"topic": "Hedge", "content": "Cut."}}'
    assert outcomes(imported(ana, rows)) == [(1, "refused"), (2, "imported")]


def test_two_files_at_once_do_not_meet_each_others_limits() -> None:
    read_rows(b"topic,content\nRoses,Prune.\n")
    assert csv.field_size_limit() == MAX_BYTES  # as it stays for one that is read in another thread meanwhile


@pytest.mark.parametrize("status", ["gone", "a\x00b"])
def test_an_unknown_status_is_refused_before_a_line_is_written(ana: Member, status: str) -> None:
    make_entry(ana)
    with pytest.raises(Problem, match="A status is one of proposed, active"):
        export_entries(access(ana), statuses=[status])


def rows_of(many: int) -> str:
    """A third of them suggested, owned by dora or by nobody here."""
    status, owner = ("active", "active", "proposed"), ("dora", "", "nobody")
    cells = [f"Bed {n % 7},Prune rose {n}.,{status[n % 3]},{owner[n % 2]}\n" for n in range(many)]
    return "topic,content,status,owner\n" + "".join(cells)


def test_thirty_rows_cost_as_many_statements_as_three(ana: Member, dora: Member) -> None:
    counts = []
    for many, new in ((3, 3), (30, 27)):
        with CaptureQueriesContext(connection) as queries:
            report = imported(ana, rows_of(many))
        assert (report.count("imported"), report.count("same")) == (new, many - new)
        counts.append(len(queries))

    assert counts[0] == counts[1] <= 15
    assert Revision.objects.filter(entry__workspace=ana.workspace).count() == Entry.objects.count() == 30
    first = Entry.objects.get(content="Prune rose 2.").revisions.get()
    assert (first.action, first.how, first.by, first.changes["owner"]) == (
        "suggested",
        "import",
        ana.participant,
        [None, "dora"],
    )
    assert set(Notice.objects.values_list("participant", "reason")) == {(dora.participant.pk, "proposed")}


def test_rows_of_one_file_meet_each_other_across_chunks(ana: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        '{"topic": "a", "content": "b", "client_id": "k"}\n{"topic": "a", "content": "b"}\n'
        '{"topic": "a", "content": "other", "client_id": "k"}\n{"topic": "a", "content": "c", "kind": "gossip"}\n'
        '{"topic": "a", "content": "c", "visibility": "restricted"}\n{"topic": "a", "content": "c"}\n'
    )
    report = imported(ana, text)

    assert [outcome for _number, outcome in outcomes(report)] == [
        "imported",
        "same",
        "refused",
        "refused",
        "imported",
        "same",
    ]
    first = report.rows[0].entry_id
    assert report.rows[1].entry_id == first
    assert f"Entry {first} has the client_id 'k'" in report.rows[2].why
    monkeypatch.setattr("knowledge.exchange.entry_import.CHUNK_ROWS", 1)
    assert [row.outcome for row in imported(ana, text).rows] == ["same", "same", "refused", "same", "same", "same"]


def test_more_suggestions_than_may_wait_are_refused_row_by_row(ana: Member) -> None:
    rows = "".join(f"Rose {n},Prune it.,proposed\n" for n in range(MAX_PENDING_SUGGESTIONS + 2))
    report = imported(ana, f"topic,content,status\n{rows}Hedge,Cut it.,active\n")

    assert report.summary == "51 imported, 0 there already, 2 refused"
    assert (report.rows[-1].outcome, report.rows[-2].why[:26]) == ("imported", "50 of your suggestions wai")
