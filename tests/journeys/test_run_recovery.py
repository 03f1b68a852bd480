"""A mention is answered exactly once, whatever dies meanwhile. Through the API of a served installation."""

import urllib.error
from typing import Any

import pytest

from tests.journeys.installation import Installation
from tests.operations.processes import wait_until

API_PAUSE = 0.25
"""Seconds between two calls with one token, which may make 600 a minute."""


def ask(installation: Installation, token: str, body: str) -> tuple[int, int]:
    """Ana asks in a new thread of #general; the ids of thread and message."""
    channels = installation.api("GET", "channels/", token)["results"]
    general = next(channel["id"] for channel in channels if channel["name"] == "general")
    thread = installation.api("POST", "threads/", token, {"channel": general, "title": body[:40]})
    message = installation.api("POST", f"threads/{thread['id']}/messages/", token, {"body": body})
    return thread["id"], message["id"]


def messages(installation: Installation, token: str, thread: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = installation.api("GET", f"threads/{thread}/messages/", token)["results"]
    return rows


def answered(installation: Installation, token: str, thread: int, text: str) -> bool:
    said = [m["body"] for m in messages(installation, token, thread)]
    return text in said


def test_a_killed_worker_is_picked_up_and_answers_once(installation: Installation) -> None:
    token = installation.token("ana")
    go_on = installation.model.holds_back_after_first_words("Half an answer")
    asked_before = len(installation.model.asked)
    thread, _ = ask(installation, token, "@vibe will you survive?")
    wait_until(lambda: len(installation.model.asked) > asked_before, "the worker asks the model")
    installation.model.says("I did.")
    installation.kill("worker")
    go_on.set()
    wait_until(lambda: answered(installation, token, thread, "I did."), "the answer", pause=API_PAUSE)
    assert [m["body"] for m in messages(installation, token, thread)] == ["@vibe will you survive?", "I did."]


def test_five_identical_posts_are_one_message_and_one_answer(installation: Installation) -> None:
    token = installation.token("ana")
    installation.model.says("Once.")
    thread, _ = ask(installation, token, "Hello everybody")
    for _ in range(5):
        installation.api("POST", f"threads/{thread}/messages/", token, {"body": "@vibe hello", "client_id": "the-same"})
    wait_until(lambda: answered(installation, token, thread, "Once."), "the answer", pause=API_PAUSE)
    assert len(messages(installation, token, thread)) == 3


def test_a_revoked_token_is_refused_at_its_next_call(installation: Installation) -> None:
    token = installation.token("ana")
    installation.api("GET", "me/", token)
    installation.shell(
        "from openvibe.api.models import Token\nfrom django.utils import timezone\n"
        f"Token.objects.filter(token_hash=Token.digest({token!r})).update(revoked_at=timezone.now())"
    )
    with pytest.raises(urllib.error.HTTPError) as error:
        installation.api("GET", "me/", token)
    assert error.value.code == 401


def test_a_meeting_is_imported_and_asked_about(installation: Installation) -> None:
    token = installation.token("ana")
    installation.shell(
        "from openvibe.engines.llm.models import Endpoint\n"
        "Endpoint.objects.filter(name='Steered').update(is_default=False)"
    )
    try:
        for _ in range(2):  # the second import adds nothing
            installation.manage(
                "conversation",
                "import",
                "tests/data/meeting.jsonl",
                "--format",
                "qmsum",
                "--channel",
                "meetings",
                "--workspace",
                "willow",
            )
        channels = installation.api("GET", "channels/", token)["results"]
        meetings = next(channel["id"] for channel in channels if channel["name"] == "meetings")
        threads = installation.api("GET", f"threads/?channel={meetings}", token)["results"]
        found = [t for t in threads if "heater" in t["title"].lower()]
        assert len(found) == 1
        thread = found[0]["id"]
        assert len(messages(installation, token, thread)) == 15
        installation.api(
            "POST",
            f"threads/{thread}/messages/",
            token,
            {"body": "@vibe What did they decide about the greenhouse heater?"},
        )
        wait_until(
            lambda: len(finished(installation, token, thread)) == 1, "the offline model's answer", pause=API_PAUSE
        )
        answer = finished(installation, token, thread)[0]
        assert "we replace the heater by a heat pump before the first frost" in answer
        assert "offline" in answer.lower()
    finally:
        installation.shell(
            "from openvibe.engines.llm.models import Endpoint\n"
            "Endpoint.objects.filter(name='Steered').update(is_default=True)"
        )


def finished(installation: Installation, token: str, thread: int) -> list[str]:
    said = messages(installation, token, thread)
    return [m["body"] for m in said if m["author"]["handle"] == "vibe" and m["state"] == "complete"]
