"""Bad input gets an answer: every error is problem+json with a stable code, and never a 5xx."""

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openvibe.asgi import is_stream
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import create_channel, create_reply, finish_reply, start_dive
from openvibe.workspaces.models import Member
from tests import factories
from tests.api.client import Api, is_problem
from tests.api.conftest import Enter
from tests.examples import examples
from tests.factories import access


@pytest.fixture
def api(ana: Member, by_token: Enter) -> Api:
    return by_token(ana.participant)


@pytest.fixture
def messages(thread: Thread) -> str:
    return f"threads/{thread.pk}/messages/"


def test_every_missing_thing_has_the_same_body(api: Api) -> None:
    paths = ["threads/1/", "threads/99999999999999999999999/", "nothing/", "threads/x/", "agents/nobody/", "%00/"]
    answers = [api.get(path) for path in [*paths, "thread", "threads/" + "9" * 5000 + "/", "aé🌱/"]]
    answers += [api.get(path) for path in ("nothing/?limit=1", "threads/x/messages/?limit=1")]

    assert all(is_problem(answer, 404, "not_found") for answer in answers)
    assert len({answer.content for answer in answers}) == 1


def test_methods_and_types(api: Api, messages: str) -> None:
    assert is_problem(api.call("PUT", messages, {}), 405, "method_not_allowed")
    assert is_problem(api.call("OPTIONS", messages), 405, "method_not_allowed")
    assert api.call("PUT", messages, {})["Allow"] == "GET, POST, HEAD"
    form = api.client.post("/api/v1/threads/", {"title": "Hi"}, headers=api.headers)
    assert is_problem(form, 415, "unsupported_media_type")
    assert form.json()["detail"] == "Send one of these as Content-Type: application/json"
    rows = api.client.generic("POST", "/api/v1/knowledge/import/", b"{}", "text/plain", headers=api.headers)
    assert rows.json()["detail"].endswith(
        "application/json, multipart/form-data, text/csv, application/x-ndjson, application/zip"
    )
    assert api.call("HEAD", messages).status_code == 200
    assert api.get(messages, Accept="text/html").status_code == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"nul",
        b"\xff\xfe",
        b'{"body": "\xc3\x28"}',
        b'{"body": "a\x00b"}',
        b'{"body": NaN}',
        b'{"body": 1e999}',
        b"[" * 100_000,
        b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
        b"9" * 10_000,
    ],
)
def test_what_is_not_json(api: Api, messages: str, raw: bytes) -> None:
    assert is_problem(api.post(messages, raw), 400, "bad_json")


@pytest.mark.parametrize("depth", [100, 300, 600, 880, 900, 920])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_what_is_nested_deeper_than_can_be_kept(
    api: Api, messages: str, depth: int, opening: bytes, closing: bytes
) -> None:
    """The depth at which the interpreter's own limit is met depends on who calls: it is a 500 where the body is written
    again."""
    raw = b'{"body": "x", "more": ' + opening * depth + b"1" + closing * depth + b"}"
    assert is_problem(api.post(messages, raw, **{"Idempotency-Key": "k"}), 400, "bad_json")
    raw = b'{"body": "x", "more": ' + opening * 99 + b"1" + closing * 99 + b"}"
    assert is_problem(api.post(messages, raw), 400, "invalid")


@pytest.mark.parametrize("raw", [b"[]", b'"x"', b"1", b"null", b"true"])
def test_what_is_not_an_object(api: Api, messages: str, raw: bytes) -> None:
    assert is_problem(api.post(messages, raw), 400, "invalid")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid"),
        ({"body": ""}, "empty"),
        ({"body": " \n\u200b"}, "empty"),
        ({"body": "a\x00b"}, "bad_characters"),
        ({"body": "a\ud800b"}, "bad_characters"),
        ({"a\ud800b": 1, "body": "x"}, "bad_characters"),
        ({"body": ["x"]}, "invalid"),
        ({"body": {"a": {"b": [1]}}}, "invalid"),
        ({"body": "x" * 1_000_000}, "too_long"),
        ({"body": "🌱" * 100_001}, "too_long"),
        ({"body": "x", "client_id": "y" * 101}, "bad_id"),
        ({"body": "x", "kind": "system"}, "invalid"),
        ({"body": "x", "kind": "tool_call"}, "bad_kind"),
    ],
)
def test_messages_that_cannot_be_kept(api: Api, messages: str, body: dict[str, Any], code: str) -> None:
    assert is_problem(api.post(messages, body), 400, code)
    assert Message.objects.count() == 0


