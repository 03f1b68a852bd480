"""Jobs of the ground floor."""

from celery import shared_task
from django.db import connection

DOCTOR_CHANNEL = "openvibe_doctor"


@shared_task
def answer_doctor(token: str) -> None:
    """Says over PostgreSQL's NOTIFY that a worker took the job. `manage.py doctor` listens."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [DOCTOR_CHANNEL, token])
