"""Jobs of the API."""

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from openvibe.api.idempotency import RETENTION_HOURS
from openvibe.api.models import CallCount, IdempotencyKey


@shared_task(name="api.forget_old_keys", ignore_result=True, expires=3600)
def delete_expired_idempotency_keys() -> dict[str, int]:
    expired = IdempotencyKey.objects.filter(created_at__lt=timezone.now() - timedelta(hours=RETENTION_HOURS))
    last_minute = int(timezone.now().timestamp()) // 60 - 1
    CallCount.objects.filter(minute__lt=last_minute).delete()
    return {"answers forgotten": expired.delete()[0]}
