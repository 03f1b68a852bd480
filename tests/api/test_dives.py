"""Dives through the API: from a message to a result, and what is refused on the way."""

from typing import Any

import pytest

from agents.models import Agent, Run
from openvibe.chat.models import Dive, Message, Thread
from openvibe.workspaces.models import Member
from tests import factories
from tests.api.client import Api, is_problem
from tests.api.conftest import Enter

RESULT = {
    "headline": "Prune roses in March",
    "bullets": ["Before the buds open", "With clean shears", "Climbers after they flower"],
    "body": "Ana said so.",
    "questions": ["Who has the ladder?"],
}


@pytest.fixture
def api(ana: Member, by_token: Enter) -> Api:
    return by_token(ana.participant)


@pytest.fixture
def started(api: Api, ana: Member, vibe: Agent, thread: Thread) -> dict[str, Any]:
    message = factories.say(thread, ana, "When do we prune?")
    answer = api.post("dives/", {"message": message.pk, "agent": "@Vibe"})
    assert answer.status_code == 201, answer.content
    data: dict[str, Any] = answer.json()
    return data


def test_from_a_message_to_a_result(api: Api, ana: Member, thread: Thread, started: dict[str, Any]) -> None:
    assert (started["parent"], started["agent"]["handle"], started["state"]) == (thread.pk, "vibe", "active")
    api_response = api.post(f"threads/{started['thread']}/messages/", {"body": "Why in March?"})
    assert (api_response.status_code, Run.objects.get().task) == (201, "dive")
    Run.objects.update(state="done")

    response = api.post(f"dives/{started['id']}/draft/")
    assert (response.status_code, response.json()["kind"]) == (202, "system")
    drafted = api.get(f"dives/{started['id']}/draft/").json()
    assert drafted == {"asked": response.json()["seq"], "draft": None, "is_picked": False}
    Run.objects.update(state="done")

    published = api.post(f"dives/{started['id']}/publish/", RESULT)
    assert published.status_code == 201
    result = published.json()["result"]
    assert (result["headline"], result["published_by"]["handle"]) == (RESULT["headline"], "ana")
    assert api.get(f"messages/{result['message']}/").json()["kind"] == "dive_result"
    assert api.get(f"dives/{started['id']}/").json() == published.json()


def test_the_agent_s_draft_comes_in_its_parts(api: Api, vibe: Agent, by_token: Enter, started: dict[str, Any]) -> None:
    Agent.objects.update(answers_itself=True)
    api.post(f"dives/{started['id']}/draft/")
    text = "## Headline\nMarch\n## Key points\n- One\n- Two\n- Three\n## Full text\nAll of it"
    response = by_token(vibe.participant).post(f"threads/{started['thread']}/messages/", {"body": text})
    assert response.status_code == 201

    assert api.get(f"dives/{started['id']}/draft/").json()["draft"] == {
        "headline": "March",
        "bullets": ["One", "Two", "Three"],
        "body": "All of it",
        "deferred": [],
        "questions": [],
    }


