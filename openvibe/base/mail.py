"""E-mails about accounts: kept with what they tell of and sent by a job. No page waits for a mail server, and while one
is away nothing is lost."""

import smtplib
from datetime import timedelta

import structlog
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db.models import Q, QuerySet
from django.utils import timezone

from openvibe.base.models import OutgoingMail
from openvibe.engines.database.locks import LockKind, advisory_lock

FIRST_DELAY, LONGEST_DELAY = timedelta(seconds=10), timedelta(minutes=5)
"""The pause until an e-mail that the server did not take is sent again; twice as long each time."""
GIVE_UP_AFTER = timedelta(days=1)
BATCH_SIZE = 100
log = structlog.get_logger(__name__)


def send_due_mail() -> int:
    """How many e-mails the server took. One process sends at a time; one that dies may send its last e-mail twice."""
    with advisory_lock(LockKind.MAIL, 0) as is_owner:
        if not is_owner or not due_mail().exists():
            return 0
        _give_up(OutgoingMail.objects.filter(created_at__lt=timezone.now() - GIVE_UP_AFTER))
        return _send_batch()


def due_mail() -> QuerySet[OutgoingMail]:
    now = timezone.now()
    is_due = Q(due_at__lte=now) | Q(due_at__gt=now + 2 * LONGEST_DELAY)  # the clock was ahead
    return OutgoingMail.objects.filter(is_due).order_by("pk")


def _send_batch() -> int:
    """What the server says of one recipient delays that e-mail; while it takes none, all wait."""
    sent_count = 0
    for mail in due_mail()[:BATCH_SIZE]:
        try:
            with get_connection() as connection:
                _send(connection, mail)
            sent_count += 1
            mail.delete()
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            if min(codes, default=400) >= 500:
                _give_up(OutgoingMail.objects.filter(pk=mail.pk), error)
            else:
                _delay(mail, error)
        except (smtplib.SMTPSenderRefused, smtplib.SMTPDataError, ValueError) as error:  # no address can be read so
            _delay(mail, error)
        except (smtplib.SMTPException, OSError) as error:
            _delay(mail, error)
            break
    return sent_count


def _send(connection: BaseEmailBackend, mail: OutgoingMail) -> None:
    if mail.body:  # else no key of this server opens it any more
        connection.send_messages([EmailMessage(mail.subject, mail.body, to=[mail.recipient])])


def _delay(mail: OutgoingMail, error: Exception) -> None:
    delay = min(FIRST_DELAY * 2 ** min(mail.attempts, 10), LONGEST_DELAY)
    mail.attempts, mail.due_at = mail.attempts + 1, timezone.now() + delay
    mail.error = f"{type(error).__name__}: {error}"[:500]
    mail.save(update_fields=["attempts", "error", "due_at"])
    log.warning("mail_not_sent", attempts=mail.attempts, error=type(error).__name__)


def _give_up(mails: QuerySet[OutgoingMail], error: Exception | None = None) -> None:
    """What is a day old leads nowhere: a backup that is put back sends nobody an old link."""
    for subject in mails.values_list("subject", flat=True):
        log.error("mail_given_up", subject=subject, error=type(error).__name__ if error else "too old")
    mails.delete()
