"""Notifications of browsers in which no page is open: who is sent what, once, and what becomes of those that nobody
reaches. The push service is one of the tests' own, which answers what it is told to."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from threading import Event as Signal
from unittest import mock

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from agents.agent.access import visible_to as access_of_agent
from agents.models import Agent
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import PushDelivery, PushKey, PushPosition, PushSubscription, Thread
from openvibe.chat.push.contents import make_pushes
from openvibe.chat.push.delivery import (
    FORGET_BROWSER_AFTER,
    GIVE_UP_AFTER,
    LONGEST_DELAY,
    delete_old_deliveries,
    read_retry_after,
    retry_delay,
    send_due,
)
from openvibe.chat.push.outbox import write_deliveries
from openvibe.chat.services import (
    NewSubscription,
    create_reply,
    delete_message,
    finish_reply,
    mark_read,
    note_shown,
    open_direct_messages,
    push_key,
    remove_from_channel,
    set_default_notification_level,
    set_notification_level,
    subscribe_browser,
    unsubscribe_browser,
    update_message,
)
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import end_sessions, pause_notifications
from tests.chat.push_service import PushService, ReceivedPush, TestBrowser, number_events, serving_pushes
from tests.factories import access, make_channel, make_member, make_thread, say, signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def service(settings: Settings) -> Iterator[PushService]:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving_pushes() as service:
        yield service


def subscribe(member: Member, service: PushService, name: str = "desk", **options: bool) -> TestBrowser:
    """Turns pushes on in a new browser of the member's, signed in by a session of its own."""
    browser, session_key = TestBrowser.new(), str(signed_in(member).session.session_key)
    new = NewSubscription(service.address(name), browser.p256dh, browser.auth_text, "Firefox on Linux")
    subscribe_browser(new, user=member.user, by=access(member), session_key=session_key, **options)
    return browser


def make_due() -> None:
    """Lets the time pass in which a page could show it, or a push service wants to be let alone."""
    number_events()
    write_deliveries()
    now = timezone.now()
    PushDelivery.objects.filter(done_at=None).update(due_at=now)
    PushSubscription.objects.update(resumes_at=now)


def send(**options: float) -> int:
    make_due()
    return send_due(**options)


def test_a_mention_reaches_the_browser_which_alone_can_read_it(
    ana: Member, dora: Member, thread: Thread, service: PushService, settings: Settings
) -> None:
    settings.PUBLIC_URL = "https://chat.example"
    browser = subscribe(dora, service)
    message = say(thread, ana, "**When** do they bloom, @dora?")
    assert send() == 1
    (push,) = service.received
    slug = ana.workspace.slug
    assert push.read_by(browser) == {
        "title": "Ana · Pruning",
        "body": "When do they bloom, @dora?",
        "tag": f"openvibe-{message.pk}",
        "thread": f"/w/{slug}/t/{thread.pk}/",
        "url": f"/w/{slug}/m/{message.pk}/",
        "at": int(message.created_at.timestamp() * 1000),
    }
    assert push.path == "/push/desk"
    assert push.headers["content-encoding"] == "aes128gcm"
    assert push.headers["urgency"] == "high"
    assert push.headers["topic"] == f"m{message.pk}"
    assert 0 < int(push.headers["ttl"]) <= 24 * 3600
    assert push.claims(service.origin)["sub"] == "https://chat.example"
    assert b"bloom" not in push.body


def test_each_is_sent_what_she_is_notified_of(
    ana: Member, ben: Member, dora: Member, vibe: Agent, thread: Thread, service: PushService
) -> None:
    for member in (ana, ben, dora):
        subscribe(member, service, member.user.name)
    say(thread, ana, "Nothing for anybody.")
    assert send() == 0
    set_default_notification_level(by=access(dora), level="all")
    say(thread, ana, "For who wants all, and not for Ben, who is not in this channel, @ana @ben.")
    assert send() == 1
    set_notification_level(scope=thread, by=access(dora), level="nothing")
    say(thread, ana, "@dora muted this.")
    assert send() == 0
    set_notification_level(scope=thread, by=access(dora), level="all")
    pause_notifications(user=dora.user, until=timezone.now() + timedelta(minutes=5))
    say(thread, ana, "@dora is not to be disturbed.")
    assert send() == 0
    pause_notifications(user=dora.user, until=None)
    reply = create_reply(thread=thread, author=vibe.participant, client_id="1")
    assert send() == 0
    finish_reply(reply=reply, body="In March.", state="complete")
    assert send() == 1
    assert [push.path for push in service.received] == ["/push/Dora"] * 2


