"""E-mails about mentions that somebody missed: each at most once, of what she may and wants to read."""

import smtplib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.core.mail import EmailMessage
from django.core.mail.backends.locmem import EmailBackend
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from openvibe.chat.digests import send_due_digests, unsubscribe_token
from openvibe.chat.models import MailedMention, Message, Thread
from openvibe.chat.services import (
    add_to_channel,
    delete_message,
    mark_read,
    remove_from_channel,
    set_notification_level,
    update_message,
)
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.services import pause_notifications
from tests.factories import access, make_channel, make_thread, say

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def mail_is_set_up(settings: Settings) -> None:
    settings.EMAIL_CONFIGURED, settings.PUBLIC_URL = True, "https://chat.example.org"


def said(thread: Thread, by: Member, body: str, ago: timedelta = HOUR) -> Message:
    message = say(thread, by, body)
    Message.objects.filter(pk=message.pk).update(created_at=timezone.now() - ago)
    return message


def pass_time(member: Member, by: timedelta = timedelta(days=1)) -> None:
    """Lets time pass, as if the last e-mail had been sent so much earlier."""
    member.refresh_from_db()
    assert member.digest_sent_at
    Member.objects.filter(pk=member.pk).update(digest_sent_at=member.digest_sent_at - by)


def sent() -> list[str]:
    """The texts of the e-mails since the last look."""
    send_due_digests()
    texts = [str(message.body) for message in mail.outbox]
    mail.outbox.clear()
    return texts


class UnreachableServer(EmailBackend):
    def open(self) -> bool | None:
        raise ConnectionRefusedError


class DyingServer(EmailBackend):
    """Takes the e-mail and is gone before it says so."""

    def send_messages(self, messages: Sequence[EmailMessage]) -> int:
        raise smtplib.SMTPServerDisconnected


class RefusingServer(EmailBackend):
    """Takes nothing: for now, or ever."""

    refusal: smtplib.SMTPException

    def send_messages(self, messages: Sequence[EmailMessage]) -> int:
        raise self.refusal


def test_a_missed_mention_is_mailed_once_with_its_place_and_first_words(
    ana: Member, dora: Member, thread: Thread
) -> None:
    User.objects.filter(pk=dora.user_id).update(time_zone="Asia/Tokyo")
    message = said(thread, ana, "**When** <b>do</b> you prune, @dora? " + "Roses " * 100)
    said(thread, ana, "Nobody in particular")
    assert send_due_digests() == 1
    email: Any = mail.outbox[0]
    assert (email.to, email.subject) == (["dora@example.org"], "Ana mentioned you in “Pruning”")
    assert f"https://chat.example.org/w/anas-garden/m/{message.pk}/" in email.body
    assert "Ana in #general · Pruning, " in email.body
    assert "(Asia/Tokyo):" in email.body
    (words,) = [line for line in str(email.body).splitlines() if "Roses" in line]
    assert len(words) <= 160
    html = email.alternatives[0].content
    assert "<b>do" not in html
    assert "<blockquote>When" in html
    assert email.extra_headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    mail.outbox.clear()
    pass_time(dora)
    update_message(message=message, by=access(ana), body="Never mind")
    update_message(message=message, by=access(ana), body="Now again, @dora")
    assert sent() == []


def test_there_is_a_pause_between_two_e_mails_and_the_next_holds_all(ana: Member, dora: Member, thread: Thread) -> None:
    said(thread, ana, "First, @dora")
    assert len(sent()) == 1
    said(thread, ana, "Second, @dora")
    said(thread, ana, "Third, @dora")
    assert sent() == []
    pass_time(dora, 2 * HOUR)
    assert sent() == []  # daily, unless she chooses
    Member.objects.filter(pk=dora.pk).update(digest="hourly")
    (text,) = sent()
    assert "Second" in text
    assert "Third" in text
    assert "First" not in text


def test_who_was_mailed_while_the_clock_was_ahead_is_mailed_again(ana: Member, dora: Member, thread: Thread) -> None:
    said(thread, ana, "@dora roses?")
    Member.objects.filter(pk=dora.pk).update(digest_sent_at=timezone.now() + timedelta(days=365))
    assert len(sent()) == 1


def test_what_was_read_is_new_or_old_or_taken_back_is_not_mailed(ana: Member, dora: Member, thread: Thread) -> None:
    said(thread, ana, "Read, @dora")
    mark_read(thread=Thread.objects.get(pk=thread.pk), by=access(dora), seq=1)
    said(thread, ana, "Just now, @dora", timedelta(minutes=20))
    other = make_thread(thread.channel, ana, "Other")
    said(other, ana, "Long ago, @dora", timedelta(days=5))
    delete_message(message=said(other, ana, "Deleted, @dora"), by=access(ana))
    said(other, dora, "Myself, @dora")
    assert sent() == []