def test_the_same_key_starts_and_publishes_once(api: Api, ana: Member, vibe: Agent, thread: Thread) -> None:
    message = factories.say(thread, ana, "When do we prune?")
    starting = {"message": message.pk, "agent": "vibe", "body": "Tell me"}
    dives = [api.post("dives/", starting, Idempotency_Key="start").json()["id"] for _ in range(2)]
    assert dives[0] == dives[1]
    Run.objects.update(state="done")

    answers = [api.post(f"dives/{dives[0]}/publish/", RESULT, Idempotency_Key="end") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert Message.objects.filter(kind="dive_result").count() == 1
    assert is_problem(api.post(f"dives/{dives[0]}/publish/", RESULT), 409, "already_published")


def test_the_sender_s_own_key_does_too(api: Api, ana: Member, vibe: Agent, thread: Thread) -> None:
    message = factories.say(thread, ana, "When do we prune?")
    for _ in range(2):
        api.post("dives/", {"message": message.pk, "agent": "vibe", "client_id": "mine"})
    assert Dive.objects.count() == 1


def test_threads_leave_dives_out_until_asked_for_them(api: Api, thread: Thread, started: dict[str, Any]) -> None:
    def listed(query: str) -> list[int]:
        return [row["id"] for row in api.get(f"threads/{query}").json()["results"]]

    assert listed("") == [thread.pk]
    assert listed(f"?parent={thread.pk}") == [started["thread"]]
    assert api.get(f"threads/{started['thread']}/").json()["parent"] == thread.pk


def test_dives_of_one_thread_or_one_state(api: Api, ana: Member, thread: Thread, started: dict[str, Any]) -> None:
    other = factories.make_thread(thread.channel, ana, "Other")

    def listed(query: str) -> list[int]:
        return [row["id"] for row in api.get(f"dives/?{query}").json()["results"]]

    assert listed(f"thread={thread.pk}&state=active") == [started["id"]]
    assert listed(f"thread={other.pk}") == listed("state=published") == []
    assert is_problem(api.get("dives/?state=over"), 400, "invalid")


@pytest.mark.parametrize(
    ("wrong", "field", "code"),
    [
        ({"headline": ""}, "headline", "empty"),
        ({"headline": "x" * 121}, "headline", "too_long"),
        ({"headline": None}, "headline", "invalid"),
        ({"bullets": ["One", "Two"]}, "bullets", "bad_bullets"),
        ({"bullets": ["One"] * 6}, "bullets", "bad_bullets"),
        ({"bullets": "One"}, "bullets", "invalid"),
        ({"bullets": ["One"] * 101}, "bullets", "invalid"),
        ({"body": "x" * 100_001}, "body", "too_long"),
        ({"deferred": ["a", "b", "c"]}, "deferred", "too_many"),
        ({"questions": ["a", "b", "c"]}, "questions", "too_many"),
    ],
)
def test_a_result_that_is_wrong_names_the_part(
    api: Api, started: dict[str, Any], wrong: dict[str, object], field: str, code: str
) -> None:
    answer = api.post(f"dives/{started['id']}/publish/", {**RESULT, **wrong})
    assert is_problem(answer, 400, code)
    assert answer.json()["field"].startswith(field)
    assert Dive.objects.get().is_active


def test_text_that_cannot_be_kept_is_refused(api: Api, started: dict[str, Any]) -> None:
    for wrong in ({"body": "a\x00b"}, {"headline": "\x00"}, {"bullets": ["One", "Two", "\x00"]}):
        assert api.post(f"dives/{started['id']}/publish/", {**RESULT, **wrong}).status_code == 400
    assert api.post(f"dives/{started['id']}/publish/", {**RESULT, "body": "x" * 10_000_000}).status_code in (400, 413)
    assert Dive.objects.get().is_active


@pytest.mark.parametrize("agent", ["nobody", "dora", "", "@" * 41])
def test_an_agent_that_is_none_is_named(api: Api, ana: Member, dora: Member, thread: Thread, agent: str) -> None:
    message = factories.say(thread, ana, "When do we prune?")
    answer = api.post("dives/", {"message": message.pk, "agent": agent})
    assert (answer.status_code, answer.json()["field"]) == (400, "agent")


def test_a_dive_is_not_changed_as_a_thread(api: Api, started: dict[str, Any]) -> None:
    for change in ({"title": "Mine"}, {"archived": True}, {"access": "human_only"}):
        assert is_problem(api.patch(f"threads/{started['thread']}/", change), 403, "is_dive")


def test_discarding_twice_is_once(api: Api, started: dict[str, Any]) -> None:
    assert started["ended_by"] is None
    answers = [api.post(f"dives/{started['id']}/discard/").json() for _ in range(2)]
    assert [(dive["state"], dive["ended_by"]["handle"]) for dive in answers] == [("discarded", "ana")] * 2


def test_another_member_watches(by_token: Enter, dora: Member, started: dict[str, Any]) -> None:
    dora_s = by_token(dora.participant)
    assert dora_s.get(f"dives/{started['id']}/").json() == started
    refused = dora_s.post(f"threads/{started['thread']}/messages/", {"body": "May I?"})
    assert is_problem(refused, 403, "not_your_dive")
