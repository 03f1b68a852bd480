"""Jobs of the API."""

from celery import shared_task

from openvibe.api.idempotency import delete_expired_keys


@shared_task(name="api.forget_old_keys", ignore_result=True, expires=3600)
def delete_expired_idempotency_keys() -> None:
    delete_expired_keys()
