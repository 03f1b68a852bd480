"""Jobs of conversations: one call each."""

from functools import partial

import structlog
from celery import shared_task
from django.db import transaction

from openvibe.chat.digests import send_due_digests
from openvibe.chat.push.delivery import delete_old_deliveries, send_due
from openvibe.chat.services import delete_orphaned_files, erase_texts, execute_import, recover_imports, store_files
from openvibe.chat.wiring import embed_pending_messages

log = structlog.get_logger(__name__)

TURN_SECONDS = 8.0
"""What waits longer is gone on with at the next turn, so that no worker is kept from answering people."""


@shared_task(name="chat.erase_texts", ignore_result=True, expires=30)
def erase_texts_task() -> dict[str, int]:
    """What was deleted or replaced leaves what was stored of it."""
    return {"erasures worked on": erase_texts()}


@shared_task(name="chat.store_files", ignore_result=True, expires=30)
def store_files_task() -> dict[str, int]:
    """Files go to where the operator wants them, and those of deleted messages go from there."""
    return store_files(seconds=TURN_SECONDS)


@shared_task(name="chat.send_digests", ignore_result=True, expires=60)
def send_digests_task() -> dict[str, int]:
    """Mails everybody who missed a mention and wants to be told."""
    return {"e-mails sent": send_due_digests()}


@shared_task(name="chat.send_pushes", ignore_result=True, expires=10)
def send_pushes_task() -> dict[str, int]:
    """Notifies the browsers in which no page is open."""
    return {"attempts made": send_due()}


@shared_task(name="chat.forget_pushes", ignore_result=True)
def forget_pushes_task() -> dict[str, int]:
    return {"deliveries deleted": delete_old_deliveries()}


@shared_task(name="chat.embed_messages", ignore_result=True, expires=30)
def embed_messages() -> dict[str, int]:
    return {"vectors made": embed_pending_messages(seconds=TURN_SECONDS)}


def enqueue_import(import_id: int) -> None:
    """Asks a worker to carry out an import. A broker that is down is only logged: the sweep asks again."""
    try:
        execute_import_task.apply_async((import_id,), retry=False)
    except Exception as error:  # every transport has errors of its own
        log.warning("import_not_sent", import_id=import_id, error=type(error).__name__)


def enqueue_import_on_commit(import_id: int) -> None:
    transaction.on_commit(partial(enqueue_import, import_id))


@shared_task(name="chat.import_file", acks_late=True, ignore_result=True)
def execute_import_task(import_id: int) -> None:
    next_id = execute_import(import_id)
    if next_id is not None:
        enqueue_import(next_id)


@shared_task(name="chat.sweep_imports", ignore_result=True, expires=60)
def recover_imports_task() -> dict[str, int]:
    import_ids = recover_imports()
    for import_id in import_ids:
        enqueue_import(import_id)
    return {"imports sent again": len(import_ids), "files deleted": delete_orphaned_files()}