def test_what_is_wanted_no_more_by_the_time_it_leaves_is_not_sent(
    ana: Member, dora: Member, thread: Thread, service: PushService
) -> None:
    subscribe(dora, service)

    def posted(body: str = "@dora?") -> int:
        message = say(thread, ana, body)
        make_due()
        return message.pk

    posted()
    thread.refresh_from_db()
    mark_read(thread=thread, by=access(dora), seq=thread.last_seq)
    assert send_due() == 0
    message = say(thread, ana, "@dora, a mistake")
    make_due()
    delete_message(message=message, by=access(ana))
    assert send_due() == 0
    posted()
    set_notification_level(scope=thread, by=access(dora), level="nothing")
    assert send_due() == 0
    set_notification_level(scope=thread, by=access(dora), level="")
    posted()
    pause_notifications(user=dora.user, until=timezone.now() + timedelta(minutes=5))
    assert send_due() == 0
    pause_notifications(user=dora.user, until=None)
    assert send() == 0
    assert not PushDelivery.objects.filter(done_at=None).exists()
    assert service.received == []


def test_nobody_is_told_what_she_does_not_see_any_more(ana: Member, dora: Member, service: PushService) -> None:
    subscribe(dora, service, shows_private=True)
    channel = make_channel(ana, "board", private=True)
    channel.participants.add(dora.participant)
    thread = make_thread(channel, ana)
    number_events()
    write_deliveries()
    say(thread, ana, "@dora, the numbers")
    make_due()
    assert PushDelivery.objects.count() == 1
    remove_from_channel(channel=channel, participant=dora.participant, by=access(ana))
    assert send_due() == 0
    assert service.received == []


def test_words_of_private_places_are_shown_to_those_who_asked_for_it(
    ana: Member, dora: Member, service: PushService
) -> None:
    phone, desk = subscribe(dora, service, "phone"), subscribe(dora, service, "desk", shows_private=True)
    channel = make_channel(ana, "board", private=True)
    channel.participants.add(dora.participant)
    direct, _ = open_direct_messages(by=access(ana), recipient=dora.participant)
    for thread in (make_thread(channel, ana, "Salaries"), direct):
        say(thread, ana, "@dora, the numbers")
    assert send() == 4
    browsers = {"/push/phone": phone, "/push/desk": desk}
    said = [(push.path, push.read_by(browsers[push.path])) for push in service.received]
    assert {(path, shown["title"], shown["body"]) for path, shown in said} == {
        ("/push/phone", "Something new in a private channel", "Open OpenVibe to read it."),
        ("/push/phone", "A direct message to you", "Open OpenVibe to read it."),
        ("/push/desk", "Ana · Salaries", "@dora, the numbers"),
        ("/push/desk", "Ana", "@dora, the numbers"),
    }


def test_two_browsers_show_it_once_each_and_an_edit_tells_nobody_again(
    ana: Member, dora: Member, thread: Thread, service: PushService
) -> None:
    subscribe(dora, service, "desk")
    subscribe(dora, service, "phone")
    message = say(thread, ana, "@dora?")
    assert send() == 2
    update_message(message=message, by=access(ana), body="@dora, please?")
    PushPosition.objects.update(position=0)  # as if the events were read again
    assert send() == 0
    assert sorted(push.path for push in service.received) == ["/push/desk", "/push/phone"]


def test_a_page_that_shows_it_is_enough(ana: Member, dora: Member, thread: Thread, service: PushService) -> None:
    subscribe(dora, service, "desk")
    subscribe(dora, service, "phone")
    first = say(thread, ana, "@dora?")
    make_due()
    endpoint = service.address("desk")
    assert note_shown(by=access(dora), user=dora.user, message_id=first.pk, endpoint=endpoint) == 1
    assert send_due() == 1
    second = say(thread, ana, "@dora??")
    make_due()
    assert note_shown(by=access(ana), user=ana.user, message_id=second.pk) == 0
    assert note_shown(by=access(dora), user=dora.user, message_id=second.pk) == 2
    assert send_due() == 0
    assert [push.path for push in service.received] == ["/push/phone"]


