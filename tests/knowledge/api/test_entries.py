"""Entries through the API: written, changed by ETag, acted on, and what each kind of caller is told."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Agent
from knowledge.models import Entry, Revision
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.api.client import Api, is_problem
from tests.api.conftest import Enter
from tests.factories import make_agent, make_channel, make_entry, make_suggestion, make_thread, say

PRICES = {"topic": "Prices", "content": "Starter costs $29."}


@pytest.fixture
def api(dora: Member, by_token: Enter) -> Api:
    return by_token(dora.participant)


def test_a_member_writes_reads_and_changes_an_entry(dora: Member, api: Api) -> None:
    api_response = api.post(
        "knowledge/", {**PRICES, "kind": "decision", "tags": ["#Money"], "expires_at": "2099-12-31"}
    )
    row = api_response.json()
    assert (api_response.status_code, api_response["ETag"]) == (201, '"1"')
    assert (row["kind"], row["tags"], row["tokens"], row["status"]) == ("decision", ["money"], 5, "active")
    assert row["expires_at"] == "2100-01-01T00:00:00Z"
    assert row["owner"]["handle"] == row["author"]["handle"] == row["decided_by"]["handle"] == "dora"

    response = api.patch(f"knowledge/{row['id']}/", {"content": "It costs $35.", "note": "Dearer"}, If_Match='"1"')
    assert (response.status_code, response["ETag"], response.json()["content"]) == (200, '"2"', "It costs $35.")
    assert api.get(f"knowledge/{row['id']}/").json() == response.json()

    newest, first = api.get(f"knowledge/{row['id']}/revisions/").json()["results"]
    assert (newest["action"], newest["note"], newest["how"], newest["by"]["handle"]) == (
        "edited",
        "Dearer",
        "api",
        "dora",
    )
    assert newest["changes"] == {"content": ["Starter costs $29.", "It costs $35."]}
    assert first["action"] == "created"


def test_a_change_needs_the_newest_etag(ana: Member, api: Api) -> None:
    entry = make_entry(ana)
    address = f"knowledge/{entry.pk}/"

    assert is_problem(api.patch(address, {"content": "x"}), 428, "if_match_required")
    assert is_problem(api.patch(address, {"content": "x"}, If_Match='"2"'), 412, "stale")
    assert is_problem(api.post(f"{address}renew/", {"expires_at": "90d"}, If_Match='"2"'), 412, "stale")
    assert api.post(f"{address}renew/", {"expires_at": "90d"}).status_code == 200
    assert is_problem(api.patch(address, {"content": "x"}, If_Match='"1"'), 412, "stale")
    assert Revision.objects.filter(entry=entry).count() == 2


def test_handing_over_is_a_change(ana: Member, api: Api) -> None:
    entry = make_entry(ana)
    handed = api.patch(f"knowledge/{entry.pk}/", {"owner": "@dora"}, If_Match='"1"').json()

    assert handed["owner"]["handle"] == "dora"
    assert is_problem(api.patch(f"knowledge/{entry.pk}/", {"owner": "nobody"}, If_Match='"2"'), 400, "bad_owner")


def test_the_same_post_twice_makes_one_entry(api: Api) -> None:
    first = api.post("knowledge/", PRICES, Idempotency_Key="k")
    second_response = api.post("knowledge/", PRICES, Idempotency_Key="k")
    by_client_id = [api.post("knowledge/", {**PRICES, "client_id": "c"}).json()["id"] for _ in range(2)]

    assert (second_response.json(), second_response["Idempotency-Replayed"]) == (first.json(), "true")
    assert by_client_id[0] == by_client_id[1] != first.json()["id"]


def test_a_message_is_pinned(ana: Member, api: Api, thread: Thread) -> None:
    message = say(thread, ana, "Starter costs $29.")
    row = api.post("knowledge/", {**PRICES, "message": message.pk}).json()

    assert (row["source"], row["source_message"], row["source_thread"]) == ("message", message.pk, thread.pk)
    assert row["visibility"] == "shared"


def test_where_it_comes_from_is_told_to_who_may_see_that(ana: Member, api: Api, by_token: Enter) -> None:
    secret = say(make_thread(make_channel(ana, "secret", private=True), ana), ana, "Starter costs $29.")
    body = {**PRICES, "message": secret.pk, "visibility": "shared"}
    row = by_token(ana.participant).post("knowledge/", body).json()
    data = api.get(f"knowledge/{row['id']}/").json()

    assert (row["source_message"], row["source_thread"]) == (secret.pk, secret.thread_id)
    assert (data["source_message"], data["source_thread"]) == (None, None)


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_expiry_is_never(ben: Member, api: Api, empty: str) -> None:
    entry = api.post("knowledge/", {**PRICES, "expires_at": empty}).json()
    api.patch(f"knowledge/{entry['id']}/", {"expires_at": "90d"}, If_Match='"1"')
    renewed = api.post(f"knowledge/{entry['id']}/renew/", {"expires_at": empty}).json()

    assert (entry["expires_at"], renewed["expires_at"]) == (None, None)


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"expires_at": "2020-01-01T00:00:00+02:00"}, "expiry_past", "expires_at"),
        ({"expires_at": "soon"}, "bad_expiry", "expires_at"),
        ({"expires_at": 12}, "bad_expiry", "expires_at"),
        ({"topic": ""}, "empty", "topic"),
        ({"topic": "x" * 121}, "too_long", "topic"),
        ({"content": "many words " * 5_000}, "too_long", "content"),
        ({"content": "nul \x00"}, "bad_characters", "content"),
        ({"tags": ["x"] * 101}, "invalid", "tags"),
        ({"tags": ["x" * 41]}, "bad_tag", "tags"),
        ({"kind": "rumour"}, "invalid", "kind"),
        ({"owner": "ben"}, "bad_owner", "owner"),
    ],
)
def test_what_cannot_be_kept_names_its_field(
    ben: Member, api: Api, body: dict[str, object], code: str, field: str
) -> None:
    answer = api.post("knowledge/", {**PRICES, **body})

    assert is_problem(answer, 400, code)
    assert answer.json()["field"] == field
    assert not Entry.objects.exists()


def test_an_entry_goes_through_its_life(ana: Member, api: Api) -> None:
    entry = make_entry(ana)
    address = f"knowledge/{entry.pk}/"

    flagged = api.post(f"{address}flag/", {"reason": "wrong", "note": "It is $35."}).json()
    assert (flagged["status"], flagged["reason"]) == ("needs_review", "wrong")
    assert flagged["freshness"] == {"state": "needs_review", "words": "needs review: somebody said it was wrong"}
    assert api.post(f"{address}renew/", {"expires_at": "1y"}).json()["status"] == "active"
    assert api.post(f"{address}archive/").json()["status"] == "archived"
    assert api.post(f"{address}restore/").json()["status"] == "active"

    response = api.post(f"{address}supersede/", {"content": "It costs $35."})
    after = response.json()
    assert (response.status_code, after["supersedes"], after["topic"]) == (201, entry.pk, entry.topic)
    before = api.get(address).json()
    assert (before["status"], before["successor"]) == ("superseded", after["id"])
    assert is_problem(api.post(f"{address}supersede/", {"content": "$36."}), 409, "superseded")
    assert is_problem(api.post(f"{address}supersede/", {"successor": entry.pk}), 409, "circle")


def test_a_suggestion_waits_until_people_decide(ana: Member, vibe: Agent, by_token: Enter, api: Api) -> None:
    agent = by_token(vibe.participant)
    response = agent.post("knowledge/suggest/", {**PRICES, "why": "Everybody asks."})
    pk = response.json()["id"]
    assert (response.status_code, response.json()["status"], response.json()["owner"]["handle"]) == (
        201,
        "proposed",
        "ana",
    )
    assert is_problem(agent.get(f"knowledge/{pk}/"), 404, "not_found")
    assert is_problem(agent.post(f"knowledge/{pk}/accept/"), 404, "not_found")
    assert api.get(f"knowledge/{pk}/").json()["reason_note"] == "Everybody asks."

    data = api.post(f"knowledge/{pk}/accept/", {"content": "Starter costs $29 a month."}).json()
    assert (data["status"], data["decided_by"]["handle"]) == ("active", "dora")
    assert is_problem(api.post(f"knowledge/{pk}/reject/"), 409, "decided")


def test_a_rejected_suggestion_is_archived(vibe: Agent, api: Api) -> None:
    pk = make_suggestion(vibe).pk
    assert api.post(f"knowledge/{pk}/reject/", {"note": "Not so."}).json()["status"] == "archived"


@pytest.mark.parametrize("level", [1, 2])
def test_low_levels_are_told_nothing(ana: Member, thread: Thread, by_token: Enter, level: int) -> None:
    entry = make_entry(ana)
    agent = by_token(make_agent(ana, "low", level=level, channel=thread.channel).participant)

    assert agent.get("knowledge/").json()["results"] == []
    assert agent.get("knowledge/search/?q=Starter").json()["results"] == []
    assert agent.post("knowledge/similar/", {"text": "Starter"}).json()["results"] == []
    assert agent.get("knowledge/index/").json()["results"] == []
    for address in ("", "revisions/", "uses/"):
        assert is_problem(agent.get(f"knowledge/{entry.pk}/{address}"), 404, "not_found")


def test_agents_get_what_could_stand_in_their_prompts(ana: Member, vibe: Agent, by_token: Enter) -> None:
    holds, expired, said_wrong = (make_entry(ana, f"Starter {n}", "Starter costs $29.") for n in range(3))
    Entry.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - timedelta(microseconds=1))
    Entry.objects.filter(pk=said_wrong.pk).update(status="needs_review", reason="wrong")
    make_suggestion(vibe, "Starter")
    make_entry(ana, "Starter's margin", "40 %", visibility="restricted")
    agent = by_token(make_agent(ana, "sage", level=3).participant)

    def found(query: str) -> list[int]:
        return [row["entry"]["id"] for row in agent.get(f"knowledge/search/?q=Starter{query}").json()["results"]]

    assert [row["id"] for row in agent.get("knowledge/").json()["results"]] == [holds.pk]
    assert found("") == [holds.pk]
    assert found("&status=proposed") == found("&freshness=expired") == found("&status=needs_review") == []
    assert is_problem(agent.get(f"knowledge/{expired.pk}/"), 404, "not_found")
    assert agent.get("knowledge/index/").json()["results"] == [
        {"kind": "fact", "topics": [{"topic": "Starter 0", "entries": 1}]}
    ]


def test_a_token_needs_the_scope(dora: Member, by_token: Enter) -> None:
    reader = by_token(dora.participant, scopes=("read",))
    writer = by_token(dora.participant, scopes=("write", "knowledge"))

    assert reader.get("knowledge/").status_code == 200
    assert is_problem(reader.post("knowledge/", PRICES), 403, "missing_scope")
    assert is_problem(writer.get("knowledge/"), 403, "missing_scope")
    assert writer.post("knowledge/", PRICES).status_code == 201
