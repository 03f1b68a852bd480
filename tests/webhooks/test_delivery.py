"""What webhooks are told, by whose right, in which order, and what becomes of those whom nobody answers."""

import hashlib
import hmac
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from runpy import run_path
from threading import Event
from typing import Any

import pytest
import standardwebhooks
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from agents.agent.access import visible_to as access_of_agent
from agents.agent.services import deactivate_agent
from agents.models import Agent
from openvibe.api.services import issue_token
from openvibe.base.models import AuditRecord
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import (
    add_to_channel,
    create_reply,
    delete_message,
    finish_reply,
    remove_from_channel,
    set_thread_access,
    update_message,
)
from openvibe.engines.network.receiver_connection import MAX_SECONDS, AttemptResult
from openvibe.webhooks.delivery import MAX_FAILING_SENDERS, prepare, record, retry_delay, send_due
from openvibe.webhooks.models import Delivery, Webhook
from openvibe.webhooks.outbox import write_deliveries
from openvibe.webhooks.queries import due_webhooks, oldest_pending_at
from openvibe.webhooks.services import (
    MAX_WEBHOOKS,
    create_webhook,
    delete_old_deliveries,
    delete_webhook,
    resume_webhook,
    rotate_secret,
    send_again,
    send_test,
    update_webhook,
)
from openvibe.webhooks.wiring import resting_notes
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import remove_member, update_member_role
from tests.api.client import Api
from tests.concurrency import at_once
from tests.databases import convert_rows
from tests.factories import access, make_channel, make_member, make_thread, say, signed_in
from tests.webhooks.receiver import Received, Receiver, receiving, receiving_over_connections

is_genuine = run_path(str(Path(__file__).parents[2] / "docs/verify_webhook.py"))["is_genuine"]


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with receiving() as receiver:
        yield receiver


