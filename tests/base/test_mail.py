"""E-mails about accounts wait for the mail server, and no page does."""

import smtplib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.core.mail.backends.locmem import EmailBackend
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from openvibe.base.mail import send_due_mail
from openvibe.base.models import OutgoingMail
from openvibe.base.tasks import queue_mail
from openvibe.engines.database.fields import PREFIX
from openvibe.engines.database.locks import LockKind, lock_key
from openvibe.runner.management.commands import doctor
from openvibe.workspaces.models import Member
from tests.factories import PASSWORD

RESET = "/accounts/password/reset/"
pytestmark = pytest.mark.django_db


class UnreachableServer(EmailBackend):
    def open(self) -> bool | None:
        raise ConnectionRefusedError("[Errno 111] Connection refused")


class RefusingServer(EmailBackend):
    """Takes nothing for the first address."""

    refusal: Exception

    def send_messages(self, messages: Sequence[EmailMessage]) -> int:
        if messages[0].to == ["first@example.org"]:
            raise self.refusal
        return super().send_messages(messages)


def queue(*addresses: str) -> None:
    for address in addresses:
        queue_mail(EmailMessage("Hello", f"https://garden.example/key-of-{address}", to=[address]))


def sent() -> list[str]:
    return [address for message in mail.outbox for address in message.to]


def pass_time(seconds: float) -> None:
    for row in OutgoingMail.objects.all():
        row.due_at -= timedelta(seconds=seconds)
        row.created_at -= timedelta(seconds=seconds)
        row.save()


def test_a_forgotten_password_waits_for_no_mail_server(ana: Member, settings: Any) -> None:
    works = settings.EMAIL_BACKEND
    settings.EMAIL_BACKEND = f"{__name__}.UnreachableServer"
    browser = Client()
    assert browser.post(RESET, {"email": ana.user.email}).status_code == 302
    assert send_due_mail() == 0
    settings.EMAIL_BACKEND = works
    assert send_due_mail() == 0  # not at once
    pass_time(10)
    assert send_due_mail() == 1
    (message,) = mail.outbox
    assert message.to == [ana.user.email]
    assert "/accounts/password/reset/key/" in str(message.body)
    assert not OutgoingMail.objects.exists()


def test_whoever_has_no_account_is_not_invited_to_make_one(ana: Member) -> None:
    for address in (ana.user.email, "nobody@example.org"):
        Client().post(RESET, {"email": address})
    assert send_due_mail() == 2
    known, unknown = mail.outbox
    assert known.subject == "OpenVibe: Choose a new password"
    assert str(known.body).startswith("Somebody, probably you, asked for a new password of your account.")
    assert str(known.body).endswith("OpenVibe at testserver")
    assert "No account has it." in unknown.body
    assert "http" not in unknown.body  # where nobody may sign up, a link would lead nowhere


def test_a_password_is_changed_whether_or_not_anybody_can_be_told(ana: Member, settings: Any) -> None:
    settings.ACCOUNT_EMAIL_NOTIFICATIONS = True
    settings.EMAIL_BACKEND = f"{__name__}.UnreachableServer"
    browser, new = Client(), "wheelbarrow-4-leaves"
    browser.force_login(ana.user)
    answer = browser.post("/accounts/password/change/", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    assert answer.status_code == 302
    ana.user.refresh_from_db()
    assert ana.user.check_password(new)
    told = OutgoingMail.objects.get()
    assert told.recipient == ana.user.email
    assert told.body.startswith("Your password has been changed.\n\nIf that was not you, choose a new password at once")
    assert "- address: 127.0.0.1\n" in told.body


def test_what_is_taken_back_is_not_sent_and_what_waits_is_not_readable() -> None:
    with transaction.atomic():
        queue("nobody@example.org")
        transaction.set_rollback(True)
    assert send_due_mail() == 0
    queue("ana@example.org")
    with connection.cursor() as cursor:
        cursor.execute("SELECT body FROM base_outgoingmail")
        ((stored,),) = cursor.fetchall()
    assert stored.startswith(PREFIX)
    assert send_due_mail() == 1
    assert (sent(), mail.outbox[0].body) == (["ana@example.org"], "https://garden.example/key-of-ana@example.org")


@pytest.mark.parametrize(
    ("refusal", "waiting"),
    [
        (smtplib.SMTPRecipientsRefused({"first@example.org": (450, b"Greylisted")}), 1),
        (smtplib.SMTPRecipientsRefused({"first@example.org": (550, b"Nobody of that name")}), 0),
        (smtplib.SMTPDataError(554, b"Looks like spam"), 1),
        (ValueError("no address"), 1),
    ],
    ids=["not now", "never", "not this", "no e-mail"],
)
def test_one_address_holds_up_no_other(
    settings: Any, monkeypatch: pytest.MonkeyPatch, refusal: Exception, waiting: int
) -> None:
    settings.EMAIL_BACKEND = f"{__name__}.RefusingServer"
    monkeypatch.setattr(RefusingServer, "refusal", refusal, raising=False)
    queue("first@example.org", "second@example.org")
    assert send_due_mail() == 1
    assert (sent(), OutgoingMail.objects.count()) == (["second@example.org"], waiting)


def test_a_server_that_is_away_is_asked_less_and_less_and_not_for_ever(settings: Any) -> None:
    settings.EMAIL_CONFIGURED = True
    settings.EMAIL_BACKEND = f"{__name__}.UnreachableServer"
    queue("first@example.org", "second@example.org")
    assert "nothing waits" in doctor.mail().state
    delays = []
    for _ in range(7):
        send_due_mail()
        first, second = OutgoingMail.objects.order_by("pk")
        assert second.attempts <= first.attempts  # asked once a turn
        delays.append(round((first.due_at - timezone.now()).total_seconds()))
        OutgoingMail.objects.filter(pk=first.pk).update(due_at=timezone.now())
        OutgoingMail.objects.filter(pk=second.pk).update(due_at=timezone.now() + timedelta(seconds=60))
    assert delays == [10, 20, 40, 80, 160, 300, 300]
    OutgoingMail.objects.update(attempts=300, due_at=timezone.now())
    assert send_due_mail() == 0
    result = doctor.mail()
    assert "Connection refused" in result.state
    assert result.advice


def test_what_is_a_day_old_is_sent_to_nobody() -> None:
    queue("first@example.org")
    pass_time(86_400)
    queue("second@example.org")
    assert send_due_mail() == 1
    assert (sent(), OutgoingMail.objects.count()) == (["second@example.org"], 0)


def test_a_clock_that_was_ahead_delays_nothing() -> None:
    queue("ana@example.org")
    OutgoingMail.objects.update(due_at=timezone.now() + timedelta(days=400))
    assert send_due_mail() == 1


def test_one_process_sends_at_a_time() -> None:
    queue("ana@example.org")
    other, key = connection.copy(), [lock_key(LockKind.MAIL, 0)]
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", key)
            assert send_due_mail() == 0
            cursor.execute("SELECT pg_advisory_unlock(%s)", key)
    finally:
        other.close()
    assert send_due_mail() == 1
