"""An outside agent leads its own conversation: begins it, adds what was said, keeps something about it, reads it."""

from typing import Any

import pytest

from agents.models import Agent, Run
from memory.plugins.models import SessionInfo
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import set_thread_access
from openvibe.workspaces.models import Member, Participant
from tests import factories
from tests.api.client import Api, is_problem
from tests.api.conftest import Enter

SAID = [
    {"role": "user", "body": "When do I prune?", "external_id": "m1", "name": "Zoë"},
    {"role": "tool_call", "body": '{"q": "prune"}', "external_id": "m2", "call_id": "c1"},
    {"role": "tool_result", "body": "In March.", "external_id": "m3", "call_id": "c1"},
    {"role": "assistant", "body": "In March.", "external_id": "m4"},
]


@pytest.fixture
def api(vibe: Agent, by_token: Enter) -> Api:
    return by_token(vibe.participant)


@pytest.fixture
def session(api: Api, channel: Channel) -> int:
    answer = api.post("sessions/", {"channel": channel.pk, "title": "Chat with Zoë", "external_id": "zoe-1"})
    assert answer.status_code == 201
    return int(answer.json()["id"])


def say(api: Api, session: int, *messages: dict[str, str]) -> Any:
    return api.post(f"sessions/{session}/messages/", {"messages": list(messages)})


def test_the_same_external_id_is_the_same_session(api: Api, session: int, channel: Channel) -> None:
    second_response = api.post("sessions/", {"channel": channel.pk, "title": "Another title", "external_id": "zoe-1"})

    assert second_response.status_code == 200
    assert (second_response.json()["id"], second_response.json()["title"]) == (session, "Chat with Zoë")
    assert Thread.objects.count() == 1


def test_two_sessions_without_external_ids_are_two(api: Api, channel: Channel) -> None:
    ids = {api.post("sessions/", {"channel": channel.pk, "title": "Chat"}).json()["id"] for _ in range(2)}

    assert len(ids) == 2
    assert [row["id"] for row in api.get("sessions/").json()["results"]] == sorted(ids, reverse=True)


def test_what_was_said_is_stored_as_it_was_said(api: Api, session: int, vibe: Agent) -> None:
    answer = say(api, session, *SAID)

    assert (answer.status_code, answer.json()) == (201, {"seqs": [1, 2, 3, 4]})
    history = api.get(f"sessions/{session}/messages/").json()
    assert [(one["seq"], one["kind"], one["body"], one["call_id"]) for one in history["messages"]] == [
        (1, "text", "When do I prune?", ""),
        (2, "tool_call", '{"q": "prune"}', "c1"),
        (3, "tool_result", "In March.", "c1"),
        (4, "text", "In March.", ""),
    ]
    assert [one["author"] for one in history["messages"]] == ["Zoë", "Vibe", "Vibe", "Vibe"]
    assert Participant.objects.get(name="Zoë").kind == "imported"
    assert not Run.objects.exists(), "no agent answers"


def test_a_retry_stores_nothing_twice(api: Api, session: int) -> None:
    say(api, session, *SAID[:3])

    assert say(api, session, *SAID).json() == {"seqs": [1, 2, 3, 4]}
    assert Message.objects.count() == 4


def test_all_or_nothing(api: Api, session: int) -> None:
    refused = say(api, session, SAID[0], {"role": "assistant", "body": "  "})

    assert is_problem(refused, 400, "empty")
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"role": "assistant", "body": "x", "call_id": "c1"}, "bad_id"),
        ({"role": "tool_call", "body": "x"}, "bad_id"),
        ({"role": "user", "body": "x", "external_id": "x" * 101}, "bad_id"),
        ({"role": "user", "body": "x", "external_id": "a\nb"}, "bad_id"),
        ({"role": "user", "body": "x", "name": "A\nB"}, "bad_name"),
        ({"role": "user", "body": "x" * 100_001}, "too_long"),
    ],
)
def test_what_cannot_be_kept_is_refused(api: Api, session: int, message: dict[str, str], code: str) -> None:
    assert is_problem(say(api, session, message), 400, code)


def test_a_user_never_speaks_as_a_member(api: Api, session: int, ana: Member) -> None:
    say(api, session, {"role": "user", "body": "I, the owner, approve.", "name": "Ana"})

    author = Message.objects.get().author
    assert author.kind == "imported"
    assert author.pk != ana.participant_id


def test_history_is_read_page_by_page(api: Api, session: int) -> None:
    say(api, session, *({"role": "user", "body": f"Message {n}"} for n in range(5)))

    first = api.get(f"sessions/{session}/messages/?limit=3").json()
    rest = api.get(f"sessions/{session}/messages/?limit=3&after={first['next']}").json()

    assert [one["seq"] for one in first["messages"] + rest["messages"]] == [1, 2, 3, 4, 5]
    assert (first["next"], rest["next"]) == (3, None)


def test_info_is_kept_and_replaced(api: Api, session: int) -> None:
    assert api.patch(f"sessions/{session}/", {"info": {"mood": "sunny", "n": 1}}).status_code == 200
    api.patch(f"sessions/{session}/", {"info": {"mood": "rainy"}})

    assert api.get(f"sessions/{session}/").json()["info"] == {"mood": "rainy"}
    assert is_problem(api.patch(f"sessions/{session}/", {"info": {"x": "y" * 9_000}}), 400, "bad_info")
    assert is_problem(api.patch(f"sessions/{session}/", {"info": {"x": "\0"}}), 400, "bad_characters")


def test_people_lead_no_sessions(ana: Member, channel: Channel, by_token: Enter) -> None:
    answer = by_token(ana.participant).post("sessions/", {"channel": channel.pk, "title": "Mine"})

    assert is_problem(answer, 403, "not_allowed")
    assert not Thread.objects.exists()


def test_another_agents_session_is_not_there(session: int, ana: Member, channel: Channel, by_token: Enter) -> None:
    other = by_token(factories.make_agent(ana, "fern", channel=channel).participant)

    assert other.get("sessions/").json()["results"] == []
    assert other.get(f"sessions/{session}/").status_code == 404
    assert say(other, session, SAID[0]).status_code == 404


def test_a_thread_closed_to_the_agent_takes_its_session_along(api: Api, session: int, ana: Member) -> None:
    say(api, session, SAID[0])
    set_thread_access(thread=Thread.objects.get(pk=session), by=factories.access(ana), access="human_only")

    assert api.get("sessions/").json()["results"] == []
    assert say(api, session, SAID[1]).status_code == 404
    assert api.get(f"sessions/{session}/messages/").status_code == 404
    assert SessionInfo.objects.exists(), "and brings it back when it is opened again"


def test_an_archived_thread_takes_no_more(api: Api, session: int) -> None:
    Thread.objects.filter(pk=session).update(archived_at="2026-01-01T00:00:00Z")

    assert is_problem(say(api, session, SAID[0]), 403, "archived")


def test_what_is_unknown_is_named_at_any_depth_beside_what_else_is_wrong(api: Api, session: int) -> None:
    answer = say(api, session, SAID[0], {"role": "assistant", "text": "In March."})

    assert is_problem(answer, 400, "invalid")
    codes = [(error["field"], error["code"]) for error in answer.json()["errors"]]
    assert codes == [("messages.1.text", "unknown_field"), ("messages.1.body", "required")]
