"""The same POST again gives the first answer again, and creates nothing."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from openvibe.api import idempotency
from openvibe.api.models import IdempotencyKey, Token
from openvibe.api.tasks import delete_expired_idempotency_keys
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import create_channel, update_thread
from openvibe.workspaces.models import Member
from tests import factories
from tests.api.client import Api, is_problem
from tests.api.conftest import Enter


@pytest.fixture
def api(ana: Member, by_token: Enter) -> Api:
    return by_token(ana.participant)


def test_the_answer_is_replayed_byte_for_byte(api: Api, thread: Thread) -> None:
    path, body = f"threads/{thread.pk}/messages/", {"body": "Prune in *winter*. 🌱"}
    first = api.post(path, body, Idempotency_Key="one")
    second_response = api.post(path, body, Idempotency_Key="one")

    assert (first.status_code, second_response.status_code) == (201, 201)
    assert first.content == second_response.content
    assert second_response["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first
    assert Message.objects.count() == 1


def test_how_the_json_is_spaced_does_not_matter(api: Api, thread: Thread) -> None:
    path = f"threads/{thread.pk}/messages/"
    api.post(path, b'{"body": "Hi", "client_id": "a"}', Idempotency_Key="one")

    assert api.post(path, b'{"client_id":"a","body":"Hi"}', Idempotency_Key="one").status_code == 201


@pytest.mark.parametrize(("path", "body"), [("channels/", {"name": "tulips"}), ("threads/", {"name": "roses"})])
def test_another_request_with_the_same_key_is_refused(api: Api, path: str, body: dict[str, str]) -> None:
    api.post("channels/", {"name": "roses"}, Idempotency_Key="one")

    assert is_problem(api.post(path, body, Idempotency_Key="one"), 409, "idempotency_mismatch")


def test_a_key_is_one_participants_own(api: Api, dora: Member, by_token: Enter, thread: Thread) -> None:
    path = f"threads/{thread.pk}/messages/"
    api.post(path, {"body": "Mine"}, Idempotency_Key="one")
    theirs = by_token(dora.participant).post(path, {"body": "Theirs"}, Idempotency_Key="one")

    assert theirs.status_code == 201
    assert theirs.json()["body"] == "Theirs"


def test_a_refusal_is_replayed_too(api: Api, ana: Member, thread: Thread) -> None:
    update_thread(thread=thread, by=factories.access(ana), archived=True)
    path = f"threads/{thread.pk}/messages/"
    first = api.post(path, {"body": "Hi"}, Idempotency_Key="one")
    update_thread(thread=thread, by=factories.access(ana), archived=False)
    second_response = api.post(path, {"body": "Hi"}, Idempotency_Key="one")

    assert is_problem(first, 403, "archived")
    assert is_problem(second_response, 403, "archived")
    assert second_response["Idempotency-Replayed"] == "true"


def test_our_own_failure_is_not_kept(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> Channel:
        Channel.objects.all().exists()
        raise ZeroDivisionError

    api.client.raise_request_exception = False
    with monkeypatch.context() as patched:
        patched.setattr("openvibe.chat.services.create_channel", broken)
        failed = api.post("channels/", {"name": "roses"}, Idempotency_Key="one")

    assert is_problem(failed, 500, "internal")
    assert "ZeroDivision" not in failed.content.decode()
    assert api.post("channels/", {"name": "roses"}, Idempotency_Key="one").status_code == 201


def test_a_secret_is_replayed_but_not_readable_where_it_is_kept(api: Api) -> None:
    body = {"name": "bot", "scopes": ["read"]}
    secret = api.post("tokens/", body, Idempotency_Key="one").json()["secret"]

    assert api.post("tokens/", body, Idempotency_Key="one").json()["secret"] == secret
    assert secret not in str(IdempotencyKey.objects.values().get())
    assert Token.objects.filter(name="bot").count() == 1


def test_after_a_day_a_key_is_new(api: Api) -> None:
    api.post("channels/", {"name": "roses"}, Idempotency_Key="one")
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=25))

    assert api.post("channels/", {"name": "tulips"}, Idempotency_Key="one").status_code == 201
    assert delete_expired_idempotency_keys() == {"answers forgotten": 0}
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert delete_expired_idempotency_keys() == {"answers forgotten": 1}


@pytest.mark.parametrize("key", ["", "x" * 201, "tab\there", "ümlaut"])
def test_odd_keys_are_refused(api: Api, key: str) -> None:
    assert is_problem(api.post("channels/", {"name": "roses"}, Idempotency_Key=key), 400, "bad_idempotency_key")


CREATING: dict[str, Callable[[Thread], dict[str, Any]]] = {
    "channels/": lambda t: {"name": "roses"},
    "threads/": lambda t: {"channel": t.channel_id, "title": "Roses"},
    "threads/{thread}/messages/": lambda t: {"body": "Hi"},
    "tokens/": lambda t: {"name": "bot", "scopes": ["read"]},
}


@pytest.mark.parametrize("path", CREATING)
def test_every_creating_post_honours_the_key(api: Api, thread: Thread, path: str) -> None:
    address, body = path.format(thread=thread.pk), CREATING[path](thread)
    first = api.post(address, body, Idempotency_Key="one")
    second_response = api.post(address, body, Idempotency_Key="one")

    assert first.status_code == 201, first.content
    assert second_response["Idempotency-Replayed"] == "true"
    assert first.content == second_response.content


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("client_id", ["", "mine"])
def test_five_at_once_make_one(by_token: Enter, client_id: str) -> None:
    ana = factories.make_member("Ana")
    thread = factories.make_thread(factories.make_channel(ana), ana)
    apis = [by_token(ana.participant) for _ in range(5)]
    ready = Barrier(5)

    def post(api: Api) -> tuple[int, bytes, bool]:
        ready.wait(10)
        try:
            answer = api.post(
                f"threads/{thread.pk}/messages/", {"body": "Hi", "client_id": client_id}, Idempotency_Key="one"
            )
            return answer.status_code, answer.content, "Idempotency-Replayed" in answer
        finally:
            connection.close()

    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(post, apis))

    assert {status for status, _, _ in answers} == {201}
    assert len({content for _, content, _ in answers}) == 1
    assert sorted(replayed for _, _, replayed in answers) == [False, True, True, True, True]
    assert Message.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_who_waits_too_long_is_told_it_is_under_way(by_token: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "LOCK_TIMEOUT", "50ms")
    ana = factories.make_member("Ana")
    api, other = by_token(ana.participant), by_token(ana.participant)
    seen: list[Any] = []
    create = create_channel

    def slow(**said: Any) -> Channel:
        def same() -> Any:
            try:
                return other.post("channels/", {"name": "roses"}, Idempotency_Key="one")
            finally:
                connection.close()

        with ThreadPoolExecutor(1) as pool:
            seen.append(pool.submit(same).result(10))
        return create(**said)

    monkeypatch.setattr("openvibe.chat.services.create_channel", slow)
    first = api.post("channels/", {"name": "roses"}, Idempotency_Key="one")

    assert first.status_code == 201
    assert is_problem(seen[0], 409, "in_progress")
    assert Channel.objects.count() == 1


def test_what_was_not_found_may_be_asked_again(api: Api, ana: Member, thread: Thread) -> None:
    path, body = f"threads/{thread.pk}/messages/", {"body": "Prune in March."}
    elsewhere = factories.make_member("Cleo").workspace
    Thread.objects.filter(pk=thread.pk).update(workspace=elsewhere)
    assert api.post(path, body, Idempotency_Key="one").status_code == 404
    Thread.objects.filter(pk=thread.pk).update(workspace=ana.workspace)
    answer = api.post(path, body, Idempotency_Key="one")
    assert answer.status_code == 201
    assert "Idempotency-Replayed" not in answer
    assert Message.objects.count() == 1
