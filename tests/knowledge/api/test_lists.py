"""Finding entries through the API: filters, search, similar ones, the index, contradictions, files."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from knowledge.models import Entry
from knowledge.services import archive_entry
from openvibe.workspaces.models import Member
from tests.api.client import ROOT, Api, is_problem
from tests.api.conftest import Enter
from tests.factories import access, make_agent, make_entry
from tests.knowledge.factories import ContradictionFactory


@pytest.fixture
def api(dora: Member, by_token: Enter) -> Api:
    return by_token(dora.participant)


def topics(api: Api, query: str) -> list[str]:
    return [row["topic"] for row in api.get(f"knowledge/?{query}").json()["results"]]


def test_filters_narrow_the_list(ana: Member, dora: Member, api: Api) -> None:
    make_entry(ana, "Prices", kind="decision", tags=["hard money"])
    make_entry(dora, "Roses", expires_at=timezone.now() + timedelta(days=3))
    old = make_entry(ana, "Wages")
    Entry.objects.filter(pk=old.pk).update(expires_at=timezone.now())

    assert topics(api, "") == ["Wages", "Roses", "Prices"]
    assert topics(api, "topic=prices") == topics(api, "tag=Hard++Money") == topics(api, "kind=decision") == ["Prices"]
    assert topics(api, "owner=@dora") == topics(api, "freshness=expiring") == ["Roses"]
    assert topics(api, "freshness=expired") == ["Wages"]
    assert topics(api, "freshness=fresh&owner=ana") == ["Prices"]
    assert topics(api, "source=import") == topics(api, "owner=nobody") == topics(api, "status=proposed") == []


@pytest.mark.parametrize("query", ["status=gone", "freshness=stale", "topic=%00", f"topic={'x' * 121}", "kind=rumour"])
def test_a_filter_that_cannot_be_is_refused(api: Api, query: str) -> None:
    assert is_problem(api.get(f"knowledge/?{query}"), 400, "invalid")


def test_search_is_within_a_number_and_a_budget(ana: Member, api: Api) -> None:
    for n in range(4):
        make_entry(ana, f"Prices {n}", "Starter costs $29 a month.")
    make_entry(ana, "Roses", "They like sun.")

    data = api.get("knowledge/search/?q=What+does+Starter+cost").json()
    assert {row["entry"]["topic"] for row in data["results"]} == {f"Prices {n}" for n in range(4)}
    assert data["tokens"] == sum(row["entry"]["tokens"] for row in data["results"])
    assert data["by_words"]
    assert len(api.get("knowledge/search/?q=Starter&limit=2").json()["results"]) == 2
    assert api.get("knowledge/search/?q=Starter&budget=20").json()["tokens"] <= 20
    assert len(api.get("knowledge/search/?q=Starter&topic=prices+1").json()["results"]) == 1
    assert api.get("knowledge/search/?q=Starter&owner=nobody").json()["results"] == []


def test_near_copies_are_one_result_that_names_the_others(ana: Member, api: Api) -> None:
    for n in range(3):
        make_entry(ana, "Prices", f"Starter costs $29 a month for as many seats as there are in the company. ({n})")

    (result,) = api.get("knowledge/search/?q=What+does+Starter+cost").json()["results"]
    ids = {result["entry"]["id"], *(copy["id"] for copy in result["near_copies"])}
    assert ids == set(Entry.objects.values_list("pk", flat=True))
    assert [copy["topic"] for copy in result["near_copies"]] == ["Prices", "Prices"]
    assert api.get("knowledge/search/?q=xqzv+blorp").json()["results"] == []


@pytest.mark.parametrize("query", ["%22", "%25_%27", "%26%7C%21", "%F0%9F%8C%B1", "a" * 10_000])
def test_any_text_can_be_searched_for(ana: Member, api: Api, query: str) -> None:
    make_entry(ana)
    assert api.get(f"knowledge/search/?q={query}").status_code == 200


@pytest.mark.parametrize("query", ["", "q=", "q=%00", f"q={'a' * 10_001}", "q=x&limit=0", "q=x&budget=-1"])
def test_a_search_that_cannot_be_is_refused(api: Api, query: str) -> None:
    assert is_problem(api.get(f"knowledge/search/?{query}"), 400, "invalid")


def test_similar_entries_of_a_text_not_written_yet(ana: Member, api: Api) -> None:
    first, second = make_entry(ana), make_entry(ana, "Starter", "Starter costs $35 a month.")
    make_entry(ana, "Roses", "They like sun.")

    def similar(**more: object) -> set[int]:
        answer = api.post("knowledge/similar/", {"text": "Starter costs $39 a month.", **more}).json()
        return {row["entry"]["id"] for row in answer["results"]}

    assert {first.pk, second.pk} <= similar()
    assert first.pk not in similar(without=first.pk)
    assert len(similar(limit=1)) == 1


def test_the_index_names_topics_by_kind(ana: Member, api: Api) -> None:
    for topic, kind in (("Roses", "runbook"), ("Roses", "runbook"), ("Prices", "decision"), ("Slugs", "gap")):
        make_entry(ana, topic, kind=kind)

    index = api.get("knowledge/index/").json()

    assert index == {
        "results": [
            {"kind": "decision", "topics": [{"topic": "Prices", "entries": 1}]},
            {"kind": "gap", "topics": [{"topic": "Slugs", "entries": 1}]},
            {"kind": "runbook", "topics": [{"topic": "Roses", "entries": 2}]},
        ],
        "is_whole": True,
    }


def test_a_contradiction_is_settled(ana: Member, api: Api, by_token: Enter) -> None:
    first, second = make_entry(ana, content="It is $29."), make_entry(ana, content="It is $35.")
    pair = ContradictionFactory.create(
        workspace=ana.workspace, first=first, second=second, first_version=1, second_version=1, why="$29, $35"
    )
    (listed,) = api.get("knowledge/contradictions/").json()["results"]
    assert (listed["first"], listed["second"], listed["settled_at"]) == (first.pk, second.pk, None)

    address = f"knowledge/contradictions/{pair.pk}/settle/"
    assert is_problem(api.post(address, {"how": "superseded"}), 400, "bad_settlement")
    data = api.post(address, {"how": "superseded", "keep": second.pk}).json()
    assert (data["settled_how"], data["settled_by"]["handle"]) == ("superseded", "dora")

    assert api.get("knowledge/contradictions/").json()["results"] == []
    assert len(api.get("knowledge/contradictions/?settled=true").json()["results"]) == 1
    first.refresh_from_db()
    assert first.status == "superseded"


def test_a_pair_is_for_who_may_read_both(ana: Member, api: Api, by_token: Enter) -> None:
    first, second = make_entry(ana), make_entry(ana, visibility="restricted")
    ContradictionFactory.create(
        workspace=ana.workspace, first=first, second=second, first_version=1, second_version=1, why="$29, $35"
    )
    assert api.get("knowledge/contradictions/").json()["results"] == []
    assert len(by_token(ana.participant).get("knowledge/contradictions/").json()["results"]) == 1


def sent(api: Api, raw: bytes, kind: str) -> object:
    return api.client.generic("POST", f"{ROOT}knowledge/import/", raw, content_type=kind, headers=api.headers)


def test_what_goes_out_as_a_file_comes_in_again(ana: Member, api: Api, by_token: Enter, cleo: Member) -> None:
    make_entry(ana, "Prices", '=cmd, "quoted"\nand more', tags=["money"])
    make_entry(ana, "Wages", visibility="restricted")
    answer = api.get("knowledge/export/")
    raw = b"".join(answer.streaming_content)
    there = by_token(cleo.participant)

    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert b"Wages" not in raw
    report = sent(there, raw, "text/csv").json()  # type: ignore[attr-defined]  # the client adds json
    assert report["summary"].startswith("1 imported")
    entry = Entry.objects.get(pk=report["rows"][0]["entry"])
    assert (entry.content, entry.tags, entry.workspace) == ('=cmd, "quoted"\nand more', ["money"], cleo.workspace)
    second_data = sent(there, raw, "text/csv").json()  # type: ignore[attr-defined]  # the client adds json
    assert [row["outcome"] for row in second_data["rows"]] == ["same"]


def test_rows_are_reported_one_by_one(api: Api) -> None:
    rows = [{"topic": "Prices", "content": "$29"}, {"topic": "", "content": "x"}, {"topic": "Prices", "content": "$29"}]
    raw = "\n".join(json.dumps(row) for row in rows)
    as_body = sent(api, raw.encode(), "application/x-ndjson").json()  # type: ignore[attr-defined]  # the client adds json
    as_json = api.post("knowledge/import/", {"form": "jsonl", "text": raw}).json()

    assert [(row["number"], row["outcome"]) for row in as_body["rows"]] == [
        (1, "imported"),
        (2, "refused"),
        (3, "same"),
    ]
    assert as_body["rows"][1]["why"] == "An entry needs a topic."
    assert [row["outcome"] for row in as_json["rows"]] == ["same", "refused", "same"]


def test_a_file_may_come_as_a_form(api: Api) -> None:
    def send(name: str, raw: bytes, **more: str) -> Any:
        data = {"file": SimpleUploadedFile(name, raw), **more}
        return api.client.post(f"{ROOT}knowledge/import/", data, headers=api.headers)

    outcomes = [row["outcome"] for row in send("a.csv", b"topic,content\nPrices,$29\n").json()["rows"]]
    assert outcomes == ["imported"]
    assert send("notes.md", b"# Wages\n\nPaid on Fridays.\n").json()["summary"].startswith("1 imported")
    assert is_problem(send("a.csv", b""), 400, "empty")
    assert is_problem(send("a.csv", b"topic", form="word"), 400, "invalid")
    assert is_problem(api.client.post(f"{ROOT}knowledge/import/", {"form": "csv"}, headers=api.headers), 400, "invalid")
    assert is_problem(send("a.csv", b"x" * (10 * 1024 * 1024 + 1)), 413, "too_large")
    assert Entry.objects.count() == 2


def test_a_file_that_cannot_be_read_imports_nothing(api: Api) -> None:
    assert sent(api, b"topic,content\nPrices,\xff\xfe", "text/csv").status_code == 400  # type: ignore[attr-defined]  # the client adds json
    for kind in ("text/csv", "application/x-ndjson; charset=utf-8"):
        assert is_problem(sent(api, b"", kind), 400, "empty")
    assert sent(api, b"x" * (10 * 1024 * 1024 + 1), "text/csv").status_code == 413  # type: ignore[attr-defined]  # the client adds json
    assert sent(api, b"<xml/>", "text/xml").status_code == 415  # type: ignore[attr-defined]  # the client adds json
    assert not Entry.objects.exists()


def test_a_file_sent_twice_under_one_key_is_read_once(api: Api) -> None:
    headers = {**api.headers, "Idempotency-Key": "k"}
    first, again = (
        api.client.generic(
            "POST", f"{ROOT}knowledge/import/", b"topic,content\nPr,$1\n", content_type="text/csv", headers=headers
        )
        for _ in range(2)
    )
    assert (again.content, again["Idempotency-Replayed"]) == (first.content, "true")


def test_an_agent_does_not_learn_that_something_is_archived(ana: Member, by_token: Enter) -> None:
    archive_entry(entry=make_entry(ana, "Merger", "The merger is coming."), by=access(ana))
    query = "knowledge/search/?q=merger&status=archived"

    assert by_token(ana.participant).get(query).json()["by_words"]
    answer = by_token(make_agent(ana, "fern", level=3).participant).get(query).json()
    assert (answer["results"], answer["by_words"], answer["by_vectors"]) == ([], False, False)