def test_what_is_just_said_waits_for_the_pages_that_are_open(
    ana: Member, dora: Member, thread: Thread, service: PushService
) -> None:
    subscribe(dora, service)
    say(thread, ana, "@dora?")
    number_events()
    assert send_due() == 0
    assert PushDelivery.objects.get().due_at > timezone.now()


# --- push services that do not take it -----------------------------------------------------------------------------
@pytest.mark.parametrize("status", [404, 410])
def test_a_browser_that_is_gone_is_forgotten(
    status: int, ana: Member, dora: Member, thread: Thread, service: PushService
) -> None:
    service.answer = lambda push: (status, {})
    subscribe(dora, service)
    say(thread, ana, "@dora?")
    assert send() == 1
    assert not PushSubscription.objects.exists()
    assert not PushDelivery.objects.exists()
    assert send() == 0


def test_a_push_service_that_is_asked_too_often_is_let_alone_for_as_long_as_it_says(
    ana: Member, dora: Member, thread: Thread, service: PushService
) -> None:
    service.answer = lambda push: (429, {"Retry-After": "600"})
    subscribe(dora, service)
    say(thread, ana, "@dora?")
    assert send() == 1
    row = PushSubscription.objects.get()
    assert timedelta(seconds=590) < row.resumes_at - timezone.now() <= timedelta(seconds=600)
    say(thread, ana, "@dora??")
    number_events()
    write_deliveries()
    PushDelivery.objects.update(due_at=timezone.now())
    assert send_due() == 0
    service.answer = lambda push: (201, {})
    assert send() == 2
    assert PushSubscription.objects.get().failing_since is None
    assert {push.headers["topic"] for push in service.received[1:]} == {
        f"m{pk}" for pk in PushDelivery.objects.values_list("message_id", flat=True)
    }


@pytest.mark.parametrize("status", [500, 503])
def test_a_push_service_that_is_broken_is_asked_again_later_and_later(
    status: int, ana: Member, dora: Member, thread: Thread, service: PushService
) -> None:
    service.answer = lambda push: (status, {"Retry-After": "nonsense"})
    subscribe(dora, service)
    say(thread, ana, "@dora?")
    pauses = []
    for _ in range(3):
        assert send() == 1
        pauses.append(PushSubscription.objects.get().resumes_at - timezone.now())
    assert pauses == sorted(pauses)
    assert timedelta(seconds=50) < pauses[-1] < timedelta(seconds=70)
    PushDelivery.objects.update(created_at=timezone.now() - GIVE_UP_AFTER)
    assert send() == 0
    assert PushDelivery.objects.get().done_at
    assert len(service.received) == 3


def test_a_push_service_that_never_answers_costs_a_while_and_holds_up_no_other(
    ana: Member, dora: Member, thread: Thread, service: PushService
) -> None:
    is_over = Signal()

    def answer(push: ReceivedPush) -> tuple[int, dict[str, str]]:
        if push.path.endswith("stuck"):
            is_over.wait(30)
        return 201, {}

    service.answer = answer
    subscribe(dora, service, "stuck")
    subscribe(dora, service, "phone")
    say(thread, ana, "@dora?")
    try:
        assert send(attempt_seconds=0.3) == 2
    finally:
        is_over.set()
    done = PushDelivery.objects.filter(done_at__isnull=False).values_list("subscription__endpoint", flat=True)
    assert list(done) == [service.address("phone")]
    stuck = PushSubscription.objects.get(endpoint=service.address("stuck"))
    assert stuck.failing_since
    assert stuck.resumes_at > timezone.now()


def test_a_push_that_is_refused_as_such_is_given_up_and_the_next_one_goes(
    ana: Member, dora: Member, thread: Thread, service: PushService
) -> None:
    service.answer = lambda push: (413, {})
    subscribe(dora, service)
    say(thread, ana, "@dora?")
    assert send() == 1
    service.answer = lambda push: (201, {})
    say(thread, ana, "@dora??")
    assert send() == 1