def number_events() -> None:
    """Numbers the events, as at a commit."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def send(**options: float) -> int:
    """One turn."""
    number_events()
    return send_due(**options)


def hook(by: Member, url: str, *kinds: str, agent: Agent | None = None) -> tuple[Webhook, str]:
    send()  # what was there before is not its business
    participant = agent.participant if agent else by.participant
    return create_webhook(by=access(by), participant=participant, url=url, kinds=kinds or ("message_posted",))


def dead_url() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}/"


def test_links_to_places_of_ours_lead_there_from_elsewhere(
    ana: Member, thread: Thread, receiver: Receiver, settings: Settings
) -> None:
    settings.PUBLIC_URL = "https://vibe.example"
    hook(ana, receiver.url)
    message = say(thread, ana, "See [this](/w/willow/t/12/) and [models](/connect-model/).")
    send()
    told = "See [this](https://vibe.example/w/willow/t/12/) and [models](https://vibe.example/connect-model/)."
    assert [one.body["data"]["body"] for one in receiver.received] == [told]
    message.refresh_from_db()
    assert message.body.startswith("See [this](/w/willow"), "what is stored has no address that may change"


def test_what_is_said_is_told_once_signed_in_order(ana: Member, thread: Thread, receiver: Receiver) -> None:
    webhook, secret = hook(ana, receiver.url)
    for number in range(3):
        say(thread, ana, f"Roses {number}")
    send()
    assert [one.body["data"]["body"] for one in receiver.received] == ["Roses 0", "Roses 1", "Roses 2"]
    first = receiver.received[0]
    assert is_genuine(secret, first.headers, first.raw)
    assert not is_genuine(secret, first.headers, first.raw + b" ")
    standardwebhooks.Webhook(secret).verify(first.raw, first.headers)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(secret).verify(first.raw + b" ", first.headers)
    rotated = rotate_secret(webhook=webhook, by=access(ana))
    again = send_again(delivery=webhook.deliveries.earliest("pk"), by=access(ana))
    assert send() == 1
    last = receiver.received[-1]
    assert last.headers["webhook-id"] == first.headers["webhook-id"] == str(again.uid)
    assert all(is_genuine(key, last.headers, last.raw) for key in (secret, rotated))
    for key in (secret, rotated):
        standardwebhooks.Webhook(key).verify(last.raw, last.headers)
    assert send() == 0


def test_one_from_before_standard_webhooks_is_signed_as_it_was_until_it_is_saved(
    ana: Member, thread: Thread, receiver: Receiver
) -> None:
    earlier_secret = "whsec_Zm9v-bar_Zm9vYmFyZm9vYmFyZm9vYmFyZm9vYmF"
    webhook, _ = hook(ana, receiver.url)
    Webhook.objects.filter(pk=webhook.pk).update(secret=earlier_secret)
    say(thread, ana, "Roses")
    send()
    update_webhook(webhook=webhook, by=access(ana), paused=True)
    assert update_webhook(webhook=webhook, by=access(ana), paused=False) == ""
    first = receiver.received[0]
    assert _is_signed_as_before(earlier_secret, first.headers, first.raw)
    assert not any(name.startswith("webhook-") for name in first.headers)
    secret = update_webhook(webhook=webhook, by=access(ana), url=receiver.url)
    assert update_webhook(webhook=webhook, by=access(ana), url=receiver.url) == ""
    say(thread, ana, "Tulips")
    send()
    last = receiver.received[-1]
    standardwebhooks.Webhook(secret).verify(last.raw, last.headers)
    assert _is_signed_as_before(earlier_secret, last.headers, last.raw)
    assert last.headers["openvibe-delivery"] == last.headers["webhook-id"]


def _is_signed_as_before(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    sent_at, signature = headers["openvibe-signature"].split(",")
    expected = hmac.new(secret.encode(), f"{sent_at.removeprefix('t=')}.".encode() + body, hashlib.sha256).hexdigest()
    return signature == f"v1={expected}"


def test_an_agent_is_told_what_it_sees_and_that_it_is_meant(
    ana: Member, thread: Thread, vibe: Agent, receiver: Receiver
) -> None:
    private_thread = make_thread(make_channel(ana, "hidden", private=True), ana)
    hook(ana, receiver.url, "mention", "message_changed", agent=vibe)
    say(private_thread, ana, "@vibe not for you")
    say(thread, ana, "Nobody is named")
    say(thread, ana, "@vibe when do I prune?")
    reply = create_reply(thread=thread, author=vibe.participant, client_id="r")
    Message.objects.filter(pk=reply.pk).update(body="In")
    send()
    assert [one.told for one in receiver.received] == [("mention", "@vibe when do I prune?")]
    finish_reply(reply=reply, body="In March.", state=Message.State.COMPLETE)
    send()
    assert [one.told for one in receiver.received[1:]] == [("message_changed", "In March.")]


def test_access_is_asked_when_it_is_sent(ana: Member, thread: Thread, vibe: Agent, receiver: Receiver) -> None:
    receiver.answer = lambda received: (503, b"")
    webhook, _ = hook(ana, receiver.url, agent=vibe)
    message = say(thread, ana, "Secret roses")
    assert send() == 1
    receiver.answer = lambda received: (200, b"you said: Secret roses, token=ovk_abcdefgh1234")
    set_thread_access(thread=thread, by=access(ana), access="human_only")
    resume_webhook(webhook=webhook, by=access(ana))
    assert send() == 0
    assert webhook.deliveries.get().state == Delivery.State.WITHHELD
    set_thread_access(thread=thread, by=access(ana), access="open")
    send_again(delivery=webhook.deliveries.get(), by=access(ana))
    assert send() == 1
    assert webhook.deliveries.get().response == "you said: Secret roses, token=[secret removed]"
    delete_message(message=message, by=access(ana))
    assert webhook.deliveries.get().response == ""
    record([(webhook.deliveries.get(), AttemptResult(200, "you said: Secret roses", "", 1))])  # it answered late
    assert webhook.deliveries.get().response == ""
    send_again(delivery=webhook.deliveries.get(), by=access(ana))
    deactivate_agent(agent=vibe, by=access(ana))
    assert send() == 0
    webhook.refresh_from_db()
    assert (webhook.state, "no access" in webhook.reason) == (Webhook.State.RESTING, True)


def test_an_admin_who_left_is_told_nothing(ana: Member, thread: Thread, receiver: Receiver) -> None:
    dora = make_member("Dora", ana.workspace, role="admin")
    hook(dora, receiver.url)
    say(thread, ana, "Roses")
    remove_member(member=dora, by=access(ana))
    assert send() == 0
    assert resting_notes(access(ana))[0].text.startswith("The webhook to ")
    assert receiver.received == []


def test_an_agent_tells_nothing_of_a_private_channel_that_the_maker_of_the_webhook_is_not_in(
    ana: Member, thread: Thread, vibe: Agent, receiver: Receiver
) -> None:
    dora = make_member("Dora", ana.workspace, role="admin")
    webhook, _ = hook(ana, receiver.url, agent=vibe)
    board = make_channel(dora, "board", private=True)
    add_to_channel(channel=board, participant=vibe.participant, by=access(dora))
    say(make_thread(board, dora), dora, "Salaries")
    say(thread, ana, "Roses")
    assert send() == 0
    webhook.refresh_from_db()
    assert (webhook.state, webhook.deliveries.exists()) == (Webhook.State.RESTING, False)
    resume_webhook(webhook=webhook, by=access(ana))
    assert send() == 0
    update_webhook(webhook=webhook, by=access(dora), url=receiver.url)
    resume_webhook(webhook=webhook, by=access(dora))
    send()
    assert [one.body["data"]["body"] for one in receiver.received] == ["Salaries", "Roses"]
    assert AuditRecord.objects.filter(action="webhook", after__contains="by @dora").exists()
    remove_from_channel(channel=board, participant=dora.participant, by=access(dora))
    say(thread, ana, "Tulips")
    assert send() == 0


@pytest.mark.parametrize("change", [remove_member, partial(update_member_role, role="member")])
def test_a_webhook_of_an_agent_ends_with_its_makers_right(
    ana: Member, thread: Thread, vibe: Agent, receiver: Receiver, change: Callable[..., object]
) -> None:
    dora = make_member("Dora", ana.workspace, role="admin")
    webhook, _ = hook(dora, receiver.url, agent=vibe)
    say(thread, ana, "Roses")
    change(member=dora, by=access(ana))
    assert send() == 0
    webhook.refresh_from_db()
    assert "saves its address" in webhook.reason


def test_an_agents_own_webhook_goes_by_who_holds_the_agents_token(
    ana: Member, thread: Thread, vibe: Agent, receiver: Receiver
) -> None:
    dora = make_member("Dora", ana.workspace, role="admin")
    for maker_id in (ana.participant_id, None):  # None: the operator's, who is asked nowhere
        _, secret = issue_token(participant=vibe.participant, name="Elsewhere", scopes=["admin"], made_by_id=maker_id)
        values = {"url": receiver.url, "kinds": ["message_posted"]}
        api = Api(Client(), {"Authorization": f"Bearer {secret}"})
        assert api.call("POST", "webhooks/", values).status_code == 201
    board = make_channel(dora, "board", private=True)
    add_to_channel(channel=board, participant=vibe.participant, by=access(dora))
    send()
    say(make_thread(board, dora), dora, "Salaries")
    assert send() == 1
    states = Webhook.objects.order_by("pk").values_list("made_by__handle", "state")
    assert list(states) == [("ana", Webhook.State.RESTING), ("vibe", Webhook.State.ACTIVE)]


def test_of_an_older_webhook_the_audit_log_says_who_made_it(ana: Member, vibe: Agent) -> None:
    own, url = access_of_agent(vibe), "https://93.184.216.34/x"
    create_webhook(by=own, participant=vibe.participant, url=url, kinds=["mention"], made_by_id=ana.participant_id)
    hook(make_member("Eve", ana.workspace, role="admin"), url, agent=vibe)
    hook(ana, url)
    Webhook.objects.update(made_by=None)
    convert_rows("webhooks", "0002_webhook_maker")
    assert list(Webhook.objects.order_by("pk").values_list("made_by__handle", flat=True)) == [None, "eve", "ana"]


def test_of_whom_nobody_knows_who_made_it_nothing_is_sent(
    ana: Member, thread: Thread, vibe: Agent, receiver: Receiver
) -> None:
    hook(ana, receiver.url, agent=vibe)
    Webhook.objects.update(made_by=None)
    say(thread, ana, "Roses")
    assert send() == 0


def test_two_dead_hosts_for_a_day_cost_nearly_nothing(ana: Member, thread: Thread, receiver: Receiver) -> None:
    dead = [hook(ana, dead_url())[0] for _ in range(2)]
    hook(ana, receiver.url)
    say(thread, ana, "Roses")
    assert send() == 3
    assert send() == 0  # neither is asked again before its time
    assert sum(retry_delay(attempts) for attempts in range(1, 40)) > 24 * 3600  # so often a day, at most
    for webhook in dead:  # a day later
        yesterday = timezone.now() - timedelta(days=1)
        Webhook.objects.filter(pk=webhook.pk).update(failing_since=yesterday, next_attempt_at=timezone.now())
    assert send() == 2
    assert [one.body["data"]["body"] for one in receiver.received] == ["Roses"]
    for webhook in dead:
        webhook.refresh_from_db()
        assert webhook.state == Webhook.State.RESTING
        delivery = webhook.deliveries.get()
        assert (delivery.state, delivery.status) == (Delivery.State.GIVEN_UP, None)
        assert delivery.error.startswith("Nothing answered there")
    Webhook.objects.filter(pk=dead[0].pk).update(url=receiver.url)
    say(thread, ana, "While it rested")
    resume_webhook(webhook=dead[0], by=access(ana))
    send()
    assert [one.body["data"]["body"] for one in receiver.received[1:]] == ["While it rested"] * 2


def test_a_receiver_that_stalls_holds_up_no_other(ana: Member, thread: Thread, receiver: Receiver) -> None:
    """A turn whose time is up holds none up either, as here at once."""
    last_is_told = Event()

    def answer(received: Received) -> tuple[int, bytes]:
        if received.told[1] == "Roses 2":
            last_is_told.set()
        return 200, b""

    receiver.answer = answer
    with receiving() as stalled:
        stalled.answer = lambda received: (503 if last_is_told.wait(MAX_SECONDS * 0.9) else 500, b"")
        held, _ = hook(ana, stalled.url)
        hook(ana, receiver.url)
        for number in range(3):
            say(thread, ana, f"Roses {number}")
        assert send(seconds=0) == 4
    assert held.deliveries.earliest("pk").status == 503


def test_many_receivers_that_stall_again_and_again_hold_up_no_other(
    ana: Member, thread: Thread, receiver: Receiver
) -> None:
    """Receivers have places of their own, however many failed before."""
    for _ in range(MAX_FAILING_SENDERS + 3):
        hook(ana, dead_url())
    failed_at = timezone.now() - timedelta(minutes=1)
    Webhook.objects.update(failing_since=failed_at, next_attempt_at=failed_at)
    hook(ana, receiver.url)
    say(thread, ana, "Roses")
    with receiving() as stalled:
        stalled.answer = lambda received: (200 if is_told.wait(MAX_SECONDS * 0.9) else 500, b"")
        Webhook.objects.exclude(failing_since=None).update(url=stalled.url)
        is_told = Event()

        def answer(received: Received) -> tuple[int, bytes]:
            is_told.set()
            return 200, b""

        receiver.answer = answer
        send()
    assert [one.told[1] for one in receiver.received] == ["Roses"]
    assert not Delivery.objects.exclude(state=Delivery.State.DELIVERED).exists()


def test_seven_webhooks_cost_as_many_queries_as_one(ana: Member, thread: Thread, receiver: Receiver) -> None:
    def statements() -> int:
        send()
        say(thread, ana, "Roses")
        number_events()
        write_deliveries()
        with CaptureQueriesContext(connection) as captured:
            prepared = prepare(due_webhooks(50))
        assert len(prepared.sendable) == Webhook.objects.count()
        return len(captured)

    hook(ana, receiver.url)
    of_one = statements()
    for _ in range(6):
        hook(ana, receiver.url)
    assert statements() == of_one


def test_a_connection_stays_open_and_its_end_costs_no_attempt(ana: Member, thread: Thread, settings: Settings) -> None:
    """A receiver that ends each connection after two deliveries, without a word, as after a time of silence."""
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with receiving_over_connections(2) as closing_receiver:
        webhook, _ = hook(ana, closing_receiver.url)
        for number in range(5):
            say(thread, ana, f"Roses {number}")
        send()
    assert closing_receiver.deliveries_by_connection == [2, 2, 1]
    assert list(webhook.deliveries.values_list("state", "attempts")) == [("delivered", 1)] * 5


def test_what_is_deleted_while_the_one_before_is_on_its_way_is_not_told(
    ana: Member, thread: Thread, receiver: Receiver
) -> None:
    hook(ana, receiver.url)
    say(thread, ana, "Roses")
    tulips = say(thread, ana, "Tulips")
    number_events()
    write_deliveries()
    (_, first, _body), *others = prepare(due_webhooks(50)).sendable
    assert not others
    delete_message(message=tulips, by=access(ana))
    record([(first, AttemptResult(200, "", "", 1))])
    send()
    assert "Tulips" not in str([one.raw for one in receiver.received])
    assert [one.body["data"]["deleted_at"] is None for one in receiver.received] == [False]


@pytest.mark.django_db(transaction=True)
def test_a_kill_between_an_answer_and_its_record_sends_it_again_under_its_id_and_in_order(
    ana: Member, thread: Thread, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook, _ = hook(ana, receiver.url)
    for number in range(3):
        say(thread, ana, f"Roses {number}")
    dying = iter((False, True))

    def die(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        if sql.lstrip().startswith("UPDATE webhooks_delivery") and next(dying, False):
            raise SystemExit("killed")
        return execute(sql, *more)

    with connection.execute_wrapper(die), pytest.raises(SystemExit):
        send()
    send()
    assert [one.told[1] for one in receiver.received] == ["Roses 0", "Roses 1", "Roses 1", "Roses 2"]
    ids = [one.headers["webhook-id"] for one in receiver.received]
    assert (ids[1], len(set(ids))) == (ids[2], 3)
    assert set(webhook.deliveries.values_list("state", "attempts")) == {("delivered", 1)}


def test_how_old_what_waits_is(ana: Member, thread: Thread, receiver: Receiver) -> None:
    assert oldest_pending_at() is None
    receiver.answer = lambda received: (503, b"")
    webhook, _ = hook(ana, receiver.url)
    say(thread, ana, "Roses")
    say(thread, ana, "Tulips")
    send()
    at = timezone.now() - timedelta(minutes=3, seconds=5)
    Delivery.objects.filter(pk=webhook.deliveries.earliest("pk").pk).update(created_at=at)
    assert oldest_pending_at() == at
    pages = f"/w/{ana.workspace.slug}/webhooks/"
    for page in (pages, f"{pages}{webhook.pk}/"):
        assert "2 waiting, the oldest for 3 minutes" in signed_in(ana).get(page).content.decode()
    _, token = issue_token(participant=ana.participant, name="Elsewhere", scopes=["admin"])
    row = Api(Client(), {"Authorization": f"Bearer {token}"}).get(f"webhooks/{webhook.pk}/").json()
    assert (row["pending"], datetime.fromisoformat(row["oldest_pending_at"])) == (2, at)
    receiver.answer = lambda received: (200, b"")
    resume_webhook(webhook=webhook, by=access(ana))
    send()
    send_again(delivery=webhook.deliveries.earliest("pk"), by=access(ana))
    assert oldest_pending_at() is None  # it waits since now, whenever it was first sent
    assert Webhook.objects.with_backlog().get().backlog_label == "1 waiting"


@pytest.mark.parametrize(("hours", "fails"), [(1, False), (24 * 365, False), (24 * 365, True)])
def test_a_clock_that_went_back_holds_nothing_up(
    ana: Member, thread: Thread, receiver: Receiver, hours: int, fails: bool
) -> None:
    webhook, _ = hook(ana, receiver.url)
    ahead = timezone.now() + timedelta(hours=hours)
    Webhook.objects.filter(pk=webhook.pk).update(next_attempt_at=ahead, failing_since=ahead if fails else None)
    say(thread, ana, "Roses")
    assert send() == 1


def test_one_delivery_that_is_refused_does_not_hold_up_the_rest(
    ana: Member, thread: Thread, receiver: Receiver
) -> None:
    receiver.answer = lambda received: (302 if "Bad" in received.raw.decode() else 200, b"<html>" + b"x" * 100_000)
    webhook, _ = hook(ana, receiver.url)
    say(thread, ana, "Bad roses")
    say(thread, ana, "Good roses")
    for _ in range(5):
        Webhook.objects.update(next_attempt_at=timezone.now())
        send()
    bad, good = webhook.deliveries.order_by("pk")
    assert (bad.state, bad.status, bad.attempts) == (Delivery.State.GIVEN_UP, 302, 5)
    assert "Redirects are not followed" in bad.error
    assert (good.state, len(good.response)) == (Delivery.State.DELIVERED, 500)
    assert len(receiver.received) == 6


def test_changes_that_follow_one_another_are_told_once(ana: Member, thread: Thread, receiver: Receiver) -> None:
    hook(ana, receiver.url, "message_changed")
    message = say(thread, ana, "Roses")
    for number in range(4):
        update_message(message=message, by=access(ana), body=f"Roses {number}")
    send()
    assert [one.body["data"]["body"] for one in receiver.received] == ["Roses 3"]


def test_a_test_says_at_once_how_it_is_and_old_deliveries_go(ana: Member, receiver: Receiver) -> None:
    webhook, _ = hook(ana, receiver.url)
    delivery = send_test(webhook=webhook, by=access(ana))
    send()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.status, receiver.received[0].kind) == ("delivered", 200, "test")
    Delivery.objects.update(created_at=timezone.now() - timedelta(days=15))
    assert delete_old_deliveries() == 1


@pytest.mark.django_db(transaction=True)
def test_a_test_asked_for_while_a_webhook_is_deleted_does_not_keep_it(ana: Member, receiver: Receiver) -> None:
    webhook, _ = hook(ana, receiver.url)
    asked: list[str] = []

    def ask() -> str:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '50ms'")
            send_test(webhook=webhook, by=access(ana))
        except OperationalError:
            return "waits"
        else:
            return "asked"
        finally:
            connection.close()

    def ask_before_the_row_goes(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        if sql.startswith('DELETE FROM "webhooks_webhook"'):
            with ThreadPoolExecutor(1) as pool:
                asked.append(pool.submit(ask).result())
        return execute(sql, *more)

    with connection.execute_wrapper(ask_before_the_row_goes):
        delete_webhook(webhook=webhook, by=access(ana))

    assert asked == ["waits"]
    assert not Webhook.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_several_made_at_once_are_no_more_than_there_may_be(ana: Member) -> None:
    url, me = "https://93.184.216.34/x", ana.participant
    one = {"workspace": ana.workspace, "participant": me, "made_by": me, "url": url, "kinds": ["mention"]}
    Webhook.objects.bulk_create(Webhook(**one) for _ in range(MAX_WEBHOOKS - 1))

    calls = [lambda: create_webhook(by=access(ana), participant=me, url=url, kinds=["mention"])] * 6
    assert at_once(*calls) == ["done", *["too_many"] * 5]