def test_what_she_may_not_see_muted_or_turned_off_is_not_mailed(ana: Member, dora: Member, thread: Thread) -> None:
    closed = make_channel(ana, "closed", private=True)
    private_thread = make_thread(closed, ana, "Hidden")
    add_to_channel(channel=closed, participant=dora.participant, by=access(ana))
    said(private_thread, ana, "A secret, @dora")
    remove_from_channel(channel=closed, participant=dora.participant, by=access(ana))
    said(thread, ana, "Hello, @dora")
    set_notification_level(scope=thread.channel, by=access(dora), level="nothing")
    assert sent() == []
    set_notification_level(scope=thread, by=access(dora), level="mentions")
    Member.objects.filter(pk=dora.pk).update(digest="off")
    assert sent() == []
    Member.objects.filter(pk=dora.pk).update(digest="daily")
    pause_notifications(user=dora.user, until=timezone.now() + HOUR)
    assert sent() == []
    pause_notifications(user=dora.user, until=None)
    (text,) = sent()
    assert "Hello" in text
    assert "secret" not in text
    Member.objects.filter(pk=dora.pk).update(removed_at=timezone.now(), digest_sent_at=None)
    said(thread, ana, "Are you gone, @dora?")
    assert sent() == []


def test_an_unreachable_server_loses_nothing_and_a_dying_one_doubles_nothing(
    ana: Member, dora: Member, thread: Thread, settings: Settings
) -> None:
    said(thread, ana, "Hello, @dora")
    works = settings.EMAIL_BACKEND
    settings.EMAIL_BACKEND = f"{__name__}.UnreachableServer"
    assert send_due_digests() == 0
    assert not MailedMention.objects.exists()
    settings.EMAIL_BACKEND = f"{__name__}.DyingServer"
    assert send_due_digests() == 0
    settings.EMAIL_BACKEND = works
    pass_time(dora)
    assert sent() == []
    with pytest.raises(IntegrityError), transaction.atomic():
        MailedMention.objects.create(participant=dora.participant, message=Message.objects.latest("pk"))


@pytest.mark.parametrize(
    ("refusal", "comes_later"),
    [
        (smtplib.SMTPRecipientsRefused({"dora@example.org": (450, b"Greylisted")}), True),
        (smtplib.SMTPRecipientsRefused({"dora@example.org": (421, b"Closing")}), True),
        (smtplib.SMTPDataError(452, b"Too much"), True),
        (smtplib.SMTPSenderRefused(550, b"Not from you", "a@b"), True),
        (smtplib.SMTPRecipientsRefused({"dora@example.org": (550, b"Unknown")}), False),
    ],
    ids=["greylisted", "closing", "data", "sender", "unknown"],
)
def test_what_the_server_did_not_take_comes_later(
    refusal: smtplib.SMTPException, comes_later: bool, ana: Member, dora: Member, thread: Thread, settings: Settings
) -> None:
    said(thread, ana, "Hello, @dora")
    works, RefusingServer.refusal = settings.EMAIL_BACKEND, refusal
    settings.EMAIL_BACKEND = f"{__name__}.RefusingServer"
    assert send_due_digests() == 0
    settings.EMAIL_BACKEND = works
    assert sent() == []  # not at once
    pass_time(dora, timedelta(minutes=15))
    assert len(sent()) == comes_later
    assert MailedMention.objects.count() == 1


def test_without_e_mail_nothing_is_sent_and_the_page_says_why(
    ana: Member, dora: Member, thread: Thread, settings: Settings
) -> None:
    browser, page = Client(), "/w/anas-garden/notifications/"
    browser.force_login(dora.user)
    assert 'value="daily" id="id_digest_2" checked' in " ".join(browser.get(page).content.decode().split())
    assert browser.post(page, {"level": "mentions", "digest": "hourly"}).status_code == 302
    assert browser.post(page, {"level": "mentions", "digest": "ever"}).status_code == 400
    dora.refresh_from_db()
    assert dora.digest == "hourly"
    settings.EMAIL_CONFIGURED = False
    said(thread, ana, "Hello, @dora")
    assert sent() == []
    text = browser.get(page).content.decode()
    assert "has set up no e-mail" in text
    assert "digest" not in text


def test_where_sign_up_is_open_only_confirmed_addresses_are_mailed(
    ana: Member, dora: Member, thread: Thread, settings: Settings
) -> None:
    settings.OPEN_SIGNUP = True
    browser, page = Client(), "/w/anas-garden/notifications/"
    browser.force_login(dora.user)
    said(thread, ana, "Hello, @dora")
    EmailAddress.objects.create(user=dora.user, email="other@example.org", verified=True)
    address = EmailAddress.objects.create(user=dora.user, email=dora.user.email)
    assert sent() == []
    assert "/accounts/email/" in browser.get(page).content.decode()
    address.verified = True
    address.save()
    assert "/accounts/email/" not in browser.get(page).content.decode()
    assert len(sent()) == 1


def test_the_link_of_an_e_mail_ends_them_without_a_sign_in(dora: Member) -> None:
    browser, link = Client(enforce_csrf_checks=True), f"/unsubscribe/{unsubscribe_token(dora)}/"
    asked = browser.get(link)
    assert "No more e-mails about mentions?" in asked.content.decode()
    dora.refresh_from_db()
    assert dora.digest == ""  # a mail program that looks at links ends nothing
    assert browser.post(link, {"List-Unsubscribe": "One-Click"}).status_code == 200
    dora.refresh_from_db()
    assert dora.digest == "off"
    for wrong in (f"{dora.pk}", f"{dora.pk}:x", unsubscribe_token(dora).replace(str(dora.pk), "999", 1), "x" * 3000):
        assert browser.post(f"/unsubscribe/{wrong}/").status_code == 404
