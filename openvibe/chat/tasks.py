"""Jobs of conversations: one call each."""

from celery import shared_task

from openvibe.chat.digests import send_due_digests
from openvibe.chat.services import erase_texts, store_files
from openvibe.chat.wiring import embed_pending_messages

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


@shared_task(name="chat.embed_messages", ignore_result=True, expires=30)
def embed_messages() -> dict[str, int]:
    return {"vectors made": embed_pending_messages(seconds=TURN_SECONDS)}
