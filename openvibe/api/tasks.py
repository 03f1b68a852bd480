"""Jobs of the API."""

from celery import shared_task

from openvibe.api.idempotency import forget_old_keys


@shared_task(name="api.forget_old_keys", ignore_result=True, expires=3600)
def forget_keys() -> None:
    forget_old_keys()