def test_a_body_in_chunks_is_refused_rather_than_taken_for_an_empty_one(api: Api, messages: str) -> None:
    answer = api.client.get(f"/api/v1/{messages}", headers={**api.headers, "Transfer-Encoding": "chunked"})

    assert is_problem(answer, 411, "length_required")


def test_more_than_a_request_holds(api: Api, messages: str) -> None:
    assert is_problem(api.post(messages, {"body": "x" * 3_000_000}), 413, "too_large")


@pytest.mark.parametrize("number", [0, -1, 2**63, 10**400, 1.5, "1e3", True, None, [], "\u0663"])
def test_absurd_numbers(api: Api, number: Any) -> None:
    answer = api.post("threads/", {"channel": number, "title": "Roses"})

    assert answer.status_code in (400, 404)
    assert answer["Content-Type"] == "application/problem+json"
    assert api.post("feedback/", {"message": number, "verdict": "up"}).status_code in (400, 404)


def test_a_number_as_text_is_plain_digits(api: Api, channel: Channel) -> None:
    number = str(channel.pk)
    full_width = "".join(chr(ord(digit) + 0xFEE0) for digit in number)
    texts = [number, full_width, f"{number[0]}_{number}", f"+{number}", f" {number} ", f"{number}.0"]
    answers = [api.post("threads/", {"channel": text, "title": "Roses"}).status_code for text in texts]
    lists = [api.get(f"threads/?channel={quote(text)}").status_code for text in texts]
    assert answers == [201, *[400] * 5]
    assert lists == [200, *[400] * 5]


@pytest.mark.parametrize(
    "query", ["q=%00", "q=", "q=%ff%fe", "q=" + "x" * 2000, "", "q=%ED%A0%80", "q='\"&|!():*<->", "q=-", 'q="', "q=\\"]
)
def test_any_search_is_answered(api: Api, query: str) -> None:
    assert api.get(f"search/?{query}").status_code in (200, 400)


@pytest.mark.parametrize("query", ["after_seq=-1", "after_seq=x", f"before_seq={2**64}", "after_seq=%00"])
def test_places_are_numbers(api: Api, messages: str, query: str) -> None:
    assert is_problem(api.get(f"{messages}?{query}"), 400, "invalid")


def test_a_validation_problem_names_every_field(api: Api, thread: Thread) -> None:
    body = api.post("feedback/", {"verdict": "maybe", "tags": ["x"]}).json()

    assert {error["field"] for error in body["errors"]} == {"message", "verdict", "tags.0"}
    assert body["field"] in {"message", "verdict", "tags.0"}
    assert all(error["message"] for error in body["errors"])


@pytest.mark.parametrize("path", ["runs/?state=bogus", "knowledge/?status=bogus"])
def test_what_is_none_of_a_few_values_is_told_which_they_are(api: Api, path: str) -> None:
    answer = api.get(path)
    assert is_problem(answer, 400, "invalid")
    assert '"bogus" is not one of: ' in answer.json()["errors"][0]["message"]


def test_a_conflict_names_its_field(api: Api, ana: Member) -> None:
    create_channel(by=factories.access(ana), name="roses")

    answer = api.post("channels/", {"name": "Roses"})
    assert is_problem(answer, 409, "conflict")
    assert answer.json()["field"] == "name"


def test_an_edit_on_an_old_text_is_refused_and_changes_nothing(api: Api, ana: Member, thread: Thread) -> None:
    message = factories.say(thread, ana, "First")
    ours = {"body": "Second", "based_on": "First"}

    assert api.patch(f"messages/{message.pk}/", ours).status_code == 200
    assert is_problem(api.patch(f"messages/{message.pk}/", {**ours, "body": "Third"}), 409, "stale")
    assert api.get(f"messages/{message.pk}/").json()["body"] == "Second"


