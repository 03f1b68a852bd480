"""Jobs of webhooks: one call each."""

import structlog
from celery import shared_task
from django.db import transaction

from openvibe.webhooks.delivery import send_due
from openvibe.webhooks.queries import due_webhooks
from openvibe.webhooks.services import delete_old_deliveries

log = structlog.get_logger(__name__)


def enqueue_send_on_commit() -> None:
    """Asks a worker to send what is due. A broker that is down is only logged: it is asked every few seconds anyway."""
    transaction.on_commit(_enqueue_send)


def _enqueue_send() -> None:
    """Enqueues at once. Raises nothing."""
    try:
        send_due_task.apply_async(expires=60, retry=False)
    except Exception as error:  # every transport has errors of its own
        log.warning("webhooks_not_sent", error=type(error).__name__)


@shared_task(name="webhooks.send_due", ignore_result=True, expires=5)
def send_due_task() -> dict[str, int]:
    attempts = send_due()
    if attempts and due_webhooks(1):  # the turn's time was up
        _enqueue_send()
    return {"attempts made": attempts}


@shared_task(name="webhooks.forget_deliveries", ignore_result=True)
def delete_old_deliveries_task() -> dict[str, int]:
    return {"deliveries deleted": delete_old_deliveries()}