def test_a_browser_that_nothing_reaches_for_days_is_forgotten(
    ana: Member, dora: Member, thread: Thread, service: PushService
) -> None:
    service.answer = lambda push: (500, {})
    subscribe(dora, service)
    PushSubscription.objects.update(failing_since=timezone.now() - FORGET_BROWSER_AFTER)
    say(thread, ana, "@dora?")
    assert send() == 1
    assert not PushSubscription.objects.exists()


def test_what_was_claimed_by_somebody_who_died_is_sent_again_under_the_same_name(
    ana: Member, dora: Member, thread: Thread, service: PushService
) -> None:
    subscribe(dora, service)
    say(thread, ana, "@dora?")
    make_due()
    with mock.patch("openvibe.chat.push.delivery.record", side_effect=SystemExit), pytest.raises(SystemExit):
        send_due()
    assert send_due() == 0  # it is still claimed
    make_due()
    assert send_due() == 1
    first, second = service.received
    assert first.headers["topic"] == second.headers["topic"]


def test_retry_after_is_read_in_both_its_forms_and_bounded() -> None:
    now = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    seconds = {
        "": 0, "120": 120, "Mon, 02 Mar 2026 09:02:00 GMT": 120, "Mon, 02 Mar 2026 08:00:00 GMT": 0, "-5": 0, "soon": 0,
        "999999999": 3600, "9" * 40: 0, "Fri, 31 Dec 9999 23:59:59 GMT": 3600, "१२": 0,
    }  # fmt: skip
    assert {text: read_retry_after(text, now).total_seconds() for text in seconds} == seconds
    assert retry_delay(1) < retry_delay(2) < retry_delay(40) == LONGEST_DELAY


# --- browsers ------------------------------------------------------------------------------------------------------
def test_a_session_that_ends_ends_it_however_it_does(
    ana: Member, dora: Member, thread: Thread, service: PushService
) -> None:
    for name in ("signed out", "ended elsewhere", "expired", "stays"):
        subscribe(dora, service, name.replace(" ", "-"))
    keys = list(PushSubscription.objects.order_by("pk").values_list("session_key", flat=True))
    say(thread, ana, "@dora?")
    make_due()
    browser = Client()
    browser.cookies["sessionid"] = keys[0]
    browser.post("/accounts/logout/")
    end_sessions(user=dora.user, keep=keys[3], pk=None)
    Session.objects.filter(session_key=keys[2]).update(expire_date=timezone.now())
    assert send_due() == 1
    assert [push.path for push in service.received] == ["/push/stays"]
    assert PushSubscription.objects.count() == 1


def test_another_password_and_a_closed_account_end_it(
    ana: Member, dora: Member, thread: Thread, service: PushService
) -> None:
    subscribe(dora, service)
    say(thread, ana, "@dora?")
    make_due()
    dora.user.set_password("another one 12345")
    dora.user.save()
    assert send_due() == 0
    dora.user.is_active = False
    dora.user.save()
    assert send() == 0
    assert not PushSubscription.objects.exists()


def test_a_browser_that_is_known_is_brought_up_to_date_and_another_person_takes_it_over(
    ana: Member, dora: Member, service: PushService
) -> None:
    subscribe(dora, service, "desk", shows_private=True)
    subscribe(dora, service, "desk")
    row = PushSubscription.objects.get()
    assert row.shows_private
    subscribe(ana, service, "desk")
    row = PushSubscription.objects.get()
    assert row.user == ana.user
    assert not row.shows_private


def test_a_person_has_so_many_browsers_and_turns_each_off(dora: Member, ana: Member, service: PushService) -> None:
    for number in range(10):
        subscribe(dora, service, str(number))
    with pytest.raises(Conflict, match="10 of your browsers") as refusal:
        subscribe(dora, service, "one-too-many")
    assert refusal.value.code == "too_many_browsers"
    subscribe(dora, service, "3")
    assert not unsubscribe_browser(user=ana.user, endpoint=service.address("3"))
    assert unsubscribe_browser(user=dora.user, endpoint=service.address("3"))
    subscribe(dora, service, "one-more")
    subscribe(ana, service, "hers")


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://push.example/1",
        "https://169.254.169.254/latest/",
        "https://10.0.0.7/x",
        "https://127.0.0.1/x",
        "http://127.0.0.1:8000/x",
        "https://localhost/x",
        "https://a:b@push.example/1",
        "ftp://push.example/1",
        "push.example",
        "",
        "https://push.example/" + "x" * 1_000,
        "https://push.example/\x00",
    ],
)
def test_an_address_that_this_server_may_not_call_is_refused(endpoint: str, dora: Member) -> None:
    browser = TestBrowser.new()
    new = NewSubscription(endpoint, browser.p256dh, browser.auth_text, "Firefox")
    with pytest.raises(Problem) as refusal:
        subscribe_browser(new, user=dora.user, by=access(dora), session_key="x")
    assert refusal.value.code == "bad_push_address"