def test_our_own_fault_tells_no_details(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("openvibe.chat.api.views.request_access", broken)
    api.client.raise_request_exception = False
    answer = api.get("channels/")

    assert is_problem(answer, 500, "internal")
    assert b"secret detail" not in answer.content


def test_every_answer_has_a_request_id(api: Api) -> None:
    assert api.get("me/", X_Request_ID="abc-1")["X-Request-ID"] == "abc-1"
    assert api.get("nothing/")["X-Request-ID"]


TEXT = st.text(st.characters(codec=None), max_size=50) | st.sampled_from(["\x00", "\ud800", "x" * 5000, "@vibe", "💥"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "body",
    "title",
    "name",
    "channel",
    "thread",
    "task",
    "budget",
    "message",
    "verdict",
    "text",
    "tags",
    "scopes",
    "days",
    "client_id",
    "kind",
    "call_id",
    "access",
    "allowed_agents",
    "agent",
    "request",
    "model",
    "source",
    "note",
    "is_private",
    "description",
)


@settings(
    max_examples=examples(150),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    body=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8),
    path=st.sampled_from(["messages", "channels/", "threads/", "tokens/", "feedback/", "context/assemble/"]),
)
def test_no_body_breaks_anything(api: Api, messages: str, body: dict[str, Any], path: str) -> None:
    answer = api.post(messages if path == "messages" else path, body)

    assert answer.status_code < 500, answer.content
    assert answer.status_code < 300 or answer["Content-Type"] == "application/problem+json"


def test_an_address_without_its_last_slash_is_the_same(api: Api, channel: Channel) -> None:
    body = {"channel": channel.pk, "title": "Roses"}
    first, again = (api.post(path, body, Idempotency_Key="roses") for path in ("threads", "threads/"))

    assert (first.status_code, again["Idempotency-Replayed"], again.json()) == (201, "true", first.json())
    assert api.get(f"threads/{first.json()['id']}?workspace=").json()["title"] == "Roses"
    assert is_problem(api.get("nothing"), 404, "not_found")
    assert is_stream("/api/v1/events")


@pytest.mark.parametrize(
    ("method", "path", "body", "name"),
    [
        ("PATCH", "threads/{thread}/", {"following_agents": ["vibe"]}, "following_agents"),
        ("POST", "threads/", {"channel": 1, "title": "New", "body": "Hello"}, "body"),
        ("POST", "knowledge/suggest/", {"topic": "A", "content": "B", "<b>" * 99: 1}, ("<b>" * 99)[:80]),
        ("GET", "threads/?chanel=1", None, "chanel"),
        ("GET", "knowledge/?freshnes=expired", None, "freshnes"),
        ("POST", "blocks/?agnt=vibe", {"label": "new"}, "agnt"),
        ("GET", "memory/stats/?thread={thread}&limit=3", None, "limit"),
    ],
)
def test_nothing_unknown_is_ignored(
    ana: Member, thread: Thread, by_token: Enter, method: str, path: str, body: Any, name: str
) -> None:
    answer = by_token(ana.participant).call(method, path.format(thread=thread.pk), body)

    assert is_problem(answer, 400, "invalid")
    code = "unknown_parameter" if "?" in path else "unknown_field"
    assert [(error["field"], error["code"]) for error in answer.json()["errors"]] == [(name, code)]


def test_what_cannot_be_seen_is_no_text_where_none_is_wanted(
    api: Api, ana: Member, thread: Thread, by_token: Enter
) -> None:
    vibe = factories.make_agent(ana, "vibe", channel=thread.channel)
    reply = create_reply(thread=thread, author=vibe.participant, client_id="r")
    finish_reply(reply=reply, body="In March.", state=Message.State.COMPLETE)
    dive = start_dive(source=reply, by=access(ana), agent=vibe.participant)
    entry, blank = factories.make_entry(ana, "Roses").pk, "\u200b\u3164"
    result = {"headline": "Prune", "bullets": ["a", "b", "c", blank], "body": blank, "questions": [blank]}
    calls: dict[str, dict[str, Any]] = {
        "dives/": {"message": reply.pk, "agent": "vibe", "body": blank},
        "channels/": {"name": "beds", "description": blank},
        "feedback/": {"message": reply.pk, "verdict": "up", "text": blank},
        f"knowledge/{entry}/archive/": {"note": blank},
        f"dives/{dive.pk}/publish/": result,
    }
    answers = {path: api.post(path, body) for path, body in calls.items()}
    approval = {"thread": thread.pk, "what": "Order mulch", "reason": blank}
    answers["approvals/"] = by_token(vibe.participant).post("approvals/", approval)
    assert {path: answer.status_code for path, answer in answers.items() if answer.status_code >= 300} == {}
    assert answers["channels/"].json()["description"] == answers["approvals/"].json()["reason"] == ""


def test_errors_of_a_service_name_the_field_as_the_caller_knows_it(ana: Member, by_token: Enter) -> None:
    for headers in ({}, {"Idempotency_Key": "once"}):
        answer = by_token(ana.participant).post("snippets/", {"name": "tone", "content": "@include tone"}, **headers)

        assert is_problem(answer, 400, "include_cycle")
        assert answer.json()["field"] == "content"
