"""Jobs of the ground floor."""

from datetime import timedelta

import structlog
from allauth.usersessions.models import UserSession
from celery import shared_task
from django.contrib.sessions.models import Session
from django.core.mail import EmailMessage
from django.db import connection, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from openvibe.base.events import EVENT_RETENTION_HOURS
from openvibe.base.mail import send_due_mail
from openvibe.base.models import CacheEntry, Event, OutgoingMail
from openvibe.engines.database.planner_statistics import analyze_changed_tables
from openvibe.engines.jobs.heartbeats import end_probe
from openvibe.engines.jobs.job_runs import delete_old_runs

DOCTOR_CHANNEL = "openvibe_doctor"
log = structlog.get_logger(__name__)


@shared_task(name="base.answer_doctor", ignore_result=True)
def answer_doctor(token: str) -> None:
    """Says over PostgreSQL's NOTIFY that a worker took the job. `manage.py doctor` listens."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [DOCTOR_CHANNEL, token])


@shared_task(name="base.answer_probe", ignore_result=True)
def answer_probe(queue: str) -> None:
    """Says that a worker took it from the queue: so long jobs wait there."""
    end_probe(queue)


def queue_mail(message: EmailMessage) -> None:
    """Has a worker send the text to its recipients once this transaction is committed."""
    rows = [OutgoingMail(recipient=to, subject=str(message.subject), body=str(message.body)) for to in message.to]
    OutgoingMail.objects.bulk_create(rows)
    transaction.on_commit(_enqueue_send_mail)


def _enqueue_send_mail() -> None:
    try:
        send_mail.apply_async(expires=60, retry=False)
    except Exception as error:  # every transport has errors of its own; what is due is looked for anyway
        log.warning("mail_job_not_sent", error=type(error).__name__)


@shared_task(name="base.send_mail", ignore_result=True, expires=30)
def send_mail() -> dict[str, int]:
    return {"e-mails sent": send_due_mail()}


@shared_task(name="base.analyze_tables", ignore_result=True, expires=60)
def analyze_tables() -> dict[str, int]:
    return {"tables analysed": analyze_changed_tables()}


@shared_task(name="base.forget_events")
def delete_expired_events() -> dict[str, int]:
    """Events past their retention; a page that slept longer is told to reload.

    The newest of them in each workspace stays: all that came after it is kept, so who has it goes on from there.
    """
    expired = Event.objects.filter(created_at__lt=timezone.now() - timedelta(hours=EVENT_RETENTION_HOURS))
    newer = expired.filter(workspace_id=OuterRef("workspace_id"), position__gt=OuterRef("position"))
    return {"events deleted": expired.filter(Exists(newer)).delete()[0]}


@shared_task(name="base.forget_job_runs", ignore_result=True, expires=3_600)
def delete_old_job_runs() -> dict[str, int]:
    return {"results deleted": delete_old_runs()}


@shared_task(name="base.forget_sessions", ignore_result=True)
def delete_expired_sessions() -> dict[str, int]:
    """Sign-ins and counted attempts that ended by themselves; Django leaves their rows where they are."""
    sessions, _ = Session.objects.filter(expire_date__lt=timezone.now()).delete()
    entries, _ = CacheEntry.objects.filter(expires__lt=timezone.now()).delete()
    UserSession.objects.exclude(session_key__in=Session.objects.values("session_key")).delete()
    return {"sessions deleted": sessions, "cache entries deleted": entries}