def test_an_address_that_leads_inside_by_now_is_not_called(
    ana: Member, dora: Member, thread: Thread, service: PushService, settings: Settings
) -> None:
    subscribe(dora, service)
    settings.ALLOW_PRIVATE_ENDPOINTS = False
    say(thread, ana, "@dora?")
    assert send() == 1
    assert service.received == []
    assert PushSubscription.objects.get().failing_since


def test_keys_that_are_none_are_refused_and_so_are_agents(dora: Member, vibe: Agent) -> None:
    new = NewSubscription("https://1.1.1.1/x", "AAAA", "AAAA", "Firefox")
    with pytest.raises(Problem) as refusal:
        subscribe_browser(new, user=dora.user, by=access(dora), session_key="x")
    assert refusal.value.code == "bad_push_key"
    with pytest.raises(Refused):
        subscribe_browser(new, user=dora.user, by=access_of_agent(vibe), session_key="x")


# --- the server's key ----------------------------------------------------------------------------------------------
def test_the_key_is_made_once_encrypted_and_made_anew_where_it_cannot_be_read(
    dora: Member, service: PushService, settings: Settings
) -> None:
    numbers = push_key().private_numbers()
    assert push_key().private_numbers() == numbers
    with connection.cursor() as cursor:
        cursor.execute("SELECT private_key FROM chat_pushkey")
        assert cursor.fetchone()[0].startswith("enc1:")
    subscribe(dora, service)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another" * 9, [settings.SECRET_KEY]
    assert push_key().private_numbers() == numbers
    settings.SECRET_KEY_FALLBACKS = []
    assert push_key().private_numbers() != numbers
    assert PushKey.objects.count() == 1
    assert not PushSubscription.objects.exists()


# --- costs ---------------------------------------------------------------------------------------------------------
def test_nobody_who_wants_pushes_costs_one_question(ana: Member, thread: Thread) -> None:
    say(thread, ana, "Hello")
    with CaptureQueriesContext(connection) as statements:
        assert send_due() == 0
    assert len(statements) == 1


def test_deliveries_are_made_and_read_at_the_same_number_of_queries_for_one_and_for_three(
    ana: Member, thread: Thread, service: PushService
) -> None:
    members = [make_member(name, ana.workspace) for name in ("Emil", "Finn", "Gina")]
    counts = []
    for number in (1, 3):
        for member in members[:number]:
            subscribe(member, service, member.user.name)
        say(thread, ana, " ".join(f"@{member.participant.handle}" for member in members[:number]))
        number_events()
        with CaptureQueriesContext(connection) as statements:
            write_deliveries()
            due = PushDelivery.objects.filter(done_at=None).select_related("subscription__user")
            assert len(make_pushes(list(due))) == number
        counts.append(len(statements))
        due.update(done_at=timezone.now())
    assert counts[0] == counts[1]


def test_deliveries_are_forgotten_after_a_day(ana: Member, dora: Member, thread: Thread, service: PushService) -> None:
    subscribe(dora, service)
    say(thread, ana, "@dora?")
    assert send() == 1
    assert delete_old_deliveries() == 0
    PushDelivery.objects.update(created_at=timezone.now() - timedelta(days=2))
    assert delete_old_deliveries() == 1


def test_what_was_said_before_somebody_wanted_pushes_is_not_sent_nor_what_is_old(
    ana: Member, dora: Member, thread: Thread, service: PushService
) -> None:
    say(thread, ana, "@dora, before")
    number_events()
    subscribe(dora, service)
    assert send() == 0
    say(thread, ana, "@dora, old")
    number_events()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE base_event SET created_at = now() - interval '5 minutes'")
    assert send() == 0
    say(thread, ana, "@dora, now")
    assert send() == 1
